"""The views of all layers in tabs: γ, roles, energies, learning curves, and trial values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QTreeWidgetItem, QWidget

from ace_gui.engine.contract import declared_figures as declared
from ace_gui.engine.contract.after_fields import AFTER_FIELDS
from ace_gui.engine.contract.findings import LayerReport, LayerSpectrum
from ace_gui.formatting import number_text
from ace_gui.gui.control.what_if import WhatIf
from ace_gui.gui.models.figures_model import NONE
from ace_gui.gui.models.layer_figures import MergedLayers
from ace_gui.gui.models.layers_model import REFRESH
from ace_gui.gui.models.list_models import expert_colours
from ace_gui.gui.panels.method_panel import scope_option
from ace_gui.gui.plots.frame.base_plot import PlotWithTable
from ace_gui.gui.plots.gamma_map_plot import RoleMapPlot
from ace_gui.gui.plots.gamma_plot import EnergiesAlongPlot, GammaPlot
from ace_gui.gui.plots.merge_plots import LearningPlot
from ace_gui.gui.plots.spectrum_plot import SpectrumPlot
from ace_gui.gui.state.activity import start_once
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import tooltip
from ace_gui.gui.widgets.controls import push_button
from ace_gui.gui.widgets.form import Form
from ace_gui.gui.widgets.labels import explain, muted_label
from ace_gui.gui.widgets.layout import (
    across,
    down,
    on_font_change,
    on_visibility_change,
    scroll_area,
)
from ace_gui.gui.widgets.lazy import Following, LazyTabs
from ace_gui.gui.widgets.tables import row_tree
from ace_gui.recipe.overrides import describe

_PlotOfLayers = GammaPlot | RoleMapPlot | EnergiesAlongPlot
NO_EXPERTS: Final = "Add experts to see where they disagree."
NO_LAYERS: Final = "No tensor here is merged by the method."


class LayersView(Following):
    """A plot of all layers, and its table."""

    def __init__(self, plot: _PlotOfLayers, session: Session, layers: MergedLayers) -> None:
        super().__init__()
        self.session = session
        self.layers = layers
        self.plot = plot
        self.view = PlotWithTable(plot)
        self.setLayout(down(self.view))
        self.setFocusProxy(self.view)
        plot.layer_selected.connect(session.select)
        self.view.row_chosen.connect(self._select_row)
        self.follow(session.draft.changed, session.draft.tau_changed, session.selection_changed)
        self._learning = QTimer(self, singleShot=True, interval=REFRESH)
        self._learning.timeout.connect(self.plan_refresh)
        session.layers.learnt.connect(self._learn)

    def refresh(self) -> None:
        """Show the layers with everything that is known about them."""
        figures = self.layers.figures
        session = self.session
        plan = session.draft.plan
        name = session.selection
        if plan is None or not plan.experts or not figures.names:
            self.plot.clear(NO_LAYERS if plan is not None and plan.experts else NO_EXPERTS)
            return
        if not isinstance(self.plot, EnergiesAlongPlot):
            self.plot.set_tau(session.draft.tau)
        self.plot.show_layers(figures, expert_colours(session))
        self.plot.select(name)
        self.view.select(self.plot.row_of(name))

    def _learn(self, name: str) -> None:
        """Show new figures of single layers after a pause, and those of all layers at once."""
        if name:
            start_once(self._learning)
        else:
            self.plan_refresh()

    def _select_row(self, row: int) -> None:
        if not isinstance(self.plot, RoleMapPlot):  # its rows are blocks
            self.session.select(self.plot.name_at(row))


class HeterogeneityPanel(QWidget):
    """The tabs with all layers. ``plot``: γ along the model, in the first tab."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        explain(self, "Heterogeneity γ")
        layers = MergedLayers(session, self)
        self.plot = GammaPlot()
        self.plot.tau_changed.connect(session.draft.preview_tau)
        self.plot.tau_committed.connect(partial(session.parameter_wanted.emit, "tau"))
        self.tabs = LazyTabs("All layers", self)
        self.tabs.setObjectName("heterogeneity")

        def add(title: str, tip: str, make: Callable[[], _PlotOfLayers]) -> None:
            self.tabs.add(title, tip, lambda: LayersView(make(), session, layers))

        tip = "γ of every layer along the model; drag the line to change τ"
        add("Heterogeneity γ", tip, lambda: self.plot)
        add("By role", "γ by block and role: a row is a role across the depth", RoleMapPlot)
        add("Energies", "How far each expert moved every layer from the base", EnergiesAlongPlot)
        self.setLayout(down(self.tabs, margins=(8, 2, 8, 4)))


class LearningView(Following):
    """The session's learning curves."""

    delay = 200

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.plot = LearningPlot()
        self._session = session
        view = PlotWithTable(self.plot)
        self._result = muted_label()
        self.setLayout(down(self._result, view))
        self.setFocusProxy(view)
        results = session.results
        self.follow(results.learning.changed, results.changed, session.draft.changed)

    def refresh(self) -> None:
        run = self._session.results.merge
        if run is None or run.finished is None:
            distilled = None
        else:
            distilled = run.finished.distilled
        self._result.setText("" if distilled is None else distilled.sentence)
        self._result.setVisible(distilled is not None)
        learning = self._session.results.learning
        colours = expert_colours(self._session)
        tasks = {task.title: task.expert or task.title for task in self._session.draft.inputs.tasks}
        by_task = {name: colours[expert] for name, expert in tasks.items() if expert in colours}
        self.plot.show_steps(learning.losses, learning.figures, learning.curve, colours | by_task)


_Row = tuple[str, str, str]
"""Title, tooltip, and the name of a declared figure or of a field of LayerReport."""


def _row(figure: declared.DeclaredFigure) -> _Row:
    return figure.report_heading or figure.title, figure.meaning, figure.name


_ROWS: Final[tuple[_Row, ...]] = (
    ("γ", "How unequally the experts changed the matrix", "gamma"),
    ("regime", "Heterogeneous if γ exceeds τ: then the solution is refined", "regime"),
    _row(declared.DELTA_NORM),
    ("ridge mass Σεₜ", "Near 1, the refinement points against the experts", "ridge_mass"),
    _row(declared.CONDITION),
    _row(declared.REFINEMENT_COSINE),
    _row(declared.REFINEMENT_RATIO),
    ("cap factor", "Factor by which the cap scaled the change; 1: not capped", "cap_factor"),
    ("effective rank", "Before and after the spectrum is changed", "effective_ranks"),
)
_OF_THE_MERGE: Final = {
    figure.name: figure
    for figure in declared.figures_in(declared.Place.WINDOW)
    if figure.of_report is not None
}
_NAMED: Final = {name for _title, _tip, name in _ROWS}
_FURTHER: Final = tuple(
    _row(figure) for name, figure in _OF_THE_MERGE.items() if name not in _NAMED
)
FIGURES: Final = (*_ROWS, *_FURTHER)
"""The rows of the table under *What if*: the figures of a merge."""
_SPACING = 12  # px
_NARROW = 31  # in text lines: below this width form and figures are narrower
_STACKED = 25  # in text lines: below this width the figures are below the form
_WITH_PLOT = 46  # in text lines: from this width on, the plot is next to the figures
_NOT_TRIED = "Change a value on the left to see its effect on this layer."
_BOTH = "Both variants with the current values. Change a value on the left to see its effect."
_COMPUTING = "This layer is being computed with the values to try."
_NO_LAYER = "Select a layer that the method merges to try other values on it."


class WhatIfPanel(QWidget):
    """Trial values, the figures under the recipe and under the trial, and both spectra.

    Without trial values it compares both variants of a method that has two.
    """

    def __init__(self, session: Session, what_if: WhatIf) -> None:
        super().__init__()
        explain(self, "What if")
        self._session = session
        self._what_if = what_if
        self.form = Form(spoken="{} to try")
        self.form.edited.connect(what_if.try_parameter)
        inputs_wanted = session.inputs_wanted
        self.apply = push_button("Apply", lambda: inputs_wanted.emit(what_if.inputs()))
        tip = "Return to the values of the recipe"
        self.back = push_button("Discard", what_if.back, tip=tip)
        self.own_note = muted_label()
        self._scroll = scroll_area("Values to try", self.form, tabs=False)
        name = "Figures of the layer with the recipe's and the trial values"
        self.table = row_tree(name, ["", *what_if.labels])
        self.rows = [QTreeWidgetItem(self.table, [title]) for title, _tip, _figure in FIGURES]
        self.note = muted_label()
        self.plot = SpectrumPlot()
        self.plot.name_outside()  # the inspector shows the layer's name, and the height is small
        self.plot.setAccessibleName("Spectrum with the recipe's and the trial values")
        self._lay_out()
        on_visibility_change(self, what_if.set_visible)
        what_if.changed.connect(self.refresh)
        what_if.awaited.connect(self.plot.set_busy)
        session.engine_changed.connect(self.refresh)
        session.results.findings.changed.connect(lambda _name: self._show_answer())
        self.refresh()

    def refresh(self) -> None:
        what_if = self._what_if
        engine = self._session.engine
        if what_if.method is not None:
            fields = (*what_if.method.fields, *AFTER_FIELDS)
        else:
            fields = ()
        scope = scope_option(dict(engine.scopes) if engine is not None else {})
        self.form.declare((*fields, scope))
        self._show_override()
        values = {name: what_if.parameter(name) for name in self.form.fields}
        tried = [name for name in self.form.fields if what_if.is_tried(name)]
        self.form.show_values(values.get, tried)
        for button in (self.apply, self.back):
            button.setEnabled(what_if.is_on)
        self._show_answer()
        self._fit()

    def _show_override(self) -> None:
        """Show which override sets the selected layer's parameters, if one does."""
        index = self._what_if.override
        session = self._session
        self.own_note.setVisible(index is not None)
        if index is None:
            self.apply.setToolTip("Apply the trial values to the whole recipe")
            return
        rule = describe(session.draft.inputs.overrides[index])
        ruled = [row for row in session.layers.rows if row.override and index in row.override.rules]
        self.own_note.setText(f"This layer has its own parameters (override: {rule}).")
        if len(ruled) > 1:
            count = f", for all {len(ruled)} tensors"
        else:
            count = ""
        self.apply.setToolTip(tooltip(f"Apply the trial values to the override of {rule}{count}"))

    def _show_answer(self) -> None:
        session = self._session
        what_if = self._what_if
        old = what_if.old
        new = what_if.new
        self._fill_table(old, new)
        row = session.layers.row(session.selection)
        sentence = ""
        if row is None or not session.layers.has_spectrum(row):
            sentence = _NO_LAYER
        elif what_if.error:
            sentence = what_if.error
        elif not what_if.is_on:
            if what_if.other_variant is None:
                sentence = _NOT_TRIED
            else:
                sentence = _BOTH
        is_awaited = sentence in ("", _BOTH) and (old is None or new is None)
        if is_awaited:
            sentence = _COMPUTING
        both_headed = sentence == _BOTH and new is not None  # the headings say so
        self.note.setText(sentence)
        is_said = bool(sentence) and not both_headed  # the plot says it if it is visible
        self.note.setVisible(is_said and (self._drawing.isHidden() or sentence == _BOTH))
        self.table.setHeaderLabels(["", *what_if.labels])
        if old is not None and new is not None:
            self.plot.show_comparison(old, new, what_if.labels)
        elif not is_awaited:
            self.plot.clear(sentence)
        elif self.plot.message() is not None:  # a drawing stays until the next one
            self.plot.show_message(sentence)

    def _fill_table(self, old: LayerSpectrum | None, new: LayerSpectrum | None) -> None:
        for (_title, tip, figure), row in zip(FIGURES, self.rows, strict=True):
            texts = [NONE if s is None else figure_text(s.report, figure) for s in (old, new)]
            row.setHidden(texts == [NONE, NONE])  # leaves the space to the others
            font = self.table.font()
            font.setBold(new is not None and texts[0] != texts[1])
            for column, text in enumerate(texts, start=1):
                row.setText(column, text)
                row.setTextAlignment(column, Qt.AlignmentFlag.AlignCenter)
            row.setFont(2, font)
            for column in range(3):
                row.setToolTip(column, tooltip(tip))

    def _lay_out(self) -> None:
        buttons = across(self.apply, self.back, None)
        controls = down(self.own_note, (self._scroll, 1), buttons)
        middle = down((self.table, 1), self.note)
        self._drawing = PlotWithTable(self.plot)
        parts = (controls, 3), (middle, 4), (self._drawing, 6)
        self._row = across(*parts, margins=(8, 6, 8, 4), gap=_SPACING)
        self.setLayout(self._row)
        on_font_change(self, lambda _: self._fit())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Hide the plot if there is little room, because the table has the same information."""
        line = self.fontMetrics().height()
        narrow = self.width() < _NARROW * line + 4 * _SPACING
        low = self.width() < _STACKED * line
        self._row.setStretch(0, 0 if narrow and not low else 3)
        direction = QBoxLayout.Direction
        self._row.setDirection(direction.TopToBottom if low else direction.LeftToRight)
        self._scroll.setMinimumWidth((9 if narrow else 11) * line)
        self.table.setMinimumWidth((12 if narrow else 20) * line)
        self._drawing.setVisible(self.width() >= _WITH_PLOT * line + 4 * _SPACING)


def figure_text(report: LayerReport, figure: str) -> str:
    """One of ``FIGURES`` as text, or a dash if the method does not report it."""
    if figure in _OF_THE_MERGE:
        number = _OF_THE_MERGE[figure].value(None, report)
        if number is None:
            return NONE
        return _OF_THE_MERGE[figure].text(number, 4)
    value = getattr(report, figure)
    if value is None:
        return NONE
    if isinstance(value, tuple):
        return " → ".join(number_text(item, 3) for item in value)
    if isinstance(value, float):
        return number_text(value, 4)
    return value.value
