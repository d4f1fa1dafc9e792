"""The input column at the left: complete, or collapsed to a rail of icons and expert colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import Face, current_theme, face, icon
from ace_gui.gui.theme.painting import SWATCH, paint_swatch, write
from ace_gui.gui.widgets.layout import GAP, on_font_change, scroll_area

WIDTH: Final = 18.5  # in text lines: initial width of the column
_LEAST: Final = 17
_ROOMY: Final = 88  # in text lines: the column starts collapsed in a narrower window
_RAIL: Final = 4.25  # in text lines
_NAMES: Final = 5  # number of experts that the rail always shows; it counts the others
_ICON: Final = 1.1  # in text lines


class LeftColumn(QWidget):
    """Collapses automatically in a narrow window until the user decides otherwise.

    ``folded_changed`` carries whether it is collapsed.
    """

    folded_changed = Signal(bool)

    def __init__(self, session: Session, experts: QWidget, method: QWidget) -> None:
        super().__init__()
        self._narrow = False
        self._folded = False
        self._whole = _Whole(self)
        content = QWidget()
        inputs = QVBoxLayout(content)
        inputs.setContentsMargins(0, 0, 0, 0)
        inputs.setSpacing(GAP)
        inputs.addWidget(experts)
        inputs.addWidget(method, 1)
        area = scroll_area("Models and method", content, tabs=False)
        column = QVBoxLayout(self._whole)
        column.setContentsMargins(4, 0, 4, 0)
        column.setSpacing(GAP)
        column.addWidget(area, 1)
        self.column = column
        self.rail = Rail(session, self)
        self.rail.opened.connect(lambda: self.fold(False))
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.rail)
        row.addWidget(self._whole, 1)
        on_font_change(self, self._measure)

    def _measure(self, metrics: QFontMetrics) -> None:
        self.rail.setFixedWidth(round(_RAIL * metrics.height()))
        for button in self.rail.buttons:
            button.setIconSize(QSize(*[round(_ICON * metrics.height())] * 2))
        self._show()

    @property
    def is_folded(self) -> bool:
        """Whether the rail replaces the column."""
        return self._folded

    @property
    def is_narrow(self) -> bool:
        """Whether the window is too narrow for the whole column and the user has not decided."""
        return self._narrow

    def fit(self, width: int) -> None:
        """Collapse or expand automatically when the window's ``width`` in px crosses the limit."""
        narrow = width < _ROOMY * self.fontMetrics().height()
        if narrow != self._narrow:
            self._narrow = narrow
            self.fold(narrow)

    def fold(self, folded: bool) -> None:
        """Show the rail, or the whole column."""
        if folded != self._folded:
            self._folded = folded
            self._show()
            self.folded_changed.emit(folded)

    def _show(self) -> None:
        self.rail.setVisible(self._folded)
        self._whole.setVisible(not self._folded)
        if self._folded:
            self.setFixedWidth(self.rail.maximumWidth())
        else:
            self.setMinimumWidth(0)
            self.setMaximumWidth(round(2 * WIDTH * self.fontMetrics().height()))


class _Whole(QWidget):
    """At least as wide as its content needs."""

    def minimumSizeHint(self) -> QSize:
        needed = super().minimumSizeHint()
        return needed.expandedTo(QSize(round(_LEAST * self.fontMetrics().height()), 0))


class Rail(QWidget):
    """The collapsed column. ``opened``: the user wants the whole column."""

    opened = Signal()

    def __init__(self, session: Session, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName("Inputs, collapsed")
        self.buttons: list[QToolButton] = []
        self.experts = _Experts(session, self)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 6, 0, 6)
        column.setSpacing(10)
        for picture, name, tip in (
            ("panel", "Show models and method", "Expand the input column"),
            ("open", "Models", "Expand the column: base and experts"),
            ("sliders", "Method", "Expand the column: method and parameters"),
            ("clock", "Runs", "Expand the column: kept merges"),
        ):
            button = QToolButton(self)
            button.setIcon(icon(picture))
            button.setAccessibleName(name)
            button.setToolTip(tip)
            button.clicked.connect(lambda _=False: self.opened.emit())
            self.buttons.append(button)
            column.addWidget(button, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addSpacing(8)
        column.addWidget(self.experts, 1)


class _Experts(QWidget):
    """Each expert's colour with its name below."""

    def __init__(self, session: Session, parent: QWidget) -> None:
        super().__init__(parent)
        self._session = session
        self._names: Sequence[str] = ()
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)
        session.draft.changed.connect(self._refresh)
        on_font_change(self, lambda _: self._refresh())

    def _refresh(self) -> None:
        self._names = tuple(map(plain, self._session.draft.inputs.names))
        listed = ", ".join(self._names)
        self.setAccessibleName(f"Experts: {listed}")
        self.setToolTip(tooltip(listed))
        self.setMinimumHeight(self._step() * min(len(self._names), _NAMES))
        self.update()

    def _step(self) -> int:
        return SWATCH + QFontMetrics(face(Face.CAPTION)).height() + 14

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        painter, theme, step = QPainter(self), current_theme(), self._step()
        count, centred = len(theme.expert_colours), Qt.AlignmentFlag.AlignCenter
        room, shown = self.height() // step, self._names
        if len(shown) > room:
            shown = self._names[: max(room - 1, 0)]
            rest = QRectF(0, len(shown) * step, self.width(), step)
            more = f"+{len(self._names) - len(shown)}"
            write(painter, rest, more, face(Face.CAPTION), theme.text2, align=centred)
        for index, name in enumerate(shown):
            top = float(index * step)
            mark = QRectF(0, top, self.width(), SWATCH)
            paint_swatch(painter, mark, theme.expert_colour(index), hollow=index >= count)
            words = QRectF(2, top + SWATCH, self.width() - 4, step - SWATCH - 8)
            write(painter, words, name, face(Face.CAPTION), theme.text2, align=centred)
        painter.end()
