"""Controls of a plot, which its pictures omit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QComboBox, QStyle, QStyleOptionComboBox, QToolButton, QWidget

from ace_gui.gui.text import tooltip
from ace_gui.gui.theme import icon
from ace_gui.gui.widgets.fields.buttons import tool_button


class Choice(QComboBox):
    """A choice among a few options with tooltips. ``chosen`` follows a change."""

    chosen = Signal()

    def __init__(
        self, name: str, options: Mapping[Any, tuple[str, str]], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._values: tuple[Hashable, ...] = ()
        self._options: Mapping[Any, tuple[str, str]] = {}
        self.setAccessibleName(name)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.currentIndexChanged.connect(self._emit_chosen)
        self.offer(options)

    def offer(self, options: Mapping[Any, tuple[str, str]]) -> None:
        """Set the options, at least one. Keeps the current one or takes the first, without a
        signal."""
        if options == self._options:
            return
        chosen = self._values[self.currentIndex()] if self._values else None
        with QSignalBlocker(self):
            self.clear()
            self._options, self._values = dict(options), tuple(options)
            for index, (text, tip) in enumerate(options.values()):
                self.addItem(text)
                self.setItemData(index, tooltip(tip), Qt.ItemDataRole.ToolTipRole)
            self.setCurrentIndex(self._values.index(chosen) if chosen in self._values else 0)
        self._explain()

    @property
    def options(self) -> tuple[Hashable, ...]:
        """The values that can be chosen."""
        return self._values

    @property
    def current(self) -> Any:
        """The chosen value."""
        return self._values[self.currentIndex()]

    def choose(self, value: Hashable) -> None:
        """Choose ``value``. ``ValueError`` if it is not offered."""
        self.setCurrentIndex(self._values.index(value))

    def initStyleOption(self, option: QStyleOptionComboBox) -> None:
        """Elide long texts in the middle, because names of runs differ at the end."""
        super().initStyleOption(option)
        part, control = QStyle.SubControl.SC_ComboBoxEditField, QStyle.ComplexControl.CC_ComboBox
        room = self.style().subControlRect(control, option, part, self).width()
        middle = Qt.TextElideMode.ElideMiddle
        option.currentText = self.fontMetrics().elidedText(option.currentText, middle, room)

    def _emit_chosen(self) -> None:
        self._explain()
        self.chosen.emit()

    def _explain(self) -> None:
        self.setToolTip(self.itemData(self.currentIndex(), Qt.ItemDataRole.ToolTipRole))


def head_button(
    text: str, tip: str, pressed: Callable[[], object] | None = None, picture: str = ""
) -> QToolButton:
    """A small button next to a plot's title; ``picture``: its icon instead of the text."""
    button = tool_button(text, tip, pressed)
    if picture:
        button.setIcon(icon(picture))
    button.setAccessibleName(text)
    button.setAccessibleDescription(tip)
    return button
