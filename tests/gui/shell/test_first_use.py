"""What a first person at the window stumbled over, and shall not again."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pyqtgraph as pg
import pytest
from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QAction, QFontMetricsF, QIcon, QKeyEvent, QKeySequence, QPixmap
from PySide6.QtWidgets import (
    QApplication,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFileDialog,
    QListView,
    QStyle,
    QStyleOptionSpinBox,
    QWidget,
)

from ace_gui.engine.contract.events import JobCancelled, MethodCompared, Variant
from ace_gui.engine.contract.findings import LayerStatistics
from ace_gui.formatting import counted
from ace_gui.gui.models.layer_columns import GAMMA, OUTCOME, TENSOR
from ace_gui.gui.models.list_models import WEIGHT
from ace_gui.gui.models.scores_models import ComparedModel
from ace_gui.gui.panels import layer_cells
from ace_gui.gui.panels.compare_methods import swept
from ace_gui.gui.plots.frame.base_plot import Plot
from ace_gui.gui.plots.frame.export_image import PictureDialog, ask_for_picture
from ace_gui.gui.plots.merge_plots import MergePoint, MergeScatter
from ace_gui.gui.shell.window_frame import Footer, Space
from ace_gui.gui.state.activity import ActivityState
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.text import gamma_text
from ace_gui.gui.theme import set_scheme
from ace_gui.gui.widgets.file_dialogs import PICTURES, ask_paths
from ace_gui.gui.widgets.labels import NamedBars
from ace_gui.gui.widgets.tables import FittedTable
from ace_gui.paths import Sample
from tests.gui.fakes import BASE, COLA, load, plan, recipe
from tests.helpers.windows import in_view, items_of


def test_a_selected_row_keeps_the_colours_of_its_icons(qapp):
    pixmap = QPixmap(8, 8)
    pixmap.fill("#1c7abb")
    selected = QIcon(pixmap).pixmap(QSize(8, 8), 1.0, QIcon.Mode.Selected)
    assert selected.toImage().pixelColor(4, 4).name() == "#1c7abb"


def test_a_weights_arrows_stand_beside_the_value(loaded):
    table = loaded.workspace.experts.table
    table.edit(table.model().index(0, WEIGHT))
    (editor,) = table.viewport().findChildren(QDoubleSpinBox)
    option = QStyleOptionSpinBox()
    editor.initStyleOption(option)
    control = QStyle.ComplexControl.CC_SpinBox
    sub = QStyle.SubControl
    value = editor.lineEdit().geometry()
    for part in (sub.SC_SpinBoxUp, sub.SC_SpinBoxDown):
        arrow = editor.style().subControlRect(control, option, part, editor)
        assert not value.intersects(arrow)
    assert editor.alignment() & Qt.AlignmentFlag.AlignRight, "as the cell writes it"


def test_sorting_and_another_model_begin_at_the_top(loaded):
    layers = loaded.workspace.layers
    layers.show_only(1)
    loaded.setMinimumSize(0, 0)
    layers.table.setFixedHeight(60)
    QApplication.processEvents()
    bar = layers.table.verticalScrollBar()
    bar.setValue(bar.maximum())
    assert bar.value() > 0
    layers.table.sortByColumn(GAMMA.index, Qt.SortOrder.DescendingOrder)
    assert bar.value() == 0
    bar.setValue(bar.maximum())
    session = loaded.session
    rows = tuple(replace(row, name=f"other.{row.name}") for row in session.draft.plan.rows)
    resorted = replace(session.draft.plan, rows=rows)
    session.adopt(session.draft.planned, resorted)
    assert bar.value() == 0


def test_no_row_is_cut_at_the_end_of_the_table(loaded):
    table = loaded.workspace.layers.table
    table.expandAll()
    for height in range(640, 700, 7):
        loaded.resize(1100, height)
        QApplication.processEvents()
        port = table.viewport().rect()
        last = table.indexAt(port.bottomLeft())
        assert not last.isValid() or port.contains(table.visualRect(last)), height


def test_blocks_are_folded_but_for_that_of_the_selected_layer(loaded):
    table = loaded.workspace.layers.table
    model = loaded.workspace.layers.model
    expanded = [table.isExpanded(model.index(row, 0)) for row in range(model.rowCount())]
    assert not any(expanded)
    loaded.session.select("layer.2.q")
    assert table.isExpanded(model.index_of("layer.2.q").parent())
    loaded.workspace.layers.text.setText("layer.0")
    assert table.isExpanded(model.index_of("layer.0.q").parent()), "what is found is seen"
    loaded.workspace.layers.text.clear()
    assert not table.isExpanded(model.index_of("layer.0.q").parent())


def test_the_selected_row_stays_in_view_when_the_window_shrinks(loaded):
    table = loaded.workspace.layers.table
    model = loaded.workspace.layers.model
    table.expandAll()
    loaded.session.select("layer.10.q")
    loaded.setMinimumSize(0, 0)
    for height in (900, 520):
        loaded.resize(1100, height)
        QApplication.processEvents()
        row = table.visualRect(model.index_of("layer.10.q"))
        assert table.viewport().rect().contains(row)


def test_a_name_without_room_keeps_its_blocks_number(loaded, monkeypatch):
    written: list[tuple[str, float]] = []
    write = layer_cells.write

    def note(painter, rect, text, *arguments, **more):
        written.append((text, rect.width()))
        return write(painter, rect, text, *arguments, **more)

    monkeypatch.setattr(layer_cells, "write", note)
    table = loaded.workspace.layers.table
    table.header().setSectionResizeMode(TENSOR.index, table.header().ResizeMode.Fixed)
    table.setColumnWidth(TENSOR.index, 90)
    table.expandAll()
    table.viewport().grab()
    numbers = [(text, room) for text, room in written if text.rstrip(".").isdigit()]
    assert {text for text, _ in numbers} >= {"0.", "2.", "10."}
    digit = table.fontMetrics().horizontalAdvance("0")
    assert all(room >= len(text) * digit for text, room in numbers)


@pytest.fixture
def rooms(monkeypatch) -> dict[str, float]:
    """The room that each text of a cell leaves, in px; it is cut where that is negative."""
    widths: dict[str, float] = {}
    write = layer_cells.write

    def note(painter, rect, text, font, *arguments, **more):
        widths[text] = rect.width() - QFontMetricsF(font).horizontalAdvance(text)
        return write(painter, rect, text, font, *arguments, **more)

    monkeypatch.setattr(layer_cells, "write", note)
    return widths


def test_a_gamma_is_not_cut_where_its_bar_has_room(loaded, rooms):
    for gamma in (3.2e-4, 0.524, 71.16):
        near_one = LayerStatistics(
            name="layer.2.q", energies={"cola": 1.0}, gamma=gamma, mean_log_energy=0.01
        )
        loaded.session.layers.record_statistics(near_one)
        loaded.session.layers.learnt.emit("")
        loaded.workspace.layers.table.expandAll()
        loaded.workspace.layers.table.viewport().grab()
        text = gamma_text(gamma) + (" ?" if gamma > 0.3 else "")
        assert rooms[text] >= 0


def test_the_count_of_a_block_is_whole_or_shorter_at_every_width(opened, rooms, monkeypatch):
    table = opened.workspace.layers.table
    table.header().setSectionResizeMode(TENSOR.index, table.header().ResizeMode.Fixed)
    block = table.model().index(0, 0)
    monkeypatch.setattr(type(table.model()), "_count", lambda *_: "1 kept from base")
    for width in range(80, 400, 10):
        table.setColumnWidth(TENSOR.index, width)
        table.viewport().grab()
    number = counted(table.model().rowCount(block), "tensor", "tensors")
    assert {"1 kept from base", number} <= rooms.keys()
    assert rooms["1 kept from base"] >= 0
    assert rooms[number] >= 0


def test_what_becomes_of_a_tensor_is_not_cut(loaded):
    table = loaded.workspace.layers.table
    table.setColumnHidden(OUTCOME.index, False)
    for words in ("kept from base", "kept per expert", "averaged"):
        needed = table.fontMetrics().horizontalAdvance(words) + 12
        assert table.columnWidth(OUTCOME.index) >= needed, words


@pytest.mark.parametrize("by_menu", [False, True])
def test_cancel_answers_at_once(loaded, worker, by_menu):
    loaded.actions_.merge.trigger()
    button = loaded.header.primary.cancel
    assert button.text() == "Cancel"
    (loaded.actions_.cancel.trigger if by_menu else button.click)()
    assert button.text() == "Stopping…"
    assert worker.cancelled, "and nothing was heard of the engine yet"


def test_what_the_pointer_passes_over_hides_no_progress(loaded, worker):
    """Qt shows the status tip of an action in place of what stands in the row below."""
    loaded.session.activity.begin(ActivityState.SCORING)
    footer = loaded.statusBar()
    assert isinstance(footer, Footer)
    assert footer.bar.isVisible()
    words = footer.text.text()
    for action in loaded.findChildren(QAction):
        action.showStatusText(loaded)
        assert footer.currentMessage() == "", action.text()
        assert footer.bar.isVisible(), action.text()
    assert footer.text.text() == words
    loaded.session.activity.end(ActivityState.SCORING)


def test_dark_after_light_leaves_no_word_unseen(loaded, qtbot):
    """Buttons with a style sheet of their own once kept the ink of the scheme they began with."""
    set_scheme("light")
    qtbot.wait(120)
    set_scheme("dark")
    qtbot.wait(120)
    try:
        assert not QApplication.instance().styleSheet()
        for widget in QApplication.allWidgets():
            assert not widget.styleSheet(), widget
    finally:
        set_scheme("system")


def test_pictures_of_plots_go_where_the_last_one_went(loaded, tmp_path, qtbot):
    (plot,) = [p for p in loaded.workspace.heterogeneity.findChildren(Plot) if p.isVisible()]
    ask_for_picture(plot, plot)
    plot.findChild(PictureDialog).accept()
    _choose(plot, tmp_path / "gamma")
    assert (tmp_path / "gamma.png").is_file()
    assert (tmp_path / "gamma.csv").is_file()
    assert Settings().folder(PICTURES) == tmp_path
    qtbot.waitUntil(lambda: plot.findChild(PictureDialog) is None)
    ask_for_picture(plot, plot)
    plot.findChild(PictureDialog).accept()
    (dialog,) = _dialogs(plot)
    assert Path(dialog.directory().path()) == tmp_path
    dialog.reject()


def _dialogs(parent: QWidget) -> list[QFileDialog]:
    return [dialog for dialog in parent.findChildren(QFileDialog) if dialog.isVisible()]


def _choose(parent: QWidget, file: Path) -> None:
    (dialog,) = _dialogs(parent)
    dialog.filesSelected.emit([str(file)])
    dialog.reject()


def test_a_table_gives_up_its_first_columns_room_before_the_last_is_cut(qtbot, qapp):
    table = FittedTable("Merges", ComparedModel(), padding=8)
    in_view(qtbot, table, width=900, height=200)
    table.fit_columns()
    header = table.horizontalHeader()
    assert header.length() == table.viewport().width()
    table.resize(header.length() - 60, 200)
    QApplication.processEvents()
    assert header.length() <= table.viewport().width()


def test_a_name_that_does_not_fit_at_the_right_stands_at_the_left(qtbot):
    scatter = MergeScatter()
    in_view(qtbot, scatter, width=320, height=240)
    title = "ACE-Merging, measured covariances"
    scatter.show_merges(
        "Mean", [MergePoint(title=title, x=1.0, y=0.5, current=True), _point("near", 0.2)]
    )
    right = scatter.canvas.getViewBox().sceneBoundingRect().right()
    for name in written(scatter):
        if name.isVisible():
            bounds = name.mapRectToScene(name.boundingRect())
            assert bounds.right() <= right + 1, name.toPlainText()


def test_values_of_one_parameter_are_a_curve_over_it(qtbot):
    scatter = MergeScatter()
    in_view(qtbot, scatter, width=320, height=240)
    tried = [_point("c", 1e-3), _point("a", 1e-7), _point("b", 1e-5)]
    scatter.show_merges("Mean", tried, "Ridge ε")
    assert scatter.title.full_text == "Mean by Ridge ε"
    assert scatter.items["curve"].getOriginalDataset()[0].tolist() == pytest.approx([-7, -5, -3])
    assert not written(scatter), "the axis says which is which"
    scatter.show_merges("Mean", tried)
    assert "curve" not in scatter.items
    assert len(written(scatter)) == 3


def written(plot: MergeScatter) -> list[pg.TextItem]:
    """The names beside the points."""
    return [item for item in items_of(plot, pg.TextItem) if item.toPlainText()]


def test_merges_differ_in_one_number_or_not():
    def row(method: str, **parameters: object) -> MethodCompared:
        variant = Variant(recipe=recipe(merge_method=method), store=Path("/store"))
        return MethodCompared(title="", variant=variant, index=0, parameters=parameters)

    assert swept([row("ace", epsilon=0.1, tau=1.0), row("ace", epsilon=0.2, tau=1.0)]) == "epsilon"
    assert swept([row("ace", epsilon=0.1, tau=1.0), row("ace", epsilon=0.2, tau=2.0)]) == ""
    assert swept([row("ace", epsilon=0.1), row("ties", epsilon=0.2)]) == ""
    assert swept([row("ace", refine="always"), row("ace", refine="never")]) == ""
    assert swept([]) == ""


def _point(title: str, x: float) -> MergePoint:
    return MergePoint(title=title, x=x, y=0.4, current=False)


def test_undo_by_key_takes_back_what_was_just_typed_into_a_field(loaded, qtbot):
    """A line takes the keys of Undo and Redo for itself, also where it has nothing to take back."""
    tau = loaded.workspace.method.fields["tau"].control
    loaded.activateWindow()
    tau.setFocus()
    qtbot.waitUntil(tau.hasFocus)
    tau.selectAll()
    qtbot.keyClicks(tau, "0.7")
    assert _keeps(tau, QKeySequence.StandardKey.Undo), "it is still being typed"
    qtbot.keyClick(tau, Qt.Key.Key_Return)
    assert loaded.session.draft.inputs.touched == {"tau": 0.7}
    assert not _keeps(tau, QKeySequence.StandardKey.Redo)
    qtbot.keyClick(tau, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert loaded.session.draft.inputs.touched == {}
    assert tau.value() == 0.3


def _keeps(field: QWidget, keys: QKeySequence.StandardKey) -> bool:
    key = QKeySequence(keys)[0]
    event = QKeyEvent(QEvent.Type.ShortcutOverride, key.key(), key.keyboardModifiers())
    event.ignore()
    QApplication.sendEvent(field, event)
    return event.isAccepted()


def test_the_samples_own_recipe_is_not_what_saving_proposes(loaded):
    loaded.project.open((Sample.IMAGES.recipe,))
    loaded.opener.save_recipe()
    dialog = loaded.findChild(QFileDialog)
    (proposed,) = map(Path, dialog.selectedFiles())
    assert proposed.name == "sample.ace.yaml"
    assert proposed.parent != Sample.IMAGES.recipe.parent
    dialog.reject()
    for thread in threading.enumerate():
        if "import_module" in thread.name:  # others, of who runs the tests, do not end
            thread.join(30)


def test_experts_are_looked_for_beside_the_last_one_several_at_once(loaded, tmp_path):
    for name in ("cola", "sst2"):
        (tmp_path / name).mkdir()
    session = loaded.session
    inputs = session.draft.inputs.without_experts([0, 1]).with_experts([tmp_path / "cola"])
    session.adopt(inputs, plan(inputs.recipe()))
    loaded.opener.add_experts()
    dialog = loaded.findChild(QFileDialog)
    assert Path(dialog.directory().absolutePath()) == tmp_path
    assert dialog.fileMode() is QFileDialog.FileMode.ExistingFiles  # one or several
    dialog.reject()


@pytest.mark.parametrize("names", [("cola",), ("cola", "sst2"), ("one.safetensors",)])
def test_one_dialog_takes_folders_and_files(qtbot, tmp_path, names):
    for name in ("cola", "sst2"):
        (tmp_path / name).mkdir()
    (tmp_path / "one.safetensors").touch()
    taken: list[list[Path]] = []
    parent = QWidget()
    qtbot.addWidget(parent)
    kinds = "Model weights (*.safetensors)"
    dialog = ask_paths(parent, "Experts", kinds, "models", taken.append, start=tmp_path)
    view = dialog.findChild(QListView, "listView")
    model = view.model()
    chosen = view.selectionModel()
    qtbot.waitUntil(lambda: model.rowCount(view.rootIndex()) == 3)
    for row in range(3):
        index = model.index(row, 0, view.rootIndex())
        if index.data() in names:
            chosen.select(index, chosen.SelectionFlag.Select | chosen.SelectionFlag.Rows)
    dialog.findChild(QDialogButtonBox).buttons()[0].click()
    assert [sorted(path.name for path in paths) for paths in taken] == [sorted(names)]
    assert not dialog.isVisible()


def test_the_first_page_counts_the_seconds_while_something_is_opened(window, worker, qtbot):
    subtitle = window.welcome.subtitle.text()
    window.opener.open_paths([Sample.IMAGES.recipe])
    first = window.welcome.subtitle.text()
    assert "Starting the engine" in first
    qtbot.waitUntil(lambda: window.welcome.subtitle.text() not in (first, subtitle), timeout=3000)
    worker.say(JobCancelled())
    assert window.welcome.subtitle.text() == subtitle


def test_escape_ends_the_tutorial_and_brings_all_panels_back(loaded, qtbot):
    tour = loaded.help.begin_tutorial()
    qtbot.keyClick(loaded, Qt.Key.Key_Escape)
    assert not tour.is_running
    cards = loaded.workspace.cards
    cards.toggle_maximised()
    assert cards.is_maximised
    qtbot.keyClick(loaded, Qt.Key.Key_Escape)
    assert not cards.is_maximised
    qtbot.keyClick(loaded, Qt.Key.Key_Escape)
    assert not cards.is_maximised


def test_another_project_opens_with_its_layers(loaded, worker):
    loaded.workspace.show_scores()
    assert loaded.header.workspaces.current == Space.SCORES
    loaded.opener.open_paths([BASE, COLA])
    load(worker, COLA)
    assert loaded.header.workspaces.current == 0


def test_the_samples_figures_have_their_errors(window):
    (bars,) = window.welcome.findChildren(NamedBars)
    assert len(bars.bars) == 5
    assert all(" ± 0.0" in bar.text for bar in bars.bars)
