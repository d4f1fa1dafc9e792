"""A merged language model is tried on usual text; the merge stays as it is."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import ace_gui
from ace_gui.engine.contract.events import MergeFinished
from ace_gui.engine.contract.jobs import ExportJob, MergeJob
from ace_gui.engine.contract.sanity import CAUSES, FAR, SanityResult
from ace_gui.engine.evaluating import sanity_check
from ace_gui.engine.evaluating.sanity_check import kept_result, lines_task
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.service import run
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe, recipe_from
from ace_gui.recipe.values import SanityCheck
from tests.helpers.command import ace_gui as command
from tests.helpers.merges import files
from tests.helpers.recipes import file_over, recipe_over
from tests.helpers.scored_models import save_bert, save_chat_model


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base that takes all tokens for equally probable, and two fine-tunes near it."""
    folder = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(("base", "a", "b")):
        model = save_chat_model(folder / name)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for value in model.parameters():
                value.mul_(0.1)
                if seed:
                    value.add_(0.01 * torch.randn(value.shape, generator=generator))
        model.save_pretrained(folder / name)
    return folder


def keys(models: Path, **more: Any) -> dict[str, Any]:
    experts = [{"model": str(models / name)} for name in "ab"]
    return {"schema": 1, "base_model": str(models / "base"), "models": experts, **more}


def perplexity_of(folder: Path) -> float:
    """By transformers, one text after the other."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    total = 0.0
    count = 0
    for line in lines_task().data.read_text(encoding="utf-8").splitlines():
        ids = tokenizer(json.loads(line)["text"], return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            loss = model(input_ids=ids, labels=ids).loss
        total += float(loss) * (ids.shape[1] - 1)
        count += ids.shape[1] - 1
    return math.exp(total / count)


def test_perplexities_are_those_of_transformers(models: Path, tmp_path):
    document = keys(models, merge_method="linear")
    result = ace_gui.merge(document, tmp_path / "out", check=True).sanity
    assert result is not None
    exact = {name: perplexity_of(models / name) for name in ("base", "a", "b")}
    assert result.perplexities == pytest.approx(exact, rel=1e-4)
    assert result.merged == pytest.approx(perplexity_of(tmp_path / "out"), rel=1e-4)
    assert not result.is_far
    assert result.sentence.startswith("Sanity check: on usual text the perplexity of the merge is ")
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert result.sentence in card


def test_a_broken_merge_gets_a_warning_everywhere(models: Path, tmp_path):
    document = keys(models, merge_method="task_arithmetic", check=True)
    for expert in document["models"]:
        expert["parameters"] = {"weight": 400.0}
    (tmp_path / "recipe.yaml").write_text(json.dumps(document))
    words = ["merge", tmp_path / "recipe.yaml", "--out", tmp_path / "out", "--json", tmp_path / "j"]
    ended = command(*words)
    assert ended.returncode == 0, ended.stderr
    assert "On usual text the merge is far worse" in ended.stdout
    assert CAUSES in ended.stdout
    figures = json.loads((tmp_path / "j").read_text())
    assert figures["sanity"]["merged"] > FAR * max(figures["sanity"]["perplexities"].values())
    assert any(CAUSES in line for line in figures["warnings"])
    assert CAUSES in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def test_the_window_merges_store_and_report_have_it(models: Path, tmp_path):
    recipe = recipe_from(keys(models, merge_method="linear", check="on"))
    events = list(run(MergeJob(recipe=recipe, store=tmp_path / "store")))
    [finished] = [event for event in events if isinstance(event, MergeFinished)]
    assert finished.sanity is not None
    assert finished.sanity == kept_result(tmp_path / "store")
    list(run(ExportJob(store=tmp_path / "store", folder=tmp_path / "out")))
    assert "Tried on usual text" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def test_it_never_changes_the_result(models: Path, tmp_path):
    made = {}
    for choice in (True, False):
        ace_gui.merge(keys(models), tmp_path / str(choice), check=choice)
        made[choice] = files(tmp_path / str(choice))
        del made[choice]["README.md"], made[choice]["merge_recipe.yaml"]
    assert made[True] == made[False]


def test_a_merge_is_resumed_with_another_choice(models: Path, tmp_path):
    recipes = [recipe_from(keys(models, check=choice)) for choice in (False, True)]
    steps = merge(prepare(recipes[0]), tmp_path / "store", device="cpu")
    for _ in range(4):
        next(steps)
    steps.close()
    events = merge(prepare(recipes[1]), tmp_path / "store", device="cpu", resume=True, check=True)
    assert isinstance([event for event in events if event is not None][-1], MergeFinished)


@pytest.mark.parametrize(
    ("written", "choice"),
    [
        ("auto", SanityCheck.AUTO),
        (True, SanityCheck.ON),
        (False, SanityCheck.OFF),
        ("on", SanityCheck.ON),
        ("off", SanityCheck.OFF),
    ],
)
def test_the_key_of_a_recipe(written: object, choice: SanityCheck, models: Path, tmp_path):
    file = file_over(tmp_path, models / "base", [models / "a"], check=written)
    assert load_recipe(file).check is choice
    file.write_text(dump_recipe(load_recipe(file), tmp_path), encoding="utf-8")
    assert load_recipe(file).check is choice


def finished(recipe: Any, store: Path) -> SanityResult | None:
    *_, last = merge(prepare(recipe), store, device="cpu", check=True)
    assert isinstance(last, MergeFinished)
    return last.sanity


@pytest.mark.parametrize(
    ("limits", "reason"),
    [({"QUICK": 0.0, "SHARE": 0.0}, "it would take about"), ({"SMALL": 0}, "of memory")],
)
def test_where_it_is_costly_it_says_how_to_ask(
    limits: dict[str, float], reason: str, models: Path, tmp_path, monkeypatch
):
    if "SMALL" in limits:
        monkeypatch.setattr(sanity_check, "free_memory", lambda: 1000)
    for name, value in limits.items():
        monkeypatch.setattr(sanity_check, name, value)
    result = finished(recipe_from(keys(models)), tmp_path / "auto")
    assert result is not None
    assert reason in result.sentence
    assert "--check" in result.sentence
    assert "--" not in result.sentence_in_window
    assert "`" not in result.sentence_in_window
    assert "“always” for Check" in result.sentence_in_window
    assert result.warnings == ()
    if "QUICK" in limits:
        sanity = finished(recipe_from(keys(models, check=True)), tmp_path / "on")
        assert sanity is not None
        assert not sanity.skipped
    assert finished(recipe_from(keys(models, check=False)), tmp_path / "off") is None


def test_cheap_merges_are_tried_without_asking(models: Path, tmp_path):
    result = finished(recipe_from(keys(models)), tmp_path / "auto")
    assert result is not None
    assert math.isfinite(result.merged)


def test_other_models_are_left_out(tmp_path):
    for seed, name in enumerate(("base", "a", "b")):
        save_bert(tmp_path / name, "MaskedLM", seed=seed)
    recipe = recipe_over(tmp_path / "base", [tmp_path / "a", tmp_path / "b"])
    assert finished(recipe, tmp_path / "auto") is None
    checked_recipe = recipe_over(
        tmp_path / "base", [tmp_path / "a", tmp_path / "b"], check=SanityCheck.ON
    )
    result = finished(checked_recipe, tmp_path / "on")
    assert result is not None
    assert result.sentence == "No sanity check: it is for language models."


@pytest.mark.parametrize("error", [RuntimeError("a kernel is missing"), ValueError("odd")])
def test_an_error_does_not_lose_the_merge(error: Exception, models: Path, tmp_path, monkeypatch):
    def failing(*_: object, **__: object) -> Any:
        raise error
        yield

    monkeypatch.setattr(sanity_check, "evaluate", failing)
    result = ace_gui.merge(keys(models), tmp_path / "out", check=True).sanity
    assert result is not None
    assert str(error) in result.sentence
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_nan_is_far():
    result = SanityResult(perplexities={"base": 20.0}, merged=math.nan, seconds=1.0)
    assert result.is_far
    assert "perplexity not a number, theirs 20" in result.sentence
    assert result.record()["merged"] is None
