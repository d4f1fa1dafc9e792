"""Formulas are drawn in the colour of text, for every method; papers can be opened."""

from __future__ import annotations

import html
import re

import pytest
from PySide6.QtGui import QColor
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QLabel

from ace_gui.gui.theme import DARK, LIGHT, set_scheme
from ace_gui.gui.widgets.labels import citation, formula
from ace_gui.methods.registry import METHODS
from ace_gui.paths import resource_path
from ace_gui.recipe.recommended import FORMULA, NAME
from tests.helpers.windows import in_view

FORMULAS = {name: method.formula for name, method in METHODS.items()} | {NAME: FORMULA}


def test_drawings_are_of_methods_there_are_and_can_be_drawn(qapp):
    files = sorted(resource_path("formulas").glob("*.svg"))
    assert len(files) > 30
    for file in files:
        assert file.stem in FORMULAS
        renderer = QSvgRenderer(str(file))
        assert renderer.isValid()
        assert renderer.defaultSize().width() > 100


@pytest.mark.parametrize("method", FORMULAS)
def test_each_of_several_lines_has_a_name_in_the_drawing(method):
    lines = FORMULAS[method].split("\n")
    if len(lines) > 1:
        drawing = resource_path(f"formulas/{method}.svg").read_text("utf-8")
        drawn = re.findall(r"<text[^>]*>([^<]+)</text>", drawing)
        names = [line.partition(": ")[0] for line in lines]
        assert [html.unescape(name) for name in drawn] == names
        assert names[0] == "merged matrix"


def darkest_and_lightest(widget) -> tuple[int, int]:
    image = widget.grab().toImage()
    values = [
        image.pixelColor(x, y).lightness()
        for x in range(image.width())
        for y in range(image.height())
    ]
    return min(values), max(values)


def test_a_formula_is_in_the_colour_of_text_in_both_schemes(qtbot):
    drawn = in_view(qtbot, formula("ties", METHODS["ties"].formula), width=500, height=120)
    try:
        set_scheme("light")
        assert darkest_and_lightest(drawn)[0] <= QColor(LIGHT.text).lightness() + 8
        set_scheme("dark")
        assert darkest_and_lightest(drawn)[1] >= QColor(DARK.text).lightness() - 8
    finally:
        set_scheme("system")


def test_a_formula_has_its_words_for_a_screen_reader_and_shrinks_to_its_room(qtbot):
    drawn = formula("ace", METHODS["ace"].formula)
    qtbot.addWidget(drawn)
    assert drawn.accessibleName().startswith("Formula: merged matrix: W = W₀")
    size = drawn.sizeHint()
    assert drawn.heightForWidth(size.width() // 2) == pytest.approx(size.height() / 2, abs=2)


def test_a_method_of_ones_own_shows_its_formula_as_text(qtbot):
    label = formula("no_such_method", "W = W₀")
    qtbot.addWidget(label)
    assert isinstance(label, QLabel)
    assert label.text() == "W = W₀"


def test_a_paper_on_arxiv_is_a_link_and_other_signs_are_text(qtbot):
    label = citation("A & B, <i>Title</i>, 2024, arXiv:2403.13257")
    qtbot.addWidget(label)
    assert 'href="https://arxiv.org/abs/2403.13257"' in label.text()
    assert "&lt;i&gt;" in label.text()
    assert "<" not in label.accessibleName().replace("<i>", "").replace("</i>", "")
    assert label.openExternalLinks()
