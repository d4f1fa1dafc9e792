from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

from ace_gui.errors import MismatchError
from ace_gui.gui.panels.notice import Notice
from ace_gui.gui.state.activity import Level
from ace_gui.gui.theme import current_theme
from ace_gui.gui.widgets.labels import IconLabel

ERROR = MismatchError(
    "`q` is 4×3 in cola but 8×3 in the base; choose another expert.",
    path=Path("/models/cola"),
    tensor="q",
    shapes={"base": (8, 3), "cola": (4, 3)},
    details="Traceback …",
)
SHOWN = "“q” is 4×3 in cola but 8×3 in the base; choose another expert."


@pytest.fixture
def notice(qtbot) -> Notice:
    notice = Notice()
    qtbot.addWidget(notice)
    return notice


def test_a_sentence_is_shown_with_its_details_folded_away_copied_and_dismissed(notice):
    assert notice.isHidden()
    notice.show_error(ERROR)
    assert notice.message_text == SHOWN
    assert not notice.isHidden()
    assert notice.details.isHidden()
    notice.details_button.click()
    assert not notice.details.isHidden()
    for detail in ("/models/cola", "[8, 3]", "MismatchError", "Traceback"):
        assert detail in notice.details.toPlainText()
    notice.copy.click()
    copied = QGuiApplication.clipboard().text()
    assert SHOWN in copied
    assert "/models/cola" in copied
    notice.show_message(Level.INFO, "Done.")
    assert notice.details.isHidden()
    assert notice.details_button.isHidden()
    notice.dismiss.click()
    assert notice.isHidden()


def test_answers_stand_in_one_line_with_details_and_copy(notice):
    notice.ask(Level.WARNING, "Too far.", "More.", {"Merge anyway": lambda: None})
    notice.resize(500, 200)
    buttons = (notice.details_button, notice.copy, *notice.answers)
    assert len({(button.y(), button.height()) for button in buttons}) == 1


def test_markup_and_control_characters_of_file_names_do_nothing(notice):
    notice.show_message(Level.WARNING, "<b>bold\u202e</b>")
    assert notice.sentence.textFormat() == Qt.TextFormat.PlainText
    assert notice.message_text == "<b>bold</b>"


def test_a_long_name_wraps_and_is_copied_as_it_is(notice):
    name = "a_very_long_name/" * 3 + ".layer.0.weight" * 3
    notice.show_message(Level.WARNING, f"“{name}” holds no tensors.")
    assert notice.sentence.minimumSizeHint().width() < notice.fontMetrics().horizontalAdvance(name)
    notice.copy.click()
    assert QGuiApplication.clipboard().text() == f"“{name}” holds no tensors."


@pytest.mark.parametrize("level", [Level.INFO, Level.WARNING, Level.ERROR])
def test_a_toasts_icon_has_the_colour_of_its_level(qtbot, level):
    toast = Notice(floats=True)
    qtbot.addWidget(toast)
    toast.show_message(level, "Something.")
    (icon,) = toast.findChildren(IconLabel)
    image = icon.grab().toImage()
    inks = {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(16)}
    theme = current_theme()
    expected = {
        Level.INFO: theme.toast_action,
        Level.WARNING: theme.toast_warn,
        Level.ERROR: theme.toast_bad,
    }
    assert expected[level] in inks
