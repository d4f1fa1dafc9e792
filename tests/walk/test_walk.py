"""Nothing is cut, nothing overlaps, nothing is off the screen, in any state of the window."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from ace_gui.gui.languages import LANGUAGES, SOURCE
from ace_gui.gui.widgets.labels.plain_label import ElidedLabel, plain_label
from tests.helpers.glue_family import glue_family
from tests.helpers.windows import in_view
from tests.walk.__main__ import FONTS, SIZES
from tests.walk.faults import faults_in

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


@pytest.mark.long
@pytest.mark.parametrize("font", FONTS[:2])
@pytest.mark.parametrize("language", sorted(LANGUAGES.keys() - {SOURCE}))
def test_every_language_has_room(language: str, font: int):
    end(start("1366x768", font, "--language", language))


# What the walk looks for


def found(qtbot, content: QWidget, width: int = 200, height: int = 60) -> str:
    """The faults of a window with this in it."""
    window = QWidget()
    layout = QVBoxLayout(window)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.addWidget(content)
    in_view(qtbot, window, width=width, height=height)
    content.setMinimumSize(0, 0)
    return "\n".join(faults_in(window, ROOM))


def test_what_fits_is_no_fault(qtbot):
    assert found(qtbot, plain_label("some words", wrap=False)) == ""


def test_a_cut_label_is_found(qtbot):
    label = plain_label("rather many words for so little room", wrap=False)
    label.setMaximumWidth(60)
    assert "its words need" in found(qtbot, label)


def test_a_wrapped_label_that_is_too_low_is_found(qtbot):
    label = plain_label("rather many words for so little room, on several lines")
    label.setMaximumSize(100, 16)
    assert "px high, its words need" in found(qtbot, label)


def test_a_text_that_is_elided_to_nothing_is_found(qtbot):
    label = ElidedLabel()
    label.setMaximumWidth(40)
    label.set_full_text("vit.encoder.layer.3.intermediate.dense.weight")
    assert "elided to" in found(qtbot, label)


def test_a_cut_button_is_found(qtbot):
    button = QPushButton("Continue the merge")
    button.setMaximumWidth(50)
    assert "its words need" in found(qtbot, button)


def test_a_short_text_that_does_not_fit_its_field_is_found(qtbot):
    field = QLineEdit("0.123456")
    field.setMaximumWidth(30)
    assert "which needs" in found(qtbot, field)


def test_widgets_that_overlap_or_reach_out_are_found(qtbot):
    content = QWidget()
    row = QHBoxLayout(content)
    one, other = QLabel("one", content), QLabel("other", content)
    row.addWidget(one)
    row.addWidget(other)
    window = in_view(qtbot, content, width=200, height=60)
    other.setGeometry(one.geometry())
    assert "overlap" in "\n".join(faults_in(window, ROOM))
    other.move(190, 0)
    assert "reaches out of it" in "\n".join(faults_in(window, ROOM))


def test_a_window_that_is_larger_than_the_screen_is_found(qtbot):
    window = in_view(qtbot, QWidget(), width=900, height=60)
    assert "larger than the screen" in "\n".join(faults_in(window, ROOM))
