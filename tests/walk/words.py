"""A language in which every text stands in brackets, and what is seen without them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from PySide6.QtCore import QLocale, QModelIndex, Qt, QTranslator
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QComboBox,
    QGroupBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QListView,
    QMenu,
    QPlainTextEdit,
    QTabBar,
    QWidget,
)

from ace_gui.gui.plots.frame.base_plot import Plot
from ace_gui.gui.state.session import Session
from ace_gui.gui.told import CHOICES
from ace_gui.gui.told import CONTEXT as ENGINE
from ace_gui.gui.words import CONTEXT as WINDOW

NAMES: Final = (
    *("ACE Workbench", "CSV", "CPU", "GPU", "NaN", "Inf", "F11", "MLP", "W_pre", "Var ln E", "ln"),
    *("cos", "float32", "float16", "bfloat16", "float64", "True", "False", "None", "Hugging Face"),
    *("kB", "MB", "GB", "TB", "B", "px", "ms", "s", "e", "variant"),
    *("OK", "Cancel", "Close", "Scroll Left", "Scroll Right"),  # Qt's own, by its own files
    *("English", "Deutsch"),  # what its speakers call a language
)
"""Not words of any one language, or not ours."""

ENGLISH: Final = ("Help pages", "Command")  # pages of the help; what a command was last
"""Names of what shows English on purpose."""

_DATA: Final = re.compile(
    r"(Ctrl|Alt|Shift|Esc|Return|Down|Up|F\d+|Delete)\b[+.]?"  # keys
    r"|/[\w.~-]+(/[\w.~×-]+)+"  # paths
    r"|\b[\w-]+\.\u200b?(md|json|yaml|html|safetensors)\b"  # files
    r"|row \d+|\w+_(images|labels)|\S*heldout\.npz"  # of the sample's data
    r"|ViTFor\w*…?\w*|[\w.]+…[\w.]*"  # names that are cut
    r"|kind: \w+Error|\d+/\d+/\d+ \S+.[AP]M"
    r"|arXiv.*|[A-Z]\. [A-Z]\w+,.*|W = W₀.*|k_.frac",
    re.S,
)

_FRACTION: Final = re.compile(r"(?<![\w./-])\d+\.\d+(?![\w.])")
_BRACKETED: Final = re.compile(r"⟦[^⟦⟧]*⟧")
_WORD: Final = re.compile(r"[A-Za-zÀ-ž]{2,}")


class Brackets(QTranslator):
    """Every text as it stands, in brackets."""

    def isEmpty(self) -> bool:
        return False

    def translate(self, context: str, source: str, note: str = "", n: int = -1) -> str | None:  # type: ignore[override]
        return f"⟦{source}⟧" if context in (WINDOW, ENGINE, CHOICES) else None


class Escapes:
    """Finds what is seen, read aloud or under the pointer, and neither translated nor data."""

    def __init__(self, recipe: Path) -> None:
        self._judged: set[str] = set()  # the same texts come again in every state
        self._files = {part.name for part in recipe.parent.rglob("*")}

    def within(self, root: QWidget, session: Session) -> list[str]:
        """One line each, of what was not told before."""
        new = {
            text: type(widget).__name__
            for widget in (root, *root.findChildren(QWidget))
            if widget.window() is root and not _is_english(widget)
            for text in texts_of(widget)
            if text not in self._judged and _WORD.search(outside(text))
        }
        self._judged.update(new)
        if not new:
            return []
        data = sorted({*NAMES, *self._files, *data_of(session)}, key=len, reverse=True)
        names = re.compile("|".join(rf"(?<![A-Za-z]){re.escape(d)}(?![A-Za-z])" for d in data))
        rests = {text: _DATA.sub("", names.sub("", _DATA.sub("", outside(text)))) for text in new}
        return [
            f"{new[text]}: {text[:100]!r}: {rest.strip()[:60]!r}"
            for text, rest in rests.items()
            if _WORD.search(rest)
        ]


def points_in(root: QWidget) -> list[str]:
    """Fractions with a point, where the person's language has a comma."""
    if QLocale().decimalPoint() == ".":
        return []
    return [
        f"{type(widget).__name__}: {text[:100]!r}: a point in {found[0]}"
        for widget in (root, *root.findChildren(QWidget))
        if widget.window() is root and not isinstance(widget, QPlainTextEdit)
        for text in texts_of(widget)
        if (found := _FRACTION.search(_DATA.sub("", text)))
    ]


def _is_english(widget: QWidget) -> bool:
    """Pages of the help, texts for whoever looks after the program, and details of errors."""
    if isinstance(widget, QPlainTextEdit):
        return True
    return f"⟦{widget.accessibleName().strip('⟦⟧')}⟧" in {f"⟦{name}⟧" for name in ENGLISH}


def outside(text: str) -> str:
    """What stands outside of all brackets, which may be nested."""
    while (rest := _BRACKETED.sub("", text)) != text:
        text = rest
    return text.partition("⟦")[0] if text.endswith("…") else text


def data_of(session: Session) -> set[str]:
    """Names that people and files give."""
    inputs, engine = session.draft.inputs, session.engine
    found = {
        str(part)
        for path in (inputs.base, *(e.path for e in inputs.experts))
        if path
        for part in (path, *path.parts)
    }
    found |= {*inputs.names, inputs.scope}
    for row in session.layers.rows:
        found |= {row.name, row.dtype, row.tensor, *row.name.split(".")}
    plan = session.draft.plan
    if plan is not None:
        found |= {s.architecture for s in (plan.base, *plan.experts)}
    for method in engine.methods if engine is not None else ():
        found |= {method.name, method.formula, method.citation}
        for field in method.fields:
            found.add(field.name)
    if engine is not None:
        found |= {device.title for device in engine.devices} | {name for name, _ in engine.scopes}
    return {each for each in found if len(each) > 1}


def texts_of(widget: QWidget) -> Iterator[str]:
    """All that a widget says, seen or not."""
    yield widget.windowTitle() if widget.isWindow() else ""
    yield widget.toolTip()
    yield widget.accessibleName()
    yield widget.accessibleDescription()
    match widget:
        case QLabel() | QAbstractButton() | QPlainTextEdit():
            yield widget.toPlainText() if isinstance(widget, QPlainTextEdit) else widget.text()
        case QGroupBox() | QMenu():
            yield widget.title()
        case QComboBox():
            yield from (widget.itemText(place) for place in range(widget.count()))
        case QLineEdit():
            yield widget.placeholderText()
        case QTabBar():
            for place in range(widget.count()):
                yield from (widget.tabText(place), widget.tabToolTip(place))
        case QHeaderView() if widget.model() is not None:
            for place in range(widget.count()):
                for role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
                    yield str(widget.model().headerData(place, widget.orientation(), role) or "")
        case QAbstractItemView() if widget.model() is not None:
            yield from _cells(widget)
        case Plot():
            yield from (widget.title.whole, widget.caption.whole, widget.message() or "")
            for axis in widget.canvas.frame.axes.values():
                yield getattr(axis, "title", "")
    for action in widget.actions():
        yield from _action(action)


def _action(action: QAction) -> Iterator[str]:
    yield from (action.text(), action.toolTip())


def _cells(view: QAbstractItemView) -> Iterator[str]:
    model = view.model()
    waiting = [QModelIndex()]
    while waiting:
        parent = waiting.pop()
        for row in range(min(model.rowCount(parent), 12)):
            for column in range(1 if isinstance(view, QListView) else model.columnCount(parent)):
                index = model.index(row, column, parent)
                if column == 0:
                    waiting.append(index)
                for role in (
                    Qt.ItemDataRole.DisplayRole,
                    Qt.ItemDataRole.ToolTipRole,
                    Qt.ItemDataRole.AccessibleTextRole,
                ):
                    yield str(index.data(role) or "")
