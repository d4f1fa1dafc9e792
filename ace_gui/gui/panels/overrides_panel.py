"""The recipe's overrides as a list."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QFontMetrics, QKeySequence
from PySide6.QtWidgets import (
    QListWidget,
    QListWidgetItem,
    QToolButton,
    QWidget,
)

from ace_gui.gui.state.activity import State
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.widgets.labels.plain_label import muted_label
from ace_gui.gui.widgets.labels.terms import explain
from ace_gui.gui.widgets.layout.arrangement import across, down
from ace_gui.gui.widgets.layout.font_metrics import on_font_change
from ace_gui.recipe import Override
from ace_gui.recipe.rules import describe, describe_change

_NONE = "No overrides. Add one, or open the menu of selected layers."
_LINES_SHOWN = 6


class OverridesPanel(QWidget):
    """``overrides_edited`` carries the new rules, ``rule_wanted`` the index of the rule to edit.

    The index of a new rule is -1.
    """

    overrides_edited = Signal(object)
    rule_wanted = Signal(int)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        explain(self, "Override")
        self._session = session
        self._none = muted_label(_NONE, self)
        self.list = self._make_list()
        self.add = _button("Add…", "Merge some tensors differently", self)
        self.edit = _button("Edit…", "Change the selected override", self)
        self.remove = _button("Remove", "Remove the selected override", self)
        self.add.clicked.connect(lambda _=False: self.rule_wanted.emit(-1))
        self.edit.clicked.connect(lambda _=False: self._edit())
        self.remove.clicked.connect(lambda _=False: self._remove())
        buttons = across(self.add, self.edit, self.remove, None)
        self.setLayout(down(self._none, self.list, buttons))
        session.draft.changed.connect(self.refresh)
        session.activity.changed.connect(self._allow)
        on_font_change(self.list, self._measure)
        self.refresh()

    def refresh(self) -> None:
        """Show the session's rules, each with its number of tensors."""
        rules = self._session.draft.inputs.overrides
        chosen = self.list.currentRow()
        self.list.clear()
        for index, rule in enumerate(rules):
            self.list.addItem(self._item(index, rule))
        self.list.setCurrentRow(min(chosen, len(rules) - 1))
        self.list.setVisible(bool(rules))
        self._none.setVisible(not rules)
        self._measure(self.list.fontMetrics())
        self._allow()

    def _measure(self, metrics: QFontMetrics) -> None:
        line = 2 * metrics.lineSpacing() + 8
        self.list.setFixedHeight(min(self.list.count(), _LINES_SHOWN) * line + 6)

    def _item(self, index: int, rule: Override) -> QListWidgetItem:
        titles = {method.name: method.title for method in self._session.draft.methods}
        count = self._count(index)
        held = "" if count is None else f" ({count})"
        text = f"{describe(rule)}{held}\n→ {describe_change(rule, titles)}"
        item = QListWidgetItem(plain(text))
        names = "\n".join(rule.tensors)
        item.setToolTip(tooltip(f"{text}\n{names}".strip()))
        return item

    def _count(self, index: int) -> int | None:
        """The number of tensors that match a rule; None while the plan has other rules."""
        plan = self._session.draft.plan
        if plan is None or plan.recipe.overrides != self._session.draft.inputs.overrides:
            return None
        return sum(row.override is not None and index in row.override.rules for row in plan.rows)

    def _make_list(self) -> QListWidget:
        made = QListWidget(self)
        made.setObjectName("overrides")
        made.setAccessibleName("Overrides")
        made.setToolTip("Different settings for some tensors; the later of two wins")
        made.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        made.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        made.itemActivated.connect(lambda _: self._edit())
        made.currentRowChanged.connect(lambda _: self._allow())
        remove = QAction("Remove override", made)
        remove.setShortcut(QKeySequence(QKeySequence.StandardKey.Delete))
        remove.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        remove.triggered.connect(lambda _=False: self._remove())
        made.addAction(remove)
        return made

    def _edit(self) -> None:
        if self.edit.isEnabled():
            self.rule_wanted.emit(self.list.currentRow())

    def _remove(self) -> None:
        if self.remove.isEnabled():
            rules, index = self._session.draft.inputs.overrides, self.list.currentRow()
            self.overrides_edited.emit((*rules[:index], *rules[index + 1 :]))

    def _allow(self) -> None:
        """Nothing can change during a merge."""
        session = self._session
        locked = session.activity.is_running(State.MERGING, State.EXPORTING)
        free = session.draft.plan is not None and not locked
        self.add.setEnabled(free)
        for button in (self.edit, self.remove):
            button.setEnabled(free and self.list.currentRow() >= 0)


def _button(text: str, tip: str, parent: QWidget) -> QToolButton:
    button = QToolButton(parent)
    button.setText(text)
    button.setAccessibleName(tip)
    button.setToolTip(tip)
    return button
