"""Nothing is cut, nothing overlaps, nothing is off the screen, in any state of the window."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QWidget,
)

from ace_gui.gui.plots.merge_plots import MergeBars, MergePoint
from ace_gui.gui.widgets.labels import plain_label
from ace_gui.gui.widgets.layout import scroll_area
from tests.helpers.models import roberta_family
from tests.helpers.recipes import file_of
from tests.helpers.windows import in_view
from tests.walk.faults import look_at

SIZES = ("1280x720", "1366x768", "1600x1000", "2560x1440")
FONTS = (100, 150, 200)
ORDINARY = (("1366x768", 150), ("1280x720", 200))
"""Where there is least room; what the window has when nobody changes it is walked by CI."""
PATIENCE = 580  # s
SCREEN = QSize(800, 600)


def walk(size: str, font: int, *options: str) -> None:
    """In a process of its own, whose screen and fonts these are; it finds nothing wrong."""
    walked = subprocess.run(
        [sys.executable, "-m", "tests.walk", "--size", size, "--font", str(font), *options],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    out = f"{walked.stdout}\n{walked.stderr[-2000:]}"
    assert (walked.returncode, out[:8]) == (0, "0 faults"), out


def test_every_state_is_in_order_in_the_usual_places():
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda place: walk(*place, "--brief"), ORDINARY))


def test_eight_experts_of_another_architecture_are_in_order_and_have_pictures(tmp_path: Path):
    recipe = file_of(tmp_path / "models", roberta_family(tmp_path / "models", experts=8))
    options = ("--scheme", "dark", "--recipe", str(recipe), "--pictures", str(tmp_path / "seen"))
    walk("1600x1000", 100, "--brief", *options)
    taken = {file.name.removesuffix("-1600-100-dark.png") for file in tmp_path.glob("seen/*.png")}
    assert {"welcome", "merging", "merged", "One-layer-Spectrum", "preferences", "export"} <= taken
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in tmp_path.glob("seen/*"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("size", "font", "options"),
    [
        *((size, font, ("--scheme", "light", "dark")) for size in SIZES for font in FONTS),
        ("1366x768", 150, ("--late",)),  # letters become larger in an open window
        ("1600x1000", 200, ("--late",)),
    ],
)
def test_every_state_is_in_order(size: str, font: int, options: tuple[str, ...]):
    walk(size, font, *options)


# What the walk finds


class Written(QWidget):
    """Paints texts, each at its left end, and a square of the size of an icon."""

    def __init__(self, *texts: tuple[str, int, int], ink: str = "#000000", icon: int = 250) -> None:
        super().__init__()
        self.texts = texts
        self.ink = ink
        self.icon = icon

    def paintEvent(self, event) -> None:
        painter = QPainter(self)
        square = QPainterPath()
        painter.fillRect(self.rect(), QColor("#ffffff"))
        painter.setPen(QColor(self.ink))
        for text, x, width in self.texts:
            painter.drawText(QRect(x, 10, width, 40), Qt.AlignmentFlag.AlignLeft, text)
        square.addRect(self.icon, 10, 14, 14)
        painter.drawPath(square)


def narrow(widget: QWidget, width: int, height: int = 100) -> QWidget:
    """The widget with less room than its text needs."""
    outer = QWidget()
    QHBoxLayout(outer).addWidget(widget)
    widget.setMaximumSize(width, height)
    return outer


def placed(*lefts: int) -> QWidget:
    """Buttons over each other, or beyond their parent's edge, where a layout has failed."""
    field = QWidget(outer := QWidget(), geometry=QRect(0, 0, 200, 60))
    QHBoxLayout(field).setEnabled(False)
    for x in lefts:
        QPushButton("Continue", field, geometry=QRect(x, 10, 120, 40))
    return outer


BY_CLICK = Qt.FocusPolicy.ClickFocus
LINE = "rather many words for so little room"
FOUND = [
    ("100×16 for 'rather many'", lambda: narrow(plain_label(LINE), 100, 16)),
    ("for 'Continue it', which needs", lambda: narrow(QPushButton("Continue it"), 50)),
    ("for '0.123456', which needs", lambda: narrow(QLineEdit("0.123456"), 30)),
    ("elided to '0.123456…'", lambda: Written(("0.123456…", 10, 90))),
    ("elided to 'tex…'", lambda: Written(("tex…", 10, 90))),
    ("30×40 for 'words', which needs", lambda: Written(("words", 10, 30))),
    ("300×120 for 'words', which needs", lambda: Written(("words", 280, 90))),
    ("'0.7' is over '0.8'", lambda: Written(("0.7", 10, 90), ("0.8", 12, 90))),
    ("an icon is over 'words'", lambda: Written(("words", 10, 90), icon=20)),
    ("'words' is #999999 on #ffffff: 2.85", lambda: Written(("words", 10, 90), ink="#999999")),
    ("'words' is #ff", lambda: QLabel("<font color='#ff8080'>words</font>")),
    ("reaches out of its 200×60", lambda: placed(150)),
    ("overlap by", lambda: placed(10, 20)),
    ("its tip needs", lambda: QLabel("words", toolTip="a line without an end " * 20)),
    ("QLineEdit(''): has no name", lambda: narrow(QLineEdit(), 100)),
    ("is not reached by Tab", lambda: narrow(QPushButton("Go on", focusPolicy=BY_CLICK), 200)),
]


def seen(qtbot, content: QWidget, width: int = 300, height: int = 120) -> str:
    """All faults of a window with this in it."""
    return "\n".join(look_at(in_view(qtbot, content, width=width, height=height), SCREEN)[1])


@pytest.mark.parametrize(("fault", "make"), FOUND)
def test_a_fault_is_found(qtbot, fault: str, make):
    assert fault in seen(qtbot, make())


def test_what_fits_or_can_be_scrolled_to_is_no_fault(qtbot):
    area = scroll_area("An area")
    area.setWidget(long := QWidget(minimumHeight=900))
    QPushButton("Continue", long, geometry=QRect(10, 800, 160, 40))
    for fine in (plain_label("some words", wrap=False), Written(("words", 10, 90)), area):
        assert seen(qtbot, fine) == ""


def test_what_is_not_on_the_screen_is_found(qtbot):
    window = in_view(qtbot, QWidget(), width=900, height=60)
    assert "larger than the screen" in "\n".join(look_at(window, SCREEN)[1])
    dialog = QDialog(window)
    dialog.setGeometry(-100, 10, 200, 80)
    dialog.show()
    qtbot.waitExposed(dialog)
    dialog.move(-100, 10)
    assert "partly off the screen" in "\n".join(look_at(dialog, SCREEN)[1])


def test_a_plots_text_that_its_view_cuts_is_found(qtbot):
    plot = MergeBars()
    plot.show_merges("norm", [MergePoint("ties", 0.5, 0.0), MergePoint("ace", 1.0, 0.0)])
    assert seen(qtbot, plot, 500, 300) == ""
    assert "px of data" in seen(qtbot, plot, 150, 90)
    plot.resize(500, 300)
    plot.canvas.getViewBox().setXRange(0, 1.01, padding=0)  # no room for a number at a bar's end
    assert "1.00', which needs" in "\n".join(look_at(plot, SCREEN)[1])
