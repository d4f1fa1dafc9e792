"""Mutated headers: a typed refusal, or a file that the library opens and reads alike."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from ace_gui.checkpoints import TensorReader, open_checkpoint, read_header
from ace_gui.errors import CheckpointError
from ace_gui.stored_formats import FORMATS
from tests.helpers.checkpoints import entry, raw_file, same_bits

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
        header, sentence = read_header(path), ""
    except CheckpointError as error:
        header, sentence = None, error.sentence
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


def fuzz(examples: int) -> Callable[[Path], None]:
    accepted = []

    @settings(
        deadline=None,
        max_examples=examples,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(content=mutated_files())
    def run(content: bytes) -> None:
        accepted.append(check(run_path, content))

    def start(folder: Path) -> None:
        nonlocal run_path
        run_path = folder / "mutated.safetensors"
        run()
        # Neither half of the property may be empty.
        assert len(accepted) // 50 < sum(accepted) < len(accepted)

    run_path = Path()
    return start


def test_hundreds_of_mutated_headers(tmp_path: Path):
    fuzz(300)(tmp_path)


@pytest.mark.long
def test_ten_thousand_mutated_headers(tmp_path: Path):
    fuzz(10_000)(tmp_path)


def test_unmutated_headers_are_accepted(tmp_path: Path):
    @settings(deadline=None, max_examples=60, derandomize=True, database=None)
    @given(model=valid_headers())
    def run(model: tuple[dict[str, object], bytes]) -> None:
        header, data = model
        path = raw_file(tmp_path / "valid.safetensors", header, data)
        assert check(path, path.read_bytes())

    run()
