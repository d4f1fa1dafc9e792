"""What the window shows of the sample unopened: ``python packaging/sample/make_figures.py``.

``pictures.png`` has a held-out image of each task side by side, ``figures.json`` the mean accuracy
of base, experts and every method with its defaults, from the help and ``docs/results.md``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
from PySide6.QtGui import QImage

from ace_gui.engine.capabilities import method_info
from ace_gui.methods import METHODS
from ace_gui.paths import Sample, resource_path
from ace_gui.recipe import recommended
from ace_gui.recipe.recipe_file import load_recipe

PICTURES = "sample/pictures.png"
FIGURES = "sample/figures.json"
_SHARE = re.compile(r"[01]\.\d{3}$")


def pictures() -> QImage:
    """The first held-out image of every task, one beside the other."""
    with np.load(resource_path("sample/heldout.npz")) as held_out:
        first = [held_out[f"{task}_images"][0] for task in _tasks()]
    strip = np.ascontiguousarray(np.concatenate(first, axis=1), dtype=np.uint8)
    height, width = strip.shape
    grey = QImage.Format.Format_Grayscale8
    return QImage(strip.data, width, height, width, grey).copy()


def figures() -> dict[str, object]:
    """The tasks, and mean accuracies: of base, of experts, and by method."""
    demo = _first_table(resource_path("help/sample.md"))
    compared = _first_table(Path(__file__).parents[2] / "docs/results.md")
    ends = _means(demo)
    means = _means(compared)
    named = {method_info(name).label(): name for name in METHODS}
    named[recommended.TITLE] = recommended.NAME
    methods = {named[title]: mean for title, mean in means.items() if title in named}
    return {
        "tasks": _tasks(),
        "base": ends["base"],
        "experts": ends["experts"],
        "methods": methods,
    }


def _first_table(page: Path) -> str:
    return page.read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]


def _tasks() -> list[str]:
    return [task.name for task in load_recipe(Sample.IMAGES.recipe).tasks]


def _means(table: str) -> dict[str, float]:
    """By the title of a line its sixth figure, which follows those of the five tasks."""
    found = {}
    for line in table.splitlines()[1:]:
        words = line.split()
        first = next(index for index, word in enumerate(words) if _SHARE.match(word))
        found[" ".join(words[:first])] = float(words[first + 5])
    return found


def main() -> None:
    """Write both files."""
    pictures().save(str(resource_path(PICTURES)))
    text = json.dumps(figures(), indent=1) + "\n"
    resource_path(FIGURES).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
