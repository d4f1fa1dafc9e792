"""The help, the log, the problem reports, and the list of all commands in the window's menus and
panels. Each dialog is created on first use."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QLocale, QSysInfo, qVersion
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QApplication, QMenu, QMenuBar
from shiboken6 import isValid

from ace_gui.application import __version__
from ace_gui.formatting import human_bytes
from ace_gui.gui.dialogs.command_palette import Command
from ace_gui.gui.shell.actions import WHY
from ace_gui.gui.shell.base_window import Window
from ace_gui.gui.shell.window_frame import WORKSPACES, Space
from ace_gui.gui.state.activity import LogSource
from ace_gui.gui.state.session import NO_MODEL, Session
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.widgets.file_dialogs import show_once
from ace_gui.gui.widgets.labels import term_of

if TYPE_CHECKING:
    from ace_gui.gui.shell.tours import Tour
    from ace_gui.gui.shell.workspace import Workspace

_COPIED: Final = "Versions, device, memory and platform are copied, but nothing about your models."


class HelpDesk:
    """Connects the actions of the Help menu. ``crash``: the crash text of an earlier window."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._session = window.session
        self._tour: Tour | None = None
        self.crash = ""
        window.notice.shown.connect(self._note)
        actions = window.actions_
        for action, slot in {
            actions.palette: self.show_palette,
            actions.tutorial: self.begin_tutorial,
            actions.help: self.show_help,
            actions.glossary: lambda: self.show_page("glossary"),
            actions.shortcuts: self.show_shortcuts,
            actions.log: self.show_log,
            actions.diagnostics: self.copy_diagnostics,
            actions.problem: self.report_problem,
            actions.about: self.show_about,
        }.items():
            actions.connect(action, slot)

    def show_palette(self) -> None:
        from ace_gui.gui.dialogs.command_palette import CommandPalette

        show_once(CommandPalette(self.commands(), self._window))

    def commands(self) -> list[Command]:
        """The commands that the menus and panels offer now."""
        loaded = self._session.draft.inputs.base is not None
        panels = commands_of_panels(lambda: self._window.workspace, "" if loaded else NO_MODEL)
        return [*commands_of_menus(self._window.menuBar()), *panels]

    @property
    def is_touring(self) -> bool:
        return self._tour is not None and isValid(self._tour) and self._tour.is_running

    def begin_tutorial(self) -> Tour:
        """Start the tutorial on the sample, or restart it from its first step."""
        from ace_gui.gui.shell.tours import tutorial

        self.end_tutorial()
        self._tour = tutorial(self._window)
        return self._tour

    def end_tutorial(self) -> None:
        if self.is_touring and self._tour is not None:
            self._tour.end()

    def show_help(self) -> None:
        """Show the glossary entry of the focused widget, or without one the help pages."""
        term = term_of(QApplication.focusWidget())
        self.show_page("glossary" if term else "start", term)

    def show_page(self, name: str, term: str = "") -> None:
        from ace_gui.gui.dialogs.help_dialogs import HelpDialog

        dialog = HelpDialog(self._window)
        dialog.open_page(name, term)
        show_once(dialog, modal=False)

    def show_shortcuts(self) -> None:
        from ace_gui.gui.dialogs.help_dialogs import ShortcutsDialog

        show_once(ShortcutsDialog(self.commands(), self._window), modal=False)

    def show_log(self) -> None:
        from ace_gui.gui.dialogs.help_dialogs import LogDialog

        show_once(LogDialog(self._session.log, self._window), modal=False)

    def copy_diagnostics(self) -> None:
        QGuiApplication.clipboard().setText(diagnostics(self._session))
        self._session.advice.emit(_COPIED)

    def report_problem(self) -> None:
        from ace_gui.gui.dialogs.help_dialogs import ProblemDialog

        text = problem_text(self._session, self.crash)
        show_once(ProblemDialog(text, self._window), modal=False)

    def show_about(self) -> None:
        from ace_gui.gui.dialogs.help_dialogs import AboutDialog

        show_once(AboutDialog(self._window))

    def _note(self) -> None:
        """Add the window's message to the log."""
        notice = self._window.notice
        details = notice.details.toPlainText()
        self._session.log.add(notice.level, LogSource.WINDOW, notice.message_text, details)


_NATIVE = QKeySequence.SequenceFormat.NativeText


def commands_of_menus(bar: QMenuBar) -> list[Command]:
    """The commands of all menu entries. An action in two menus gives one command."""
    commands: dict[QAction, Command] = {}

    def visit(actions: list[QAction], where: str) -> None:
        for action in actions:
            title = action.text().replace("&&", "\0").replace("&", "").replace("\0", "&")
            menu = action.menu()
            if isinstance(menu, QMenu):
                visit(menu.actions(), f"{where} › {title}" if where else title)
            elif title and not action.isSeparator() and action not in commands:
                why = str(action.property(WHY) or "Not available now.")
                tip = action.toolTip().partition("\n")[0]
                commands[action] = Command(
                    title=title,
                    menu=where,
                    run=action.trigger,
                    shortcut=action.shortcut().toString(_NATIVE),
                    tip=tip if tip != title else "",
                    why="" if action.isEnabled() else why,
                )

    visit(bar.actions(), "")
    return list(commands.values())


def commands_of_panels(workspace: Callable[[], Workspace], why: str) -> list[Command]:
    """One command for each workspace and panel. ``why``: the reason if none can be shown now."""
    from ace_gui.gui.panels.compare_page import LOOKS
    from ace_gui.gui.panels.scores_page import TABS
    from ace_gui.gui.shell.workspace import Workspace

    commands: list[Command] = []

    def add(title: str, where: str, tip: str, show: Callable[[Workspace], object]) -> None:
        run = lambda: show(workspace())  # noqa: E731
        commands.append(Command(title=f"Show {title}", menu=where, run=run, tip=tip, why=why))

    for index, (title, tip) in enumerate(WORKSPACES):
        add(title, "Workspace", tip, partial(Workspace.show_space, index=index))
    for where, tabs in ({} if why else workspace().panels_with_tabs()).items():
        for index in filter(tabs.isTabVisible, range(tabs.count())):
            show = partial(Workspace.bring, tabs=tabs, index=index)
            add(tabs.tabText(index), where, tabs.tabToolTip(index), show)
    for kind, title, tip in TABS:
        add(title, WORKSPACES[Space.SCORES][0], tip, partial(Workspace.show_scores, tab=kind))
    for index, (title, tip) in enumerate(LOOKS):
        add(title, WORKSPACES[Space.COMPARE][0], tip, partial(Workspace.show_look, index=index))
    return commands


LIBRARIES: Final = (
    "PySide6-Essentials",
    "pyqtgraph",
    "numpy",
    "torch",
    "safetensors",
    "transformers",
    "huggingface_hub",
)
LOG_END: Final = 40
"""Number of log entries at the end of a problem report."""

_PATH: Final = re.compile(r"(?<![\w/~:.<>])(?:[A-Za-z]:[\\/]|/)[^\s\"'“”:;,<>|()]+")


def diagnostics(session: Session) -> str:
    """Facts on the program and the machine, one per line. It takes time, so not at the start."""
    return "\n".join(f"{name}: {value}" for name, value in _facts(session))


def problem_text(session: Session, crash: str = "") -> str:
    """A problem report to complete, with diagnostics and the end of the log.

    The paths and names of the open models are replaced.
    """
    log = "\n".join(entry.line for entry in session.log.entries[-LOG_END:])
    parts = [
        "What I did, and what happened:\n\n",
        f"Diagnostics\n-----------\n{diagnostics(session)}",
        f"End of the log\n--------------\n{without_names(log, session)}",
    ]
    if crash:
        parts.append(f"Crash\n-----\n{without_names(crash.strip(), session)}")
    return "\n\n".join(parts) + "\n"


def without_names(text: str, session: Session) -> str:
    """Replace the open models' paths and names in the text, and shorten every other path."""
    inputs = session.draft.inputs
    aliases: dict[str, str] = {}
    experts = zip(inputs.experts, inputs.names, strict=True)
    models = [
        (f"<expert {n}>", expert.path, name) for n, (expert, name) in enumerate(experts, start=1)
    ]
    if inputs.base is not None:
        models.append(("<the base>", inputs.base, inputs.base.name))
    for alias, path, name in models:
        aliases |= {str(path): alias, path.name: alias, name: alias}
    longest_first = sorted(filter(None, aliases), key=len, reverse=True)
    names = "|".join(map(re.escape, longest_first))
    if names:
        text = re.sub(rf"(?<!\w)(?:{names})(?!\w)", lambda match: aliases[match[0]], text)
    text = text.replace(str(Path.home()), "~")

    def own_or_hidden(match: re.Match[str]) -> str:
        """The part of a path inside this package; any other path is hidden."""
        start = match[0].replace("\\", "/").find("/ace_gui/")
        if start >= 0:
            return match[0][start + 1 :]
        return "<path>"

    return _PATH.sub(own_or_hidden, text)


def _facts(session: Session) -> Iterator[tuple[str, str]]:
    from importlib.metadata import PackageNotFoundError, version  # takes a moment to import

    if getattr(sys, "frozen", False):
        bundled = " (bundle)"
    else:
        bundled = ""
    yield "ACE Workbench", f"{__version__}{bundled}"
    yield "System", f"{QSysInfo.prettyProductName()}, {platform.release()}, {platform.machine()}"
    yield "Python", platform.python_version()
    yield "Qt", f"{qVersion()}, {QGuiApplication.platformName()}"
    for name in LIBRARIES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, "unknown"
    yield from _machine(session)
    yield from _display()


def _machine(session: Session) -> Iterator[tuple[str, str]]:
    from ace_gui.machine import free_memory, processors, total_memory

    yield "Processors", str(processors())
    yield "Memory", f"{human_bytes(free_memory())} free of {human_bytes(total_memory())}"
    limit = session.memory_bytes
    yield "Memory for merging", human_bytes(limit) if limit else "all free memory"
    engine = session.engine
    if engine is None:
        yield "Engine", "not started"
        return
    yield "Threads", str(engine.threads)
    for device in engine.devices:
        if device.memory_bytes:
            memory = f", {human_bytes(device.memory_bytes)}"
        else:
            memory = ""
        yield f"Device {device.name}", f"{device.title}{memory}"
    for why in engine.devices_not_used:
        yield "Device not used", why
    yield "Device chosen", session.device


def _display() -> Iterator[tuple[str, str]]:
    for screen in QGuiApplication.screens():
        size = screen.size()
        scale = screen.devicePixelRatio()
        yield "Screen", f"{size.width()}×{size.height()}, scale {scale:g}"
    yield "Font size", f"{QGuiApplication.font().pointSizeF():g} points"
    yield "Colours", Settings().scheme
    yield "Language", f"{QLocale.system().name()}, {os.environ.get('LANG', 'LANG not set')}"
