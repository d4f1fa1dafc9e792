"""How much memory a merge may use: offered, asked for, remembered."""

from dataclasses import replace

from PySide6.QtWidgets import QInputDialog

from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.shell.menus import GIGABYTE
from ace_gui.gui.state.settings import Settings
from tests.gui.fakes import ENGINE, FakeWorker

MACHINE = replace(ENGINE, memory_bytes=20 * GIGABYTE)


def checked(window: MainWindow) -> str:
    (text,) = [action.text() for action in window.menus.memory.actions() if action.isChecked()]
    return text.replace("&", "")


def choose(window: MainWindow, text: str) -> None:
    actions = window.menus.memory.actions()
    next(action for action in actions if action.text().replace("&", "") == text).trigger()


def test_what_is_free_unless_told(window: MainWindow, worker: FakeWorker) -> None:
    assert not window.menus.memory.isEnabled()  # the engine knows the machine
    worker.say(MACHINE, job=0)
    assert checked(window) == "All free memory"
    texts = [action.text().replace("&", "") for action in window.menus.memory.actions()]
    assert texts[1:-1] == ["1.0 GB", "2.0 GB", "4.0 GB", "8.0 GB", "16 GB"]


def test_a_limit_is_remembered_and_can_be_lifted(window: MainWindow, worker: FakeWorker) -> None:
    worker.say(MACHINE, job=0)
    choose(window, "4.0 GB")
    assert window.session.memory_bytes == Settings().memory_bytes == 4 * GIGABYTE
    assert checked(window) == "4.0 GB"
    choose(window, "All free memory")
    assert window.session.memory_bytes is Settings().memory_bytes is None


def test_any_other_limit_can_be_given(window: MainWindow, worker: FakeWorker) -> None:
    worker.say(MACHINE, job=0)
    choose(window, "Other…")
    assert checked(window) == "All free memory"  # nothing is chosen yet
    dialog = window.findChild(QInputDialog)
    dialog.setDoubleValue(2.5)
    dialog.accept()
    assert window.session.memory_bytes == 2_500_000_000
    assert checked(window) == "2.5 GB"
