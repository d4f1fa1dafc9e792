"""Figures on paper: exact sizes, the same file each time, nothing that names could break."""

from __future__ import annotations

import csv
import io
import math
import re
import struct
from pathlib import Path

import pytest
from PIL import Image

from ace_gui.errors import OutputError, RecipeError
from ace_gui.figures import drawing
from ace_gui.figures.charts import (
    COLUMNS,
    Axis,
    Bars,
    Cells,
    Chart,
    Curve,
    Ink,
    Marks,
    Panel,
    caption_of,
    panel_kinds,
)
from ace_gui.figures.printing import picture, require_kind, table
from ace_gui.figures.sheet import Colours, Letters, Sheet

TENTH = 0.1
"""mm."""

NAMES = ["a $x$ b $", "<b>&amp;", "new\nline", "very " * 12, "Σ∞ 日本", ""]


def curves(width: float = 60.0, count: int = 1) -> Panel:
    points = [(float(i), 2.0**-i) for i in range(1, 20)]
    drawn = [
        Curve(name=name, points=[(x, y * (t + 1)) for x, y in points], ink=t)
        for t, name in enumerate(NAMES)
    ]
    merged = Curve(name="merged", points=points, ink=Ink.MERGED)
    before = Curve(name="before", points=points[:9], ink=Ink.BEFORE, dashed=True)
    chart = Chart(
        title=NAMES[0],
        x=Axis(title="index", low=1.0, high=19.0),
        y=Axis(title="σ", log=True),
        curves=[*drawn, merged, before],
    )
    return Panel(charts=[chart] * count, caption="curves", width=width)


def marks() -> Panel:
    families = ("attention", "MLP", "embedding", "norm", "other")
    drawn = [
        Marks(
            name=family,
            family=family,
            points=[(float(i), 0.1 * i) for i in range(1, 4)],
            labels=["one", "two", "three"],
            filled=bool(index % 2),
            crossed=index == 3,
        )
        for index, family in enumerate(families)
    ]
    chart = Chart(
        title="",
        x=Axis(title="tensor"),
        y=Axis(title="γ"),
        marks=drawn,
        limit=(0.25, "τ = 0.25"),
        note="× 3 of 15",
    )
    return Panel(charts=[chart], caption="marks", width=120.0)


def bars() -> Panel:
    drawn = [
        Bars(name=f"model {t}", heights=[0.5, math.nan, 0.7], errors=[0.1, math.nan, 0.2], ink=t)
        for t in range(3)
    ]
    chart = Chart(
        title="", x=Axis(title="", names=NAMES[:3]), y=Axis(title="score", low=0.0), bars=drawn
    )
    return Panel(charts=[chart], caption="bars", width=90.0)


def cells() -> Panel:
    grid = [[0.1, 0.2, math.nan], [0.01, 3.0, 0.5]]
    chart = Chart(
        title="",
        x=Axis(title="block", names=["0", "1", "2"]),
        y=Axis(title="", names=["query", "key"]),
        cells=Cells(title="γ", values=grid, log=True, dotted=[(1, 1)]),
    )
    return Panel(charts=[chart], caption="cells", width=100.0)


ALL = [curves(), marks(), bars(), cells()]


def millimetres(content: bytes, ending: str) -> tuple[float, float]:
    """The printed size, read from the file."""
    if ending == ".png":
        image = Image.open(io.BytesIO(content))
        dots = image.info["dpi"]
        return tuple(25.4 * n / d for n, d in zip(image.size, dots, strict=True))
    if ending == ".svg":
        match = re.search(rb'width="([\d.]+)pt" height="([\d.]+)pt"', content)
    else:
        match = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", content)
    assert match is not None
    return tuple(float(value) / 72 * 25.4 for value in match.groups())


@pytest.mark.parametrize("ending", [".pdf", ".svg", ".png"])
@pytest.mark.parametrize(
    "sheet",
    [
        Sheet(width=90.0),
        Sheet(width=190.0, height=222.0, names=True),
        Sheet(width=140.3, height=211.7, points=6.0, letters=Letters.SERIF, colours=Colours.GREY),
        Sheet(limits=False, crosses=False, before=False),
    ],
    ids=repr,
)
def test_a_figure_has_the_size_that_was_asked_for(sheet: Sheet, ending: str) -> None:
    content = picture(ALL, sheet, ending)
    width, height = millimetres(content, ending)
    assert abs(width - sheet.width) < TENTH
    assert abs(height - sheet.tall(ALL)) < TENTH


@pytest.mark.parametrize("ending", [".pdf", ".svg", ".png"])
def test_the_same_figure_is_the_same_file(ending: str) -> None:
    panels = [marks(), cells()]
    assert picture(panels, Sheet(), ending) == picture(panels, Sheet(), ending)


def test_the_letters_of_a_pdf_stay_letters() -> None:
    content = picture([marks()], Sheet(), ".pdf")
    assert b"/FontFile2" in content
    assert b"/Type3" not in content


def test_a_png_is_made_for_print() -> None:
    content = picture([marks()], Sheet(width=50.8), ".png")
    width, _ = struct.unpack(">II", content[16:24])
    assert width == 600


def test_panels_stand_beside_each_other_as_far_as_they_fit() -> None:
    wide = marks()
    narrow = curves()
    assert Sheet(width=190.0).rows([narrow, narrow, narrow]) == [[0, 1, 2]]
    assert Sheet(width=190.0).rows([wide, narrow, narrow]) == [[0, 1], [2]]
    assert Sheet(width=90.0).rows([wide, narrow]) == [[0], [1]]
    assert Sheet(width=190.0).tall([wide, narrow, narrow]) == 132.0


def test_the_table_has_every_value() -> None:
    rows = list(csv.reader(io.StringIO(table(ALL))))
    assert tuple(rows[0]) == COLUMNS
    expected = sum(len(curve.points) for curve in ALL[0].charts[0].curves) + 5 * 3 + 3 * 3 + 5
    assert len(rows) - 1 == expected
    assert {row[0] for row in rows[1:]} == {"a", "b", "c", "d"}
    crossed = [row for row in rows if row[6] == "unreliable"]
    assert [row[3] for row in crossed] == ["one", "two", "three"]


def test_a_caption_names_the_panels() -> None:
    assert caption_of([curves()]) == "Curves."
    assert caption_of([curves(), bars()]) == "Curves (a); bars (b)."


@pytest.mark.parametrize("size", [{"width": 3.0}, {"height": 1e9}, {"points": 0.0}])
def test_sizes_that_cannot_be_printed_are_refused(size: dict[str, float]) -> None:
    with pytest.raises(RecipeError, match="not"):
        Sheet(**size)


@pytest.mark.parametrize("ending", [".pdf", ".svg", ".png"])
def test_panels_without_room_are_refused(ending: str) -> None:
    with pytest.raises(RecipeError, match="do not fit on 25 × 20 mm"):
        picture(ALL, Sheet(width=25.0, height=20.0, points=12.0), ending)


def test_axes_so_low_that_numbers_cover_each_other_are_refused() -> None:
    panels = [marks(), curves(width=140.0, count=3)]
    assert picture(panels, Sheet(width=140.0, height=150.0), ".pdf")
    with pytest.raises(RecipeError, match="do not fit on 140 × 70 mm with letters of 8 points"):
        picture(panels, Sheet(width=140.0, height=70.0), ".pdf")


def test_every_curve_has_a_place_in_the_legend() -> None:
    names = ["_private", "", "a" * 100, "a" * 50 + "b" * 50]
    drawn = [Curve(name=name, points=[(0.0, 1.0), (1.0, 2.0)], ink=0) for name in names]
    chart = Chart(title="", x=Axis(title=""), y=Axis(title=""), curves=drawn)
    panel = Panel(charts=[chart], caption="curves", width=60.0)
    figure = drawing.drawn([panel], Sheet())
    (legend,) = figure.subfigs[0].subfigs[0].legends
    assert len(legend.get_texts()) == len(names)
    assert max(len(text.get_text()) for text in legend.get_texts()) < 40


def test_other_endings_and_panels_are_refused() -> None:
    with pytest.raises(OutputError, match=r"\.pdf, \.svg, \.png"):
        require_kind(Path("figure.jpg"))
    with pytest.raises(RecipeError, match="no panel 'gama'"):
        panel_kinds(["gama"])
    with pytest.raises(RecipeError, match="at least one"):
        panel_kinds([])
