"""The table of all methods is what the command prints."""

from math import nan
from pathlib import Path

import pytest

from ace_gui.cli.evaluating import merged_and_measured
from ace_gui.engine.inspecting.compare_recipes import by_method, title_of
from ace_gui.methods import every_variant, method_variant
from ace_gui.paths import Sample
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.recommended import NAME

PAGE = Path(__file__).parents[2] / "docs/results.md"
SECTION = "## Methods on the sample project"
FIGURES = 5 + 1 + 1 + 3 + 1  # accuracies, mean, texts, norm, distance, cosine, oracle


def written() -> dict[str, list[float]]:
    """The figures of every line of the table, by the method's title."""
    section = PAGE.read_text(encoding="utf-8").split(SECTION)[1]
    lines = section.split("```text\n")[1].split("```")[0].splitlines()
    cells = [line.rsplit(maxsplit=FIGURES) for line in lines[1:]]
    return {
        title.strip(): [nan if cell == "–" else float(cell) for cell in figures]
        for title, *figures in cells
    }


def test_it_has_every_method() -> None:
    several = [name for name in every_variant() if method_variant(name)[0].most is None]
    named = [NAME, *several]
    titles = {title_of(recipe) for recipe in by_method(load_recipe(Sample.IMAGES.recipe), named)}
    assert written().keys() == titles


def test_some_of_its_lines_are_what_a_run_gives() -> None:
    table = written()
    recipes = by_method(
        load_recipe(Sample.IMAGES.recipe), [NAME, "ace", "ace:automatic", "linear", "ties", "tsv_m"]
    )
    for row in merged_and_measured(recipes, "cpu"):
        accuracies = [*row.by_task.values(), row.mean.score]
        # Another processor rounds differently: an image or two of 400 may change sides.
        assert accuracies == pytest.approx(table[row.title][:6], abs=0.008), row.title
        cosine = sum(row.cosines.values()) / len(row.cosines)
        figures = [row.relative_norm, row.mean_distance, cosine]
        assert figures == pytest.approx(table[row.title][7:10], rel=0.01, abs=0.006), row.title
