"""The inspector, with details and covariances of the selected layer, and the checks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from PySide6.QtGui import QIcon, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from ace_gui.engine.contract.findings import LayerCovariances, Regime
from ace_gui.engine.contract.health import BY_SCALE
from ace_gui.engine.contract.plan import Disposition
from ace_gui.formatting import shape_text
from ace_gui.gui.control.operations import CovarianceOperation
from ace_gui.gui.models.layer_columns import ABOVE_PLOTS, LayerRow
from ace_gui.gui.models.layer_figures import Healths
from ace_gui.gui.models.list_models import expert_colours
from ace_gui.gui.panels.checks_and_health import PreflightPanel
from ace_gui.gui.panels.job_page import RunButton
from ace_gui.gui.panels.layer_panels import (
    DistributionPanel,
    EnergiesPanel,
    SheetPanel,
    SpectraPanel,
    SubspacesPanel,
)
from ace_gui.gui.plots.one_layer_plots import ExpertMatrixPlot
from ace_gui.gui.state.activity import ActivityState
from ace_gui.gui.state.planned_layers import uses_measured, with_measured
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, sentence_case, shared_prefix, tooltip
from ace_gui.gui.theme import Face, face, icon
from ace_gui.gui.widgets.controls import push_button
from ace_gui.gui.widgets.labels import (
    ElidedLabel,
    explain,
    heading,
    muted_label,
    plain_label,
)
from ace_gui.gui.widgets.layout import across, down
from ace_gui.gui.widgets.lazy import LazyTabs
from ace_gui.gui.widgets.tables import FigureRow
from ace_gui.linalg.heterogeneity import WHY_BY_SCALE

_PANELS = (
    ("Spectrum", "Singular values of the experts' changes and of the merge", SpectraPanel),
    ("Subspaces", "Directions kept by refinement, and shared by experts", SubspacesPanel),
    ("Entries", "How the entries of the experts' changes are distributed", DistributionPanel),
    ("Energies", "How far every expert moved this layer from the base: ‖ΔW‖²", EnergiesPanel),
)


_LOW = 28  # in text lines: a lower inspector has no figures in its head, but more of the plots


class InspectorPanel(QWidget):
    """Tabs about the selected layer, and a tab with the checks, which is shown when a check newly
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
        self.tabs.content(self.checks_tab)  # created at once, because it shows itself
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
        """Write the number of warnings on the tab, and show the tab if there are others."""
        worries = self._session.checks.worries
        index = self.checks_tab
        self.tabs.setTabText(index, f"Checks ({len(worries)})" if worries else "Checks")
        if worries:
            name = worries[0].verdict.value
        else:
            name = ""
        self.tabs.setTabIcon(index, icon(name) if name else QIcon())
        worry_keys = frozenset(check.key for check in worries)
        if worry_keys - self._worries:
            self.show_checks()
        self._worries = worry_keys


_BLOCK: Final = re.compile(r"(\d+\.)(.+)")
_NONE: Final = "Choose a layer in the table or in a plot of all layers."


class LayerHead(QWidget):
    """The name and the figures of the selected layer."""

    def __init__(self, session: Session, healths: Healths) -> None:
        super().__init__()
        explain(self, "Ridge mass")
        self._session = session
        self._healths = healths
        self._is_compact = False
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
        layer = LayerRow(row, session, self._healths)
        regime = layer.regime
        self._pill.setVisible(regime in (Regime.HETEROGENEOUS, BY_SCALE))
        self._pill.setText(regime)
        self._pill.setToolTip(tooltip(WHY_BY_SCALE) if regime == BY_SCALE else "")
        blocks = [
            other_row.name for other_row in session.layers.rows if other_row.block is not None
        ]
        self.name.show_name(row.name, shared_prefix(blocks))
        if row.disposition is Disposition.MERGED:
            outcome = []
        else:
            outcome = [row.disposition.value]
        facts = " · ".join([row.role, shape_text(row.shape), row.dtype, *outcome])
        self.facts.set_full_text(facts)
        if layer.report is not None:
            precision = layer.report.precision
        else:
            precision = ""
        self.facts.setToolTip(tooltip("\n".join(filter(None, (facts, layer.tip, precision)))))
        for (title, value), figure in zip(self._values, ABOVE_PLOTS, strict=True):
            is_known = figure.is_known(layer)
            title.setVisible(is_known)
            value.setVisible(is_known)
            value.setText(figure.text(layer).strip() if is_known else "")
        any_known = any(figure.is_known(layer) for figure in ABOVE_PLOTS)
        self._figures.setVisible(not self._is_compact and any_known)

    def set_compact(self, compact: bool) -> None:
        """Hide or show the figures; without them the plots below have more room."""
        if compact != self._is_compact:
            self._is_compact = compact
            self.refresh()

    def _make_figures(self) -> list[tuple[QLabel, QLabel]]:
        grid = QGridLayout(self._figures)
        grid.setContentsMargins(0, 6, 0, 0)
        grid.setVerticalSpacing(0)
        labels = []
        for column, figure in enumerate(ABOVE_PLOTS):
            if column:
                title = figure.title
            else:
                title = f"Heterogeneity {figure.title}"
            caption = muted_label(title)
            value = heading("")
            caption.setWordWrap(False)
            for label in (caption, value):
                label.setToolTip(tooltip(figure.tip))
            grid.addWidget(caption, 0, column)
            grid.addWidget(value, 1, column)
            grid.setColumnStretch(column, 1)
            labels.append((caption, value))
        return labels

    def _learn(self, name: str) -> None:
        if name in ("", self._session.selection):
            self.refresh()


class _Name(QWidget):
    """A tensor's name in a monospaced font, elided in the middle. The block number is muted, the
    rest is strong."""

    def __init__(self) -> None:
        super().__init__()
        self.number = plain_label(wrap=False, kind="caption", role=Face.MONO)
        self.rest = ElidedLabel()
        self.rest.setFont(face(Face.MONO_STRONG))
        self.setLayout(across(self.number, (self.rest, 1), gap=0))

    def show_name(self, name: str, prefix: str) -> None:
        """Show the name without ``prefix``, which all blocks share."""
        if prefix:
            match = _BLOCK.fullmatch(name.removeprefix(prefix))
        else:
            match = None
        number, name_rest = match.groups() if match else ("", name)
        self.number.setText(plain(number))
        self.number.setVisible(bool(number))
        self.rest.set_full_text(name_rest)
        self.setAccessibleName(plain(name))
        self.rest.setToolTip(tooltip(name))


_CHOOSE: Final = "Choose a layer to compare its covariances."
_NO_DATA: Final = (
    "ACE estimates the covariance of an expert's inputs from its changes alone. Add calibration "
    "inputs to each expert's task to see how good the estimate is for your models."
)
_NOT_YET: Final = (
    "Each expert runs once over its calibration inputs; then every layer is compared. Results "
    "are kept, so you can stop and continue."
)
_UNSEEN: Final = "An expert's calibration inputs do not reach this layer, or no expert changes it."
_NOT_MERGED: Final = "ACE estimates covariances only for the matrices that it merges."


class CovariancesPanel(SheetPanel):
    """A plot and a table of the covariances, or what is missing, with a button to get it."""

    finding = LayerCovariances

    def __init__(self, session: Session, measuring: CovarianceOperation) -> None:
        self._measuring = measuring
        self.plot = ExpertMatrixPlot("Which inputs ACE's covariances match")
        self.message = muted_label()
        name = "Merge with ACE and the measured covariances"
        draft = session.draft
        inputs_wanted = session.inputs_wanted
        use = lambda: inputs_wanted.emit(with_measured(draft.inputs))  # noqa: E731
        self.use = push_button("Use in ACE", use, name=name, role=Face.BUTTON)
        self.button = RunButton("Choose data…", self._begin, measuring.stop)
        foot = ((self.message, 1), self.use, self.button)
        name = "Figures of the covariances"
        super().__init__(session, self.plot, name, turned=False, below=foot)
        explain(self, "Covariance")
        measuring.changed.connect(self._follow_work)
        session.activity.progressed.connect(self._show_foot)

    @property
    def found(self) -> LayerCovariances | None:
        key = self.session.draft.measured_key()
        findings = self.session.results.findings
        if self.row is None:
            return None
        return findings.get(LayerCovariances, self.row.name, key)

    def _follow_work(self) -> None:
        """Update everything when the work ends, but only the foot while it runs."""
        if self._measuring.is_running:
            self._show_foot()
        else:
            self.plan_refresh()

    def refresh(self) -> None:
        covariances = self.found
        if covariances is None:
            self.plot.clear(self._missing()[0])
        else:
            self.plot.show_matrix(
                covariances.name,
                covariances.experts,
                covariances.centred_TT,
                meaning="centred cosine",
                caption=whose_inputs(covariances),
                directed="estimate of {one}, inputs of {other}",
            )
        self._show_foot()

    def figures(self) -> tuple[Sequence[str], list[FigureRow], list[str]]:
        covariances = self.found
        colours = expert_colours(self.session)
        if covariances is None:
            return [], [], []
        ink_names = [colours.get(name, "control") for name in covariances.experts]
        return covariances.experts, covariance_rows(covariances), ink_names

    def set_busy(self, busy: bool) -> None:
        """Do nothing: until there are results, the plot says what is missing."""

    def _missing(self) -> tuple[str, str]:
        """A sentence on what is missing, and the text of the button that helps, or ""."""
        row = self.row
        key = self.session.draft.measured_key()
        is_whole = self._measuring.finished == key  # all matrices that can be compared
        if row is None:
            return _CHOOSE, ""
        if not self.session.layers.has_spectrum(row):
            return _NOT_MERGED, ""
        if self.session.draft.inputs.recipe().without_calibration:
            return _NO_DATA, "Choose data…"
        if self.found is not None:
            return "", "" if is_whole else "Compare all layers"
        if is_whole and row.name not in self.session.results.findings.matches(key):
            return _UNSEEN, "Measure and compare" if self._measuring.is_running else ""
        return _NOT_YET, "Measure again" if self._measuring.error else "Measure and compare"

    def _show_foot(self) -> None:
        running = self._measuring.is_running
        used = uses_measured(self.session.draft.inputs)
        progress = self.session.activity.progress
        text = self._measuring.error
        if running and progress is not None and progress.state is ActivityState.COMPARING:
            text = f"{sentence_case(progress.title)}: {progress.done} of {progress.total}"
        self.message.setText(text)
        self.button.action = self._missing()[1]
        self.button.setVisible(running or bool(self.button.action))
        self.button.show_job(running, "")
        self.use.setVisible(self.found is not None)
        self.use.setEnabled(not used)
        offer = "Choose the variant of ACE that uses measured covariances, not estimates."
        if used:
            tip = "ACE with the measured covariances is chosen."
        else:
            tip = offer
        self.use.setToolTip(tooltip(tip))

    def _begin(self) -> None:
        if self.session.draft.inputs.recipe().without_calibration:
            self.session.data_wanted.emit()
        else:
            self._measuring.start()


def whose_inputs(covariances: LayerCovariances) -> str:
    """How many estimates match their own expert's inputs best, and how to read the matrix."""
    matching = int(
        (covariances.centred_TT.argmax(axis=1) == np.arange(len(covariances.experts))).sum()
    )
    text = "Rows: estimates; columns: inputs."
    if len(covariances.experts) < 2:
        return text
    knows = (
        f"{matching} of {len(covariances.experts)} estimates match their own expert's inputs best."
    )
    return f"{knows} {text}"


def covariance_rows(covariances: LayerCovariances) -> list[FigureRow]:
    """The figures of how well each expert's estimate matches the inputs, with explanations."""

    def row(title: str, tip: str, attribute: str) -> FigureRow:
        values = [getattr(match, attribute) for match in covariances.matches]
        return FigureRow(title, tip, [np.nan if value is None else value for value in values])

    return [
        row(
            "directions",
            "Overlap of the leading eighth of directions of ACE's estimate and of the inputs. "
            "1: they span the same subspace; 0: they are orthogonal.",
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
