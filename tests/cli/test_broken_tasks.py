"""A merge with ``--evaluate`` refuses unusable tasks before it merges, and its dry run does too."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import torch
import transformers

from ace_gui.engine import workflow
from ace_gui.recipe.values import TaskKind
from tests.helpers.command import ace_gui as ace
from tests.helpers.scored_models import (
    save_bert,
    save_chat_model,
    save_gpt2,
    save_pictures,
    save_tokenizer,
    save_vit,
)

LABELS: Final = {0: "no", 1: "yes"}


def _bert(head: str) -> Callable[[Path, int], Any]:
    return lambda folder, seed: save_bert(folder, head, seed=seed, id2label=LABELS)


def _save_clip(folder: Path, seed: int) -> None:
    torch.manual_seed(seed)
    size = {
        "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }  # fmt: skip
    config = transformers.CLIPConfig(
        text_config={**size, "vocab_size": 17, "max_position_embeddings": 24, "eos_token_id": 3},
        vision_config={**size, "image_size": 8, "patch_size": 4},
        projection_dim=8,
    )
    save_tokenizer(folder).model_input_names = ["input_ids", "attention_mask"]
    save_vit(folder, ("no", "yes"))  # for its image processor
    transformers.CLIPModel(config).save_pretrained(folder)


@dataclass(frozen=True)
class WorkingTask:
    """``save``: writes a model; ``rows``: good data; ``keys``: of the task."""

    save: Callable[[Path, int], Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    keys: dict[str, Any] = field(default_factory=dict)


TEXT: Final = {"text": "the cat sat"}
CASES: Final = {
    TaskKind.IMAGE_CLASSIFICATION: WorkingTask(
        lambda folder, seed: save_vit(folder, ("no", "yes"), seed=seed)
    ),
    TaskKind.CLIP_ZERO_SHOT: WorkingTask(_save_clip, keys={"labels": ["no", "yes"]}),
    TaskKind.TEXT_CLASSIFICATION: WorkingTask(
        _bert("SequenceClassification"), [{**TEXT, "label": "yes"}, {**TEXT, "label": "no"}]
    ),
    TaskKind.REGRESSION: WorkingTask(
        lambda folder, seed: save_bert(folder, "SequenceClassification", seed=seed, num_labels=1),
        [{**TEXT, "label": 1.5}, {**TEXT, "label": 2.5}],
    ),
    TaskKind.TOKEN_CLASSIFICATION: WorkingTask(
        _bert("TokenClassification"), [{"tokens": ["the", "cat"], "tags": ["no", "yes"]}]
    ),
    TaskKind.MULTIPLE_CHOICE: WorkingTask(
        lambda folder, seed: save_gpt2(folder, seed=seed),
        [{**TEXT, "choices": ["good", "bad"], "label": 1}],
    ),
    TaskKind.CAUSAL_LM: WorkingTask(lambda folder, seed: save_gpt2(folder, seed=seed), [TEXT]),
    TaskKind.TEXT_TO_TEXT: WorkingTask(
        lambda folder, seed: save_chat_model(folder, seed=seed),
        [{**TEXT, "label": "2"}],
        {"max_new_tokens": 2},
    ),
}  # fmt: skip
OF_PICTURES: Final = (TaskKind.IMAGE_CLASSIFICATION, TaskKind.CLIP_ZERO_SHOT)
OF_TEXTS: Final = tuple(kind for kind in CASES if kind not in OF_PICTURES)
ASKED: Final = (TaskKind.TEXT_TO_TEXT, TaskKind.MULTIPLE_CHOICE)


def _rows(folder: Path, **changed: Any) -> None:
    """Write the rows again, the last one with other values."""
    file = folder / "data.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    rows[-1] |= changed
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _remove_preprocessing(folder: Path, *models: str) -> None:
    for model in models:
        for name in ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"):
            (folder / model / name).unlink(missing_ok=True)


def _chat_template(folder: Path, model: str, template: str | None) -> None:
    file = folder / model / "chat_template.jinja"
    file.unlink(missing_ok=True)
    if template is not None:
        file.write_text(template)


def _broken_picture(folder: Path) -> None:
    file = sorted((folder / "data" / "yes").iterdir())[-1]
    file.write_bytes(file.read_bytes()[:70])


REFUSING: Final = "{{ raise_exception('no such turn') }}"
ALL: Final = ("base", "one", "two")
Break = Callable[[Path], object]
BREAKS: Final[dict[str, tuple[tuple[TaskKind, ...], dict[str, Any], Break | None]]] = {
    "data are missing": (tuple(CASES), {"data": "none"}, None),
    "the expert is unknown": (tuple(CASES), {"expert": "three"}, None),
    "the model does no such thing": (
        OF_PICTURES + OF_TEXTS[:2], {"kind": "token-classification"}, None
    ),
    "a column is unknown": (OF_TEXTS, {"columns": {"text": "none"}}, None),
    "a role is unknown": (tuple(CASES), {"columns": {"sound": "text"}}, None),
    "the metric is another": (OF_PICTURES + OF_TEXTS[:4], {"metric": "chrf"}, None),
    "there are no rows": (OF_TEXTS, {}, lambda f: (f / "data.jsonl").write_text("")),
    "the file is no JSON": (OF_TEXTS, {}, lambda f: (f / "data.jsonl").write_text('{"text"')),
    "a folder is empty": (
        OF_PICTURES, {}, lambda f: [picture.unlink() for picture in (f / "data" / "yes").iterdir()]
    ),
    "a picture is damaged": (OF_PICTURES, {}, _broken_picture),
    "a label is unknown": (OF_PICTURES, {}, lambda f: (f / "data/yes").rename(f / "data/maybe")),
    "a label is unknown to the head": (
        OF_TEXTS[:1], {}, lambda f: _rows(f, label="maybe")
    ),
    "a label is no number": (OF_TEXTS[1:2], {}, lambda f: _rows(f, label="high")),
    "a label is no choice": ((TaskKind.MULTIPLE_CHOICE,), {}, lambda f: _rows(f, label=2)),
    "a label of a word is unknown": (
        (TaskKind.TOKEN_CLASSIFICATION,), {}, lambda f: _rows(f, tags=["no", "maybe"])
    ),
    "a word has no label": (
        (TaskKind.TOKEN_CLASSIFICATION,), {}, lambda f: _rows(f, tags=["no"])
    ),
    "an answer has no number": (
        (TaskKind.TEXT_TO_TEXT,), {"metric": "last-number"}, lambda f: _rows(f, label="two")
    ),
    "the prompt has no text": (ASKED, {"prompt": "What?"}, None),
    "the metric lacks a pattern": ((TaskKind.TEXT_TO_TEXT,), {"metric": "regex"}, None),
    "the chat template is missing": (
        (TaskKind.TEXT_TO_TEXT,), {"chat": "on"}, lambda f: _chat_template(f, "one", None)
    ),
    "the base has no chat template": (
        (TaskKind.TEXT_TO_TEXT,), {"chat": "on"}, lambda f: _chat_template(f, "base", None)
    ),
    "the chat template refuses": (
        (TaskKind.TEXT_TO_TEXT,), {}, lambda f: _chat_template(f, "one", REFUSING)
    ),
    "the base's chat template refuses": (
        (TaskKind.TEXT_TO_TEXT,), {}, lambda f: _chat_template(f, "base", REFUSING)
    ),
    "the chat template is no template": (
        (TaskKind.TEXT_TO_TEXT,), {}, lambda f: _chat_template(f, "one", "{% for %}")
    ),
    "there is no tokenizer or processor": (
        tuple(CASES), {}, lambda f: _remove_preprocessing(f, *ALL)
    ),
    "the tokenizer or processor is damaged": (
        tuple(CASES),
        {},
        lambda f: [
            file.write_text("{") for file in (f / "one").glob("*[rg].json")
            if file.name in ("tokenizer.json", "preprocessor_config.json")
        ],
    ),
}  # fmt: skip


def family(folder: Path, kind: TaskKind, keys: dict[str, Any]) -> Path:
    """A recipe with a base, two experts, and a task of this kind of the first one."""
    case = CASES[kind]
    for seed, name in enumerate(ALL):
        case.save(folder / name, seed)
    if case.rows:
        (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in case.rows))
    else:
        save_pictures(folder / "data", ("no", "yes"), 2)
    data = "data.jsonl" if case.rows else "data"
    recipe = {
        "merge_method": "linear",
        "base_model": "base",
        "models": [{"model": name} for name in ALL[1:]],
        "tasks": [{"data": data, "name": "one", "kind": kind, **case.keys, **keys}],
        "schema": 1,
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    return folder / "recipe.yaml"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=[pytest.mark.long] if number else [])
        for name, (kinds, *_) in BREAKS.items()
        for number, kind in enumerate(kinds)
    ],
)
def test_broken_tasks_are_refused_before_the_merge(
    kind: TaskKind, name: str, tmp_path, monkeypatch, capfd
):
    _, keys, break_ = BREAKS[name]
    recipe = family(tmp_path, kind, keys)
    if break_ is not None:
        break_(tmp_path)
    monkeypatch.setattr(workflow, "merge", lambda *_a, **_k: pytest.fail("merged"))
    capfd.readouterr()
    words = ["merge", str(recipe), "--evaluate", "--out", str(tmp_path / "out")]
    dry = ace(*words, "--dry-run")
    real = ace(*words)
    assert (dry.returncode, real.returncode) == (1, 1), (dry.stderr, real.stderr)
    assert dry.stderr.splitlines()[-1] == real.stderr.splitlines()[-1]
    assert dry.stderr.count("Error: ") == 1
    assert not (tmp_path / "out").exists()


def test_a_task_of_nobody_that_only_the_experts_can_do(tmp_path, monkeypatch):
    """Base and merge have no head for it."""
    recipe = family(tmp_path, TaskKind.TEXT_CLASSIFICATION, {"name": "both"})
    save_bert(tmp_path / "base", "MaskedLM")
    monkeypatch.setattr(workflow, "merge", lambda *_a, **_k: pytest.fail("merged"))
    words = ["merge", str(recipe), "--evaluate", "--out", str(tmp_path / "out")]
    for more in ([], ["--dry-run"]):
        ended = ace(*words, *more)
        assert ended.returncode == 1
        assert "BertForMaskedLM" in ended.stderr.splitlines()[-1]


def test_without_tasks_nothing_can_be_scored(tmp_path):
    recipe = family(tmp_path, TaskKind.TEXT_CLASSIFICATION, {})
    recipe.write_text(json.dumps(json.loads(recipe.read_text()) | {"tasks": []}))
    words = ["merge", str(recipe), "--evaluate", "--out", str(tmp_path / "out")]
    for more in ([], ["--dry-run"]):
        ended = ace(*words, *more)
        assert ended.returncode == 1
        assert "tasks" in ended.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[] if k in ASKED else [pytest.mark.long]) for k in CASES]
)
def test_good_tasks_pass_the_dry_run_and_are_scored(kind: TaskKind, tmp_path):
    words = ["merge", str(family(tmp_path, kind, {})), "--evaluate", "--out", str(tmp_path / "out")]
    dry = ace(*words, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert not (tmp_path / "out").exists()
    real = ace(*words)
    assert real.returncode == 0, real.stderr
    assert "one" in (tmp_path / "out" / "README.md").read_text()
