"""A heading that expands or collapses its section."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy, QToolButton, QVBoxLayout, QWidget


class Folding(QWidget):
    """A button with a triangle over a widget; collapsed at first."""

    def __init__(self, title: str, content: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._content = content
        self._button = QToolButton(self)
        self._button.setText(title)
        self._button.setAccessibleName(title)
        self._button.setProperty("kind", "fold")
        self._button.setCheckable(True)
        self._button.setAutoRaise(True)
        self._button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._button.toggled.connect(self._fold)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._button)
        layout.addWidget(content)
        self._fold(False)

    def unfold(self) -> None:
        """Expand the section."""
        self._button.setChecked(True)

    def fold(self) -> None:
        """Collapse the section."""
        self._button.setChecked(False)

    @property
    def is_open(self) -> bool:
        """Whether the section is expanded."""
        return self._button.isChecked()

    def _fold(self, shown: bool) -> None:
        self._button.setArrowType(Qt.ArrowType.DownArrow if shown else Qt.ArrowType.RightArrow)
        self._content.setVisible(shown)
