"""ACE's data-free covariance of the selected layer, compared with that of the experts' inputs."""

from __future__ import annotations

from typing import Final

import numpy as np
from PySide6.QtWidgets import QStackedLayout, QWidget

from ace_gui.engine.contract.figures.covariance_match import LayerCovariances
from ace_gui.gui.control.operations import CovarianceOperation
from ace_gui.gui.models.experts_model import expert_colours
from ace_gui.gui.panels.job_page import RunButton
from ace_gui.gui.panels.layer.layer_panel import LayerPanel
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.plots.one_layer_plots import ExpertMatrixPlot
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.chosen.layer_rules import uses_measured, with_measured
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import sentence_case, tooltip
from ace_gui.gui.theme import Face
from ace_gui.gui.widgets.controls import push_button
from ace_gui.gui.widgets.labels import EmptyState, explain, muted_label
from ace_gui.gui.widgets.layout import across, down, fill_with_stack, pane
from ace_gui.gui.widgets.tables import FigureRow, FigureSheet

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
_NONE: Final = "ACE estimates covariances only for the matrices that it merges."


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
        self.use = push_button("Use in ACE", self._use, name=name, role=Face.BUTTON)
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
        shown = [colours.get(name, "#808080") for name in found.experts]
        self.sheet.show_figures(found.experts, figure_rows(found), shown)
        self._show_foot()

    def set_busy(self, busy: bool) -> None:
        """Show a message until there are results."""

    def _show_why(self) -> None:
        """Show what is missing, with one button to fix it."""
        row, text, key = self.row, "", self.session.draft.measured_key()
        if row is None:
            sentence = _CHOOSE
        elif not self.session.layers.has_spectrum(row):
            sentence = _NONE
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

    def _use(self) -> None:
        self.session.inputs_wanted.emit(with_measured(self.session.draft.inputs))

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


def figure_rows(found: LayerCovariances) -> list[FigureRow]:
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
