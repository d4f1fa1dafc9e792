"""The application's name, version and paper."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QWidget

from ace_gui import __version__
from ace_gui.gui.theme import icon
from ace_gui.gui.widgets.labels.plain_label import heading, muted_label, plain_label
from ace_gui.gui.widgets.layout.arrangement import down

_WHAT: Final = (
    "Merges fine-tuned models in closed form, without data, and shows layer by layer what the "
    "merge does."
)


class AboutDialog(QDialog):
    """The About dialog."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("About ACE Workbench")
        self.setMinimumWidth(420)
        picture = plain_label("", self, wrap=False)
        picture.setPixmap(icon("app").pixmap(64, 64))
        picture.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        title = heading(f"ACE Workbench {__version__}", self)
        what = plain_label(_WHAT, self)
        note = muted_label("Each method's form cites its papers. Apache-2.0.", self)
        self.setLayout(down(picture, title, what, note, buttons, margins=(16, 16, 16, 12)))
