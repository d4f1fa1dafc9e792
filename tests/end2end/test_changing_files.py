"""An input that changes while it is being read: a typed error, or the output it would have had."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ace_gui.checkpoints import input_files
from ace_gui.errors import CheckpointError, FileChangedError
from ace_gui.recipe import ModelEntry, Recipe
from tests.helpers.checkpoints import save_model, tiny_bert
from tests.helpers.faults import complaint
from tests.helpers.merges import merged_folder

MODELS = ("base", "one", "two")


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 4)


def lengthen(file: Path) -> None:
    with file.open("ab") as stream:
        stream.write(b"more")


def overwrite(file: Path) -> None:
    with file.open("r+b") as stream:
        stream.seek(-8, os.SEEK_END)
        stream.write(b"\x01" * 8)


def replace(file: Path) -> None:
    copy = file.with_name("other")
    shutil.copyfile(file, copy)
    overwrite(copy)
    copy.replace(file)


def remove(file: Path) -> None:
    file.unlink()


CHANGES = (truncate, lengthen, overwrite, replace, remove)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    generator = torch.Generator().manual_seed(0)
    for name in MODELS:
        file = save_model(folder / name, tiny_bert(generator)) / "model.safetensors"
        os.utime(file, ns=(1, 1))
    return folder


def merged(models: Path, out: Path) -> Path:
    entries = tuple(ModelEntry(model=models / name) for name in MODELS[1:])
    return merged_folder(Recipe(base_model=models / "base", models=entries), out)


def weights(out: Path) -> bytes:
    return (out / "model.safetensors").read_bytes()


def reads(model: Path, at: int, act: Callable[[], None]) -> tuple[pytest.MonkeyPatch, list[int]]:
    """Have ``act`` called before the ``at``-th read of a model's weights; and the reads' count."""
    file = (model / "model.safetensors").stat()
    original = input_files._read_once
    count = [0]
    lock = threading.Lock()

    def reading(descriptor: int, *arguments: Any) -> int:
        if os.path.samestat(os.fstat(descriptor), file):
            with lock:
                count[0] += 1
                if count[0] == at:
                    act()
        return original(descriptor, *arguments)

    patch = pytest.MonkeyPatch()
    patch.setattr(input_files, "_read_once", reading)
    return patch, count


def change_once(
    trial: Path, name: str, at: int, change: Callable[[Path], None], expected: bytes
) -> None:
    model = trial / name
    patch, count = reads(model, at, lambda: change(model / "model.safetensors"))
    out = trial / "out"
    error = complaint(lambda: merged(trial, out))
    patch.undo()
    assert count[0] >= at
    if error is None:
        assert weights(out) == expected, at
        return
    assert error.sentence.isprintable()
    # While its header is read, a file is wrong, not yet changed.
    kind = CheckpointError if change is remove or at <= 2 else FileChangedError
    assert isinstance(error, kind), (at, error.sentence)
    assert not out.exists()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_before_every_read(
    name: str, change: Callable[[Path], None], models: Path, tmp_path: Path
) -> None:
    torch.set_num_threads(1)
    patch, count = reads(models / name, 0, lambda: None)
    expected = weights(merged(models, tmp_path / "whole"))
    patch.undo()
    assert count[0] > 4  # header and tensors
    for at in range(1, count[0] + 1):
        shutil.copytree(models, tmp_path / str(at))
        change_once(tmp_path / str(at), name, at, change, expected)
