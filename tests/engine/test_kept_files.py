"""Files that are kept for the next run: as they were written, or refused in a sentence."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from ace_gui.engine.kept_files import keep_json, keep_tensors, open_json, open_tensors
from ace_gui.errors import CheckpointError, ResourceError
from tests.helpers.damage import ANY_FILE, TENSORS, flip

VALUES = {"a": torch.arange(12.0).reshape(3, 4), "b": torch.tensor(3.0), "c": torch.zeros(0, 2)}
CONTENT: dict[str, Any] = {"name": "a", "numbers": [0.1, 2, float("inf")], "deep": {"x": None}}


def test_what_was_written_is_read(tmp_path):
    digest = keep_tensors(tmp_path / "kept.safetensors", VALUES, "about")
    stored = open_tensors(tmp_path / "kept.safetensors")
    assert (stored.about, stored.digest) == ("about", digest)
    assert {name: stored.read(name).tolist() for name in stored.checkpoint.tensors} == {
        name: value.tolist() for name, value in VALUES.items()
    }
    keep_json(tmp_path / "kept.json", CONTENT)
    assert open_json(tmp_path / "kept.json") == CONTENT
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("damage", [*ANY_FILE, *TENSORS])
def test_damaged_files_are_refused(damage: str, tmp_path):
    path = tmp_path / "kept.safetensors"
    text = tmp_path / "kept.json"
    keep_tensors(path, VALUES, "about")
    keep_json(text, CONTENT)
    for file, opened in ((path, open_tensors), (text, open_json)):
        if damage in ANY_FILE or file == path:
            (ANY_FILE | TENSORS)[damage](file)
            with pytest.raises(CheckpointError, match=file.name):
                opened(file)


def test_no_bit_changes_what_is_read(tmp_path):
    """Header, metadata, checksum, values: refused, or what was written all the same."""
    generator = np.random.default_rng(0)
    path = tmp_path / "kept.safetensors"
    text = tmp_path / "kept.json"
    keep_tensors(path, VALUES, "about")
    keep_json(text, CONTENT)
    for file in (path, text):
        content = file.read_bytes()
        for index in generator.integers(len(content), size=300):
            file.unlink()  # a new file, so that nothing of the old one is remembered
            file.write_bytes(content)
            flip(file, index, int(generator.integers(8)))
            try:
                if file == text:
                    assert open_json(file) == CONTENT
                else:
                    stored = open_tensors(file)
                    assert stored.about == "about"
                    assert all(torch.equal(stored.read(n), v) for n, v in VALUES.items())
            except CheckpointError:
                continue


@contextmanager
def small_files() -> Iterator[None]:
    """Only around the write: what pytest itself prints may go to a file, too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("keep", [keep_tensors, keep_json])
def test_a_file_too_large_for_the_disk_is_a_typed_error(keep: Callable[..., object], tmp_path):
    content = VALUES if keep is keep_tensors else {"long": "x" * 999}
    with pytest.raises(ResourceError, match="too large"), small_files():
        keep(tmp_path / "kept", content)
    assert not (tmp_path / "kept").exists()
