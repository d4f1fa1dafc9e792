"""The validator of safetensors headers: its sentences, and its agreement with the library."""

import json
import os
import struct
import time
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from ace_gui.checkpoints import header as header_module
from ace_gui.checkpoints import read_header
from ace_gui.errors import CheckpointError
from tests.helpers.checkpoints import entry, raw_file, tensors_of_every_format

F32 = entry("F32", [2], 0, 8)


def refused(path: Path) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        read_header(path)
    assert caught.value.path == path
    assert f"{path.parent.name}/{path.name}: " in caught.value.sentence
    return caught.value


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def test_reads_what_the_library_writes(file: Path):
    tensors = tensors_of_every_format()
    save_file(tensors, file, metadata={"format": "pt", "note": "n"})
    header = read_header(file)
    assert header.metadata == {"format": "pt", "note": "n"}
    assert header.stamp.size == file.stat().st_size
    assert {tensor.name for tensor in header.tensors} == set(tensors)
    raw = file.read_bytes()
    for tensor in header.tensors:
        original = tensors[tensor.name]
        stored = raw[tensor.start : tensor.start + tensor.nbytes]
        assert tensor.shape == tuple(original.shape)
        assert stored == original.reshape(-1).view(torch.uint8).numpy().tobytes()
    starts = [tensor.start for tensor in header.tensors]
    assert starts == sorted(starts)
    assert starts[0] == 8 + int.from_bytes(raw[:8], "little")


def test_a_header_without_tensors_is_valid(file: Path):
    assert read_header(raw_file(file, "{}")).tensors == ()


def test_empty_tensors_and_scalars(file: Path):
    raw_file(
        file,
        {"s": entry("F16", [], 0, 2), "e": entry("F32", [0, 4], 2, 2), "t": entry("U8", [1], 2, 3)},
        b"abc",
    )
    assert [tensor.name for tensor in read_header(file).tensors] == ["s", "e", "t"]
    with safe_open(file, "pt") as library:
        assert set(library.keys()) == {"s", "e", "t"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "File is empty (0 bytes). Download it again."),
        (b"abc", "File has 3 bytes, too few for a header."),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "This is a Git LFS placeholder, not the weights. Run `git lfs pull`.",
        ),
        (b"<!DOCTYPE html><html><body>404</body></html>", "This is a web page, not a model."),
        (b"\n <html lang=en>", "This is a web page, not a model."),
        (b"PK\x03\x04" + b"\0" * 60, "Contents are a PyTorch pickle despite the name."),
        (b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01K\x01u.", "Contents are a PyTorch pickle"),
        (b"GGUF\x03\x00\x00\x00" + b"\1" * 40, "needs the ending `.gguf`."),
        (b"\x05\0\0\0\0\0\0\0hello", "This is not a safetensors file."),
    ],
)
def test_what_is_no_safetensors_file(file: Path, content: bytes, sentence: str):
    file.write_bytes(content)
    assert sentence in refused(file).sentence


def test_a_truncated_file_is_not_taken_for_a_pickle(file: Path):
    file.write_bytes(
        struct.pack("<Q", 0x280) + b"{" + b" " * 20
    )  # begins with 80 02, as pickles do
    assert "Header claims 640 bytes; the file has 29. Likely truncated." in refused(file).sentence


def test_header_over_the_cap(file: Path):
    with file.open("wb") as sparse:
        sparse.write(struct.pack("<Q", 10_000_001) + b"{")
        sparse.truncate(20_000_000)
    assert "Header too large (10000001); the limit is 10000000." in refused(file).sentence


@pytest.mark.parametrize(
    ("header", "size", "sentence"),
    [
        ({"a": F32}, -1, "Incomplete: expected {whole} bytes, found {found}."),
        ({"a": F32}, 3, "3 unexpected bytes after the last tensor."),
        ({"a": F32, "b": entry("F32", [2], 4, 12)}, 4, "`b` overlaps `a`; the file is malformed."),
        ({"a": F32, "b": entry("F32", [2], 12, 20)}, 12, "Gap of 4 bytes before `b`."),
        ({"a": entry("F32", [2], 4, 12)}, 4, "Gap of 4 bytes before `a`."),
    ],
)
def test_layout(file: Path, header: dict[str, object], size: int, sentence: str):
    raw_file(file, header, b"\0" * (8 + size))
    found = file.stat().st_size
    assert sentence.format(whole=found + 1, found=found) in refused(file).sentence


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (entry("F9", [2], 0, 8), "Unknown number format `F9` in `a`."),
        (entry("F32", [2, 2**64 - 2], 0, 8), "Tensor `a` declares an impossible size."),
        (entry("F32", [0, 2**63], 0, 0), "Tensor `a` declares an impossible size."),
        (entry("F32", [10**400], 0, 8), "Tensor `a` declares an impossible size."),
        (entry("F4", [3], 0, 2), "Tensor `a` declares an impossible size."),
        (entry("F32", [2], 8, 0), "Tensor `a` declares an impossible size."),
        (entry("F32", [2], 0, 2**63), "Tensor `a` declares an impossible size."),
        (entry("F32", [3], 0, 8), "`a` needs 12 bytes by its shape; the header gives 8."),
        (entry("F32", [1] * 9, 0, 4), "`a` has 9 dimensions; the limit is 8."),
        (entry("F32", [True, 2], 0, 8), "The shape or offset of `a` is malformed."),
        (entry("F32", [2.0], 0, 8), "The shape or offset of `a` is malformed."),
        (entry("F32", [-2], 0, 8), "The shape or offset of `a` is malformed."),
        (entry("F32", ["2"], 0, 8), "The shape or offset of `a` is malformed."),
        (entry("F32", [None], 0, 8), "The shape or offset of `a` is malformed."),
        ({"dtype": "F32", "shape": 2, "data_offsets": [0, 8]}, "The shape or offset of `a`"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4, 8]}, "The shape or offset of `a`"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [float("nan"), 8]}, "The shape or offset"),
        ({"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}, "Unknown number format"),
        ({"dtype": "F32", "shape": [2]}, "The header's entry of `a` is malformed."),
        ({**F32, "extra": 1}, "The header's entry of `a` is malformed."),
        (None, "The header's entry of `a` is malformed."),
        ([], "The header's entry of `a` is malformed."),
    ],
)
def test_malformed_entries(file: Path, value: object, sentence: str):
    error = refused(raw_file(file, {"a": value}, b"\0" * 8))
    assert sentence in error.sentence
    assert error.tensor == "a"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f'{{"a":{json.dumps(F32)},"a":{json.dumps(F32)}}}',
            "Tensor `a` is defined twice.",
        ),
        (
            '{"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}}',
            "The header's entry of `a` is malformed.",
        ),
        ('{"__metadata__":{"a":"1","a":"2"}}', "The header's metadata are not text."),
        ('{"__metadata__":{"a":1}}', "The header's metadata are not text."),
        ('{"__metadata__":null}', "The header's metadata are not text."),
        ('{"__metadata__":{"a":"\\ud800"}}', "The header's metadata are not text."),
        ('{"\\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}', "is malformed"),
        ('{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}}', "The shape or offset of `a`"),
        ('{"a":{"dtype":"U8","shape":[0e5],"data_offsets":[0,0]}}', "The shape or offset of `a`"),
        ("{", "The header is not valid JSON."),
        ("{} x", "The header is not valid JSON."),
        ('{"a":' * 100_000, "The header is not valid JSON."),
        ('{"a":' + "[" * 200_000, "The header is not valid JSON."),
        (b'{"\xff":1}', "The header is not UTF-8."),
    ],
)
def test_malformed_json(file: Path, text: str | bytes, sentence: str):
    assert sentence in refused(raw_file(file, text)).sentence


def test_too_many_tensors(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(header_module, "TENSOR_LIMIT", 3)
    names = "abcd"
    raw_file(file, {name: entry("U8", [0], 0, 0) for name in names})
    assert "4 tensors; the limit is 3." in refused(file).sentence
    raw_file(file, {name: entry("U8", [0], 0, 0) for name in names[:3]})
    assert len(read_header(file).tensors) == 3


def test_hostile_names_are_shown_as_plain_text(file: Path):
    name = "a\n\x1b[31m\u202egpj" + "x" * 500
    sentence = refused(raw_file(file, {name: entry("F9", [], 0, 0)})).sentence
    assert sentence.isprintable()
    assert "\\u202e" in sentence
    assert len(sentence) < 400


def test_a_folder_is_not_a_file(tmp_path: Path):
    folder = tmp_path / "model.safetensors"
    folder.mkdir()
    assert "Not a regular file." in refused(folder).sentence


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs on this system")
def test_a_fifo_does_not_hang(file: Path):
    os.mkfifo(file)
    began = time.monotonic()
    assert "Not a regular file." in refused(file).sentence
    assert time.monotonic() - began < 5


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no device nodes on this system")
def test_a_link_to_a_device_is_refused(file: Path):
    file.symlink_to("/dev/zero")
    assert "Not a regular file." in refused(file).sentence


def test_missing_file_and_impossible_paths(tmp_path: Path):
    assert "No such file or folder." in refused(tmp_path / "absent.safetensors").sentence
    with pytest.raises(CheckpointError, match="not a valid path"):
        read_header(Path("a\0b.safetensors"))
    with pytest.raises(CheckpointError, match="not a valid path"):
        read_header(tmp_path / ("x" * 5000))


def test_no_permission(file: Path, monkeypatch: pytest.MonkeyPatch):
    def denied(*_arguments: object, **_options: object) -> int:
        raise PermissionError(13, "Permission denied")

    raw_file(file, "{}")
    monkeypatch.setattr(os, "open", denied)
    assert "No permission to read it." in refused(file).sentence


def test_no_descriptor_is_left_open(file: Path):
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("needs /proc")
    raw_file(file, {"a": F32}, b"\0" * 9)
    before = len(list(descriptors.iterdir()))
    for _ in range(5):
        refused(file)
    assert len(list(descriptors.iterdir())) == before
