"""The scores of a merge: a line of all models, a table with a test, and the router's choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, QSignalBlocker, QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHeaderView, QSizePolicy, QStyleOptionViewItem, QTableView, QWidget

from ace_gui.engine.contract.scored import BASE, EXPERTS, RoutesFound, TaskRoutes
from ace_gui.engine.contract.verdicts import in_words, paired
from ace_gui.formatting import human_bytes
from ace_gui.gui.control.operations import RoutingOperation
from ace_gui.gui.models.list_models import expert_colour
from ace_gui.gui.models.scores_models import KEPT, TASK, TaskFiguresModel, score_text
from ace_gui.gui.panels.job_page import RunButton
from ace_gui.gui.panels.layer_cells import Cell, Drawn, Index
from ace_gui.gui.state.known_scores import TaskFigures
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.theme.painting import SWATCH, paint_share, paint_swatch, write
from ace_gui.gui.widgets.controls import Choice
from ace_gui.gui.widgets.labels import heading, muted_label, secondary_label
from ace_gui.gui.widgets.layout import across, down, on_font_change
from ace_gui.gui.widgets.tables import FigureRow, FigureSheet, add_table_actions, plain_rows

_MIDDLE: Final = Qt.AlignmentFlag.AlignCenter

_WIDEST: Final = 150.0  # px of a name

_GAP: Final = 12.0  # px between two names

_RADIUS: Final = 5.0

_SIDE: Final = 80.0  # px left free at both ends

_ABOVE: Final = 13.0  # px between the line and its labels

_FAR: Final = 170.0  # px between a name and its mark


class Mark(NamedTuple):
    """A model and its mean score. ``is_chosen``: the model is selected."""

    title: str
    value: float
    is_chosen: bool = False


class ScoreLine(QWidget):
    """A line with a mark for each model, its value above and its name below. Overlapping labels are
    moved, with lines to their marks, or left out if too far away; the tooltip has all."""

    def __init__(self) -> None:
        super().__init__()
        self._marks: tuple[Mark, ...] = ()
        self.setAccessibleName("Mean scores")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        on_font_change(self, lambda _: self.updateGeometry())

    def show_marks(self, marks: Sequence[Mark]) -> None:
        self._marks = tuple(sorted(marks, key=lambda mark: mark.value))
        texts = [f"{mark.title} {score_text(mark.value)}" for mark in self._marks]
        self.setAccessibleDescription(", ".join(texts))
        self.setToolTip(tooltip("\n".join(texts)))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(400, round(2.2 * self._line + 2 * _ABOVE + 4))

    @property
    def _line(self) -> float:
        return QFontMetricsF(face(Face.BODY)).height()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        if not self._marks:
            return
        theme = current_theme()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        middle = 1.1 * self._line + _ABOVE
        positions = self.positions()
        painter.setPen(QPen(QColor(theme.edge), 1.5))
        painter.drawLine(QPointF(8, middle), QPointF(self.width() - 8, middle))
        chosen = next((n for n, mark in enumerate(self._marks) if mark.is_chosen), None)
        if chosen is not None:
            painter.setPen(QPen(QColor(theme.text), 1.8))
            painter.drawLine(QPointF(positions[0], middle), QPointF(positions[chosen], middle))
        labels = self.labels()
        for index, rect in labels.items():
            self._paint_label(painter, self._marks[index], positions[index], rect, middle)
        for mark, at in sorted(
            zip(self._marks, positions, strict=True), key=lambda pair: pair[0].is_chosen
        ):
            radius = _RADIUS + 2 * mark.is_chosen
            painter.setPen(QPen(QColor(theme.text if mark.is_chosen else theme.text2), 1.6))
            painter.setBrush(QColor(theme.text if mark.is_chosen else theme.card))
            painter.drawEllipse(QPointF(at, middle), radius, radius)

    def _paint_label(
        self, painter: QPainter, mark: Mark, at: float, below: QRectF, middle: float
    ) -> None:
        """Write the value and the name, with lines to the mark if they were moved."""
        theme = current_theme()
        centre = below.center().x()
        if mark.is_chosen:
            ink = theme.text
        else:
            ink = theme.text2
        if abs(centre - at) > _RADIUS:
            painter.setPen(QPen(QColor(theme.control), 1))
            for away in (-_ABOVE, _ABOVE):
                painter.drawLine(QPointF(at, middle), QPointF(centre, middle + away))
        if mark.is_chosen:
            faces = (Face.STRONG, Face.CAPTION_STRONG)
        else:
            faces = (Face.BODY, Face.CAPTION)
        above = below.translated(0, -below.top())
        write(painter, above, score_text(mark.value), face(faces[0]), ink, align=_MIDDLE)
        write(painter, below, mark.title, face(faces[1]), ink, align=_MIDDLE)

    def positions(self) -> NDArray[np.float64]:
        """The positions of the marks, in pixels."""
        values = np.array([mark.value for mark in self._marks])
        span = np.ptp(values)
        room = self.width() - 2 * _SIDE
        if not span:
            return np.full(len(values), self.width() / 2)
        return _SIDE + room * (values - values[0]) / span

    def labels(self) -> dict[int, QRectF]:
        """The rectangles of names by index: of the chosen mark, of both ends, and of the best
        others whose names stay near their marks."""
        last = len(self._marks) - 1
        chosen = (n for n, mark in enumerate(self._marks) if mark.is_chosen)
        metrics = QFontMetricsF(face(Face.CAPTION_STRONG))
        positions = self.positions()
        widths = np.array([metrics.horizontalAdvance(mark.title) + 4 for mark in self._marks])
        widths = np.clip(widths, 3.5 * self._line, _WIDEST)
        placed_names: list[int] = []
        centres = positions[:0]
        for index in dict.fromkeys((*chosen, last, 0, *range(last, 0, -1))):
            tried = sorted([*placed_names, index])
            placed = _apart(positions[tried], widths[tried], self.width())
            ends = placed[0] - widths[tried[0]] / 2, placed[-1] + widths[tried[-1]] / 2
            inside = ends[0] >= -1 and ends[1] <= self.width() + 1
            near = np.abs(placed - positions[tried]).max() <= _FAR
            if not placed_names or (inside and near):
                placed_names = tried
                centres = placed
        top = 1.1 * self._line + 2 * _ABOVE
        height = 1.1 * self._line
        return {
            n: QRectF(at - widths[n] / 2, top, widths[n], height)
            for n, at in zip(placed_names, centres, strict=True)
        }


def _apart(
    centres: NDArray[np.float64], widths: NDArray[np.float64], room: float
) -> NDArray[np.float64]:
    """Ascending centres of labels, moved as little as possible so that no labels overlap."""
    steps = np.cumsum((widths[1:] + widths[:-1]) / 2 + _GAP)
    steps = np.concatenate([[0.0], steps])
    groups: list[list[float]] = []
    for free in centres - steps:  # labels that touch are centred together
        groups.append([free])
        while len(groups) > 1 and fmean(groups[-2]) > fmean(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    placed = np.array([fmean(group) for group in groups for _ in group])
    low = widths[0] / 2
    high = room - widths[-1] / 2 - steps[-1]
    return np.clip(placed, low, max(low, high)) + steps


_BAR: Final = (40.0, 5.0)  # px
_LEAST: Final = 12.0  # px: minimum useful width of a bar
_LONGEST: Final = "100 %"  # the longest text next to a bar


class FigureCell(Cell):
    """A cell of the table of figures."""

    padding = 12

    def __init__(self, session: Session, model: TaskFiguresModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._session = session
        self._model = model

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        hint = super().sizeHint(option, index)
        extra = {TASK: SWATCH + 10, KEPT: round(_BAR[0]) + 8}.get(index.column(), 0)
        return QSize(hint.width() + extra, hint.height())

    def draw(self, cell: Drawn) -> None:
        row = self._model.rows[cell.index.row()]
        theme = current_theme()
        column = cell.index.column()
        rect = cell.rect
        colour = expert_colour(self._session, row.owner)
        if column == TASK:
            if colour:
                square = QRectF(rect.left(), rect.top(), SWATCH, rect.height())
                paint_swatch(cell.painter, square, colour)
                rect = rect.adjusted(SWATCH + 8, 0, 0, 0)
            font = face(Face.STRONG if row.is_mean else Face.BODY)
            write(cell.painter, rect, cell.option.text, font, theme.text)
            return
        words = cell.option.fontMetrics.horizontalAdvance(_LONGEST)
        room = min(_BAR[0], rect.width() - words - 4)
        if column == KEPT and isfinite(row.kept) and room >= _LEAST:
            bar = QRectF(0, 0, room, _BAR[1])
            bar.moveLeft(rect.left())
            bar.moveTop(rect.center().y() - _BAR[1] / 2)
            paint_share(cell.painter, bar, row.kept, colour or theme.merged, theme.sunk)
        super().draw(cell)


NOTE: Final = (
    "Kept: merged as a share of the expert. Lost: the expert is right and the merge is wrong; "
    "gained: the other way round. ±: standard error."
)


def _chance_words(rows: Sequence[TaskFigures]) -> str:
    """``Chance: digits 0.100, shapes 0.167.``, one number for all tasks, or nothing if unknown."""
    tasks = [row for row in rows if isfinite(row.chance) and not row.is_mean]
    if not tasks:
        return ""
    if len({row.chance for row in tasks}) == 1 and len(tasks) == sum(not r.is_mean for r in rows):
        return f"Chance: {score_text(tasks[0].chance)}."
    words = (f"{plain(row.title)} {score_text(row.chance)}" for row in tasks)
    return f"Chance: {', '.join(words)}."


class FiguresCard(QWidget):
    """A card with the table of scores. Its menu copies and saves all digits and standard errors."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._by_hand = False
        self.model = TaskFiguresModel(self)
        self.table = self._make_table()
        self.first = Choice("First model of the test", {"": ("–", "")})
        self.second = Choice("Second model of the test", {"": ("–", "")})
        self.test = secondary_label()
        for box in (self.first, self.second):
            box.setSizeAdjustPolicy(Choice.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
            box.setMinimumContentsLength(8)
            box.chosen.connect(self._choose)
        pair = across((self.first, 1), muted_label("against"), (self.second, 1))
        question = heading("Is the difference significant?")
        self.note = muted_label(NOTE)
        parts = (heading("Figures"), self.table, self.note, question, pair, self.test)
        self.setLayout(down(*parts, margins=(8, 6, 8, 8)))

    def _make_table(self) -> QTableView:
        table = QTableView(self)
        table.setAccessibleName("Figures of the merge, task by task")
        table.setModel(self.model)
        plain_rows(table, padding=12)
        table.setWordWrap(False)
        table.setItemDelegate(FigureCell(self._session, self.model, table))
        header = table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(KEPT, QHeaderView.ResizeMode.Stretch)
        least = header.setMinimumSectionSize
        on_font_change(self, lambda m: least(m.horizontalAdvance(_LONGEST) + 16))
        header.setSectionsMovable(False)
        add_table_actions(table, "Scores", self.model.exported)
        return table

    def show_figures(
        self, rows: Sequence[TaskFigures], models: Mapping[str, str], merge: str
    ) -> None:
        """Show these scores, and test what the headline compares, unless the user chose others.

        ``models``: titles by key. ``merge``: the key of the merge that is shown.
        """
        if tuple(rows) != self.model.rows:
            self.model.show_figures(rows)
            self.note.setText(f"{NOTE} {_chance_words(rows)}".strip())
            self._fit()
        options = {key: (title, title) for key, title in models.items()} or {"": ("–", "")}
        self.first.offer(options)
        self.second.offer(options)
        if not self._by_hand:
            pair = [key for key in (merge, EXPERTS, BASE) if key in options][:2]
            for box, key in zip((self.first, self.second), pair, strict=False):
                with QSignalBlocker(box):
                    box.choose(key)
        self._show_test()

    def _fit(self) -> None:
        """Set the height to that of the rows, so that no empty space is below them."""
        rows = sum(self.table.rowHeight(row) for row in range(self.model.rowCount()))
        bar = self.table.horizontalScrollBar().sizeHint().height()
        self.table.setFixedHeight(self.table.horizontalHeader().sizeHint().height() + rows + bar)

    def _choose(self) -> None:
        """Test the models that the user chose, and keep the choice when others are scored."""
        self._by_hand = True
        self._show_test()

    def _show_test(self) -> None:
        scores = self._session.results.scores
        a = self.first.current
        b = self.second.current
        if a == b:
            self.test.setText("Choose two different models.")
            return
        first = scores.line(a)
        second = scores.line(b)
        pairs = [(first[task], second[task]) for task in first if task in second]
        metrics = [score.metric for score, _ in pairs]
        titles = self.first.currentText(), self.second.currentText()
        self.test.setText(in_words(paired(pairs), *titles, metrics))


LIMIT: Final = 100
"""Examples per task, enough for shares that are exact to a few hundredths."""
_ALL: Final = ""
_TIP: Final = "The share of each expert, averaged over the examples."


class RoutesTable(QWidget):
    """The experts' shares by task, or by layer for one task; hidden if the merge has no router."""

    def __init__(self, session: Session, routing: RoutingOperation) -> None:
        super().__init__()
        self._session = session
        self._routing = routing
        self._store: Path | None = None
        self.button = RunButton("Compute", self._start, routing.stop, name="Compute the routes")
        self.sentence = secondary_label()
        self.cost = muted_label()
        self.task = Choice("Routes to show", {_ALL: ("All tasks", "")})
        self.shares = FigureSheet("Shares of the experts", self, kind="task")
        head = across((heading("Routing"), 1), self.task, self.button)
        self.setLayout(down(head, self.sentence, self.shares, self.cost))
        self.task.chosen.connect(self.refresh)
        routing.changed.connect(self.refresh)

    def show_merge(self, store: str) -> None:
        """Show the routes of the merge in this store, if it has a router."""
        if store:
            self._store = Path(store)
        else:
            self._store = None
        self.setVisible(self._store in [run.store for run in self._routing.merges])
        self.refresh()

    def refresh(self) -> None:
        routing = self._routing
        self.button.show_job(routing.is_running, routing.obstacle)
        is_of_store = routing.job is not None and routing.job.stores == (self._store,)
        if is_of_store:
            answer = routing.last(RoutesFound)
        else:
            answer = None
        routes = () if answer is None else answer.routes
        tasks = {route.task: (plain(route.task), "") for route in routes}
        self.task.offer({_ALL: ("All tasks", "")} | tasks)
        for widget in (self.task, self.shares, self.cost):
            widget.setVisible(bool(routes))
        self.sentence.setText(plain(routing.error if is_of_store else "") or _sentence(answer))
        self.cost.setText(_cost(routes))
        if routes:
            colours = [expert_colour(self._session, name) for name in routes[0].experts]
            self.shares.show_figures(routes[0].experts, self._rows(routes), colours)

    def _rows(self, routes: Sequence[TaskRoutes]) -> list[FigureRow]:
        shares = [(route.task, route.mean_T) for route in routes]
        for route in routes:
            if route.task == self.task.current:
                shares = list(zip(route.layers, route.share_LT, strict=True))
        return [FigureRow(t, _TIP, values, percent=True) for t, values in shares]

    def _start(self) -> None:
        if self._store is not None:
            self._routing.start(self._store, LIMIT)


def _sentence(answer: RoutesFound | None) -> str:
    if answer is None:
        return "This merge sends each example to experts. Compute which ones it uses for each task."
    if not answer.routes:
        return "This merge has no router."
    owned = [route for route in answer.routes if route.owner in route.experts]
    to_owner = [e for e in owned if max(zip(e.mean_T, e.experts, strict=True))[1] == e.owner]
    return f"{len(to_owner)} of {len(owned)} tasks mainly use their own expert."


def _cost(routes: Sequence[TaskRoutes]) -> str:
    if not routes:
        return ""
    count = sum(route.n for route in routes)
    own_ms = 1000 * sum(route.seconds * route.n for route in routes) / count
    plain_ms = 1000 * sum(route.plain_seconds * route.n for route in routes) / count
    return (
        f"The modules add {human_bytes(routes[0].module_bytes)} to the weights. An example takes "
        f"{own_ms:.1f} ms with them and {plain_ms:.1f} ms without (mean of {count} examples)."
    )
