"""The scores of one merge as a table, and a significance test of two models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final

from PySide6.QtCore import QRectF, QSignalBlocker, QSize
from PySide6.QtWidgets import QHeaderView, QStyleOptionViewItem, QTableView, QWidget

from ace_gui.engine.contract.scored import BASE, EXPERTS
from ace_gui.engine.contract.verdicts import in_words, paired
from ace_gui.gui.models.list_models import expert_colour
from ace_gui.gui.models.scores_models import KEPT, TASK, TaskFiguresModel
from ace_gui.gui.panels.layer_cells import Cell, Drawn, Index
from ace_gui.gui.state.found.known_scores import TaskFigures
from ace_gui.gui.state.session import Session
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.theme.painting import SWATCH, paint_share, paint_swatch, write
from ace_gui.gui.widgets.controls import Choice
from ace_gui.gui.widgets.labels import heading, muted_label, secondary_label
from ace_gui.gui.widgets.layout import across, down, on_font_change
from ace_gui.gui.widgets.tables import add_table_actions, plain_rows

_BAR: Final = (40.0, 5.0)  # px
_LEAST: Final = 12.0  # px: minimum useful width of a bar
_LONGEST: Final = "100 %"  # text that fits next to every bar of the column


class FigureCell(Cell):
    """A cell of the table of figures."""

    padding = 12

    def __init__(self, session: Session, model: TaskFiguresModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._session, self._model = session, model

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        hint = super().sizeHint(option, index)
        more = {TASK: SWATCH + 10, KEPT: round(_BAR[0]) + 8}.get(index.column(), 0)
        return QSize(hint.width() + more, hint.height())

    def draw(self, cell: Drawn) -> None:
        row = self._model.rows[cell.index.row()]
        theme, column, rect = current_theme(), cell.index.column(), cell.rect
        colour, hollow = expert_colour(self._session, row.owner)
        if column == TASK:
            if colour:
                square = QRectF(rect.left(), rect.top(), SWATCH, rect.height())
                paint_swatch(cell.painter, square, colour, hollow=hollow)
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


class FiguresCard(QWidget):
    """The table's menu copies and saves it with full precision and standard errors."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session, self._by_hand = session, False
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
        parts = (heading("Figures"), self.table, muted_label(NOTE), question, pair, self.test)
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

    def show_figures(self, rows: Sequence[TaskFigures], models: Mapping[str, str]) -> None:
        """Show these scores, and test the last two merges unless others are chosen. ``models``:
        titles by key."""
        if tuple(rows) != self.model.rows:
            self.model.show_figures(rows)
            self._fit()
        options = {key: (title, title) for key, title in models.items()} or {"": ("–", "")}
        self.first.offer(options)
        self.second.offer(options)
        if not self._by_hand:
            merges = [key for key in models if key not in (BASE, EXPERTS)]
            pair = merges[-1:] + merges[-2:-1] + [EXPERTS, BASE]
            pair = [key for key in pair if key in options][:2]
            for box, key in zip((self.first, self.second), pair, strict=False):
                with QSignalBlocker(box):
                    box.choose(key)
        self._show_test()

    def _fit(self) -> None:
        """Set the height to that of the rows, so that nothing is empty below."""
        rows = sum(self.table.rowHeight(row) for row in range(self.model.rowCount()))
        bar = self.table.horizontalScrollBar().sizeHint().height()
        self.table.setFixedHeight(self.table.horizontalHeader().sizeHint().height() + rows + bar)

    def _choose(self) -> None:
        """Choose the models to test; the user's choice stays when others are scored."""
        self._by_hand = True
        self._show_test()

    def _show_test(self) -> None:
        known = self._session.results.scores
        a, b = self.first.current, self.second.current
        if a == b:
            self.test.setText("Choose two different models.")
            return
        one, two = known.line(a), known.line(b)
        pairs = [(one[task], two[task]) for task in one if task in two]
        metrics = [score.metric for score, _ in pairs]
        titles = self.first.currentText(), self.second.currentText()
        self.test.setText(in_words(paired(pairs), *titles, metrics))
