"""A disk that is full or fails at any moment: no half output, a typed error, and it goes on after.

Every write is tried in the long run, a few of them in the ordinary one.
"""

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL, read_finished
from ace_gui.engine.output.exporting import export, publish
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.errors import OutputError, ResourceError, WorkbenchError
from ace_gui.output_files import staging_folder
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.output_forms import ModelExport
from tests.helpers.checkpoints import save_model, tiny_bert
from tests.helpers.faults import FailingDisk, complaint, failing
from tests.helpers.merges import files

KINDS = {
    "full": {"code": errno.ENOSPC, "lasting": True},
    "bad": {"code": errno.EIO, "lasting": False},
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A base and two experts with a head each, of a few tensors."""
    folder = tmp_path_factory.mktemp("models")
    generator = torch.Generator().manual_seed(0)
    base = tiny_bert(generator)
    entries = []
    for name in ("one", "two"):
        tuned = {
            key: tensor + 0.1 * torch.randn(tensor.shape, generator=generator)
            for key, tensor in base.items()
        }
        head = {"classifier.weight": torch.randn(2, 8, generator=generator)}
        entries.append(ModelEntry(model=save_model(folder / name, {**tuned, **head})))
    save_model(folder / "base", base)
    (folder / "base" / "vocab.txt").write_text("a\nb\n")
    return prepare(Recipe(base_model=folder / "base", models=tuple(entries)))


def merge_and_publish(prepared: Prepared, folder: Path, *, resume: bool = False) -> Path:
    """What ``ace-gui merge`` does."""
    out = folder / "out"
    store = staging_folder(out)
    list(merge(prepared, store, device="cpu", resume=resume, as_output=True))
    publish(store, out)
    return out


def merge_then_export(prepared: Prepared, folder: Path, *, resume: bool = False) -> Path:
    """What the window does."""
    out = folder / "out"
    store = folder / "store"
    list(merge(prepared, store, device="cpu", resume=resume))
    list(export(store, out, ModelExport(dtype="bfloat16", gigabytes=500e-9, complete_heads=True)))
    return out


Way = Callable[..., Path]
WAYS = {"published": merge_and_publish, "exported": merge_then_export}


def fail_everywhere(
    way: Way, prepared: Prepared, folder: Path, kind: str, indices: Callable[[int], Iterator[int]]
) -> int:
    """Fail at the chosen places of all the writes; how many of them were tried."""
    torch.set_num_threads(1)
    (folder / "whole").mkdir()
    with failing(FailingDisk(folder, 0, **KINDS[kind])) as disk:
        expected = files(way(prepared, folder / "whole"))
    total = disk.count
    tried = 0
    for at in indices(total):
        attempt_folder = folder / str(at)
        attempt_folder.mkdir()
        fail_once(way, prepared, attempt_folder, kind, at, expected)
        shutil.rmtree(attempt_folder)
        tried += 1
    return tried


def fail_once(
    way: Way, prepared: Prepared, path: Path, kind: str, at: int, expected: dict[str, bytes]
) -> None:
    out = path / "out"
    with failing(FailingDisk(path, at, **KINDS[kind])):
        error = complaint(lambda: way(prepared, path))
    if error is None:
        assert files(out) == expected  # it did without
    else:
        assert isinstance(error, OutputError | ResourceError), at
        assert error.sentence.isprintable()
        reported = "disk is full" if kind == "full" else "Check the disk"
        assert reported in error.sentence, (at, error.sentence)
    if out.exists():  # everything was there before it failed
        assert files(out) == expected, at
        return
    for store in (path / "store", staging_folder(out)):
        with suppress(WorkbenchError):
            read_finished(store)
            assert (store / MODEL).exists(), at
    assert files(way(prepared, path, resume=True)) == expected, at
    assert {entry.name for entry in path.iterdir()} <= {"out", "store"}, at


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_some_writes_fail(way: str, kind: str, prepared: Prepared, tmp_path: Path) -> None:
    def some(total: int) -> Iterator[int]:
        assert total > 40
        yield from range(1 if kind == "full" else 5, total + 1, 9)

    assert fail_everywhere(WAYS[way], prepared, tmp_path, kind, some) > 4


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_every_write_fails(way: str, kind: str, prepared: Prepared, tmp_path: Path) -> None:
    def every(total: int) -> Iterator[int]:
        yield from range(1, total + 1)

    assert fail_everywhere(WAYS[way], prepared, tmp_path, kind, every) > 40
