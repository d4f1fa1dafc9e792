"""An index never leads out of its folder."""

import itertools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ace_gui.checkpoints import open_checkpoint
from ace_gui.checkpoints.index import is_plain_shard_name
from ace_gui.errors import CheckpointError
from tests.helpers.checkpoints import write_index

_opened: list[str] | None = None


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if _opened is not None and event == "open":
        _opened.append(str(arguments[0]))


sys.addaudithook(_audit)  # the only way to see every open; it cannot be removed again


@contextmanager
def opened_files() -> Iterator[list[str]]:
    global _opened
    _opened = []
    try:
        yield _opened
    finally:
        _opened = None


def traversals() -> list[str]:
    """Strings that would lead elsewhere on some system, well over 500."""
    ups = [
        "..",
        "../..",
        "../../..",
        ".",
        "./.",
        "~",
        "~root",
        "",
        "/",
        "//host/share",
        "a",
        "a/..",
    ]
    ups += ["\\\\host\\share", "C:", "c:\\", "\\\\?\\C:", "file:///", "http://host", "..\\..", "\\"]
    ups += ["%2e%2e", "..;", "....//", ". .", "..\0", "/proc/self", "/dev", "\u2025"]
    files = [
        "x.safetensors",
        "model.safetensors",
        "x.safetensors/",
        "passwd",
        "x.safetensors\0.png",
    ]
    files += ["con.safetensors", "x.bin", "x.safetensors:stream", "x.SAFETENSORS ", ".safetensors"]
    joined = [up + sep + file for up, sep, file in itertools.product(ups, "/\\", files)]
    reserved = ["CON", "prn", "Aux", "NUL", "com1", "LPT9", "COM¹", "conout$"]
    return [*joined, *(f"{name}.safetensors" for name in reserved), *ups, "x\n.safetensors"]


def test_no_string_leads_out_of_the_folder(tmp_path: Path):
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({"x": torch.zeros(1)}, tmp_path / "x.safetensors")
    strings = traversals()
    assert len(set(strings)) > 500
    for string in strings:
        index = write_index(folder, {"x": string})
        with opened_files() as opened, pytest.raises(CheckpointError) as caught:
            open_checkpoint(folder)
        assert "Refused: the model may be malicious." in caught.value.sentence
        assert opened == [str(index)]


@pytest.mark.parametrize(
    "name",
    ["model-00001-of-00002.safetensors", "x.safetensors", "con-1.safetensors", "ü.safetensors"],
)
def test_plain_names_are_accepted(name: str):
    assert is_plain_shard_name(name)


@pytest.mark.parametrize("name", ["é" * 125 + ".safetensors", "\udcff.safetensors"])
def test_names_no_file_system_holds(name: str):
    assert not is_plain_shard_name(name)


def test_a_link_among_the_shards_to_a_fifo_does_not_hang(tmp_path: Path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("no FIFOs on this system")
    os.mkfifo(tmp_path / "pipe")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "x.safetensors").symlink_to(tmp_path / "pipe")
    write_index(folder, {"x": "x.safetensors"})
    with pytest.raises(CheckpointError, match="Not a regular file"):
        open_checkpoint(folder)
