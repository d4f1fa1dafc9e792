"""The menu of devices: what it offers, asks for and remembers; dropped paths."""

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QUrl
from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QInputDialog, QMainWindow
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.events import DeviceInfo
from ace_gui.gui.shell.actions import Actions, DeviceMenu, Menus
from ace_gui.gui.shell.projects import is_collection, local_paths
from ace_gui.gui.state.session import Session

CPU = DeviceInfo(name="cpu", title="Processor (CPU)")
GPU = DeviceInfo(name="cuda:0", title="GPU 0")


@pytest.fixture
def empty(qtbot: QtBot) -> QMainWindow:
    made = QMainWindow()
    qtbot.addWidget(made)
    return made


@pytest.fixture
def devices(empty: QMainWindow) -> DeviceMenu:
    return Menus(empty, empty.menuBar(), Actions(empty, QUndoStack(empty))).devices


def titles(menu: DeviceMenu) -> list[str]:
    return [action.text() for action in menu.actions()]


def test_no_two_entries_of_a_menu_have_one_letter(empty):
    Menus(empty, empty.menuBar(), Actions(empty, QUndoStack(empty)))
    for menu in empty.menuBar().actions():
        texts = [action.text() for action in menu.menu().actions() if not action.isSeparator()]
        letters = [text.partition("&")[2][:1].lower() for text in texts]
        assert all(letters), texts
        assert len(set(letters)) == len(letters), texts


def test_the_device_menu_says_why_there_is_no_gpu(qtbot, devices):
    devices.offer((CPU,), "auto", ("The driver is too old.", "Update it."))
    why = devices.actions()[-1]
    assert why.text() == "&Why no GPU?"
    assert "too old" in why.toolTip()
    with qtbot.waitSignal(devices.explained) as signal:
        why.trigger()
    assert signal.args == ["The driver is too old. Update it."]
    devices.offer((CPU, GPU), "auto", ("The other is too old.",))
    assert titles(devices)[-1] == "&Why not every GPU?"
    devices.offer((CPU, GPU), "auto")
    assert titles(devices) == ["Automatic", "Processor (CPU)", "GPU 0"]
    assert devices.title_chosen == "Automatic"


def test_workers_of_a_cluster(empty, devices):
    session = Session()
    devices.chosen.connect(session.choose_device)
    devices.offer((CPU,), session.chosen_device, threads=4)
    clusters = devices.actions()[-1].menu()
    here, running, prompted = clusters.actions()
    assert here.text() == "4 workers on this machine"
    assert all(
        "closed network" in action.toolTip().replace("\n", " ")
        for action in (here, running, prompted)
    )
    here.trigger()
    assert (session.cluster, session.device) == ("local:4", "auto")
    running.trigger()
    assert session.cluster == "auto"
    # Another one is asked for, and stands in the menu from then on.
    prompted.trigger()
    dialog = empty.findChild(QInputDialog)
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


def model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def test_only_local_paths_count(tmp_path):
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path)), QUrl("https://example.org/model")])
    assert local_paths(data) == (tmp_path,)


def test_a_folder_of_models_is_looked_into_and_a_model_is_not(tmp_path):
    outer = model(tmp_path / "outer")
    model(outer / "checkpoint-500")
    assert is_collection(tmp_path)
    assert not is_collection(outer)
    (tmp_path / "empty").mkdir()
    assert not is_collection(tmp_path / "empty")
    assert not is_collection(tmp_path / "nowhere")


def test_a_pipeline_is_one_model_and_not_its_parts(tmp_path):
    model(tmp_path / "sd/unet")
    (tmp_path / "sd/model_index.json").write_text("{}")
    assert not is_collection(tmp_path / "sd")
