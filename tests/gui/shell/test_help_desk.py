"""The palette, the shortcuts, the log, the diagnostics and the report of a problem."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QDialog

from ace_gui import __version__
from ace_gui.engine.contract.events import JobDone, JobFailed
from ace_gui.errors import CheckpointError
from ace_gui.gui.dialogs.command_palette import Command, CommandPalette, matching
from ace_gui.gui.dialogs.help_dialogs import LogDialog, ProblemDialog, ShortcutsDialog
from ace_gui.gui.models.list_models import VALUE
from ace_gui.gui.shell.actions import Actions
from ace_gui.gui.shell.help_desk import diagnostics, problem_text, without_names
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.state.activity import KEPT, Level, Log, LogSource
from tests.gui.fakes import BASE, COLA, ENGINE, adopt_two, started


def command(title: str, where: str = "", **more: str) -> Command:
    return Command(title=title, menu=where, run=lambda: None, **more)


COMMANDS = [
    command("Add experts…", "File"),
    command("Export…", "File"),
    command("Merge", "Merge"),
    command("Most heterogeneous layer", "View", why="Open a base model first."),
    command("Show Health", "All layers", tip="Which layers are out of the ordinary"),
]


@pytest.mark.parametrize(
    ("typed", "titles"),
    [
        ("exp", ["Add experts…", "Export…"]),
        ("exp add", ["Add experts…"]),
        ("mrg", ["Merge"]),
        ("health", ["Show Health"]),
        ("ordinary", ["Show Health"]),
        ("LAYER", ["Show Health", "Most heterogeneous layer"]),  # what cannot be done is last
        ("xyz", []),
        ("mge ex", []),
    ],
)
def test_words_find_commands(typed, titles):
    assert [command.title for command in matching(COMMANDS, typed)] == titles


def actions_of(window: MainWindow) -> list[QAction]:
    assert isinstance(window.actions_, Actions)
    return [var for var in vars(window.actions_).values() if isinstance(var, QAction)]


def palette_of(window: MainWindow) -> CommandPalette:
    window.actions_.palette.trigger()
    (palette,) = window.findChildren(CommandPalette)
    return palette


def test_every_action_and_panel_is_in_the_palette(loaded):
    titles = {command.title for command in loaded.help.commands()}
    for action in actions_of(loaded):
        assert action.text().replace("&", "") in titles
    assert {"Show Scores", "Show Spectrum", "Show Health", "Show Tune", "Show Two merges"} <= titles
    assert "Automatic" in titles  # a device


def test_the_palette_does_what_is_typed_by_keys_alone(loaded, qtbot):
    palette = palette_of(loaded)
    assert palette.focusWidget() is palette.field
    qtbot.keyClicks(palette.field, "what if")
    assert palette.list.currentIndex().data() == "Show What if"
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    tabs = loaded.workspace.heterogeneity.tabs
    qtbot.waitUntil(lambda: tabs.tabText(tabs.currentIndex()) == "What if")
    qtbot.waitUntil(lambda: not loaded.findChildren(CommandPalette))


def test_arrows_move_in_the_list_while_the_field_has_the_focus(loaded, qtbot):
    palette = palette_of(loaded)
    for key, row in ((Qt.Key.Key_Down, 1), (Qt.Key.Key_PageDown, 10), (Qt.Key.Key_Up, 9)):
        qtbot.keyClick(palette.field, key)
        assert palette.list.currentIndex().row() == row
    assert palette.field.accessibleDescription().startswith(palette.list.currentIndex().data())
    palette.close()


def test_what_cannot_be_done_says_why_and_is_not_done(window, qtbot):
    palette = palette_of(window)
    qtbot.keyClicks(palette.field, "merge experts into")
    index = palette.list.currentIndex()
    assert index.data() == "Merge"
    assert palette.description.text() == index.data(VALUE).why == "Open a base model first."
    assert "Open a base model first." in index.data(Qt.ItemDataRole.AccessibleTextRole)
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert palette.isVisible()
    palette.close()


def test_disabled_actions_say_why_in_their_tips(window):
    a = window.actions_
    assert a.export.toolTip().endswith("\nMerge first.")
    assert a.find.toolTip().endswith("\nOpen a base model first.")
    assert a.undo.toolTip().endswith("\nThere is nothing to undo.")
    for action in actions_of(window):
        assert action.isEnabled() or action.property("why"), action.text()


def test_a_tip_forgets_why_once_it_can_be_done(loaded, worker):
    a = loaded.actions_
    assert a.merge.toolTip() == "Merge the experts into the base"
    a.merge.trigger()
    worker.say(started())
    assert "Wait for the merge" in a.merge.toolTip()
    worker.say(JobDone())
    assert a.merge.toolTip() == "Merge the experts into the base"


def test_the_shortcut_sheet_has_every_key_of_the_actions(loaded):
    loaded.actions_.shortcuts.trigger()
    (dialog,) = loaded.findChildren(ShortcutsDialog)
    groups = [dialog.tree.topLevelItem(n) for n in range(dialog.tree.topLevelItemCount())]
    rows = [group.child(n) for group in groups for n in range(group.childCount())]
    listed = {row.text(1) for row in rows}
    native = QKeySequence.SequenceFormat.NativeText
    for action in actions_of(loaded):
        if not action.shortcut().isEmpty():
            assert action.shortcut().toString(native) in listed
    assert {row.text(0): row.text(1) for row in rows}["Merge"] == "Ctrl+Return"
    dialog.close()


def test_no_two_actions_have_one_key(loaded):
    keys = [command.shortcut for command in loaded.help.commands() if command.shortcut]
    assert len(keys) == len(set(keys))


# The log


def test_the_log_has_what_engine_and_window_said(loaded, worker):
    log = loaded.session.log
    said = [(entry.source, entry.text.partition(":")[0]) for entry in log.entries]
    assert ("Engine", "The engine is ready") in said
    assert ("Engine", "Analyse") in said
    loaded.session.advice.emit("The recipe is in a file.")
    assert log.entries[-1].text == "The recipe is in a file."
    loaded.conductor.plan()
    worker.say(JobFailed(error=CheckpointError("The file is empty.", path=Path("/models/a"))))
    last = log.entries[-1]
    assert (last.level, last.text) == (Level.ERROR, "The file is empty.")
    assert "path: /models/a" in last.details
    assert [entry.text for entry in log.entries].count("The file is empty.") == 1


def test_the_log_keeps_its_end(qtbot):
    log = Log()
    dialog = LogDialog(log)
    qtbot.addWidget(dialog)
    for number in range(KEPT + 5):
        log.add(Level.INFO, LogSource.WINDOW, f"entry {number}")
    assert len(log.entries) == dialog.entries_model.rowCount() == KEPT
    assert dialog.shown_entries()[0].text == "entry 5"
    qtbot.waitUntil(lambda: dialog.details.toPlainText() == f"entry {KEPT + 4}")  # it follows


def test_the_log_is_filtered_and_copied(loaded):
    log = loaded.session.log
    log.add(Level.DETAIL, LogSource.ENGINE, "Spectrum: begun.")
    log.add(Level.WARNING, LogSource.WINDOW, "Two vocabularies differ.", "cola: 100")
    loaded.actions_.log.trigger()
    (dialog,) = loaded.findChildren(LogDialog)
    assert "Spectrum: begun." not in [shown_entry.text for shown_entry in dialog.shown_entries()]
    dialog.levels.setCurrentIndex(Level.DETAIL)
    assert "Spectrum: begun." in [shown_entry.text for shown_entry in dialog.shown_entries()]
    dialog.levels.setCurrentIndex(Level.WARNING)
    dialog.filter.setText("COLA: 100")
    dialog.copy.click()
    copied = QGuiApplication.clipboard().text()
    assert copied.endswith("Warning Window: Two vocabularies differ.\ncola: 100")
    dialog.close()


# Diagnostics and reports


def test_diagnostics_name_versions_and_devices_and_no_model(loaded):
    loaded.actions_.diagnostics.trigger()
    text = QGuiApplication.clipboard().text()
    assert f"ACE Workbench: {__version__}" in text
    for part in ("Python: 3.", "torch: 2.", "Memory: ", "Device cpu: CPU", "Screen: "):
        assert part in text
    for name in ("base", "cola", "sst2", str(Path.home()), "/models"):
        assert name not in text


def test_a_report_has_the_log_without_names(loaded):
    loaded.show_error(CheckpointError("cola: /models/cola/model.safetensors is cut short."))
    text = problem_text(loaded.session, "File /opt/x/ace_gui/gui/app.py, line 3 in run")
    assert "<expert 1>: <expert 1>/model.safetensors is cut short." in text
    assert "ace_gui/gui/app.py, line 3" in text
    assert "/opt" not in text
    assert "cola" not in text


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("The base of /models/base/config.json", "The <the base> of <the base>/config.json"),
        ("colab and cola", "colab and <expert 1>"),
        ("in /somewhere/else/file.txt.", "in <path>"),
        ("https://example.org/a and 3/4", "https://example.org/a and 3/4"),
        ("18:20:05 “/a/b” is empty", "18:20:05 “<path>” is empty"),
    ],
)
def test_names_and_paths_are_replaced(session, said, expected):
    adopt_two(session)
    assert without_names(said, session) == expected


def test_no_model_is_no_name_to_replace(session):
    session.set_engine(ENGINE)
    assert without_names(f"{BASE} {COLA.name}", session) == "<path> cola"


def test_a_report_can_be_completed_and_copied(loaded):
    loaded.actions_.problem.trigger()
    (dialog,) = loaded.findChildren(ProblemDialog)
    dialog.text.insertPlainText("I pressed Merge.")
    dialog.copy.click()
    copied = QGuiApplication.clipboard().text()
    assert "I pressed Merge." in copied
    assert diagnostics(loaded.session).splitlines()[0] in copied
    dialog.close()


def test_a_crash_of_before_is_offered_to_be_reported(window):
    window.recent_projects.show_crash("")
    assert not window.notice.isVisible()
    window.recent_projects.show_crash("Fatal Python error: Segmentation fault")
    assert [answer.text() for answer in window.notice.answers] == ["Report a problem"]
    window.notice.answers[0].click()
    (dialog,) = window.findChildren(ProblemDialog)
    assert "Segmentation fault" in dialog.text.toPlainText()
    dialog.close()


def test_the_dialogs_of_help_are_let_go_when_they_close(loaded, qtbot):
    a = loaded.actions_
    for action in (a.palette, a.help, a.glossary, a.shortcuts, a.log, a.problem, a.about):
        action.trigger()
    dialogs = loaded.findChildren(QDialog)
    assert len(dialogs) == 7
    for dialog in dialogs:
        dialog.close()
    qtbot.waitUntil(lambda: not loaded.findChildren(QDialog))
