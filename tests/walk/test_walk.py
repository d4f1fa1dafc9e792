"""Nothing is cut, nothing overlaps, nothing is off the screen, in any state of the window."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPalette
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QTabBar,
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
from tests.walk.faults import look_at

SIZES = ("1280x720", "1366x768", "1600x1000", "2560x1440")
FONTS = (100, 150, 200)
ORDINARY = (("1366x768", 150), ("1280x720", 200))
"""Where there is least room; what the window has when nobody changes it is walked by CI."""
PATIENCE = 580  # s
SCREEN = QSize(800, 600)


def start(size: str, font: int, *options: str) -> subprocess.Popen[str]:
    """A walk in a process of its own: the screen's size and the fonts are a process's."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.walk", "--size", size, "--font", str(font), *options],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(*walks: subprocess.Popen[str]) -> None:
    """Wait for them; they found nothing wrong."""
    try:
        for walk in walks:
            out, err = walk.communicate(timeout=PATIENCE)
            assert (walk.returncode, out[:8]) == (0, "0 faults"), f"{out}\n{err[-2000:]}"
    finally:
        for walk in walks:
            walk.kill()
            walk.communicate()


def test_every_state_is_in_order_in_the_usual_places():
    end(*(start(size, font, "--brief") for size, font in ORDINARY))


def test_eight_experts_of_another_architecture_are_in_order_and_have_pictures(tmp_path: Path):
    recipe = glue_family(tmp_path / "models", blocks=1, width=32)
    pictures = tmp_path / "pictures"
    options = ("--scheme", "dark", "--recipe", str(recipe), "--pictures", str(pictures))
    end(start("1600x1000", 100, "--brief", *options))
    taken = {file.name.removesuffix("-1600-100-dark.png") for file in pictures.iterdir()}
    assert {"welcome", "merging", "merged", "inspector-Spectrum", "preferences", "export"} <= taken
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in pictures.iterdir())


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
    end(start(size, font, *options))


# What the walk finds


class Written(QWidget):
    """Paints some texts, each at its left end, in black."""

    def __init__(self, *texts: tuple[str, int, int], ink: str = "#000000") -> None:
        super().__init__()
        self.texts, self.ink = texts, ink

    def paintEvent(self, event) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor("#ffffff"))
        painter.setPen(QColor(self.ink))
        for text, left, width in self.texts:
            painter.drawText(QRect(left, 10, width, 40), Qt.AlignmentFlag.AlignLeft, text)


def narrow(widget: QWidget, width: int, height: int = 100) -> QWidget:
    """The widget with less room than its text needs."""
    outer = QWidget()
    QHBoxLayout(outer).addWidget(widget)
    widget.setMaximumSize(width, height)
    return outer


def moved(*lefts: int) -> QWidget:
    """Labels whose layout does not work."""
    content = QWidget()
    row = QHBoxLayout(content)
    for left in lefts:
        row.addWidget(label := QLabel("words", content))
        label.move(left, 10)
    row.setEnabled(False)
    return content


def filled(widget: QWidget, fill: str, *texts: str) -> QWidget:
    """The widget after a call of ``fill`` for each text."""
    for text in texts:
        getattr(widget, fill)(text)
    return widget


def table(text: str = "some words", *, height: int = 30, header: str = "a") -> QWidget:
    rows = QTableWidget(2, 1)
    rows.setItem(0, 0, QTableWidgetItem(text))
    rows.setHorizontalHeaderLabels([header])
    rows.setColumnWidth(0, 50)
    rows.verticalHeader().setMinimumSectionSize(1)
    rows.verticalHeader().setDefaultSectionSize(height)
    return rows


def tick() -> QWidget:
    tree = QTreeWidget(columnCount=2)
    tree.addTopLevelItem(item := QTreeWidgetItem(["textures", "fits"]))
    item.setCheckState(0, Qt.CheckState.Checked)
    tree.header().setMinimumSectionSize(1)
    tree.header().resizeSection(0, tree.fontMetrics().horizontalAdvance("textures") + 12)
    return tree


def cut_by_its_parent() -> QWidget:
    field = QWidget(content := QWidget(), geometry=QRect(10, 10, 60, 40))
    QPushButton("Continue", field, geometry=QRect(20, 0, 120, 40))
    return content


def pale() -> QWidget:
    label, palette = QLabel("other words"), QPalette()
    palette.setColor(QPalette.ColorRole.WindowText, palette.window().color())
    label.setPalette(palette)
    return narrow(label, 200)


OUT_OF_TAB = partial(QPushButton, focusPolicy=Qt.FocusPolicy.ClickFocus)
TITLES = ("Spectrum", "Distribution", "Subspaces")
TABS = {"usesScrollButtons": False, "elideMode": Qt.TextElideMode.ElideRight}
LONG = "rather many words for so little room"
FOUND = [
    (f"for '{LONG}', which needs", lambda: narrow(plain_label(LONG, wrap=False), 60)),
    (f"100×16 for '{LONG}'", lambda: narrow(plain_label(LONG), 100, 16)),
    ("elided to ", lambda: narrow(filled(ElidedLabel(), "set_full_text", "a.very.long.name"), 40)),
    ("for 'Continue it', which needs", lambda: narrow(QPushButton("Continue it"), 50)),
    ("for '0.123456', which needs", lambda: narrow(QLineEdit("0.123456"), 30)),
    (
        "for 'ties of many', which",
        lambda: narrow(filled(QComboBox(), "addItem", "ties of many"), 60),
    ),
    (
        "for 'Subspaces', which",
        lambda: narrow(filled(QTabBar(**TABS), "addTab", *TITLES), 90),
    ),
    ("for 'a very wide header', which needs", lambda: table(header="a very wide header")),
    ("for '0.123456789', which needs", lambda: table("0.123456789")),
    ("×6 for 'some words', which needs", lambda: table("some words", height=7)),
    ("elided to ", tick),
    ("30×40 for 'words', which needs", lambda: Written(("words", 10, 30))),
    ("300×120 for 'words', which needs", lambda: Written(("words", 280, 90))),
    ("shortened to 'r…'", lambda: Written(("r…", 10, 200))),
    ("'0.7' is over '0.8'", lambda: Written(("0.7", 10, 90), ("0.8", 12, 90))),
    ("'words' is #999999 on #ffffff: 2.85", lambda: Written(("words", 10, 90), ink="#999999")),
    ("'other words' is", pale),
    ("is cut by QWidget('') of 60×40", cut_by_its_parent),
    ("its tip needs", lambda: QLabel("words", toolTip="a line without an end " * 20)),
    ("overlap", lambda: moved(10, 12)),
    ("reaches out of it", lambda: moved(290)),
    ("QLineEdit(''): in QWidget('') has no name", lambda: narrow(QLineEdit(), 100)),
    ("QPushButton('Continue'): is not reached by Tab", lambda: narrow(OUT_OF_TAB("Continue"), 200)),
]


def seen(qtbot, content: QWidget, width: int = 300, height: int = 120) -> str:
    """All faults of a window with this in it."""
    window = in_view(qtbot, content, width=width, height=height)
    return "\n".join(look_at(window, SCREEN)[1])


@pytest.mark.parametrize(("fault", "make"), FOUND)
def test_a_fault_is_found(qtbot, fault: str, make):
    assert fault in seen(qtbot, make())


@pytest.mark.parametrize(
    "make", [lambda: plain_label("some words", wrap=False), lambda: Written(("words", 10, 90))]
)
def test_what_fits_is_no_fault(qtbot, make):
    assert seen(qtbot, make()) == ""


def test_what_can_be_scrolled_to_is_not_cut(qtbot):
    area = scroll_area("An area")
    area.setWidget(long := QWidget(minimumHeight=900))
    QPushButton("Continue", long, geometry=QRect(10, 800, 160, 40))
    assert "cut" not in seen(qtbot, area)


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
    plot.canvas.getViewBox().setXRange(0, 1.01, padding=0)  # no room for a number at a bar's end
    assert "1', which needs" in "\n".join(look_at(plot, SCREEN)[1])
