"""Scores open models, names and heads. No merge is planned for them."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
import torch
import transformers

import ace_gui
from ace_gui.engine.contract.jobs import DescribeTasksJob, EvaluateJob, KnownScoresJob, RoutesJob
from ace_gui.engine.planning.opening import open_recipe_models
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.service import run
from ace_gui.paths import Sample
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe, recipe_from
from ace_gui.steps import result_of
from tests.helpers.adapters import factors, save_adapter
from tests.helpers.scored_models import save_bert

PACKAGE = Path(ace_gui.__file__).parent
OPENING = frozenset(
    f"engine/planning/{name}.py"
    for name in (
        *("models", "opening", "recipe_models", "slices", "stages", "stored_ties"),
        *("task_heads", "tied_groups"),
    )
)
"""The files of the planner's room that open models and find their heads."""


def files_entered(action: Callable[[], object]) -> set[str]:
    """The files of the package whose functions an action calls, relative to the package."""
    files = set[str]()

    def called(frame: FrameType, event: str, _argument: object) -> None:
        is_function = frame.f_code.co_flags & 2  # CO_NEWLOCALS: neither a module nor a class body
        if event == "call" and is_function:
            files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        action()
    finally:
        sys.setprofile(before)
    paths = map(Path, files)
    return {path.relative_to(PACKAGE).as_posix() for path in paths if PACKAGE in path.parents}


def planner(files: set[str]) -> set[str]:
    """Those of the files that plan a merge."""
    return {name for name in files if name.startswith("engine/planning/")} - OPENING


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    """Scored once, so that no library is imported while calls are counted, which is slow."""
    recipe = load_recipe(Sample.IMAGES.recipe)
    list(run(EvaluateJob(recipe=recipe, limit=1, device="cpu")))
    return recipe


def evaluated(recipe: Recipe) -> Iterator[object]:
    return run(EvaluateJob(recipe=recipe, limit=2, device="cpu"))


def looked_up(recipe: Recipe) -> Iterator[object]:
    return run(KnownScoresJob(recipe=recipe, limit=2, device="cpu"))


def routed(recipe: Recipe) -> Iterator[object]:
    return run(RoutesJob(recipe=recipe, limit=2, device="cpu"))


def described(recipe: Recipe) -> Iterator[object]:
    return run(DescribeTasksJob(recipe=recipe, tasks=recipe.tasks[:1]))


@pytest.mark.parametrize("job", [evaluated, looked_up, routed, described])
def test_no_job_about_scores_plans_a_merge(job: Callable[[Recipe], Iterator[object]], recipe):
    files = files_entered(lambda: list(job(recipe)))
    assert "engine/planning/opening.py" in files
    assert not planner(files)


def test_models_with_pickles_are_converted_without_a_plan(recipe):
    job = EvaluateJob(recipe=recipe, limit=2, device="cpu")
    assert not planner(files_entered(lambda: list(run(job, convert=True))))


def test_a_folder_alone_is_opened_once_more_and_nothing_else(recipe):
    """It has neither base nor experts: fewer files are entered than with a recipe."""
    folder = recipe.models[0].model
    task = recipe.tasks[0]
    alone = files_entered(
        lambda: list(
            run(EvaluateJob(recipe=None, folders=(folder,), tasks=(task,), limit=2, device="cpu"))
        )
    )
    assert {name for name in alone if name.startswith("engine/planning/")} == {
        "engine/planning/models.py"
    }
    assert not any(name.startswith(("methods/", "engine/merging/")) for name in alone)
    assert len(alone) <= 38  # also models kept for *Try it*, which make room


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model whose head is its embedding, classifiers of it, and a change of one."""
    folder = tmp_path_factory.mktemp("family")
    save_bert(folder / "base", "MaskedLM")
    for seed, labels in enumerate((2, 2, 3), 1):
        names = {index: f"label {index}" for index in range(labels)}
        save_bert(folder / f"expert-{seed}", "SequenceClassification", seed=seed, id2label=names)
    save_bert(folder / "language", "MaskedLM", seed=5)
    model = transformers.BertForMaskedLM.from_pretrained(folder / "language")
    model.config.tie_word_embeddings = False
    weight = model.cls.predictions.decoder.weight
    model.cls.predictions.decoder.weight = torch.nn.Parameter(weight.detach() + 0.1)
    model.save_pretrained(folder / "untied")
    module = "bert.encoder.layer.0.attention.self.query"
    save_adapter(folder / "adapter", factors(module, 16, 16))
    return folder


EXPERTS = (
    ("expert-1",),
    ("expert-1", "expert-2"),
    ("expert-1", "expert-3"),
    ("language", "expert-1"),
    ("untied", "language"),
    ("adapter", "expert-2"),
)
CHOICES = (
    {},
    {"heads": "keep"},
    {"scope": "authors-roberta"},
    {"poolers": "merge"},
    {"overrides": [{"role": "head", "disposition": "merge"}]},
)


@pytest.mark.parametrize("choices", CHOICES, ids=json.dumps)
@pytest.mark.parametrize("names", EXPERTS, ids="-".join)
def test_what_stays_with_an_expert_is_what_the_plan_keeps(names, choices, family: Path):
    recipe = recipe_from(
        {
            "merge_method": "linear",
            "base_model": str(family / "base"),
            "models": [{"model": str(family / name)} for name in names],
            **choices,
        }
    )
    opened = result_of(open_recipe_models(recipe))
    planned = prepare(recipe).models
    assert opened.kept_T == planned.kept_T
    assert [expert.own_names for expert in opened.experts] == [
        expert.own_names for expert in planned.experts
    ]
    assert opened.base.checkpoint.identity == planned.base.checkpoint.identity


def test_some_of_these_keep_heads_and_some_do_not(family: Path):
    """The test above compares something."""
    counts = set()
    for names in EXPERTS:
        models = [{"model": str(family / name)} for name in names]
        recipe = recipe_from(
            {"merge_method": "linear", "base_model": str(family / "base"), "models": models}
        )
        counts |= {len(heads) for heads in result_of(open_recipe_models(recipe)).kept_T}
    assert len(counts) > 1


def test_models_that_cannot_be_merged_are_scored_alike(family: Path):
    """Too few experts for the method, or a parameter out of its range, do not concern scores."""
    (family / "data.csv").write_text("text,label\nthe cat,label 0\na dog,label 1\n")
    recipe = {
        "base_model": str(family / "base"),
        "models": [{"model": str(family / "expert-1")}],
        "tasks": [{"data": str(family / "data.csv"), "expert": "expert-1"}],
    }
    plain, wrong = (
        ace_gui.evaluate({**recipe, **choices}, device="cpu").scores
        for choices in ({"merge_method": "linear"}, {"merge_method": "slerp"})
    )
    assert [(score.model, score.score) for score in plain] == [
        (score.model, score.score) for score in wrong
    ]
