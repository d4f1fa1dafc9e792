"""A figure of a layer is declared once, and every place that shows figures has it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import ace_gui as library
from ace_gui.engine.contract import declared_figures
from ace_gui.engine.contract.declared_figures import DeclaredFigure
from ace_gui.engine.contract.findings import LayerReport
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.merging.tensor_merge import report_of
from ace_gui.method_figures import MethodFigures
from ace_gui.methods.shared.experts import Diagnostics
from tests.helpers.command import ace_gui
from tests.helpers.models import Family, roberta_family
from tests.helpers.new_figures import BEFORE_A_MERGE, LAYER, NEW_FIGURES, OF_A_MERGE
from tests.helpers.pages import Page
from tests.helpers.recipes import file_of

ROOT = Path(__file__).parents[1]
RELIED_ON = ["name", "role", "shape", "disposition", "reason", "gamma", "regime"]


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return roberta_family(tmp_path_factory.mktemp("family"))


@pytest.fixture(params=NEW_FIGURES, ids=lambda figure: figure.name)
def figure(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> DeclaredFigure:
    """A new figure, which is declared and nothing else."""
    declared = (*declared_figures.FIGURES, request.param)
    monkeypatch.setattr(declared_figures, "FIGURES", declared)
    return request.param


@pytest.mark.parametrize(
    ("new", "cell", "value"), [(BEFORE_A_MERGE, "−8.50", -8.5), (OF_A_MERGE, "3.00", 3.0)]
)
def test_the_window_shows_a_declared_figure(new: DeclaredFigure, cell: str, value: float) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.helpers.new_figures", new.name],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert result.returncode == 0, result.stderr
    window = json.loads(result.stdout)
    assert window["heading"] == new.title
    assert new.meaning in window["tooltip"]
    assert window["cell"].strip() == cell
    assert f"{new.title} {cell}" in window["row's tooltip"]
    headings, *lines = window["csv"]
    line = next(line for line in lines if line[0] == LAYER)
    assert line[headings.index(new.title)] == value
    assert (new.title in window["what if"]) == (new.of_report is not None)
    assert "–" not in window["what if"].get(new.title, "")


def test_inspect_and_the_librarys_frame_show_what_is_known_before_a_merge(
    figure: DeclaredFigure, family: Family, tmp_path: Path
) -> None:
    file = file_of(tmp_path, family)
    outputs = ("--json", tmp_path / "i.json", "--csv", tmp_path / "i.csv")
    result = ace_gui("inspect", file, *outputs, COLUMNS="200")
    assert result.returncode == 0, result.stderr
    written = json.loads((tmp_path / "i.json").read_text())
    assert all(list(layer) == [*RELIED_ON, "energies"] for layer in written["layers"])
    scales = {scale["name"]: scale for scale in written["scales"]}
    with (tmp_path / "i.csv").open(newline="") as opened:
        rows = {row["name"]: row for row in csv.DictReader(opened)}
    frame = library.inspect(file).to_frame().set_index("name")
    is_shown = figure.of_statistics is not None
    assert (figure.title in result.stdout) == is_shown
    assert (figure.name in frame.columns) == is_shown
    assert all((figure.name in scale) == is_shown for scale in scales.values())
    assert all((figure.name in row) == is_shown for row in rows.values())
    if is_shown:
        names = [name for name, scale in scales.items() if scale[figure.name] is not None]
        assert names
        for name in names:
            value = scales[name][figure.name]
            assert float(rows[name][figure.name]) == value
            assert frame[figure.name][name] == value


def test_the_report_shows_a_declared_figure(
    figure: DeclaredFigure, family: Family, tmp_path: Path
) -> None:
    file = file_of(tmp_path, family)
    result = ace_gui("report", file, "--out", tmp_path / "r.html", "--quiet")
    assert result.returncode == 0, result.stderr
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    cells = page.table("All tensors").column(figure.title).values()
    assert any(cell != "–" for cell in cells)


def test_every_figure_has_its_own_names_and_one_source() -> None:
    figures = declared_figures.FIGURES
    for words in ("name", "title"):
        assert len({getattr(figure, words) for figure in figures}) == len(figures)
    for figure in figures:
        assert (figure.of_statistics is None) != (figure.of_report is None), figure.name


def test_a_methods_figure_is_a_field_once_and_reaches_the_merges_report() -> None:
    names = [field.name for field in fields(MethodFigures)]
    values = {name: float(index) for index, name in enumerate(names, start=1)}
    row = PlanRow(
        name="layer",
        role="query",
        shape=(4, 3),
        dtype="F32",
        disposition=Disposition.MERGED,
        reason="",
    )
    report = report_of(row, (), Diagnostics(**values), 1.0)
    assert {name: getattr(report, name) for name in names} == values
    # A number that only one of both has would not get from the method to the report.
    numbers = {field.name for field in fields(Diagnostics) if field.type == "float | None"}
    assert numbers == set(names)
    assert numbers < {field.name for field in fields(LayerReport)}
