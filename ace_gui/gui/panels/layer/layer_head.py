"""The selected tensor: name, kind and key figures."""

from __future__ import annotations

import re
from typing import Final

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from ace_gui.engine.contract.figures.findings import Regime
from ace_gui.engine.contract.figures.health import BY_SCALE, WHY_BY_SCALE
from ace_gui.engine.contract.plan import Disposition
from ace_gui.formatting import shape_text
from ace_gui.gui.models.layer_columns import FIGURES, Layer
from ace_gui.gui.models.layer_health import Healths
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, shared_prefix, tooltip
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.widgets.labels.plain_label import ElidedLabel, heading, muted_label, plain_label
from ace_gui.gui.widgets.labels.terms import explain
from ace_gui.gui.widgets.labels.written import write

_BLOCK: Final = re.compile(r"(\d+\.)(.+)")
_NONE: Final = "Choose a layer in the table or in the plot below."


class LayerHead(QWidget):
    """Follows the session's selection."""

    def __init__(self, session: Session, healths: Healths, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        explain(self, "Ridge mass")
        self._session, self._healths = session, healths
        self._is_compact = False
        self.name = _Name(self)
        self._pill = plain_label("heterogeneous", self, wrap=False)
        self._pill.setProperty("kind", "pill")
        self._pill.setFont(face(Face.CAPTION_STRONG))
        self.facts = ElidedLabel(self)
        self.facts.setProperty("kind", "caption")
        self.facts.setFont(face(Face.CAPTION))
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
        if row is None:
            self.facts.set_full_text(_NONE)
            self._pill.hide()
            self._figures.hide()
            return
        layer = Layer(row, session, self._healths)
        regime = layer.regime
        self._pill.setVisible(regime in (Regime.HETEROGENEOUS, BY_SCALE))
        self._pill.setText(regime)
        self._pill.setToolTip(tooltip(WHY_BY_SCALE) if regime == BY_SCALE else "")
        blocks = [other.name for other in session.layers.rows if other.block is not None]
        self.name.show_name(row.name, shared_prefix(blocks))
        outcome = [] if row.disposition is Disposition.MERGED else [row.disposition.value]
        facts = " · ".join([row.role, shape_text(row.shape), row.dtype, *outcome])
        self.facts.set_full_text(facts)
        precision = layer.report.precision if layer.report is not None else ""
        self.facts.setToolTip(tooltip("\n".join(filter(None, (facts, layer.tip, precision)))))
        self._show_figures(layer)

    def _show_figures(self, layer: Layer) -> None:
        known = [column.is_known(layer) for column in FIGURES]
        for (title, value), figure, is_known in zip(self._values, FIGURES, known, strict=True):
            title.setVisible(is_known)
            value.setVisible(is_known)
            value.setText(figure.text(layer).strip() if is_known else "")
        self._figures.setVisible(not self._is_compact and any(known))

    def set_compact(self, compact: bool) -> None:
        """Hide the figures, in favour of the plots below."""
        if compact != self._is_compact:
            self._is_compact = compact
            self.refresh()

    def _make_figures(self) -> list[tuple[QLabel, QLabel]]:
        grid = QGridLayout(self._figures)
        grid.setContentsMargins(0, 6, 0, 0)
        grid.setVerticalSpacing(0)
        made = []
        for column, figure in enumerate(FIGURES):
            title = figure.title if column else f"Heterogeneity {figure.title}"
            caption, value = muted_label(title, self._figures), heading("", self._figures)
            caption.setWordWrap(False)
            for label in (caption, value):
                label.setToolTip(tooltip(figure.tip))
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
