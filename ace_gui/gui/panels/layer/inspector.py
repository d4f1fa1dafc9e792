"""The inspector: details of the selected layer, and the checks before the merge."""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import partial
from typing import Final

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QFontMetricsF, QIcon, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from ace_gui.engine.contract.findings import Regime
from ace_gui.engine.contract.health import BY_SCALE
from ace_gui.engine.contract.plan import Disposition
from ace_gui.formatting import shape_text
from ace_gui.gui.control.operations import CovarianceOperation
from ace_gui.gui.models.layer_columns import FIGURES, Layer
from ace_gui.gui.models.layer_figures import Healths
from ace_gui.gui.panels.checks_panel import PreflightPanel
from ace_gui.gui.panels.layer.covariances_panel import CovariancesPanel
from ace_gui.gui.panels.layer.layer_panel import LayerPanel
from ace_gui.gui.panels.layer.one_plot_panels import DistributionPanel, EnergiesPanel, SpectraPanel
from ace_gui.gui.panels.layer.subspaces_panel import SubspacesPanel
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, shared_prefix, tooltip
from ace_gui.gui.theme import Face, Tokens, current_theme, face, icon
from ace_gui.gui.theme.painting import write
from ace_gui.gui.widgets.labels import ElidedLabel, explain, heading, muted_label, plain_label
from ace_gui.gui.widgets.layout import across, down
from ace_gui.gui.widgets.lazy import LazyTabs
from ace_gui.linalg.heterogeneity import WHY_BY_SCALE

_PANELS = (
    ("Spectrum", "Singular values of the experts' changes and of the merge", SpectraPanel),
    ("Subspaces", "Directions kept by refinement, and shared by experts", SubspacesPanel),
    ("Entries", "How the entries of the experts' changes are distributed", DistributionPanel),
    ("Energies", "How far every expert moved this layer from the base: ‖ΔW‖²", EnergiesPanel),
)


_LOW = 28  # in text lines: a lower inspector leaves the figures of its head to the plots


class InspectorPanel(QWidget):
    """Tabs about the selected layer, and the checks, which come to the front when a new one
    fails."""

    def __init__(self, session: Session, healths: Healths, measuring: CovarianceOperation) -> None:
        super().__init__()
        self._session = session
        self.head = LayerHead(session, healths)
        self.tabs = LazyTabs("Inspector", self)
        self.tabs.setObjectName("inspector")
        for title, tip, kind in _PANELS:
            self.tabs.add(title, tip, partial(kind, session))
        tip = "How well ACE's covariance of this layer matches that of the experts' inputs"
        self.tabs.add("Inputs", tip, partial(CovariancesPanel, session, measuring))
        self.preflight = PreflightPanel(session)
        tip = "The checks before the merge, and their results"
        self.checks_tab = self.tabs.add("Checks", tip, lambda: self.preflight)
        self.tabs.content(self.checks_tab)  # at once, because it comes to the front by itself
        self._worries: frozenset[object] = frozenset()
        self.setLayout(down(self.head, (self.tabs, 1), margins=(8, 8, 8, 4)))
        session.checks.changed.connect(self._show_worries)
        self._show_worries()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.head.set_compact(event.size().height() < _LOW * self.fontMetrics().height())
        super().resizeEvent(event)

    @property
    def panel(self) -> QWidget:
        return self.tabs.current

    def restyle(self, theme: Tokens) -> Generator[None, None, None]:
        for panel in self.tabs.contents():
            if isinstance(panel, LayerPanel):
                yield from panel.restyle(theme)

    def show_checks(self) -> None:
        self.tabs.setCurrentIndex(self.checks_tab)

    def _show_worries(self) -> None:
        """Show the number of warnings on the tab, and show the tab if they have changed."""
        worries, index = self._session.checks.worries, self.checks_tab
        self.tabs.setTabText(index, f"Checks ({len(worries)})" if worries else "Checks")
        name = worries[0].verdict.value if worries else ""
        self.tabs.setTabIcon(index, icon(name) if name else QIcon())
        found = frozenset(check.key for check in worries)
        if found - self._worries:
            self.show_checks()
        self._worries = found


_BLOCK: Final = re.compile(r"(\d+\.)(.+)")
_NONE: Final = "Choose a layer in the table or in a plot of all layers."


class LayerHead(QWidget):
    """Follows the session's selection."""

    def __init__(self, session: Session, healths: Healths) -> None:
        super().__init__()
        explain(self, "Ridge mass")
        self._session, self._healths, self._is_compact = session, healths, False
        self.name = _Name()
        self._pill = plain_label("heterogeneous", wrap=False)
        self._pill.setProperty("kind", "pill")
        self._pill.setFont(face(Face.CAPTION_STRONG))
        self.facts = ElidedLabel()
        self.facts.setProperty("kind", "caption")
        self.facts.setFont(face(Face.CAPTION))
        self._figures = QWidget(self)
        self._values = self._make_figures()
        line = across(self._pill, (self.facts, 1))
        self.setLayout(down(self.name, line, self._figures, margins=(4, 2, 4, 2), gap=4))
        for changed in (session.selection_changed, session.draft.changed, session.results.changed):
            changed.connect(self.refresh)
        session.draft.tau_changed.connect(lambda _: self.refresh())
        session.layers.learnt.connect(self._learn)
        self.refresh()

    def refresh(self) -> None:
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
        for (title, value), figure in zip(self._values, FIGURES, strict=True):
            known = figure.is_known(layer)
            title.setVisible(known)
            value.setVisible(known)
            value.setText(figure.text(layer).strip() if known else "")
        any_known = any(figure.is_known(layer) for figure in FIGURES)
        self._figures.setVisible(not self._is_compact and any_known)

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
            caption, value = muted_label(title), heading("")
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

    def __init__(self) -> None:
        super().__init__()
        self._number, self._rest = "", ""
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def show_name(self, name: str, prefix: str) -> None:
        """Show the name without ``prefix``, which all blocks share."""
        found = _BLOCK.fullmatch(name.removeprefix(prefix)) if prefix else None
        self._number, self._rest = map(plain, found.groups() if found else ("", name))
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
