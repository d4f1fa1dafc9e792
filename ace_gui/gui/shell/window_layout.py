"""The layout of the panels, with three cards at the right and the input column at the left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QByteArray, QEvent, QObject, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QFontMetrics, QPainter, QPaintEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QApplication, QSizePolicy, QSplitter, QToolButton, QWidget

from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import Face, face, icon
from ace_gui.gui.theme.painting import SWATCH, paint_swatch, write
from ace_gui.gui.widgets.controls import FoldButton, Segments, named, tool_button
from ace_gui.gui.widgets.layout import (
    GAP,
    across,
    card,
    down,
    move_focus,
    on_font_change,
    pane,
    scroll_area,
)
from ace_gui.gui.widgets.lazy import LazyTabs

LAYERS, INSPECTOR, VIEWS = range(3)
_TURNS: Final = (
    ("Layers", "The model's tensors"),
    ("One layer", "Details of the selected tensor"),
    ("All layers", "γ and other views of the whole model"),
)
_LEAST: Final = (49, 26)  # in text lines: the minimum width and height for all three cards together
_UNFOLDED: Final = 38  # in text lines: in a lower window the views are folded at first
_FOLDED: Final = "the views of all layers"
_AROUND: Final = 18  # px above and below the views' titles in their card
_NO_LIMIT: Final = 16_777_215  # Qt's maximum size
_APART: Final = (50, 28)  # in text lines: the minimum initial size of a detached window
_SIZES: Final = {"rows": (39, 18), "top": (50, 29)}  # in text lines


class Cards(QWidget):
    """The cards of layers and inspector above the card with the views of all layers.

    Its button, F11, or a double click on its background or its tabs maximises a card (see
    ``toggle_maximised``). ``toggle_detached`` moves it into its own window. The views can be
    folded, and are at first if the window is low. If there is still no room for three cards, a row
    of segments switches between them. ``maximised`` carries whether the user has maximised a card,
    ``views_folded`` whether the views were folded.
    """

    maximised = Signal(bool)
    views_folded = Signal(bool)

    def __init__(self, panels: Sequence[QWidget], tabs: Sequence[LazyTabs | None]) -> None:
        super().__init__()
        self._cards = [card(panel) for panel in panels]
        self._alone: int | None = None  # the card that the user has maximised
        self._detached: dict[int, PanelWindow] = {}
        self._borders: dict[QSplitter, QByteArray] = {}  # as they were before a card was detached
        # the detached windows of the last session, until the cards are shown
        self._away: dict[int, QByteArray] = {}
        self._current = LAYERS
        self.turns = Segments("Which panel is shown", self)
        for title, tip in _TURNS:
            self.turns.add(title, tip)
        self.turns.chosen.connect(self.bring)
        self.turns.hide()
        self.top = splitter("top", Qt.Orientation.Horizontal, *self._cards[:2])
        self.rows = splitter("rows", Qt.Orientation.Vertical, self.top, self._cards[VIEWS])
        self.top.setStretchFactor(0, 2)
        self.top.setStretchFactor(1, 1)
        self.rows.setStretchFactor(0, 1)
        self._buttons: dict[int, QToolButton] = {}
        self._inspector = panels[INSPECTOR]
        self._views = panels[VIEWS]
        self._views_tabs = tabs[VIEWS]
        self._least_inspector = 0  # px, of its width
        self._least_views = 0  # px, of their height
        self._is_folded: bool | None = None  # None: it depends on the height
        self._shares = [2, 1]  # the heights of the rows before the views were folded
        self.fold_button = FoldButton(_FOLDED, self._toggle_fold, upwards=False)
        for index, (content, bar) in enumerate(zip(self._cards, tabs, strict=True)):
            content.installEventFilter(self)
            if bar is not None:
                self._add_maximiser(index, bar)
        self.setLayout(down(across(None, self.turns, None), (self.rows, 1), gap=GAP))
        self.reset()

    @property
    def in_turns(self) -> bool:
        """Whether there is only room for one card at a time."""
        line = self.fontMetrics().height()
        return self.width() < _LEAST[0] * line or self.height() < _LEAST[1] * line

    @property
    def views_are_folded(self) -> bool:
        """Whether only the titles of the views are shown."""
        if self._alone is not None or VIEWS in self._detached or self.in_turns:
            return False
        low = self.height() < _UNFOLDED * self.fontMetrics().height()
        if self._is_folded is None:
            return low
        return self._is_folded

    @property
    def views_are_wanted(self) -> bool:
        """Whether the user has unfolded the views."""
        return self._is_folded is False and not self.views_are_folded

    def set_least(self, *, inspector_width: int, views_height: int) -> None:
        """Set the least width of the inspector beside the layers, and the least height of the
        views that are not folded, in px."""
        self._least_inspector = inspector_width
        self._least_views = views_height
        self.arrange()

    def _toggle_fold(self) -> None:
        self._is_folded = not self.views_are_folded
        self.arrange()

    def _unfold(self) -> None:
        if self.views_are_folded:
            self._toggle_fold()

    def _fold_views(self, folded: bool) -> None:
        tabs = self._views_tabs
        card_of_views = self._cards[VIEWS]
        if tabs is None:
            return
        tabs.fold(folded)
        self._views.setMinimumHeight(0 if folded else self._least_views)
        was_folded = card_of_views.maximumHeight() < _NO_LIMIT
        if folded:
            card_of_views.setFixedHeight(tabs.maximumHeight() + _AROUND)
        else:
            card_of_views.setMinimumHeight(0)
            card_of_views.setMaximumHeight(_NO_LIMIT)
        if folded and not was_folded:
            self._shares = self.rows.sizes()
        if folded:
            self.rows.setSizes([self.height(), card_of_views.maximumHeight()])
        elif was_folded:
            self.rows.setSizes(self._shares)
        self.fold_button.show_folded(folded)
        if folded != was_folded:
            self.views_folded.emit(folded)

    @property
    def is_maximised(self) -> bool:
        return self._alone is not None

    def bring(self, index: int) -> None:
        if index in self._detached:
            self._detached[index].activateWindow()
            return
        self._current = index
        if self._alone is not None:
            self._alone = index
        if index == VIEWS:
            self._unfold()
        self.arrange()

    def toggle_maximised(self) -> None:
        """Maximise the focused card, or restore all of them."""
        self._toggle(self._focused())

    def toggle_detached(self) -> None:
        """Detach the focused card into its own window, or dock it again."""
        index = self._focused()
        if index in self._detached:
            self._put_back(index)
        elif len(self._detached) < len(self._cards) - 1:
            self._take_apart(index)

    def put_back(self) -> None:
        for index in sorted(self._detached):
            self._put_back(index)

    def reset(self) -> None:
        """Show all cards with their initial sizes."""
        self.put_back()
        self._alone = self._is_folded = None
        line = self.fontMetrics().height()
        for splitter in (self.rows, self.top):
            splitter.setSizes([lines * line for lines in _SIZES[splitter.objectName()]])
        self.arrange()

    def restore(self, settings: Settings) -> None:
        for splitter in (self.rows, self.top):
            state = settings.layout(splitter.objectName())
            if not state.isEmpty():
                splitter.restoreState(state)
        for index in range(len(self._cards)):
            geometry = settings.layout(f"apart-{index}")
            if not geometry.isEmpty():
                self._away[index] = geometry
        alone = settings.layout("alone")
        if not alone.isEmpty():
            self._toggle(int(alone.data()))
        folded = settings.layout("views")
        if folded.isEmpty():
            self._is_folded = None
        else:
            self._is_folded = folded.data() == b"1"
        self.arrange()

    def save(self, settings: Settings) -> None:
        """Save the layout, but not the splitter sizes while some cards are hidden."""
        if self._detached:
            for splitter, state in self._borders.items():
                settings.save_layout(splitter.objectName(), state)
        elif self._alone is None and not self.in_turns and not self.views_are_folded:
            for splitter in (self.rows, self.top):
                settings.save_layout(splitter.objectName(), splitter.saveState())
        for index in range(len(self._cards)):
            window = self._detached.get(index)
            waiting = self._away.get(index, QByteArray())
            if window is None:
                state = waiting
            else:
                state = window.saveGeometry()
            settings.save_layout(f"apart-{index}", state)
        if self._alone is None:
            alone = b""
        else:
            alone = str(self._alone).encode()
        settings.save_layout("alone", QByteArray(alone))
        if self._is_folded is None:
            folded = b""
        else:
            folded = str(int(self._is_folded)).encode()
        settings.save_layout("views", QByteArray(folded))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        while self._away:
            index, geometry = self._away.popitem()
            self._take_apart(index).restoreGeometry(geometry)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.arrange()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.MouseButtonDblClick and watched in self._cards:
            self._toggle(self._cards.index(watched))
            return True
        return False

    def _focused(self) -> int:
        """The focused card, or else the one shown last."""
        focused = QApplication.focusWidget()
        indices = [n for n, card in enumerate(self._cards) if card.isAncestorOf(focused or card)]
        if len(indices) == 1:
            return indices[0]
        return self._current

    def _take_apart(self, index: int) -> PanelWindow:
        if not self._detached:
            self._borders = {splitter: splitter.saveState() for splitter in (self.rows, self.top)}
        if self._alone == index:
            self._alone = None
        card = self._cards[index]
        size = card.size().expandedTo(QSize(*_APART) * self.fontMetrics().height())
        window = PanelWindow(card, _TURNS[index][0], self)
        window.closed.connect(lambda: self._put_back(index))
        self._detached[index] = window
        if self._current in self._detached:
            self._current = next(p for p in range(len(self._cards)) if p not in self._detached)
        self.arrange()
        card.show()
        window.resize(size)
        window.show()
        return window

    def _put_back(self, index: int) -> None:
        window = self._detached.pop(index, None)
        if window is None:
            return
        if index == VIEWS:
            self.rows.addWidget(self._cards[index])
        else:
            self.top.insertWidget(index, self._cards[index])
        window.hide()
        window.deleteLater()
        if not self._detached:
            for splitter, state in self._borders.items():
                splitter.restoreState(state)
        self._current = index
        self.arrange()

    def _toggle(self, index: int) -> None:
        if index in self._detached:
            self._put_back(index)
            return
        if self._alone is not None:
            self._alone = None
        else:
            self._alone = index
        self._current = index
        self.arrange()
        self.maximised.emit(self._alone is not None)

    def arrange(self) -> None:
        turns = self.in_turns
        if self._alone is not None:
            single = self._alone
        elif turns:
            single = self._current
        else:
            single = None
        self.turns.setVisible(turns)
        self.turns.choose(self._current)
        for index, panel in enumerate(self._cards):
            if index not in self._detached:
                panel.setVisible(single in (None, index))
        beside = single is None
        self._inspector.setMinimumWidth(self._least_inspector if beside else 0)
        self._fold_views(self.views_are_folded)
        self.fold_button.setVisible(self._alone is None and not turns)
        above = {LAYERS, INSPECTOR} - self._detached.keys()
        self.top.setVisible(bool(above) if single is None else single in above)
        for index, button in self._buttons.items():
            button.setVisible(not turns and index not in self._detached)
            alone = self._alone == index
            button.setChecked(alone)
            button.setIcon(icon("shrink" if alone else "expand"))

    def _add_maximiser(self, index: int, tabs: LazyTabs) -> None:
        tip = "Show this panel alone, or all of them again (F11)"
        button = tool_button("", "", lambda: self._toggle(index))
        self._buttons[index] = named(button, "Maximise this panel", tip)
        button.setCheckable(True)
        corner: QWidget = button
        if index == VIEWS:
            corner = pane(across(self.fold_button, button, gap=0))
            tabs.bar.tabBarClicked.connect(lambda _: self._unfold())
        tabs.setCornerWidget(corner, Qt.Corner.TopRightCorner)
        tabs.bar.tabBarDoubleClicked.connect(lambda _: self._toggle(index))


class PanelWindow(QWidget):
    """The window of a detached card. ``closed``: the user has closed it."""

    closed = Signal()

    def __init__(self, widget: QWidget, title: str, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Tool)  # so that the window's shortcuts work in it
        self.setWindowTitle(title)
        self.setLayout(down(widget, margins=[GAP] * 4))

    def focusNextPrevChild(self, forward: bool) -> bool:
        return move_focus(self, forward=forward)

    def closeEvent(self, event: QCloseEvent) -> None:
        event.accept()
        self.closed.emit()


def splitter(name: str, orientation: Qt.Orientation, *widgets: QWidget) -> QSplitter:
    """A splitter whose widgets cannot be collapsed."""
    split = QSplitter(orientation)
    split.setObjectName(name)
    split.setChildrenCollapsible(False)
    split.setHandleWidth(GAP)
    for widget in widgets:
        split.addWidget(widget)
    return split


WIDTH: Final = 18.5  # in text lines: initial width of the column
_NARROWEST: Final = 17
_ROOMY: Final = 88  # in text lines: the column starts collapsed in a narrower window
_RAIL: Final = 4.25  # in text lines
_NAMES: Final = 5  # experts that the rail always shows; it shows the number of others
_ICON: Final = 1.1  # in text lines


class LeftColumn(QWidget):
    """The input column, which a narrow window collapses by itself unless the user has decided.

    ``folded_changed`` carries whether it is collapsed. ``is_folded``: the rail replaces the column.
    ``is_narrow``: the window is too narrow for the whole column, and the user has not decided.
    """

    folded_changed = Signal(bool)

    def __init__(
        self, session: Session, name: QWidget, experts: QWidget, method: QWidget, runs: QWidget
    ) -> None:
        super().__init__()
        self.is_narrow = False
        self.is_folded = False
        self._single_card = _WholeColumn(self)
        inputs = pane(down(experts, (method, 1), gap=GAP))
        area = scroll_area("Models and method", inputs, tabs=False)
        self._single_card.setLayout(down(name, (area, 1), runs, margins=(4, 0, 4, 0), gap=GAP))
        self.rail = Rail(session, self)
        self.rail.opened.connect(lambda: self.fold(False))
        self.setLayout(across(self.rail, (self._single_card, 1), gap=0))
        on_font_change(self, self._measure)

    def _measure(self, metrics: QFontMetrics) -> None:
        self.rail.setFixedWidth(round(_RAIL * metrics.height()))
        for button in self.rail.buttons:
            button.setIconSize(QSize(*[round(_ICON * metrics.height())] * 2))
        self._show()

    def fit(self, width: int) -> None:
        """Collapse or expand the column when the window's ``width`` in px crosses the limit."""
        narrow = width < _ROOMY * self.fontMetrics().height()
        if narrow != self.is_narrow:
            self.is_narrow = narrow
            self.fold(narrow)

    def fold(self, folded: bool) -> None:
        """Show the rail, or the whole column."""
        if folded != self.is_folded:
            self.is_folded = folded
            self._show()
            self.folded_changed.emit(folded)

    def _show(self) -> None:
        self.rail.setVisible(self.is_folded)
        self._single_card.setVisible(not self.is_folded)
        if self.is_folded:
            self.setFixedWidth(self.rail.maximumWidth())
        else:
            self.setMinimumWidth(0)
            self.setMaximumWidth(round(2 * WIDTH * self.fontMetrics().height()))


class _WholeColumn(QWidget):
    """The whole column, which is at least as wide as its content."""

    def minimumSizeHint(self) -> QSize:
        needed = super().minimumSizeHint()
        return needed.expandedTo(QSize(round(_NARROWEST * self.fontMetrics().height()), 0))


class Rail(QWidget):
    """The collapsed column. ``opened``: the user wants the whole column."""

    opened = Signal()

    def __init__(self, session: Session, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAccessibleName("Inputs, collapsed")
        self.buttons: list[QToolButton] = []
        self.experts = _ExpertStrip(session, self)
        for picture, name, tip in (
            ("panel", "Show models and method", "Expand the input column"),
            ("open", "Models", "Expand the column: base and experts"),
            ("sliders", "Method", "Expand the column: method and parameters"),
            ("clock", "Runs", "Expand the column: finished merges"),
        ):
            button = named(tool_button("", "", self.opened.emit), name, tip)
            button.setIcon(icon(picture))
            self.buttons.append(button)
        rows = [across(None, button, None) for button in self.buttons]
        self.setLayout(down(*rows, 8, (self.experts, 1), margins=(0, 6, 0, 6), gap=10))


class _ExpertStrip(QWidget):
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
        painter = QPainter(self)
        step = self._step()
        centred = Qt.AlignmentFlag.AlignCenter
        room = self.height() // step
        names = self._names
        if len(names) > room:
            names = self._names[: max(room - 1, 0)]
            below = QRectF(0, len(names) * step, self.width(), step)
            more = f"+{len(self._names) - len(names)}"
            write(painter, below, more, face(Face.CAPTION), "text2", align=centred)
        for index, name in enumerate(names):
            top = float(index * step)
            mark = QRectF(0, top, self.width(), SWATCH)
            paint_swatch(painter, mark, f"expert {index}")
            words = QRectF(2, top + SWATCH, self.width() - 4, step - SWATCH - 8)
            write(painter, words, name, face(Face.CAPTION), "text2", align=centred)
        painter.end()
