"""The first page: how to begin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QPushButton, QToolButton, QVBoxLayout, QWidget

from ace_gui.gui.theme import Theme, icon
from ace_gui.gui.widgets.arrangement import clear_layout
from ace_gui.gui.widgets.plain_label import muted_label, plain_label

_WIDTH = 460
_PICTURE = 64
_RECENT_SHOWN = 5


class WelcomePanel(QWidget):
    """A call to action, a hint that things may be dropped, and what was open lately.

    ``recent_chosen`` carries a path.
    """

    recent_chosen = Signal(object)

    def __init__(self, actions: Sequence[QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._picture = plain_label("", self, wrap=False)
        self._picture.setFixedHeight(_PICTURE + 8)
        self._picture.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._buttons: list[tuple[QPushButton, QAction]] = []
        column = QWidget(self)
        column.setFixedWidth(_WIDTH)
        inner = QVBoxLayout(column)
        inner.setSpacing(8)
        inner.addWidget(self._picture)
        inner.addWidget(_title("Merge fine-tuned models into one"))
        inner.addWidget(
            _centred(
                "Open the base model, add the models fine-tuned from it, see "
                "layer by layer where they disagree, and merge them in closed "
                "form, without any data."
            )
        )
        inner.addSpacing(10)
        for number, action in enumerate(actions):
            button = _action_button(action, first=number == 0)
            self._buttons.append((button, action))
            inner.addWidget(button)
        inner.addWidget(
            _centred(
                "or drop model folders, .safetensors files or a recipe anywhere in this window"
            )
        )
        self._recent_title = _centred("Opened lately")
        inner.addSpacing(10)
        inner.addWidget(self._recent_title)
        self._recent = QVBoxLayout()
        self._recent.setSpacing(0)
        inner.addLayout(self._recent)
        layout = QVBoxLayout(self)
        layout.addStretch(2)
        layout.addWidget(column, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch(3)

    def set_theme(self, theme: Theme) -> None:  # noqa: ARG002  (icons know the theme)
        """The pictures in the theme's colours."""
        for button, action in self._buttons:
            button.setIcon(action.icon())
        self._picture.setPixmap(icon("app").pixmap(QSize(_PICTURE, _PICTURE)))

    def set_recent(self, paths: Sequence[Path]) -> None:
        """Offer what was opened lately."""
        clear_layout(self._recent)
        for path in paths[:_RECENT_SHOWN]:
            button = QToolButton(self)
            button.setAutoRaise(True)
            button.setText(f"{path.name}   {path.parent}".replace("&", "&&"))
            button.setAccessibleName(f"Open {path}")
            button.setToolTip(f"Open {path.name}".replace("<", "‹"))
            button.setFixedWidth(_WIDTH - 24)
            button.clicked.connect(lambda _=False, path=path: self.recent_chosen.emit(path))
            self._recent.addWidget(button)
        self._recent_title.setVisible(bool(paths))


def _title(text: str) -> QWidget:
    label = plain_label(text)
    font = label.font()
    font.setPointSizeF(font.pointSizeF() * 1.5)
    label.setFont(font)
    label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
    return label


def _centred(text: str) -> QWidget:
    label = muted_label(text)
    label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
    return label


def _action_button(action: QAction, *, first: bool) -> QPushButton:
    button = QPushButton(action.icon(), action.text().replace("&", ""))
    button.setAccessibleName(action.text().replace("&", ""))
    button.setMinimumHeight(34)
    button.setDefault(first)
    button.clicked.connect(action.trigger)
    return button
