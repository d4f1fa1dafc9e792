"""The application's name, version and paper."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QVBoxLayout, QWidget

from ace_gui import __version__
from ace_gui.gui.theme import icon
from ace_gui.gui.widgets.labels.plain_label import heading, muted_label, plain_label


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
        layout = QVBoxLayout(self)
        layout.addWidget(picture)
        layout.addWidget(heading(f"ACE Workbench {__version__}", self))
        layout.addWidget(
            plain_label(
                "Merges fine-tuned models in closed form, without data, and shows layer by "
                "layer what the merge does.",
                self,
            )
        )
        layout.addWidget(muted_label("Each method's form cites its papers. Apache-2.0.", self))
        layout.addWidget(buttons)
