"""Where to compute, and why there is no other device to choose."""

import pytest
from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QInputDialog, QMainWindow
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.events import DeviceInfo
from ace_gui.gui.shell.actions import Actions
from ace_gui.gui.shell.menus import DeviceMenu, Menus
from ace_gui.gui.state.session import Session

CPU = DeviceInfo(name="cpu", title="Processor (CPU)")
GPU = DeviceInfo(name="cuda:0", title="GPU 0")


@pytest.fixture
def window(qtbot: QtBot) -> QMainWindow:
    made = QMainWindow()
    qtbot.addWidget(made)
    return made


@pytest.fixture
def devices(window: QMainWindow) -> DeviceMenu:
    return Menus(window, window.menuBar(), Actions(window, QUndoStack(window))).devices


def titles(menu: DeviceMenu) -> list[str]:
    return [action.text() for action in menu.actions()]


def test_the_device_menu_says_why_there_is_no_gpu(qtbot: QtBot, devices: DeviceMenu) -> None:
    devices.offer((CPU,), "auto", ("The driver is too old.", "Update it."))
    why = devices.actions()[-1]
    assert why.text() == "&Why no GPU?"
    assert "too old" in why.toolTip()
    with qtbot.waitSignal(devices.explained) as asked:
        why.trigger()
    assert asked.args == ["The driver is too old. Update it."]
    devices.offer((CPU, GPU), "auto", ("The other is too old.",))
    assert titles(devices)[-1] == "&Why not every GPU?"
    devices.offer((CPU, GPU), "auto")
    assert titles(devices) == ["Automatic", "Processor (CPU)", "GPU 0"]
    assert devices.title_chosen == "Automatic"


def test_workers_of_a_cluster(window: QMainWindow, devices: DeviceMenu) -> None:
    session = Session()
    devices.chosen.connect(session.choose_device)
    devices.offer((CPU,), session.chosen_device, threads=4)
    clusters = devices.actions()[-1].menu()
    here, own, other = clusters.actions()
    assert here.text() == "4 workers on this machine"
    assert all("closed network" in each.toolTip().replace("\n", " ") for each in (here, own, other))
    here.trigger()
    assert (session.cluster, session.device) == ("local:4", "auto")
    own.trigger()
    assert session.cluster == "auto"
    # Another one is asked for, and stands in the menu from then on.
    other.trigger()
    dialog = window.findChild(QInputDialog)
    assert dialog is not None
    assert "closed" in dialog.labelText()
    dialog.setTextValue(" ray://10.0.0.1:10001 ")
    dialog.accept()
    assert session.cluster == "ray://10.0.0.1:10001"
    devices.offer((CPU,), session.chosen_device, threads=1)
    assert devices.title_chosen == "ray://10.0.0.1:10001"
    assert "2 workers on this machine" in [a.text() for a in clusters.actions()]
    # A device is chosen in its place, and the other way round: one of all.
    devices.actions()[1].trigger()
    assert (session.cluster, session.device) == ("", "cpu")
    assert session.chosen_device == "cpu"
