"""A plot read as a table: the same figures, in any order, and the same selection."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from PySide6.QtCore import QItemSelectionModel, QPersistentModelIndex, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester

from ace_gui.errors import OutputError
from ace_gui.gui.models.figures_model import FigureColumn, FiguresModel, cell_text, write_csv
from ace_gui.gui.plots.frame.base_plot import PlotWithTable
from ace_gui.gui.plots.one_layer_plots import EnergiesPlot
from ace_gui.gui.saving import protect
from ace_gui.gui.widgets.tables import copy_table
from tests.helpers.windows import in_view

NAMES = ("b", "a", "c", "d")
VALUES = np.array([2.0, np.nan, 1e-7, 3.0])
COLUMNS = (
    FigureColumn("name", NAMES),
    FigureColumn("value", VALUES, "What it is"),
    FigureColumn("count", np.array([10, 9, 8, 7])),
)


class Drawn(EnergiesPlot):
    """A plot with the columns above, which counts how often they are read."""

    reads = 0

    def columns(self) -> tuple[FigureColumn, ...]:
        self.reads += 1
        return COLUMNS


@pytest.fixture
def plot_with_table(qtbot) -> PlotWithTable:
    widget = in_view(qtbot, PlotWithTable(Drawn()), width=500, height=300)
    widget.plot.show_energies("layer", dict.fromkeys(NAMES, 1.0), {})
    return widget


def column(model: FiguresModel, number: int) -> list[str]:
    return [model.index(row, number).data() for row in range(model.rowCount())]


def test_numbers_sort_as_numbers_and_unknown_comes_last(qtbot):
    model = FiguresModel()
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal, model)
    model.set_columns(COLUMNS)
    persistent = QPersistentModelIndex(model.index(model.position(3), 1))
    for order, expected in (
        (Qt.SortOrder.AscendingOrder, "cbda"),
        (Qt.SortOrder.DescendingOrder, "dbca"),
    ):
        model.sort(1, order)
        assert column(model, 0) == list(expected)
        assert model.source_row(persistent.row()) == 3
    model.sort(0, Qt.SortOrder.AscendingOrder)
    assert column(model, 0) == sorted(NAMES)
    model.sort(-1)
    assert column(model, 0) == list(NAMES)


def test_a_csv_file_keeps_every_digit(tmp_path):
    write_csv(COLUMNS, tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        title, *rows = list(csv.reader(file))
    assert title == ["name", "value", "count"]
    assert [row[0] for row in rows] == list(NAMES)
    assert [float(row[1] or "nan") for row in rows] == pytest.approx(VALUES, rel=0, nan_ok=True)
    with pytest.raises(OutputError, match="no such folder"):
        write_csv(COLUMNS, tmp_path / "no such folder" / "table.csv")


def test_the_table_takes_the_plots_place_and_a_messages_not(plot_with_table, qtbot):
    assert plot_with_table.table_button.isVisible()
    plot_with_table.table_button.click()
    assert plot_with_table.shows_table
    assert plot_with_table.table.isVisible()
    assert not plot_with_table.plot.isVisible()
    assert column(plot_with_table.model, 0) == list(NAMES)
    plot_with_table.plot.clear("Nothing here.")
    qtbot.waitUntil(lambda: not plot_with_table.shows_table)
    plot_with_table.plot.show_energies("layer", {"a": 1.0}, {})
    qtbot.waitUntil(lambda: plot_with_table.shows_table)
    plot_with_table.show_table(False)
    assert plot_with_table.plot.isVisible()


def test_the_figures_are_read_only_for_a_table_that_is_shown(qtbot):
    widget = PlotWithTable(Drawn())
    qtbot.addWidget(widget)
    widget.plot.show_energies("layer", {"a": 1.0}, {})
    assert not widget.plot.reads
    widget.show_table(True)
    assert widget.plot.reads == 1
    with qtbot.waitSignal(widget.model.modelReset):
        for energy in range(2, 7):
            widget.plot.show_energies("layer", {"a": float(energy)}, {})
    assert widget.plot.reads == 2


def test_rows_are_chosen_and_marked_in_any_order(plot_with_table, qtbot):
    chosen: list[int] = []
    plot_with_table.row_chosen.connect(chosen.append)
    plot_with_table.show_table(True)
    plot_with_table.model.sort(0, Qt.SortOrder.AscendingOrder)
    plot_with_table.select(2)
    assert plot_with_table.table.currentIndex().data() == "c"
    assert not chosen
    qtbot.keyClick(plot_with_table.table, Qt.Key.Key_Down)
    assert chosen == [NAMES.index("d")]
    plot_with_table.select(None)
    assert not plot_with_table.table.selectionModel().hasSelection()


def test_the_table_is_copied_whole_or_as_selected(plot_with_table):
    plot_with_table.show_table(True)
    plot_with_table.copy()
    assert QGuiApplication.clipboard().text().splitlines()[1] == "b\t2.0\t10"
    flags = QItemSelectionModel.SelectionFlag
    for row in (0, 2):
        index = plot_with_table.model.index(row, 0)
        plot_with_table.table.selectionModel().select(index, flags.Select | flags.Rows)
    plot_with_table.copy()
    assert [line[0] for line in QGuiApplication.clipboard().text().splitlines()[1:]] == ["b", "c"]


def test_columns_share_the_room_that_is_left(plot_with_table, qtbot):
    plot_with_table.show_table(True)
    for width in (900, 1300):
        plot_with_table.resize(width, 400)
        qtbot.waitUntil(
            lambda: (
                plot_with_table.table.horizontalHeader().length()
                == plot_with_table.table.viewport().width()
            )
        )
        assert not plot_with_table.table.horizontalScrollBar().isVisible()


@pytest.mark.usefixtures("qapp")
def test_negative_numbers_have_a_minus_to_read_and_a_hyphen_to_copy():
    texts = {
        np.float64("nan"): "–",
        np.float64(0.123456789): "0.12346",
        np.int64(1234567): "1234567",
    }
    assert [cell_text(value) for value in texts] == list(texts.values())
    assert cell_text(np.float64(-1.5e-7)) == "−1.5e−07"
    model = FiguresModel()
    model.set_columns([FigureColumn("x", np.array([2.0, -1.0]))])
    (chosen,) = model.columns_of([1])
    copy_table([chosen])
    assert QGuiApplication.clipboard().text() == "x\n-1.0"


def test_nothing_is_saved_over_an_open_model(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "vocab.csv").write_text("kept")
    protect(lambda: [model])
    try:
        for name in ("model/vocab.csv", "model/new.csv", "model/new"):
            with pytest.raises(OutputError, match="inside the model"):
                write_csv(COLUMNS, tmp_path / name)
    finally:
        protect(lambda: [])
    assert [path.name for path in model.iterdir()] == ["vocab.csv"]
    assert (model / "vocab.csv").read_text() == "kept"


def test_an_ending_that_is_added_replaces_nothing(tmp_path):
    (tmp_path / "table.csv").write_text("kept")
    with pytest.raises(OutputError, match="was not made by this program"):
        write_csv(COLUMNS, tmp_path / "table")  # the dialog asked about this name
    assert (tmp_path / "table.csv").read_text() == "kept"
    write_csv(COLUMNS, tmp_path / "table.csv")
