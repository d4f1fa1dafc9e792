"""Every dialog, and the messages over the window."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from PySide6.QtCore import Qt

from ace_gui.gui.dialogs.command_palette import CommandPalette
from ace_gui.gui.picture import Studio
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.widgets.files.written_files import offers
from ace_gui.recipe import Override
from tests.walk.states.doing import Step, newest_dialog, opened

RULE = Override(blocks="0-1", disposition="base")


def openers(window: MainWindow) -> tuple[tuple[str, Callable[[], object]], ...]:
    """What opens each dialog that needs nothing more, by its name."""
    return (
        ("methods to choose from", window.dialogs.choose_method),
        ("help", window.help.show_help),
        ("glossary", lambda: window.help.show_page("glossary", "Ridge mass")),
        ("shortcuts", window.help.show_shortcuts),
        ("log", window.help.show_log),
        ("report of a problem", window.help.report_problem),
        ("preferences", window.actions_.preferences.trigger),
        ("about", window.help.show_about),
        ("cached models", window.opener.open_cached),
        ("a new override", lambda: window.override_editor.complete(RULE)),
        ("closing", window.closing.ask),
        ("workers of a cluster", window.menus.devices._ask),
        ("memory for merging", window.menus.memory._ask),
    )


def dialogs(studio: Studio) -> Iterator[Step]:
    """One after the other, with a finished merge behind them."""
    window = studio.window
    for name, open_it in openers(window):
        yield from opened(name, open_it)
    yield from _palette(studio)
    yield from _export(studio)
    yield from _messages(studio)


def _palette(studio: Studio) -> Iterator[Step]:
    studio.window.help.show_palette()
    palette = newest_dialog()
    assert isinstance(palette, CommandPalette)
    palette.setWindowFlags(Qt.WindowType.Dialog)  # some displays close popups by themselves
    palette.show()
    yield "commands", palette
    palette.field.setText("glossary")
    yield "commands: some found", palette
    palette.field.setText("nothing is called so")
    yield "commands: none found", palette
    palette.close()


def _export(studio: Studio) -> Iterator[Step]:
    window = studio.window
    with tempfile.TemporaryDirectory() as name:
        window.dialogs.open_export()
        dialog = window.dialogs.export
        assert dialog is not None
        dialog.folder.setText(name)
        yield "export: a folder that is there", dialog
        dialog.folder.setText(str(Path(name) / "merged-model"))
        yield "export", dialog
        dialog.export_button.click()
        studio.wait(lambda: not window.engine.is_busy, window.engine.idle)
        yield "exported", dialog
        dialog.reject()


def _messages(studio: Studio) -> Iterator[Step]:
    window = studio.window
    window.help.copy_diagnostics()
    yield "news", window
    report = Path("sample-merge.html")
    window.notice.offer(f"The report is in {report}.", offers(report))
    yield "a file written", window
    window.help.crash = "Fatal Python error: Segmentation fault\n\nCurrent thread …"
    window.before.tell_of_crash(window.help.crash)
    yield "after a crash", window
    window.help.crash = ""
    window.notice.hide()
