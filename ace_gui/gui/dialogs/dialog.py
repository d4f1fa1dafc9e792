"""The base of the dialogs, with a size that fits the screen and a row of buttons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPushButton, QWidget

from ace_gui.gui.theme.drawn_controls import scale
from ace_gui.gui.widgets.layout import Part, down, move_focus

_OF_SCREEN: Final = 0.92
_Standard = QDialogButtonBox.StandardButton
_Roles = QDialogButtonBox.ButtonRole


class Dialog(QDialog):
    """A dialog. ``cancels``: the button that closes it is called Cancel, not Close."""

    def __init__(self, title: str, parent: QWidget | None, *, cancels: bool = False) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        if cancels:
            self._standard = _Standard.Cancel
        else:
            self._standard = _Standard.Close
        self.buttons = QDialogButtonBox(self._standard)
        self.buttons.rejected.connect(self.reject)

    @property
    def close_button(self) -> QPushButton:
        return self.buttons.button(self._standard)

    def fit(self, width: int, height: int, *, lines: bool = False) -> None:
        """Set the size, in px at the normal font size or in text lines, as far as the screen
        allows."""
        size = QSize(width, height) * (self.fontMetrics().height() if lines else scale())
        self.resize(size.boundedTo(self.screen().availableSize() * _OF_SCREEN))

    def grow(self) -> None:
        """Grow as far as the content now needs, and the screen allows."""
        layout = self.layout()
        if layout is not None:
            layout.activate()
        most = self.screen().availableSize() * _OF_SCREEN
        self.resize(self.size().expandedTo(self.sizeHint()).boundedTo(most))

    def add_button(
        self, text: str, pressed: Callable[[], object], *, kind: str = "", tip: str = ""
    ) -> QPushButton:
        """Append a button. In a dialog with *Cancel*, Enter in a field presses it."""
        accepts = self._standard is _Standard.Cancel
        button = self.buttons.addButton(text, _Roles.AcceptRole if accepts else _Roles.ActionRole)
        if kind:
            button.setProperty("kind", kind)
        button.setToolTip(tip)
        button.clicked.connect(lambda _=False: pressed())
        return button

    def fill(self, *parts: Part, margin: int = 12, gap: int = 8) -> None:
        """Set the content above the buttons."""
        self.setLayout(down(*parts, self.buttons, margins=[margin] * 4, gap=gap))

    def focusNextPrevChild(self, forward: bool) -> bool:
        return move_focus(self, forward=forward)
