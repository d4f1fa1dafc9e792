"""The merge methods by family, each with its formula, parameters and paper, to choose one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import (
    QItemSelectionModel,
    QModelIndex,
    QRegularExpression,
    QSize,
    QSortFilterProxyModel,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QKeySequence,
    QShortcut,
    QShowEvent,
    QStandardItem,
    QStandardItemModel,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QFrame,
    QGridLayout,
    QLineEdit,
    QSplitter,
    QTreeView,
    QVBoxLayout,
    QWidget,
)

from ace_gui.engine.contract.events import FieldInfo, MethodInfo
from ace_gui.gui.numbers import value_text
from ace_gui.gui.state.chosen.draft import by_family
from ace_gui.gui.theme import Face, current_theme, face, icon
from ace_gui.gui.widgets.labels.formula import citation, formula
from ace_gui.gui.widgets.labels.plain_label import (
    heading,
    muted_label,
    plain_label,
    secondary_label,
)
from ace_gui.gui.widgets.layout.arrangement import Column, scroll_area
from ace_gui.gui.words import counted, tr

_SIZE: Final = (980, 672)
_SIZES: Final = (288, 692)
_OF_SCREEN: Final = 0.92
_METHOD: Final = Qt.ItemDataRole.UserRole
_WORDS: Final = Qt.ItemDataRole.UserRole + 1


class ChooseMethodDialog(QDialog):
    """``chosen`` carries a method's name and closes the dialog.

    ``current``: the method in force. ``experts``: how many are loaded, 0 if none.
    """

    chosen = Signal(str)

    def __init__(
        self, methods: Sequence[MethodInfo], current: str, experts: int, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._experts = experts
        self.setWindowTitle(tr("Merge method"))
        self.setProperty("kind", "card-dialog")
        self._size_to_screen()
        self._found = QSortFilterProxyModel(self)
        self._found.setSourceModel(_by_family(methods, self, self.fontMetrics().height() + 6))
        self._found.setFilterRole(_WORDS)
        self._found.setFilterCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self._found.setRecursiveFilteringEnabled(True)
        self.filter = QLineEdit(self)
        self.filter.setPlaceholderText(tr("Name, word or author"))
        self.filter.addAction(icon("search"), QLineEdit.ActionPosition.LeadingPosition)
        self.filter.setAccessibleName(tr("Find a method by name, word or author"))
        self.filter.setClearButtonEnabled(True)
        self.tree = self._make_tree()
        self.about = scroll_area(tr("What the method does"), self)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        self.use = self.buttons.addButton(
            tr("&Use this method"), QDialogButtonBox.ButtonRole.AcceptRole
        )
        self.use.setProperty("kind", "primary")
        self._lay_out()
        self.filter.textChanged.connect(self._find)
        down = QShortcut(QKeySequence(Qt.Key.Key_Down), self.filter)
        down.setContext(Qt.ShortcutContext.WidgetShortcut)
        down.activated.connect(self.tree.setFocus)
        self.tree.selectionModel().currentChanged.connect(self._show)
        self.tree.doubleClicked.connect(lambda index: self.use.click() if _info(index) else None)
        self.buttons.accepted.connect(self._choose)
        self.buttons.rejected.connect(self.reject)
        self._select(current)

    @property
    def method(self) -> MethodInfo | None:
        """The method that is selected."""
        return _info(self.tree.currentIndex())

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._bring_into_view()  # only now is it known how much of the list is seen

    def _make_tree(self) -> QTreeView:
        tree = QTreeView(self)
        tree.setAccessibleName(tr("Methods"))
        tree.setProperty("kind", "sunk")
        tree.setModel(self._found)
        tree.setHeaderHidden(True)
        tree.setRootIsDecorated(False)
        tree.setItemsExpandable(False)
        tree.setIndentation(12)
        tree.setUniformRowHeights(True)
        tree.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        tree.expandAll()
        return tree

    def _size_to_screen(self) -> None:
        room = self.screen().availableSize() * _OF_SCREEN
        self.resize(QSize(*_SIZE).boundedTo(room))

    def _lay_out(self) -> None:
        left = QWidget(self)
        left.setProperty("kind", "side")
        left.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        title = plain_label(tr("Merge method"), left, wrap=False)
        title.setFont(face(Face.TITLE))
        column = QVBoxLayout(left)
        column.setContentsMargins(16, 16, 16, 0)
        column.setSpacing(12)
        column.addWidget(title)
        column.addWidget(self.filter)
        column.addWidget(self.tree, 1)
        splitter = QSplitter(self)
        splitter.setChildrenCollapsible(False)
        splitter.setHandleWidth(1)
        splitter.addWidget(left)
        splitter.addWidget(self.about)
        splitter.setSizes(list(_SIZES))
        splitter.setStretchFactor(1, 1)
        foot = QFrame(self)
        foot.setProperty("kind", "foot")
        row = QVBoxLayout(foot)
        row.setContentsMargins(16, 12, 16, 12)
        row.addWidget(self.buttons)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(splitter, 1)
        layout.addWidget(foot)

    def _find(self, words: str) -> None:
        before = self.method
        pattern = QRegularExpression(rf"\b{QRegularExpression.escape(words)}" if words else "")
        pattern.setPatternOptions(
            QRegularExpression.PatternOption.CaseInsensitiveOption
            | QRegularExpression.PatternOption.UseUnicodePropertiesOption
        )
        self._found.setFilterRegularExpression(pattern)
        self.tree.expandAll()
        self._select(before.name if before is not None else "")

    def _select(self, name: str) -> None:
        """The method of that name, or else the first there is."""
        families = [self._found.index(row, 0) for row in range(self._found.rowCount())]
        shown = [
            self._found.index(row, 0, family)
            for family in families
            for row in range(self._found.rowCount(family))
        ]
        named = [index for index in shown if (info := _info(index)) and info.name == name]
        index = (named or shown or [QModelIndex()])[0]
        self.tree.selectionModel().setCurrentIndex(
            index, QItemSelectionModel.SelectionFlag.ClearAndSelect
        )
        self._bring_into_view()
        self._show(index)

    def _bring_into_view(self) -> None:
        hint = QAbstractItemView.ScrollHint.PositionAtCenter
        self.tree.scrollTo(self.tree.currentIndex(), hint)

    def _show(self, index: QModelIndex) -> None:
        method = _info(index)
        self.use.setEnabled(method is not None)
        title = method.title.replace("&", "&&") if method is not None else tr("this method")
        self.use.setText(tr("&Use {title}", title=title))
        self.about.setWidget(_about(method, self._experts))

    def _choose(self) -> None:
        method = self.method
        if method is not None:
            self.accept()
            self.chosen.emit(method.name)


def _by_family(methods: Sequence[MethodInfo], parent: QWidget, height: int) -> QStandardItemModel:
    """A family a row, its methods below it; rows are ``height`` pixels high."""
    model = QStandardItemModel(parent)
    for family, members in by_family(methods):
        title = QStandardItem(family)
        title.setSizeHint(QSize(0, height))
        title.setFlags(Qt.ItemFlag.ItemIsEnabled)
        title.setFont(face(Face.CAPTION_STRONG))
        title.setForeground(QColor(current_theme().text3))
        for method in members:
            item = QStandardItem(method.title)
            item.setSizeHint(QSize(0, height))
            item.setData(method, _METHOD)
            item.setData(f"{method.name} {method.title} {method.summary} {method.citation}", _WORDS)
            title.appendRow(item)
        model.appendRow(title)
    return model


def _info(index: QModelIndex) -> MethodInfo | None:
    info = index.data(_METHOD) if index.isValid() else None
    return info if isinstance(info, MethodInfo) else None


def _about(method: MethodInfo | None, experts: int) -> QWidget:
    """All there is to know of a method before choosing it."""
    page = Column()
    layout = QVBoxLayout(page)
    layout.setContentsMargins(24, 20, 24, 16)
    layout.setSpacing(12)
    if method is None:
        layout.addWidget(secondary_label(tr("No method has these words."), page))
        layout.addStretch(1)
        return page
    title = plain_label(method.title, page)
    title.setFont(face(Face.TITLE))
    layout.addWidget(title)
    layout.addWidget(secondary_label(method.summary, page))
    if number := _number_of_experts(method):
        layout.addWidget(muted_label(f"{number}{_misfit(method, experts)}", page))
    if method.needs:
        layout.addWidget(muted_label(method.needs, page))
    layout.addWidget(_formula(method, page))
    if method.fields:
        layout.addWidget(heading(tr("Parameters"), page))
        layout.addLayout(_parameters(method.fields))
    layout.addWidget(heading(tr("Paper"), page))
    layout.addWidget(citation(method.citation, page))
    layout.addStretch(1)
    return page


def _formula(method: MethodInfo, parent: QWidget) -> QFrame:
    made = QFrame(parent)
    made.setProperty("kind", "sunk")
    room = QVBoxLayout(made)
    room.setContentsMargins(16, 12, 16, 12)
    room.addWidget(formula(method.name, method.formula, made))
    return made


def _parameters(fields: Sequence[FieldInfo]) -> QGridLayout:
    """Name, default and meaning, a row a parameter."""
    grid = QGridLayout()
    grid.setHorizontalSpacing(16)
    grid.setVerticalSpacing(10)
    grid.setColumnStretch(2, 1)
    top = Qt.AlignmentFlag.AlignTop
    for row, field in enumerate(fields):
        value = plain_label(value_text(field.default), wrap=False)
        value.setFont(face(Face.MONO))
        grid.addWidget(plain_label(field.label, wrap=False), row, 0, top)
        grid.addWidget(value, row, 1, top)
        grid.addWidget(secondary_label(field.help), row, 2, top)
    return grid


def _number_of_experts(method: MethodInfo) -> str:
    if method.most is not None:
        if method.least == method.most:
            return tr("Merges {count} experts", count=method.most)
        return tr("Merges at most {count} experts", count=method.most)
    return tr("Merges {count} experts or more", count=method.least) if method.least > 1 else ""


def _misfit(method: MethodInfo, experts: int) -> str:
    fits = experts >= method.least and (method.most is None or experts <= method.most)
    if fits or not experts:
        return "."
    return counted(experts, "; %n is loaded now.", "; %n are loaded now.")
