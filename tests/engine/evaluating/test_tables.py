"""The same examples from every kind of file; drawn by chance; their columns guessed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ace_gui.engine.evaluating.examples import kind_of, read_task
from ace_gui.engine.evaluating.kinds import KINDS
from ace_gui.engine.evaluating.open_table import open_table
from ace_gui.recipe.values import Task, TaskKind, limited
from ace_gui.steps import result_of

ROWS = [
    {"sentence": "NA", "label": "yes", "idx": 0},
    {"sentence": 'null, "and" more', "label": "no", "idx": 1},
    {"sentence": "two\nlines", "label": "yes", "idx": 2},
    {"sentence": "größer ☃", "label": "no", "idx": 3},
]
CONFIG = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "no", "1": "yes"}}


def _csv(path: Path, separator: str = ",") -> Path:
    lines = [f"sentence{separator}label{separator}idx"]
    for row in ROWS:
        text = row["sentence"].replace('"', '""')
        lines.append(f'"{text}"{separator}{row["label"]}{separator}{row["idx"]}')
    path.write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    return path


def _columns() -> dict[str, list[Any]]:
    return {name: [row[name] for row in ROWS] for name in ROWS[0]}


def _json(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


def _lines(path: Path) -> Path:
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS), encoding="utf8")
    return path


def _parquet(path: Path, **settings: Any) -> Path:
    pq.write_table(pa.table(_columns()), path, **settings)
    return path


def _npz(path: Path) -> Path:
    np.savez(path, **{name: np.array(values) for name, values in _columns().items()})
    return path


def _saved(path: Path) -> Path:
    import datasets

    columns = {**_columns(), "label": [["no", "yes"].index(row["label"]) for row in ROWS]}
    dataset = datasets.Dataset.from_dict(columns)
    dataset.cast_column("label", datasets.ClassLabel(names=["no", "yes"])).save_to_disk(path)
    return path


WRITERS = {
    "csv": lambda folder: _csv(folder / "a.csv"),
    "semicolons": lambda folder: _csv(folder / "a.csv", ";"),
    "tabs": lambda folder: _csv(folder / "a.csv", "\t"),
    "json": lambda folder: _json(folder / "a.json", ROWS),
    "json columns": lambda folder: _json(folder / "a.json", _columns()),
    "json data": lambda folder: _json(folder / "a.json", {"version": 1, "data": ROWS}),
    "jsonl": lambda folder: _lines(folder / "a.jsonl"),
    "json lines": lambda folder: _lines(folder / "a.json"),
    "parquet": lambda folder: _parquet(folder / "a.parquet"),
    "parquet groups": lambda folder: _parquet(folder / "a.parquet", row_group_size=1),
    "npz": lambda folder: _npz(folder / "a.npz"),
    "saved": lambda folder: _saved(folder / "saved"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_the_same_from_every_kind_of_file(tmp_path, writer: str):
    data = result_of(read_task(Task(data=WRITERS[writer](tmp_path)), CONFIG, seed=0))
    assert data.kind is TaskKind.TEXT_CLASSIFICATION
    assert data.columns == {"label": ("label",), "text": ("sentence",)}
    assert [example.inputs for example in data.examples] == [
        {"text": row["sentence"]} for row in ROWS
    ]
    assert KINDS[data.kind].targets(data, CONFIG) == [1, 0, 1, 0]


@pytest.mark.parametrize("suffix", ["jsonl", "ndjson", "JSONL"])
@pytest.mark.parametrize("rows", [1, 2])
def test_lists_in_a_line_are_the_values_of_its_row(tmp_path, suffix: str, rows: int):
    row = {"tokens": ["the", "cat"], "tags": [0, 1]}
    (tmp_path / f"a.{suffix}").write_text(f"{json.dumps(row)}\n" * rows)
    table = open_table(tmp_path / f"a.{suffix}")
    assert [values for _, values in table.rows(["tokens", "tags"])] == [tuple(row.values())] * rows


def test_numbers_that_the_data_call_otherwise_than_the_head(tmp_path):
    """The head has the labels in another order: their names count, not their numbers."""
    data = result_of(read_task(Task(data=_saved(tmp_path / "a")), CONFIG, seed=0))
    turned = {**CONFIG, "id2label": {"0": "YES", "1": "NO"}}
    assert KINDS[data.kind].targets(data, turned) == [0, 1, 0, 1]
    unnamed = {**CONFIG, "id2label": {"0": "LABEL_0", "1": "LABEL_1"}}
    assert KINDS[data.kind].targets(data, unnamed) == [1, 0, 1, 0]


def test_labels_in_the_words_of_the_data(tmp_path):
    task = Task(data=_csv(tmp_path / "a.csv"), labels=("yes", "no"))
    unnamed = {**CONFIG, "id2label": {"0": "LABEL_0", "1": "LABEL_1"}}
    data = result_of(read_task(task, unnamed, seed=0))
    assert KINDS[data.kind].targets(data, unnamed) == [0, 1, 0, 1]


def test_a_split_is_named_where_there_are_several(tmp_path):
    import datasets

    part = datasets.Dataset.from_dict(_columns())
    datasets.DatasetDict(train=part, test=part.select([1])).save_to_disk(tmp_path / "both")
    with pytest.raises(Exception, match="test, train"):
        open_table(tmp_path / "both")
    data = result_of(read_task(Task(data=tmp_path / "both" / "test"), CONFIG, seed=0))
    assert len(data.examples) == 1


def numbered(folder: Path, count: int) -> Path:
    (folder / "many.txt").write_text("".join(f"{number}\n" for number in range(count)))
    return folder / "many.txt"


MODEL = {"architectures": ["GPT2LMHeadModel"]}


def test_a_sample_is_drawn_by_chance_and_always_the_same(tmp_path):
    path = numbered(tmp_path, 1000)

    def drawn(seed: int, limit: int | None = None, task_limit: int | None = 100) -> list[int]:
        (task,) = limited([Task(data=path, limit=task_limit)], limit)
        data = result_of(read_task(task, MODEL, seed=seed))
        return [int(example.inputs["text"]) for example in data.examples]

    first = drawn(0)
    assert first == drawn(0) == sorted(set(first))
    assert first != drawn(1)
    assert len(drawn(0, limit=30)) == 30
    assert drawn(0, task_limit=None) == list(range(1000))
    assert drawn(0, task_limit=5000) == list(range(1000))


def test_every_row_has_the_same_chance(tmp_path):
    """Of 40 rows 10 are drawn 400 times: 100 ± 5 σ each."""
    path = numbered(tmp_path, 40)
    counts = np.zeros(40)
    for seed in range(400):
        data = result_of(read_task(Task(data=path, limit=10), MODEL, seed=seed))
        counts[[int(example.inputs["text"]) for example in data.examples]] += 1
    assert np.all(np.abs(counts - 100) < 5 * np.sqrt(400 * 0.25 * 0.75))


@pytest.mark.parametrize(
    ("model", "more", "columns", "kind"),
    [
        ("RobertaForSequenceClassification", {"id2label": {"0": "a"}}, "text,label", "regression"),
        ("RobertaForSequenceClassification", {}, "text,label", "text-classification"),
        ("LlamaForCausalLM", {}, "text", "causal-lm"),
        ("LlamaForCausalLM", {}, "question,choices,answer", "multiple-choice"),
        ("T5ForConditionalGeneration", {}, "input,target", "text-to-text"),
        ("BertForTokenClassification", {}, "tokens,ner_tags", "token-classification"),
        ("ViTForImageClassification", {}, "image,label", "image-classification"),
        ("CLIPModel", {}, "image,label", "clip-zero-shot"),
    ],
)
def test_kinds_are_guessed(tmp_path, model: str, more: dict[str, Any], columns: str, kind: str):
    path = tmp_path / "a.csv"
    path.write_text(f"{columns}\n")
    config = {"architectures": [model], **more}
    assert kind_of(Task(data=path), config, open_table(path)) == kind


GLUE = (
    "index\tsentence1\tsentence2\tlabel\n"
    '0\t"Well, he said, quoted at its start\tan inch is 1" long, or so\tentailment\n'
    "1\tone; two, three\t''\tneutral\n"
)


def test_a_tsv_file_has_no_quoting(tmp_path):
    """As in GLUE's files: quotation marks are ordinary, and a comma divides nothing."""
    (tmp_path / "dev.tsv").write_text(GLUE)
    table = open_table(tmp_path / "dev.tsv")
    assert table.columns == ("index", "sentence1", "sentence2", "label")
    rows = [cells for _, cells in table.rows(table.columns)]
    assert rows == [tuple(line.split("\t")) for line in GLUE.splitlines()[1:]]


def test_a_tsv_file_of_one_column_may_hold_commas(tmp_path):
    (tmp_path / "one.tsv").write_text("text\na, b, c\nd;e\n")
    table = open_table(tmp_path / "one.tsv")
    assert [cells for _, cells in table.rows(["text"])] == [("a, b, c",), ("d;e",)]
