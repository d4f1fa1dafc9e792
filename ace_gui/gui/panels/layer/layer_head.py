"""The selected tensor: name, kind and key figures."""

from __future__ import annotations

import re
from typing import Final

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from ace_gui.engine.contract.figures.findings import LayerReport, Regime
from ace_gui.engine.contract.figures.health import BY_SCALE, WHY_BY_SCALE, near_pole
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.formatting import number_text, shape_text
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, shared_prefix, tooltip
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.widgets.labels.plain_label import ElidedLabel, heading, muted_label, plain_label
from ace_gui.gui.widgets.labels.terms import explain
from ace_gui.gui.widgets.labels.written import write

_BLOCK: Final = re.compile(r"(\d+\.)(.+)")
_NONE: Final = "Choose a layer in the table or in the plot below."
_LOW: Final = 800  # px: in a lower window the figures are hidden in favour of the plot
_FIGURES: Final = (
    ("Heterogeneity γ", "How much the experts' energies differ in this layer"),
    ("Ridge mass Σε", "The ridge's share in the solution"),
    ("Change ‖ΔW‖", "Frobenius norm of the merged change"),
)


class LayerHead(QWidget):
    """Follows the session's selection."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        explain(self, "Ridge mass")
        self._session = session
        self.name = _Name(self)
        self._pill = plain_label("heterogeneous", self, wrap=False)
        self._pill.setProperty("kind", "pill")
        self._pill.setFont(face(Face.CAPTION_STRONG))
        self.facts = ElidedLabel(self)
        self.facts.setProperty("kind", "caption")
        self.facts.setFont(face(Face.CAPTION))
        self.numbers = muted_label("", self)
        self._figures = QWidget(self)
        self._values = self._make_figures()
        line = QHBoxLayout()
        line.setSpacing(8)
        line.addWidget(self._pill)
        line.addWidget(self.facts, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(4, 2, 4, 2)
        layout.setSpacing(4)
        layout.addWidget(self.name)
        layout.addLayout(line)
        layout.addWidget(self.numbers)
        layout.addWidget(self._figures)
        for changed in (session.selection_changed, session.draft.changed, session.results.changed):
            changed.connect(self.refresh)
        session.draft.tau_changed.connect(lambda _: self.refresh())
        session.layers.learnt.connect(self._learn)
        self.refresh()

    def refresh(self) -> None:
        """Update what is known of the tensor."""
        session = self._session
        row = session.layers.row(session.selection)
        self.name.setVisible(row is not None)
        gamma = session.layers.gamma(row.name) if row is not None else None
        above = row is not None and gamma is not None and gamma > session.draft.tau_of(row)
        self._pill.setVisible(above and session.draft.has_gamma)
        found = session.layers.statistics.get(row.name) if row is not None else None
        by_scale = row is not None and found and near_pole(found, session.draft.tau_of(row))
        self._pill.setText(BY_SCALE if by_scale else Regime.HETEROGENEOUS.value)
        self._pill.setToolTip(tooltip(WHY_BY_SCALE) if by_scale else "")
        if row is None:
            self.facts.set_full_text(_NONE)
            self._figures.hide()
            self.numbers.hide()
            return
        blocks = [other.name for other in session.layers.rows if other.block is not None]
        self.name.show_name(row.name, shared_prefix(blocks))
        outcome = [] if row.disposition is Disposition.MERGED else [row.disposition.value]
        facts = " · ".join([row.role, shape_text(row.shape), row.dtype, *outcome])
        self.facts.set_full_text(facts)
        report = self._report(row)
        numbers = report.precision if report is not None and report.precision else ""
        self.numbers.setText(numbers)
        self.numbers.setVisible(bool(numbers) and not self._is_low)
        kind = f"{row.disposition.value}: {row.reason}"
        self.facts.setToolTip(tooltip("\n".join([facts, kind, *([numbers] if numbers else [])])))
        self._show_figures(gamma, report)

    @property
    def _is_low(self) -> bool:
        return self.window().height() < _LOW

    def _report(self, row: PlanRow) -> LayerReport | None:
        """The report of the merge, if the merge belongs to the current inputs."""
        merge = self._session.results.merge
        if merge is None or not self._session.merge_is_current:
            return None
        return merge.reports.get(row.name)

    def _show_figures(self, gamma: float | None, report: LayerReport | None) -> None:
        found = (
            gamma,
            report.ridge_mass if report is not None else None,
            report.delta_norm if report is not None else None,
        )
        for (title, value), figure in zip(self._values, found, strict=True):
            title.setVisible(figure is not None)
            value.setVisible(figure is not None)
            value.setText("" if figure is None else number_text(figure, 3))
        self._figures.setVisible(not self._is_low and any(figure is not None for figure in found))

    def _make_figures(self) -> list[tuple[QLabel, QLabel]]:
        grid = QGridLayout(self._figures)
        grid.setContentsMargins(0, 6, 0, 0)
        grid.setVerticalSpacing(0)
        made = []
        for column, (title, tip) in enumerate(_FIGURES):
            caption, value = muted_label(title, self._figures), heading("", self._figures)
            caption.setWordWrap(False)
            for label in (caption, value):
                label.setToolTip(tip)
            grid.addWidget(caption, 0, column)
            grid.addWidget(value, 1, column)
            grid.setColumnStretch(column, 1)
            made.append((caption, value))
        return made

    def _learn(self, name: str) -> None:
        if name in ("", self._session.selection):
            self.refresh()


class _Name(QWidget):
    """A tensor's name in a monospaced font: block number muted, the rest strong, elided in the
    middle."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._number, self._rest = "", ""
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def show_name(self, name: str, prefix: str) -> None:
        """Show the name without ``prefix``, which all blocks share."""
        found = _BLOCK.fullmatch(name.removeprefix(prefix)) if prefix else None
        self._number, self._rest = found.groups() if found else ("", name)
        self._number, self._rest = plain(self._number), plain(self._rest)
        self.setAccessibleName(plain(name))
        self.setToolTip(tooltip(name))
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(120, round(QFontMetricsF(face(Face.MONO_STRONG)).height()) + 4)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        painter, theme, rect = QPainter(self), current_theme(), QRectF(self.rect())
        used = write(painter, rect, self._number, face(Face.MONO), theme.text3)
        rest = rect.adjusted(used, 0, 0, 0)
        write(painter, rest, self._rest, face(Face.MONO_STRONG), theme.text)
        painter.end()
