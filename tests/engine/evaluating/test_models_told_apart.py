"""Models that differ in a head or an adapter alone are told apart, whatever was loaded before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import ace_gui
from ace_gui.engine.evaluating.subjects import Models
from ace_gui.engine.planning.prepare import prepare
from ace_gui.recipe.recipe_file import load_recipe
from tests.engine.evaluating.test_adapters_with_heads import save_adapter
from tests.helpers.calibrated_models import written
from tests.helpers.scored_models import save_bert

NAMES = ("one", "two", "three")


def fine_tunes(folder: Path) -> None:
    """Classifiers with equal configs, each with a head of its own."""
    save_bert(folder / "base", "MaskedLM")
    for seed, name in enumerate(NAMES, 1):
        save_bert(folder / name, "SequenceClassification", seed=seed)


def adapters(folder: Path) -> None:
    """Adapters of one base, with heads of one shape."""
    save_bert(folder / "base", "SequenceClassification")
    for seed, name in enumerate(NAMES, 1):
        save_adapter(folder / "base", folder / name, "SEQ_CLS", 2, seed=seed)


def recipe(folder: Path) -> Path:
    """Every expert with a task of its own."""
    file = written(folder, NAMES, "text,label", lambda text: f"{text},{len(text) % 2}")
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"merge_method": "linear", "heads": "keep"}))
    return file


@pytest.mark.parametrize("make", [fine_tunes, adapters])
def test_all_scores_together_are_those_of_each_alone(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path)
    file = recipe(tmp_path)
    out = ace_gui.merge(file, tmp_path / "out", device="cpu").folder
    models = {"merge": out}
    together = ace_gui.evaluate(file, models, device="cpu").scores
    content = json.loads(file.read_text())
    tasks = content.pop("tasks")
    alone = {}
    for number, task in enumerate(tasks):
        single = file.with_name(f"single-{number}.yaml")
        single.write_text(json.dumps(content | {"tasks": [task]}))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(tmp_path / f"cache-{number}"))
            for score in ace_gui.evaluate(single, models, device="cpu").scores:
                alone[score.model, score.task] = score
    for score in together:
        expected = alone[score.model, score.task]
        assert score.each_N.tolist() == expected.each_N.tolist(), (score.model, score.task)
    of_merge = [s.each_N.tolist() for s in together if s.model == "merge"]
    assert len(of_merge) == len(NAMES)


@pytest.mark.parametrize("make", [fine_tunes, adapters])
def test_no_two_sources_are_equal(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path)
    file = recipe(tmp_path)
    out = ace_gui.merge(file, tmp_path / "out", device="cpu").folder
    prepared = prepare(load_recipe(file))
    models = Models(prepared.models, (out,))
    subjects = models.subjects()
    sources = []
    for t, task in enumerate(prepared.recipe.tasks):
        sources.append(models.loading(subjects[1 + t], task))
        sources.append(models.loading(subjects[-1], task))
    for index, source in enumerate(sources):
        assert source not in sources[:index]
        assert source == sources[index]
