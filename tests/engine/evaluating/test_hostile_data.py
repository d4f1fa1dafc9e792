"""Data that are bad, or made to harm: refused in one sentence that names file and row, and soon."""

import io
import json
import os
import pickle
import warnings
import zipfile
import zlib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ace_gui.engine.evaluating import open_table as tables
from ace_gui.engine.evaluating import task_data
from ace_gui.engine.evaluating.examples import read_task
from ace_gui.engine.evaluating.kinds import KINDS
from ace_gui.engine.evaluating.open_table import open_table
from ace_gui.engine.evaluating.task_data import TaskData
from ace_gui.errors import TaskError
from ace_gui.recipe.values import Task, TaskKind
from ace_gui.steps import result_of
from tests.helpers.scored_models import save_pictures

TEXTS = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "no", "1": "yes"}}
NUMBERS = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
PICTURES = {"architectures": ["ViTForImageClassification"], "id2label": {"0": "cat", "1": "dog"}}
WORDS = {"architectures": ["BertForTokenClassification"], "id2label": {"0": "O", "1": "B"}}


def read(path: Path, config: dict = TEXTS, **task: object) -> TaskData:
    data = result_of(read_task(Task(data=path, **task), config, seed=0))
    KINDS[data.kind].targets(data, config)
    return data


def refusal(path: Path, config: dict = TEXTS, **task: object) -> str:
    with pytest.raises(TaskError) as caught:
        read(path, config, **task)
    sentence = caught.value.sentence
    assert sentence.isprintable()
    assert len(sentence) < 600
    return sentence


BAD_TEXT: dict[str, tuple[str, bytes, str]] = {
    "empty csv": ("a.csv", b"", "empty"),
    "header alone": ("a.csv", b"text,label\n", "no examples"),
    "a column is missing": ("a.csv", b"text,lab\ngood,1\n", "label"),
    "an unknown label": ("a.csv", b"text,label\ngood,yes\nbad,maybe\n", "row 3"),
    "no label": ("a.csv", b"text,label\ngood,yes\nbad,\n", "row 3"),
    "a label out of range": ("a.csv", b"text,label\ngood,2\n", "row 2"),
    "the hidden labels of a benchmark": ("a.csv", b"text,label\ngood,-1\n", "row 2"),
    "another encoding": ("a.csv", "text,label\ngood,yes\ncafé,no\n".encode("latin-1"), "row 3"),
    "UTF-16": ("a.csv", "text,label\ngood,yes\n".encode("utf-16"), "UTF-8"),
    "too many cells": ("a.csv", b"text,label\ngood,yes\nbad,no,1\n", "row 3"),
    "an open quotation mark": ("a.csv", b'text,label\ngood,yes\n"bad,no\n', "row 3"),
    "a column twice": ("a.csv", b"text,text\na,b\n", "row 1"),
    "broken JSON": ("a.json", b'[{"text": "a", "label": 1}, {', "JSON"),
    "a broken line": ("a.jsonl", b'{"text": "a", "label": 1}\n{"text": \n', "row 2"),
    "a list in a line": ("a.jsonl", b'{"text": "a", "label": 1}\n[1]\n', "row 2"),
    "deep JSON": ("a.json", b"[" * 100_000, "JSON"),
    "a deep line": ("a.jsonl", b'{"text": "a", "label": 0}\n' + b'{"a":' * 50_000, "row 2"),
    "a number as text": ("a.jsonl", b'{"text": 5, "label": 1}\n', "row 1"),
    "a value is missing": ("a.jsonl", b'{"text": "a", "label": 1}\n{"label": 0}\n', "row 2"),
    "a huge number": ("a.jsonl", b'{"text": "a", "label": ' + b"9" * 5000 + b"}\n", "JSON"),
    "no rows": ("a.json", b"[]", "named values"),
    "an unknown kind": ("a.xlsx", b"PK", "csv"),
    "a loading script": ("a.py", b"raise SystemExit", "program"),
    "no Parquet": ("a.parquet", b"PAR1" + b"\0" * 100, "damaged"),
    "no archive": ("a.npz", b"PK\3\4" + b"\0" * 100, "damaged"),
}


# Arrays


class _Harm:
    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return pytest.fail, ("a pickle was run",)


def npz(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def header(shape: str) -> bytes:
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def test_an_archive_that_unpacks_to_more(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FILE_BYTES", 10_000_000)
    label = npy(np.zeros(4, np.int64))
    path = npz(tmp_path / "a.npz", image=npy(np.zeros((4, 2000, 2000), np.uint8)), label=label)
    assert path.stat().st_size < 50_000
    assert "unpacks to more" in refusal(path, PICTURES)


# Parquet


def test_a_text_repeated_often(tmp_path, monkeypatch):
    """A megabyte written once and meant ten thousand times."""
    path = tmp_path / "bomb.parquet"
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), ["a" * 1_000_000])
    table = pa.table({"text": text, "label": pa.array([1] * 10_000)})
    pq.write_table(table, path, compression="zstd")
    assert path.stat().st_size < 1_000_000
    assert len(read(path, limit=5).examples) == 5
    monkeypatch.setattr("ace_gui.engine.evaluating.examples.FILE_BYTES", 20_000_000)
    assert "set a limit" in refusal(path)


def test_parquet_that_unpacks_to_more(tmp_path, monkeypatch):
    path = tmp_path / "bomb.parquet"
    table = pa.table({"text": ["a" * 3_000_000 + str(n) for n in range(10)], "label": [1] * 10})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(tables, "FILE_BYTES", 10_000_000)
    assert "unpacks to more" in refusal(path)


# Pictures


def png(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says how large it is."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data).to_bytes(4, "big")
        return len(data).to_bytes(4, "big") + kind + data + check

    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    rows = zlib.compress(b"\0" * 1000)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", size + b"\x08\x02\0\0\0")
        + chunk(b"IDAT", rows)
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (png(60_000, 60_000), "pixels"),
        (png(64, 64), "damaged"),
        (b"GIF89a", "picture"),
        (b"", "no picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "no picture"),
    ],
    ids=["bomb", "cut off", "header alone", "empty", "a program for printers"],
)
def test_bad_pictures(tmp_path, content: bytes, expected: str):
    save_pictures(tmp_path / "data", ("cat", "dog"), 2)
    (tmp_path / "data" / "dog" / "bad.png").write_bytes(content)
    sentence = refusal(tmp_path / "data", PICTURES)
    assert "dog/bad.png" in sentence
    assert expected in sentence


def test_folders_of_pictures(tmp_path):
    save_pictures(tmp_path / "data", ("cat", "dog"), 1)
    (tmp_path / "data" / "tree").mkdir()
    assert "no pictures" in refusal(tmp_path / "data", PICTURES)
    (tmp_path / "data" / "tree").rmdir()
    assert len(read(tmp_path / "data", PICTURES).examples) == 2
    config = {**PICTURES, "id2label": {"0": "cat", "1": "mouse"}}
    assert "dog" in refusal(tmp_path / "data", config)


def test_pictures_named_in_a_table_lie_beside_it(tmp_path):
    (file,) = save_pictures(tmp_path / "secret", ("cat",), 1)
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "a.csv"
    for name in (str(file), "../secret/cat/000.png"):
        path.write_text(f"image,label\n{name},cat\n")
        assert "outside" in refusal(path, PICTURES)
    path.write_text("image,label\nnone.png,cat\n")
    assert "row 2" in refusal(path, PICTURES)
    Image.open(file).save(tmp_path / "data" / "one.png")
    path.write_text("image,label\none.png,cat\n")
    assert len(read(path, PICTURES).examples) == 1


def test_pixels_are_counted_before_they_are_decoded(tmp_path, monkeypatch):
    save_pictures(tmp_path / "data", ("cat",), 1)
    monkeypatch.setattr(task_data, "MOST_PIXELS", 10)
    assert "pixels" in refusal(tmp_path / "data", PICTURES)


def hub_pictures(path: Path, pixels: list[bytes], **more: pa.Array) -> Path:
    """Pictures as the hub stores them: a struct of bytes and a path."""
    cells = [{"bytes": pixel, "path": f"{n}.png"} for n, pixel in enumerate(pixels)]
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    labels = pa.array([n % 2 for n in range(len(pixels))])
    pq.write_table(pa.table({"image": pa.array(cells, kind), "label": labels, **more}), path)
    return path


def test_pictures_of_the_hub_in_parquet(tmp_path):
    files = save_pictures(tmp_path / "data", ("cat", "dog"), 2)
    pixels = [file.read_bytes() for file in files]
    data = read(hub_pictures(tmp_path / "a.parquet", pixels), PICTURES)
    assert len(data.examples) == 4
    pixels[2] = b"no picture"
    assert "row 3" in refusal(hub_pictures(tmp_path / "b.parquet", pixels), PICTURES)


NESTED = {
    "list of texts": pa.array([["a", "b"], None], pa.list_(pa.string())),
    "large list": pa.array([["a"], []], pa.large_list(pa.string())),
    "list of structs": pa.array([[{"a": "x"}], []], pa.list_(pa.struct({"a": pa.string()}))),
    "struct of lists": pa.array([{"a": ["x"]}, None], pa.struct({"a": pa.list_(pa.string())})),
    "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    "fixed list": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)),
    "dictionary": pa.array(["a", "b"]).dictionary_encode(),
    "timestamps": pa.array([0, 1], pa.timestamp("ns")),
    "decimals": pa.array([Decimal(1), Decimal(2)], pa.decimal128(20, 2)),
    "nothing": pa.nulls(2),
    "bool": pa.array([True, None]),
    "half": pa.array(np.zeros(2, np.float16)),
    "large text": pa.array(["a", "b"], pa.large_string()),
    "bytes": pa.array([b"a", b"b"]),
}


@pytest.mark.parametrize("what", NESTED)
@pytest.mark.parametrize("name", ["inputs", "in.puts"])
def test_columns_of_any_type(tmp_path, what: str, name: str):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: NESTED[what], "text": ["x", "y"], "in": [1, 2]}), path)
    rows = [values for _, values in open_table(path).rows([name, "text"])]
    expected = NESTED[what].to_pylist()
    assert rows == list(zip(expected, ["x", "y"], strict=True))
    assert refusal(path, columns={"text": name, "label": "text"})


def test_nested_columns_are_counted_before_they_are_unpacked(tmp_path, monkeypatch):
    path = hub_pictures(tmp_path / "a.parquet", [b"\0" * 100_000] * 3)
    monkeypatch.setattr(tables, "FILE_BYTES", 50_000)
    with pytest.raises(TaskError, match="unpacks"):
        list(open_table(path).rows(["image"]))
    assert len(list(open_table(path).rows(["label"]))) == 3


def encrypted_npz(path: Path) -> None:
    np.savez(path, text=np.array(["a", "b"]), label=np.array([0, 1]))
    content = bytearray(path.read_bytes())
    for mark, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        index = -1
        while (index := content.find(mark, index + 1)) >= 0:
            content[index + at] |= 1
    path.write_bytes(content)


def doubled_npz(path: Path) -> None:
    member = npy(np.array([0, 1]))
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            archive.writestr("text.npy", member)


def doubled_parquet(path: Path) -> None:
    columns = [pa.array(["a"]), pa.array(["b"]), pa.array([1])]
    pq.write_table(pa.Table.from_arrays(columns, ["text", "text", "label"]), path)


def text_file(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


def arrays(**members: object) -> Callable[[Path], object]:
    """An archive of arrays, or of members as bytes, with four labels."""
    members = {"label": np.zeros(4, np.int64), **members}
    made = {name: a if isinstance(a, bytes) else npy(a) for name, a in members.items()}
    return lambda path: npz(path, **made)


def harmful_array() -> np.ndarray:
    objects = np.empty(4, object)
    objects[0] = _Harm()
    return objects


def long_line(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"text,label\ngood,yes\n")
        file.truncate(1_000_000_000)  # one line of zeros; no disk is used


def damaged_pages(path: Path) -> None:
    rows = [f"text {n}" for n in range(1000)]
    pq.write_table(pa.table({"text": rows, "label": [1] * 1000}), path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[20:200] = b"\xff" * 180
    path.write_bytes(content)


def folder_with(**files: str) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        path.mkdir()
        for name, content in files.items():
            (path / name.replace("_", ".")).write_text(content)

    return write


MANY = ("a" * 1000 + "\n") * 5000

HOSTILE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "nothing": ("a.csv", lambda _: None, "cannot be read"),
    "an empty folder": ("folder", folder_with(), "no data"),
    "a folder with a loading script": ("folder", folder_with(a_py="raise SystemExit"), "program"),
    "a pipe": ("a.csv", os.mkfifo, "no data"),
    "a long line": ("a.csv", long_line, "row 3"),
    "a long row": ("a.csv", text_file(f'text,label\ngood,yes\n"{MANY}",no\n'), "row 3"),
    "damaged pages": ("a.parquet", damaged_pages, "damaged"),
    "an empty state": ("saved", folder_with(state_json="{}"), "saved dataset"),
    "a state without its files": (
        "saved",
        folder_with(state_json='{"_data_files": [{"filename": "x.arrow"}]}'),
        "saved dataset",
    ),
    "half a pair": ("a.json", text_file('[{"text": "a\\ud800", "label": 1}]'), "row 1"),
    "half a pair in a line": (
        "a.jsonl",
        text_file('{"text": "a", "label": 1}\n{"text": "\\udfff", "label": 0}\n'),
        "row 2",
    ),
    "half a pair in a label": ("a.json", text_file('[{"text": "a", "label": "\\ud800"}]'), "row 1"),
    "half a pair in a name": ("a.json", text_file('[{"te\\ud800": "a", "label": 1}]'), "columns"),
    "a name twice": ("a.json", text_file('[{"text": "a", "text": "b", "label": 1}]'), "twice"),
    "a name twice in a line": (
        "a.jsonl",
        text_file('{"text": "a", "label": 1}\n{"text": "a", "label": 1, "label": 0}\n'),
        "twice",
    ),
    "a password": ("a.npz", encrypted_npz, "encrypted"),
    "an array twice": ("a.npz", doubled_npz, "text"),
    "a column of Parquet twice": ("a.parquet", doubled_parquet, "text"),
}


OF_OTHER_MODELS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    **{
        f"{value!r} as a number": ("a.csv", text_file(f"text,score\na,1.5\nb,{value}\n"), "row 3")
        for value in ("nan", "inf", "high", "")
    },
    "too few labels": (
        "a.jsonl",
        text_file('{"tokens": ["a", "b"], "ner_tags": [0]}\n'),
        "2 words, but 1 labels",
    ),
    "no such label": ("a.jsonl", text_file('{"tokens": ["a"], "ner_tags": [7]}\n'), "row 1"),
    "pickled arrays": ("a.npz", arrays(image=harmful_array()), "could run code"),
    "a pickle": ("a.npz", arrays(image=pickle.dumps(_Harm())), "damaged"),
    "other lengths": ("a.npz", arrays(image=np.zeros((3, 8, 8), np.uint8)), "'image' 3"),
    "no pixels": ("a.npz", arrays(image=np.zeros((4, 8), np.uint8)), "row 1"),
    **{
        f"a header of {shape}": ("a.npz", arrays(image=header(shape) + b"\0" * 256), "a.npz")
        for shape in ("(4, 1000000)", "(4, 100000000000000)", "()", "(-4, 8, 8)")
    },
}
MODELS = {"a.csv": NUMBERS, "a.jsonl": WORDS, "a.npz": PICTURES}


@pytest.mark.parametrize("case", [*BAD_TEXT, *HOSTILE, *OF_OTHER_MODELS])
def test_bad_files(tmp_path, case: str):
    name, content, expected = (BAD_TEXT | HOSTILE | OF_OTHER_MODELS)[case]
    path = tmp_path / name
    path.write_bytes(content) if isinstance(content, bytes) else content(path)
    sentence = refusal(path, MODELS[name] if case in OF_OTHER_MODELS else TEXTS)
    assert name in sentence
    assert expected in sentence


@pytest.mark.parametrize("name", ["a\0b.png", "a" * 5000, "\ud800.png", "/".join("a" * 3000), "."])
def test_names_that_no_picture_can_have(tmp_path, name: str):
    (tmp_path / "a.json").write_text(json.dumps([{"image": name, "label": "cat"}]))
    assert "row 1" in refusal(tmp_path / "a.json", PICTURES)


@pytest.mark.parametrize("suffix", ["png", "tiff", "pgm"])
@pytest.mark.parametrize("order", ["<u2", ">u2"])
def test_grey_of_16_bits_is_scaled(tmp_path, order: str, suffix: str):
    grey_HW = np.linspace(0, 65535, 64).reshape(8, 8).round()
    image = Image.fromarray(grey_HW.astype(order if suffix == "tiff" else "<u2"))
    path = tmp_path / f"a.{suffix}"
    (image.convert("I") if suffix == "pgm" else image).save(path)
    opened_HW = np.asarray(task_data.Picture(table=path, row="", given=path).opened())
    np.testing.assert_allclose(opened_HW, grey_HW / 257, atol=1)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_grey_of_32_bits_has_no_white(tmp_path, dtype: type):
    path = tmp_path / "a.tiff"
    Image.fromarray(np.arange(64).reshape(8, 8).astype(dtype)).save(path)
    with pytest.raises(TaskError, match="32 bits"):
        task_data.Picture(table=path, row="", given=path).opened()


# Saved datasets


@pytest.mark.parametrize("how", ["../other/data-00000-of-00001.arrow", "absolute", "a link"])
def test_a_saved_dataset_names_no_file_outside(tmp_path, how: str):
    import datasets

    for name in ("saved", "other"):
        rows = {"text": ["a", "b"], "label": [0, 1]}
        datasets.Dataset.from_dict(rows).save_to_disk(tmp_path / name)
    assert len(read(tmp_path / "saved").examples) == 2
    outside = tmp_path / "other" / "data-00000-of-00001.arrow"
    if how == "a link":
        (tmp_path / "saved" / "link.arrow").symlink_to(outside)
    named = {"absolute": str(outside), "a link": "link.arrow"}.get(how, how)
    state = json.loads((tmp_path / "saved" / "state.json").read_text())
    state["_data_files"] = [{"filename": named}]
    (tmp_path / "saved" / "state.json").write_text(json.dumps(state))
    assert "outside" in refusal(tmp_path / "saved")


@pytest.mark.parametrize("cut", ["short", "offsets"])
def test_arrow_files_that_are_damaged(tmp_path, cut: str):
    import datasets

    rows = {"text": [f"text {number}" for number in range(200)], "label": [0] * 200}
    datasets.Dataset.from_dict(rows).save_to_disk(tmp_path / "saved")
    (file,) = (tmp_path / "saved").glob("*.arrow")
    data = bytearray(file.read_bytes())
    if cut == "short":
        file.write_bytes(data[: len(data) // 2])
    else:
        at = data.index(np.array([0, 6, 12], np.int32).tobytes())
        data[at + 4 : at + 8] = (1 << 30).to_bytes(4, "little")
        file.write_bytes(data)
    assert "saved dataset" in refusal(tmp_path / "saved")


# Tasks that do not suit


def test_tasks_that_do_not_suit(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("one,two,three\na,b,c\n")
    assert "columns: {label: NAME}" in refusal(path)
    assert "'four'" in refusal(path, columns={"text": "four"})
    assert "no use for 'image'" in refusal(path, columns={"image": "one"})
    same = refusal(path, columns={"text": "one", "label": "one"})
    assert "the column 'one' is both text and label; choose different columns." in same
    columns = {"text": "one", "label": "two"}
    assert "does no causal-lm" in refusal(path, kind=TaskKind.CAUSAL_LM, columns=columns)
    assert "not known" in refusal(path, {"architectures": ["BertModel"]}, columns=columns)
    assert "head's" in refusal(path, columns=columns, labels=("maybe",))


def test_a_table_of_another_kind_says_what_it_is(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    table = open_table(tmp_path / "a.txt")
    assert [row for row, _ in table.rows(["text"])] == ["row 1", "row 3"]
