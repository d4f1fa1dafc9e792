"""Where to compute, and why there is no other device to choose."""

from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QMainWindow
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.events import DeviceInfo
from ace_gui.gui.shell.actions import Actions
from ace_gui.gui.shell.menus import Menus

CPU = DeviceInfo(name="cpu", title="Processor (CPU)")
GPU = DeviceInfo(name="cuda:0", title="GPU 0")


def test_the_device_menu_says_why_there_is_no_gpu(qtbot: QtBot) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    menus = Menus(window, window.menuBar(), Actions(window, QUndoStack(window)))
    menus.set_devices((CPU,), "auto", ("The driver is too old.", "Update it."))
    why = menus.devices.actions()[-1]
    assert why.text() == "&Why no GPU?"
    assert "too old" in why.toolTip()
    with qtbot.waitSignal(menus.explained) as asked:
        why.trigger()
    assert asked.args == ["The driver is too old. Update it."]
    menus.set_devices((CPU, GPU), "auto", ("The other is too old.",))
    assert menus.devices.actions()[-1].text() == "&Why not every GPU?"
    menus.set_devices((CPU, GPU), "auto")
    assert [action.text() for action in menus.devices.actions()] == [
        "Automatic",
        "Processor (CPU)",
        "GPU 0",
    ]
