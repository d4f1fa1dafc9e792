"""The validator of safetensors headers: its sentences, and its agreement with the library.

What the catalogue of bad inputs has (``test_catalogue``) is not repeated here.
"""

from __future__ import annotations

import json
import os
import struct
import time
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from ace_gui.checkpoints import header as header_module
from ace_gui.checkpoints.header import read_header, tag_of, torch_dtype
from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.errors import CheckpointError
from ace_gui.stored_formats import FORMATS, RECIPE_NAMES, RECIPE_TAGS, is_float
from tests.helpers.checkpoints import entry, raw_file, same_bits, tensors_of_every_format

F32 = entry("F32", [2], 0, 8)


def refused(path: Path) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        read_header(path)
    assert caught.value.path == path
    assert f"{path.parent.name}/{path.name}: " in caught.value.sentence
    return caught.value


@pytest.fixture
def file(tmp_path) -> Path:
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


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"abc", "File has 3 bytes, too few for a header."),
        (b"\n <html lang=en>", "This is a web page, not a model."),
        (b"PK\x03\x04" + b"\0" * 60, "Contents are a PyTorch pickle despite the name."),
        (b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01K\x01u.", "Contents are a PyTorch pickle"),
        (b"GGUF\x03\x00\x00\x00" + b"\1" * 40, "needs the ending `.gguf`."),
        (b"\x05\0\0\0\0\0\0\0hello", "This is not a safetensors file."),
        (b"text,label\ngood,1\n", "This is not a safetensors file."),
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


@pytest.mark.parametrize(
    ("header", "size", "sentence"),
    [
        ({"a": F32}, -1, "Incomplete: expected {longer} bytes, found {length}."),
        ({"a": entry("F32", [2], 4, 12)}, 4, "Gap of 4 bytes before `a`."),
    ],
)
def test_layout(file: Path, header: dict[str, object], size: int, sentence: str):
    raw_file(file, header, b"\0" * (8 + size))
    length = file.stat().st_size
    assert sentence.format(longer=length + 1, length=length) in refused(file).sentence


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
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


def test_too_many_tensors(file: Path, monkeypatch):
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


def test_missing_file_and_impossible_paths(tmp_path):
    assert "No such file or folder." in refused(tmp_path / "absent.safetensors").sentence
    with pytest.raises(CheckpointError, match="not a valid path"):
        read_header(Path("a\0b.safetensors"))
    with pytest.raises(CheckpointError, match="not a valid path"):
        read_header(tmp_path / ("x" * 5000))


def test_no_permission(file: Path, monkeypatch):
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


@pytest.mark.parametrize("tag", FORMATS)
def test_the_library_knows_each_format_and_its_size(tmp_path, tag: str):
    nbytes = FORMATS[tag].bits  # eight elements
    raw_file(tmp_path / "f.safetensors", {"a": entry(tag, [8], 0, nbytes)}, b"\0" * nbytes)
    with safe_open(tmp_path / "f.safetensors", "pt") as library:
        assert library.get_slice("a").get_dtype() == tag
    raw_file(tmp_path / "g.safetensors", {"a": entry(tag, [16], 0, nbytes)}, b"\0" * nbytes)
    with pytest.raises(SafetensorError):
        safe_open(tmp_path / "g.safetensors", "pt").__enter__()


def test_tags_and_dtypes_are_each_other_s_inverse(tmp_path):
    for tensor in tensors_of_every_format().values():
        tag = tag_of(tensor.dtype)
        assert torch_dtype(tag) is tensor.dtype
        assert FORMATS[tag].bits == 8 * tensor.dtype.itemsize
        save_file({"a": tensor}, tmp_path / "f.safetensors")
        with safe_open(tmp_path / "f.safetensors", "pt") as library:
            assert library.get_slice("a").get_dtype() == tag


def test_quantised_formats_have_no_dtype():
    quantised = [tag for tag in FORMATS if FORMATS[tag].quantised]
    assert len(quantised) == 8
    for tag in quantised:
        assert not is_float(tag)
        with pytest.raises(KeyError):
            torch_dtype(tag)


def test_recipe_names_are_torch_s():
    assert {tag for tag in FORMATS if is_float(tag)} == set(RECIPE_NAMES)
    for name, tag in RECIPE_TAGS.items():
        assert torch_dtype(tag) is getattr(torch, name)
        assert RECIPE_NAMES[tag] == name


NUMBERS = st.one_of(
    st.integers(-2, 70),
    st.sampled_from([2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 2, 2**64, 10**30]),
)
NASTY = st.one_of(
    NUMBERS,
    st.none(),
    st.booleans(),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from([*FORMATS, "F9", "f32", "__metadata__", "../x", "\ud800"]),
    st.lists(NUMBERS, max_size=10),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
)


@st.composite
def valid_headers(draw: st.DrawFn) -> tuple[dict[str, object], bytes]:
    """Entries that cover their data, and the data."""
    names = draw(st.lists(st.text(max_size=6), max_size=4, unique=True))
    header: dict[str, object] = {}
    begin = 0
    for name in names:
        tag = draw(st.sampled_from(["F64", "F32", "BF16", "I8", "BOOL"]))
        shape = draw(st.lists(st.integers(0, 3), max_size=3))
        size = FORMATS[tag].bits // 8
        for dimension in shape:
            size *= dimension
        if name != "__metadata__":
            header[name] = entry(tag, shape, begin, begin + size)
            begin += size
    if draw(st.booleans()):
        header["__metadata__"] = {"format": "pt"}
    return header, bytes(index % 2 for index in range(begin))


@st.composite
def mutated_files(draw: st.DrawFn) -> bytes:
    """The bytes of a file of which a few things, in the JSON or in the bytes, are changed."""
    header, data = draw(valid_headers())
    for name in list(header):
        if draw(st.integers(0, 2)) == 0:
            _mutate_entry(draw, header, name)
    text = json.dumps(header, allow_nan=True).encode()
    if draw(st.integers(0, 9)) == 0 and len(header) > 0:
        text = text[:-1] + b"," + text[1:]  # every name twice
    text += b" " * draw(st.integers(0, 9))
    content = bytearray(len(text).to_bytes(8, "little") + text + data)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 3]))):
        _mutate_bytes(draw, content)
    return bytes(content)


def _mutate_entry(draw: st.DrawFn, header: dict[str, object], name: str) -> None:
    value = header[name]
    keys = sorted(value) if isinstance(value, dict) else []
    choice = draw(st.sampled_from(["replace", "field", "item", "drop", "add"]))
    if choice == "replace" or not keys or name == "__metadata__":
        header[name] = draw(NASTY)
        return
    value = header[name] = dict(value)
    key = draw(st.sampled_from(keys))
    if choice == "drop":
        del value[key]
    elif choice == "add":
        value[draw(st.text(max_size=3))] = draw(NASTY)
    elif choice == "item" and isinstance(value[key], list) and value[key]:
        items = list(value[key])
        items[draw(st.integers(0, len(items) - 1))] = draw(NASTY)
        value[key] = items
    else:
        value[key] = draw(NASTY)


def _mutate_bytes(draw: st.DrawFn, content: bytearray) -> None:
    index = draw(st.integers(0, max(len(content) - 1, 0)))
    choice = draw(st.sampled_from(["set", "cut", "insert", "truncate", "append"]))
    if choice == "set" and content:
        content[index] = draw(st.integers(0, 255))
    elif choice == "cut":
        del content[index : index + draw(st.integers(1, 8))]
    elif choice == "insert":
        content[index:index] = draw(st.binary(min_size=1, max_size=4))
    elif choice == "truncate":
        del content[index:]
    else:
        content += draw(st.binary(min_size=1, max_size=9))


def check(path: Path, content: bytes) -> bool:
    """Whether the file was accepted; then the library must read the same from it."""
    path.write_bytes(content)
    began = time.monotonic()
    try:
        header = read_header(path)
        sentence = ""
    except CheckpointError as error:
        header = None
        sentence = error.sentence
    assert time.monotonic() - began < 5
    if header is None:
        assert sentence.isprintable()
        return False
    with safe_open(path, "pt") as library:
        assert set(library.keys()) == {tensor.name for tensor in header.tensors}
        assert (library.metadata() or {}) == header.metadata
        if header.tensors and not any(FORMATS[t.dtype].quantised for t in header.tensors):
            _compare_tensors(path, library)
    return True


def _compare_tensors(path: Path, library: safe_open) -> None:
    try:
        checkpoint = open_checkpoint(path)
    except CheckpointError:  # a name that only quantised models have
        return
    with TensorReader(checkpoint) as reader:
        for name in checkpoint.tensors:
            assert same_bits(reader.read(name), library.get_tensor(name))


@pytest.mark.parametrize("examples", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_mutated_headers(examples: int, tmp_path):
    accepted = []

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(content=mutated_files())
    def run(content: bytes) -> None:
        accepted.append(check(tmp_path / "mutated.safetensors", content))

    run()
    # Neither half of the property may be empty.
    assert len(accepted) // 50 < sum(accepted) < len(accepted)


def test_unmutated_headers_are_accepted(tmp_path):
    @settings(max_examples=60)
    @given(model=valid_headers())
    def run(model: tuple[dict[str, object], bytes]) -> None:
        header, data = model
        path = raw_file(tmp_path / "valid.safetensors", header, data)
        assert check(path, path.read_bytes())

    run()
