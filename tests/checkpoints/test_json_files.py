"""JSON that other people wrote: read with limits, and refused before anything depends on it."""

import codecs
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.input_files import JSON_MEMORY, json_memory, read_config, read_json
from ace_gui.checkpoints.side_files import set_config_dtype
from ace_gui.engine.planning.token_ids import MOST_TOKENS, compare
from ace_gui.errors import CheckpointError
from tests.helpers.checkpoints import save_model, small_tensors, stamps

TEXT = '{"model_type": "bert", "name": "größe"}'
BAD = {
    "byte order mark": codecs.BOM_UTF8 + TEXT.encode(),
    "lone surrogate": b'{"name": "\\ud800"}',
    "lone surrogate in a key": b'{"\\udfff": 1}',
    "surrogates the wrong way round": b'{"name": "\\udc00\\ud800"}',
    "raw surrogate": b'{"name": "\xed\xa0\x80"}',
    "Latin-1": TEXT.encode("latin-1"),
    "UTF-16": TEXT.encode("utf-16"),
    "UTF-32": TEXT.encode("utf-32"),
    "cut off": TEXT.encode()[:-3],
    "two objects": b"{}{}",
    "a list": b"[]",
    "nothing": b"",
    "deep": b'{"a":' * 100_000,
    "a long number": b'{"a": ' + b"9" * 10_000 + b"}",
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_config_is_refused_when_the_model_is_opened(tmp_path, kind: str):
    folder = save_model(tmp_path / "model", small_tensors(2))
    (folder / "config.json").write_bytes(BAD[kind])
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder)
    assert caught.value.sentence.startswith(f"{folder / 'config.json'}: ")
    assert caught.value.sentence.isprintable()


KEYS = st.text(max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@given(config=st.dictionaries(KEYS, VALUES, max_size=4), escaped=st.booleans(), bom=st.booleans())
def test_a_config_that_is_read_can_be_written(
    tmp_path_factory, config: dict[str, object], escaped: bool, bom: bool
):
    path = tmp_path_factory.mktemp("config") / "config.json"
    config = {**config, "model_type": "x"}
    text = json.dumps(config, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    path.write_bytes((codecs.BOM_UTF8 if bom else b"") + text)
    try:
        read_config(path)
    except CheckpointError:
        return
    set_config_dtype(path, "bfloat16")
    assert json.loads(path.read_text(encoding="utf-8"))["dtype"] == "bfloat16"


PIECES = [
    "[]",
    "{}",
    "[[]]",
    '{"a":0}',
    '{"a":{}}',
    '"ab"',
    "[0]",
    "12345",
    "1.5",
    '[["a",1]]',
    "0",
]


@pytest.mark.parametrize("piece", PIECES)
def test_memory_is_estimated_from_above(piece: str):
    raw = f"[{','.join([piece] * 20_000)}]".encode()
    tracemalloc.start()
    try:
        value = json.loads(raw.decode())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(value) == 20_000
    assert peak <= json_memory(raw)


def test_a_file_of_many_small_values_is_refused_unread(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(b'{"model":[' + b"[]," * 10_000_000 + b"[]]}")
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="more values than such a file"):
            read_json(path, limit=100_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * path.stat().st_size


def test_the_largest_published_tokenizers_pass():
    """262 144 tokens and 514 906 merges, as Gemma 3 has them, with emoji in the text."""
    # bytes of a token; pairs in lists of their own
    vocabulary = 9 * 262_144
    merges = 514_906
    text = 33_400_000
    commas = 262_144 + 2 * merges
    assert 6 * text + 96 * merges + 150 * commas < JSON_MEMORY
    assert vocabulary < text


def test_lines_of_nothing_are_no_vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    second = tmp_path / "other.txt"
    path.write_bytes(b"\n" * (MOST_TOKENS + 1))
    second.write_text("a\nb\n")
    with pytest.raises(CheckpointError, match="Too many lines"):
        compare(stamps(path), stamps(second))


def test_ids_that_no_row_can_have_count_as_none(tmp_path):
    path = tmp_path / "a"
    second = tmp_path / "b"
    for folder, ids in ((path, {"a": 0, "b": 1}), (second, {"a": 0, "b": 1, "c": -1, "d": 2**40})):
        folder.mkdir()
        (folder / "vocab.json").write_text(json.dumps({**ids, "e": True}))
    assert compare(stamps(path / "vocab.json"), stamps(second / "vocab.json")).tokens == 0
