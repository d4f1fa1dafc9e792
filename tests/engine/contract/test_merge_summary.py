"""A merge in words: where experts differ, what was done, and whether it is any good."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace_gui.engine.contract.figure_content import FigureContent
from ace_gui.engine.contract.findings import LayerReport, LayerStatistics
from ace_gui.engine.contract.merge_summary import NextStep, Paragraph, summary_of, text_of
from ace_gui.engine.contract.plan import Disposition
from ace_gui.recipe.values import Task
from tests.gui.fakes import COLA, SST2, plan, recipe, row, task_score

ROWS = (
    row("layer.0.q", block=0),
    row("layer.1.q", block=1),
    row("layer.2.q", block=2),
    row("layer.2.down", block=2, role="MLP down"),
    row("norm", role="norm", disposition=Disposition.AVERAGED),
    row("head", role="head", disposition=Disposition.PER_EXPERT),
)


def content(
    gammas: tuple[float, ...],
    *,
    means: float = -5.0,
    energies: tuple[float, float] = (1e-4, 9e-4),
    **changes: object,
) -> FigureContent:
    """Four matrices with these γ."""
    names = [tensor.name for tensor in ROWS if tensor.is_merged]
    statistics = {
        name: LayerStatistics(
            name=name,
            gamma=gamma,
            mean_log_energy=means,
            base_energy=1.0,
            energies=dict(zip(("cola", "sst2"), energies, strict=True)),
        )
        for name, gamma in zip(names, gammas, strict=True)
    }
    of = changes.pop("recipe", recipe(COLA, SST2))
    return FigureContent(plan=plan(of, ROWS), statistics=statistics, **changes)  # type: ignore[arg-type]


def links(paragraph: Paragraph) -> dict[str, tuple[str, ...]]:
    return {words.text: words.tensors for words in paragraph if words.tensors}


@pytest.mark.parametrize(
    ("gammas", "words", "named"),
    [
        ((0.0, 0.001, 0.01, 0.01), "The experts are equally strong in all 4 matrices.", {}),
        (
            (0.0, 0.1, 0.2, 0.01),
            "Nearly alike in all 4 matrices. Most apart: Block 2, query: sst2 changes it 3.0 times "
            "as much as cola.",
            {"Block 2, query": ("layer.2.q",)},
        ),
        (
            (0.9, 0.8, 0.01, 0.4),
            "Nearly alike in 1 of 4 matrices. Blocks 0 and 1, query; block 2, MLP down: sst2 "
            "changes them 3.0 times as much as cola.",
            {
                "Blocks 0 and 1, query": ("layer.0.q", "layer.1.q"),
                "block 2, MLP down": ("layer.2.down",),
            },
        ),
        (
            (0.9, 0.8, 0.7, 0.4),
            "They differ in all 4 matrices: Blocks 0 to 2, query; block 2, MLP down: sst2 changes "
            "them 3.0 times as much as cola.",
            None,
        ),
    ],
)
def test_places_where_experts_differ_are_links(gammas, words, named):
    differences = summary_of(content(gammas), "merge").differences
    assert text_of(differences) == words
    assert named is None or links(differences) == named


def test_gamma_by_scale_alone_is_no_difference_and_says_why():
    differences = summary_of(content((0.9, 0.8, 0.7, 0.4), means=0.1), "merge").differences
    assert text_of(differences).startswith("In 4 matrices γ is large by scale alone, marked “?”")
    assert len(links(differences)["4 matrices"]) == 4
    assert "differ in all" not in text_of(differences)


def test_what_the_merge_did():
    reports = {
        "layer.0.q": LayerReport(name="layer.0.q", delta_norm=0.02, cap_factor=0.9),
        "layer.1.q": LayerReport(name="layer.1.q", delta_norm=0.02, cap_factor=1.0),
    }
    changes = summary_of(content((0.1,) * 4, reports=reports), "merge").changes
    text = text_of(changes)
    assert " × an expert's on average." in text
    assert "The cap shortened 1 matrix, by 10\u00a0%." in text
    assert links(changes) == {"1 matrix": ("layer.0.q",)}
    assert "Norms are averaged." in text
    assert "Heads are kept for each expert." in text


@pytest.mark.parametrize("has_tasks", [True, False])
def test_without_scores_two_ways_to_find_out_are_offered(has_tasks):
    tasks = (Task(data=Path("data.csv")),) if has_tasks else ()
    merge_content = content((0.1,) * 4, recipe=recipe(COLA, SST2, tasks=tasks))
    steps = [words.step for words in summary_of(merge_content, "merge").quality if words.step]
    second_step = NextStep.EVALUATE if has_tasks else NextStep.ADD_DATA
    assert steps == [NextStep.TRY, second_step]
    plain = summary_of(merge_content, "merge", offers=False, warned=2).quality
    assert text_of(plain) == "Not measured. 2 tensors have warnings."


def test_with_scores_the_merge_is_compared():
    scores = [
        task_score("base", "cola", 0.25, normalised=0.5),
        task_score("cola", "cola", 0.5, on_own_task=True),
        task_score("merge", "cola", 0.5, normalised=0.9),
    ]
    quality = summary_of(content((0.1,) * 4, scores=scores), "merge").quality
    assert text_of(quality) == (
        "Keeps 90\u00a0% of what the experts reach: 0.5 (base 0.25, experts 0.5)."
    )


def test_a_mean_from_an_earlier_window_is_said():
    quality = summary_of(content((0.1,) * 4), "merge", mean=0.806).quality
    assert text_of(quality) == "Scores 0.806 on its tasks. Score base and experts to compare."


def test_the_title_counts_experts_and_matrices():
    merge_content = content((0.1,) * 4)
    assert summary_of(merge_content, "merge").title == "Two experts merged: 4 matrices"
    assert summary_of(merge_content, "merge", seconds=41.0).title.endswith(" in 0:41")
