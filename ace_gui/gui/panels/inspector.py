"""The inspector: details of the selected layer with its covariances, and the checks."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

import numpy as np
from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QFontMetricsF, QIcon, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QStackedLayout, QWidget

from ace_gui.engine.contract.findings import LayerCovariances, Regime
from ace_gui.engine.contract.health import BY_SCALE
from ace_gui.engine.contract.plan import Disposition
from ace_gui.formatting import shape_text
from ace_gui.gui.control.operations import CovarianceOperation
from ace_gui.gui.models.layer_columns import FIGURES, Layer
from ace_gui.gui.models.layer_figures import Healths
from ace_gui.gui.models.list_models import expert_colours
from ace_gui.gui.panels.checks_and_health import PreflightPanel
from ace_gui.gui.panels.job_page import RunButton
from ace_gui.gui.panels.layer_panels import (
    DistributionPanel,
    EnergiesPanel,
    LayerPanel,
    SpectraPanel,
    SubspacesPanel,
)
from ace_gui.gui.plots.frame.base_plot import PlotWithTable
from ace_gui.gui.plots.one_layer_plots import ExpertMatrixPlot
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.planned_layers import uses_measured, with_measured
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, sentence_case, shared_prefix, tooltip
from ace_gui.gui.theme import Face, current_theme, face, icon
from ace_gui.gui.theme.painting import write
from ace_gui.gui.widgets.controls import push_button
from ace_gui.gui.widgets.labels import (
    ElidedLabel,
    EmptyState,
    explain,
    heading,
    muted_label,
    plain_label,
)
from ace_gui.gui.widgets.layout import across, down, fill_with_stack, pane
from ace_gui.gui.widgets.lazy import LazyTabs
from ace_gui.gui.widgets.tables import FigureRow, FigureSheet
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
        self._pill = plain_label(wrap=False, kind="pill", role=Face.CAPTION_STRONG)
        self.facts = ElidedLabel(caption=True)
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


_CHOOSE: Final = "Choose a layer to compare its covariances."
_NO_DATA: Final = (
    "ACE estimates the covariance of an expert's inputs from its changes alone. Give each expert's "
    "task calibration inputs to see how good the estimate is for your models."
)
_NOT_YET: Final = (
    "Each expert runs once over its calibration inputs; then every layer is compared. Results "
    "are kept, so you can stop and continue."
)
_UNSEEN: Final = "One expert's calibration inputs do not reach this layer, or no expert changes it."
_NOT_MERGED: Final = "ACE estimates covariances only for the matrices that it merges."


class CovariancesPanel(LayerPanel):
    """A plot and a table, or a sentence about what is missing, with a button to get it."""

    finding = LayerCovariances

    def __init__(self, session: Session, measuring: CovarianceOperation) -> None:
        super().__init__(session)
        explain(self, "Covariance")
        self._measuring = measuring
        self._work = measuring.is_running, measuring.error
        self.button = RunButton("Choose data…", self._begin, measuring.stop)
        self.empty = EmptyState(_CHOOSE, self.button)
        self.matrix = ExpertMatrixPlot("Which inputs ACE's covariances match")
        self.matrix.name_outside()
        self.sheet = FigureSheet("Figures of the covariances")
        self.message = muted_label()
        self.all = RunButton("Compare all layers", self._begin, measuring.stop)
        name = "Merge with ACE and the measured covariances"
        draft, wanted = session.draft, session.inputs_wanted
        use = lambda: wanted.emit(with_measured(draft.inputs))  # noqa: E731
        self.use = push_button("Use in ACE", use, name=name, role=Face.BUTTON)
        head = across(None, self.use, margins=(8, 6, 8, 0))
        stack = QWidget()
        upper = pane(down(head, (PlotWithTable(self.matrix), 1), gap=0))
        fill_with_stack(stack, upper, self.sheet)
        self.foot = pane(across((self.message, 1), self.all, margins=(8, 4, 8, 4)))
        self._pages = QStackedLayout(self)
        self._pages.addWidget(self.empty)
        self._pages.addWidget(pane(down((stack, 1), self.foot, gap=0)))
        measuring.changed.connect(self._follow_work)
        session.activity.progressed.connect(self._show_progress)

    def _follow_work(self) -> None:
        """Update everything when the work starts or ends; its progress only changes a sentence."""
        now = self._measuring.is_running, self._measuring.error
        if now != self._work:
            self._work = now
            self.plan_refresh()

    def refresh(self) -> None:
        row, key = self.row, self.session.draft.measured_key()
        findings = self.session.results.findings
        found = None if row is None else findings.get(LayerCovariances, row.name, key)
        self._pages.setCurrentIndex(0 if found is None else 1)
        if found is None:
            self._show_why()
            return
        self.matrix.show_matrix(
            found.name,
            found.experts,
            found.centred_TT,
            meaning="centred cosine",
            caption=whose_inputs(found),
            directed="estimate of {one}, inputs of {other}",
        )
        colours = expert_colours(self.session)
        shown = [colours.get(name, "control") for name in found.experts]
        self.sheet.show_figures(found.experts, covariance_rows(found), shown)
        self._show_foot()

    def set_busy(self, busy: bool) -> None:
        """Show a message until there are results."""

    def _show_why(self) -> None:
        """Show what is missing, with one button to fix it."""
        row, text, key = self.row, "", self.session.draft.measured_key()
        if row is None:
            sentence = _CHOOSE
        elif not self.session.layers.has_spectrum(row):
            sentence = _NOT_MERGED
        elif self.session.draft.inputs.recipe().without_calibration:
            sentence, text = _NO_DATA, "Choose data…"
        elif self._measuring.is_running:
            sentence, text = self._progress() or _NOT_YET, "Measure and compare"
        elif self._measuring.error:
            sentence, text = self._measuring.error, "Measure again"
        elif self._is_whole and row.name not in self.session.results.findings.matches(key):
            sentence = _UNSEEN
        else:
            sentence, text = _NOT_YET, "Measure and compare"
        self.empty.say(sentence)
        self.button.action = text
        self.button.setVisible(bool(text))
        self.button.show_job(self._measuring.is_running, "")

    @property
    def _is_whole(self) -> bool:
        """Whether all layers are compared, as far as that is possible."""
        return self._measuring.finished == self.session.draft.measured_key()

    def _show_foot(self) -> None:
        running, used = self._measuring.is_running, uses_measured(self.session.draft.inputs)
        self.message.setText(self._progress() if running else self._measuring.error)
        self.foot.setVisible(running or not self._is_whole)
        self.all.show_job(running, "")
        self.use.setEnabled(not used)
        offer = "Choose the variant of ACE that uses measured covariances, not estimates."
        tip = "ACE with the measured covariances is chosen." if used else offer
        self.use.setToolTip(tooltip(tip))

    def _show_progress(self) -> None:
        if self.isVisible() and self._measuring.is_running:
            if self._pages.currentIndex():
                self.message.setText(self._progress())
            else:
                self.empty.say(self._progress())

    def _progress(self) -> str:
        progress = self.session.activity.progress
        if progress is None or progress.state is not State.COMPARING:
            return ""
        return f"{sentence_case(progress.title)}: {progress.done} of {progress.total}"

    def _begin(self) -> None:
        if self.session.draft.inputs.recipe().without_calibration:
            self.session.data_wanted.emit()
        else:
            self._measuring.start()


def whose_inputs(found: LayerCovariances) -> str:
    """Whether each estimate matches its own expert's inputs best, and how to read the matrix."""
    own = int((found.centred_TT.argmax(axis=1) == np.arange(len(found.experts))).sum())
    text = "Rows: estimates; columns: inputs."
    if len(found.experts) < 2:
        return text
    knows = f"{own} of {len(found.experts)} estimates match their own expert's inputs best."
    return f"{knows} {text}"


def covariance_rows(found: LayerCovariances) -> list[FigureRow]:
    """How well every expert's estimate matches the inputs, with explanations."""

    def row(title: str, tip: str, attribute: str) -> FigureRow:
        values = [getattr(match, attribute) for match in found.matches]
        return FigureRow(title, tip, [np.nan if value is None else value for value in values])

    return [
        row(
            "directions",
            "Overlap of the leading eighth of directions of ACE's estimate and of the inputs: "
            "1 where they span the same subspace, 0 where they are orthogonal.",
            "overlap",
        ),
        row("by chance", "The overlap of unrelated subspaces.", "chance"),
        row(
            "own inputs",
            "Cosine of ACE's estimate with the covariance of the expert's own inputs, both "
            "without what they share with the identity; 0 if they are unrelated.",
            "centred",
        ),
        row(
            "others' inputs",
            "The mean of the same with the other experts' inputs. If it is as large, the "
            "estimate shows what all inputs share, and nothing about this expert.",
            "others",
        ),
        row(
            "plain cosine",
            "Cosine of both covariances, with what they share with the identity.",
            "cosine",
        ),
    ]
