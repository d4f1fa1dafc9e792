"""Nothing is cut, nothing overlaps, nothing is off the screen, in any state of the window."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from ace_gui.gui.plots.merges_plot import MergeBars, MergePoint
from ace_gui.gui.widgets.labels.plain_label import ElidedLabel, plain_label
from ace_gui.gui.widgets.layout.arrangement import scroll_area
from tests.helpers.glue_family import glue_family
from tests.helpers.windows import in_view
from tests.walk.__main__ import FONTS, SIZES
from tests.walk.faults import faults_in
from tests.walk.look import look_at

ORDINARY = (("1366x768", 150), ("1280x720", 200))
"""Where there is least room; what the window has when nobody changes it is walked by CI."""

PATIENCE = 580  # s
ROOM = QSize(800, 600)


def start(size: str, font: int, *options: str) -> subprocess.Popen[str]:
    """A walk in a process of its own: the screen's size and the fonts are a process's."""
    command = [sys.executable, "-m", "tests.walk", "--size", size, "--font", str(font)]
    return subprocess.Popen(
        [*command, *options],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(walk: subprocess.Popen[str]) -> None:
    """Wait for it; it found nothing wrong."""
    said, complained = walk.communicate(timeout=PATIENCE)
    assert walk.returncode == 0, f"{said}\n{complained[-2000:]}"
    assert said.startswith("0 faults"), said


def test_every_state_is_in_order_in_the_usual_places():
    walks = [start(size, font, "--brief") for size, font in ORDINARY]
    try:
        for walk in walks:
            end(walk)
    finally:
        for walk in walks:
            walk.kill()
            walk.communicate()


def test_eight_experts_of_another_architecture_are_in_order_and_have_pictures(tmp_path: Path):
    recipe = glue_family(tmp_path / "models", blocks=1, width=32)
    pictures = tmp_path / "pictures"
    options = ("--scheme", "dark", "--recipe", str(recipe), "--pictures", str(pictures))
    end(start("1600x1000", 100, "--brief", *options))
    taken = {file.name.removesuffix("-1600-100-dark.png") for file in pictures.iterdir()}
    assert {"welcome", "merging", "merged", "inspector-Spectrum", "preferences", "export"} <= taken
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in pictures.iterdir())


@pytest.mark.long
@pytest.mark.parametrize("font", FONTS)
@pytest.mark.parametrize("size", [f"{width}x{height}" for width, height in SIZES])
def test_every_state_is_in_order(size: str, font: int):
    end(start(size, font, "--scheme", "light", "dark"))


@pytest.mark.long
@pytest.mark.parametrize(("size", "font"), [("1366x768", 150), ("1600x1000", 200)])
def test_letters_become_larger_in_an_open_window(size: str, font: int):
    end(start(size, font, "--late"))


# What the walk finds


class Written(QWidget):
    """Paints some texts, each in a rectangle."""

    def __init__(self, *texts: tuple[str, QRect], ink: str = "#000000") -> None:
        super().__init__()
        self.texts, self.ink = texts, ink

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor("#ffffff"))
        painter.setPen(QColor(self.ink))
        for text, index in self.texts:
            painter.drawText(index, Qt.AlignmentFlag.AlignLeft, text)


def narrow(widget: QWidget, width: int, height: int = 100) -> QWidget:
    """The widget with less room than its text needs."""
    outer = QWidget()
    layout = QHBoxLayout(outer)
    layout.addWidget(widget)
    widget.setMaximumSize(width, height)
    return outer


def words(rect: tuple[int, int, int, int], text: str = "rather many words", **ink: str) -> QWidget:
    return Written((text, QRect(*rect)), **ink)


def elided() -> QWidget:
    label = ElidedLabel()
    label.set_full_text("vit.encoder.layer.3.intermediate.dense.weight")
    return narrow(label, 40)


def cut_by_its_parent() -> QWidget:
    content = QWidget()
    field = QWidget(content)
    field.setGeometry(10, 10, 60, 40)
    QPushButton("Continue", field).setGeometry(20, 0, 120, 40)
    return content


def low_rows() -> QWidget:
    table = QTableWidget(2, 1)
    table.setItem(0, 0, QTableWidgetItem("some words"))
    table.verticalHeader().setMinimumSectionSize(1)
    table.verticalHeader().setDefaultSectionSize(7)
    return table


def short_name_beside_a_tick() -> QWidget:
    tree = QTreeWidget()
    tree.setColumnCount(2)
    item = QTreeWidgetItem(["textures", "fits"])
    item.setCheckState(0, Qt.CheckState.Checked)
    tree.addTopLevelItem(item)
    tree.header().setMinimumSectionSize(1)
    tree.header().resizeSection(0, tree.fontMetrics().horizontalAdvance("textures") + 12)
    return tree


def long_tip() -> QWidget:
    label = plain_label("words", wrap=False)
    label.setToolTip("a line without an end " * 20)
    return label


def pale_label() -> QWidget:
    window = QWidget()
    label = QLabel("other words", window)
    palette = label.palette()
    palette.setColor(label.foregroundRole(), palette.window().color())
    label.setPalette(palette)
    return window


def placed_by_hand(*corners: tuple[int, int]) -> QWidget:
    """Labels in a row, whose layout does not work."""
    content = QWidget()
    row = QHBoxLayout(content)
    for at in corners:
        label = QLabel("words", content)
        row.addWidget(label)
        label.move(*at)
    row.setEnabled(False)
    return content


def passed_by_tab() -> QWidget:
    button = QPushButton("Continue")
    button.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
    return narrow(button, 200)


LONG = "rather many words for so little room"
WIDE = (10, 10, 200, 40)
FOUND = {
    "its words need": lambda: narrow(plain_label(LONG, wrap=False), 60),
    "px high, its words need": lambda: narrow(plain_label(f"{LONG}, in lines"), 100, 16),
    "elided to": elided,
    "words need": lambda: narrow(QPushButton("Continue the merge"), 50),
    "which needs": lambda: narrow(QLineEdit("0.123456"), 30),
    "30×40 for 'rather many words', which needs": lambda: words((10, 10, 30, 40)),
    "of 'rather many words' is seen, which needs": lambda: words((270, 10, 200, 40)),
    "shortened to 'r…'": lambda: words(WIDE, "r…"),
    "'0.7' lies over '0.8'": lambda: Written(
        ("0.7", QRect(*WIDE)), ("0.8", QRect(12, 12, 200, 40))
    ),
    "'some words' is #999999 on #ffffff: 2.85": lambda: words(WIDE, "some words", ink="#999999"),
    "'other words' is": pale_label,
    "is cut by QWidget('') of 60×40": cut_by_its_parent,
    "has a row of 6 px": low_rows,
    "elided to '": short_name_beside_a_tick,
    "its tip needs": long_tip,
    "overlap": lambda: placed_by_hand((10, 10), (12, 10)),
    "reaches out of it": lambda: placed_by_hand((290, 10)),
    "QLineEdit in QWidget('') has no name": lambda: narrow(QLineEdit(), 100),
    "QPushButton('Continue') is not reached by Tab": passed_by_tab,
}


def seen(qtbot, content: QWidget, width: int = 300, height: int = 120) -> str:
    """All faults of a window with this in it."""
    window = in_view(qtbot, content, width=width, height=height)
    return "\n".join(look_at(window, ROOM)[1])


@pytest.mark.parametrize("fault", FOUND)
def test_a_fault_is_found(qtbot, fault: str):
    assert fault in seen(qtbot, FOUND[fault]())


@pytest.mark.parametrize(
    "make", [lambda: plain_label("some words", wrap=False), lambda: words(WIDE)]
)
def test_what_fits_is_no_fault(qtbot, make):
    assert seen(qtbot, make()) == ""


def test_what_can_be_scrolled_to_is_not_cut(qtbot):
    area = scroll_area("An area")
    area.setWidget(long := QWidget())
    long.setMinimumHeight(900)
    QPushButton("Continue", long).setGeometry(10, 800, 160, 40)
    assert "cut" not in seen(qtbot, area)


def test_what_is_not_on_the_screen_is_found(qtbot):
    window = in_view(qtbot, QWidget(), width=900, height=60)
    assert "larger than the screen" in "\n".join(faults_in(window, ROOM))
    dialog = QDialog(window)
    dialog.setGeometry(-100, 10, 200, 80)
    dialog.show()
    qtbot.waitExposed(dialog)
    dialog.move(-100, 10)
    assert "partly off the screen" in "\n".join(look_at(dialog, ROOM)[1])


def test_a_plots_text_that_its_view_cuts_is_found(qtbot):
    plot = MergeBars()
    plot.show_merges("norm", [MergePoint("ties", 0.5, 0.0), MergePoint("ace", 1.0, 0.0)])
    assert seen(qtbot, plot, 500, 300) == ""
    plot.canvas.getViewBox().setXRange(0, 1.01, padding=0)  # no room for a number at a bar's end
    assert "1' is seen, which needs" in "\n".join(look_at(plot, ROOM)[1])
