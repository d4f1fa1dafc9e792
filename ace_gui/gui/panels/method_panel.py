"""The method's parameters, the other choices of the recipe, and its overrides."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from PySide6.QtCore import QRegularExpression, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QFontMetrics,
    QKeySequence,
    QRegularExpressionValidator,
)
from PySide6.QtWidgets import QLineEdit, QListWidget, QListWidgetItem, QWidget

from ace_gui.engine.contract.events import MethodInfo
from ace_gui.engine.contract.model_figures import Forecast
from ace_gui.engine.contract.plan import AUTOMATIC
from ace_gui.gui.panels.recipe_options import OPTIONS, SEED, Option, scope_option
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.chosen.inputs import Inputs
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import Face, face
from ace_gui.gui.widgets.controls import action_button, named, tool_button, widget_action
from ace_gui.gui.widgets.form import AfterForm, Form, ParameterField
from ace_gui.gui.widgets.labels import ElidedLabel, explain, heading, muted_label, plain_label
from ace_gui.gui.widgets.layout import (
    Folding,
    across,
    clear_layout,
    down,
    on_font_change,
    pane,
    tab_through,
)
from ace_gui.recipe.overrides import describe, describe_change
from ace_gui.recipe.values import After, ParameterValue

_DIGITS = QRegularExpression(r"\d{1,18}")
_FORECAST_TIP = (
    "Norm of the merged change of all matrices, relative to the experts' mean. Before a "
    "merge it is estimated from a few matrices; afterwards it is exact. A change far above "
    "the cap is more than the experts learned: try the automatic variant of ACE, or a cap."
)
_OVERRIDES_TIP = (
    "Some tensors can be merged with another method or other values, averaged, or kept from the "
    "base. If two overrides match a tensor, the later one applies."
)


class MethodPanel(QWidget):
    """The method with its parameters, the further options, and the overrides."""

    def __init__(self, session: Session, choose: QAction) -> None:
        super().__init__()
        self._session = session
        self._shown: MethodInfo | None = None
        self._scopes: tuple[tuple[str, str], ...] | None = None
        self._unusual: frozenset[str] = frozenset()
        self._overridden = False
        self._title = plain_label(wrap=False)
        self._title.setObjectName("method")
        self._title.setFont(face(Face.STRONG))
        self._change = action_button(choose, "Change…", self, kind="link")
        self._change.setAccessibleName("Change the method")
        self._waiting = muted_label("Starting the engine …")
        self.forecast = ElidedLabel(self, sentence=True)
        self.forecast.setProperty("kind", "caption")
        self.forecast.setFont(face(Face.CAPTION))
        self.forecast.hide()
        self._forms, self._more = down(), down(gap=6)
        self.more = Folding("More options", pane(self._more))
        self.overrides = OverridesPanel(session)
        self.overrides.setToolTip(tooltip(_OVERRIDES_TIP))
        self.exceptions = Folding("Overrides", self.overrides)
        head = across((heading("Method"), 1), self._change)
        parts = (self._title, self._waiting, self._forms, self.forecast, self.more, self.exceptions)
        self.setLayout(down(head, *parts, None, margins=(8, 4, 8, 0), gap=4))
        self._rebuild()
        session.draft.changed.connect(self.refresh)
        session.draft.tau_changed.connect(self._show_tau)
        self.refresh()

    @property
    def fields(self) -> dict[str, ParameterField]:
        return self.parameters.fields

    def show_forecast(self, found: Forecast | None) -> None:
        """Show how far the merge moves the model, as far as known."""
        self.forecast.set_full_text("" if found is None else found.sentence)
        self.forecast.setToolTip(tooltip(f"{found.sentence}\n{_FORECAST_TIP}" if found else ""))
        self.forecast.setVisible(found is not None)

    def refresh(self) -> None:
        draft, engine = self._session.draft, self._session.engine
        scopes = engine.scopes if engine is not None else None
        if draft.method != self._shown or scopes != self._scopes:
            self._shown, self._scopes = draft.method, scopes
            self._rebuild()
        self._waiting.setVisible(engine is None)
        for part in (self.parameters, self.more, self.exceptions):
            part.setVisible(engine is not None)
        shown = draft.shown_method
        if shown is not None:
            self._title.setText(shown.title)
            self._title.setToolTip(tooltip(shown.summary))
        plan, inputs = draft.plan, draft.inputs
        notes = plan.parameter_notes if plan is not None else {}
        changed = dict(inputs.touched.items() - inputs.usual.touched.items())
        self.parameters.show_values(draft.parameter, changed, notes)
        self._show_options(inputs)
        self._open_for_unusual(inputs)

    def _show_options(self, inputs: Inputs) -> None:
        shown, usual = {o.name: o.shown(inputs) for o in self._all_options}, inputs.usual
        set_ones = {o.name for o in self._all_options if shown[o.name] != o.shown(usual)}
        self.options.show_values(shown.get, set_ones)
        self.after.show_after(inputs.after, usual=usual.after)
        # The automatic variant has its own cap, shown above.
        own = self._session.draft.parameter("variant") == AUTOMATIC
        self.after.show_row(self.after.cap, bool(inputs.after.cap) or not own)
        self.options.show_row(self.options.fields[SEED], self._is_seeded)

    @property
    def _is_seeded(self) -> bool:
        return self._shown is not None and self._shown.seeded

    @property
    def _all_options(self) -> tuple[Option, ...]:
        return (scope_option(dict(self._scopes or ())), *OPTIONS)

    def _open_for_unusual(self, inputs: Inputs) -> None:
        """Expand the further options if one of them differs from its usual value."""
        usual = inputs.usual
        names = {"after", *(option.name for option in self._all_options)}
        names -= set() if self._is_seeded else {SEED}
        unusual = frozenset(n for n in names if getattr(inputs, n) != getattr(usual, n))
        if unusual - self._unusual:
            self.more.unfold()
        self._unusual = unusual
        if bool(inputs.overrides) != self._overridden:
            (self.exceptions.unfold if inputs.overrides else self.exceptions.fold)()
        self._overridden = bool(inputs.overrides)

    def _rebuild(self) -> None:
        """Replace the forms by those of another method."""
        clear_layout(self._forms)
        clear_layout(self._more)
        self.parameters = Form(self._shown.fields if self._shown is not None else ())
        self.parameters.edited.connect(self._session.parameter_wanted)
        self.options, self.after = Form(o.info for o in self._all_options), AfterForm()
        seed = self.options.fields[SEED].control
        assert isinstance(seed, QLineEdit)
        seed.setValidator(QRegularExpressionValidator(_DIGITS, seed))
        self.options.edited.connect(self._choose)
        self.after.changed.connect(self._set_after)
        self._forms.addWidget(self.parameters)
        for form in (self.options, self.after):
            self._more.addWidget(form)
        tab_through(self._change, self)

    def _choose(self, name: str, value: ParameterValue | None) -> None:
        option = next(each for each in self._all_options if each.name == name)
        inputs = self._session.draft.inputs
        edited = option.edited(inputs, None if value is None else str(value))
        if edited != inputs:
            self._session.inputs_wanted.emit(edited)
        else:
            self.refresh()

    def _set_after(self, after: After) -> None:
        self._session.inputs_wanted.emit(replace(self._session.draft.inputs, after=after))

    def _show_tau(self, tau: float) -> None:
        field = self.fields.get("tau")
        if field is not None:
            field.show_value(tau, "", touched=self._session.draft.tau_is_set)


_NONE = "No overrides. Add one, or open the menu of selected layers."
_LINES_SHOWN = 6


class OverridesPanel(QWidget):
    """``rule_wanted`` carries the index of the rule to edit, -1 for a new one."""

    rule_wanted = Signal(int)

    def __init__(self, session: Session) -> None:
        super().__init__()
        explain(self, "Override")
        self._session = session
        self._none = muted_label(_NONE)
        self.list = self._make_list()
        new = partial(self.rule_wanted.emit, -1)
        self.add = tool_button("Add…", "Merge some tensors differently", new)
        self.edit = tool_button("Edit…", "Change the selected override", self._edit)
        self.remove = tool_button("Remove", "Remove the selected override", self._remove)
        buttons = across(self.add, self.edit, self.remove, None)
        self.setLayout(down(self._none, self.list, buttons))
        session.draft.changed.connect(self.refresh)
        session.activity.changed.connect(self._allow)
        on_font_change(self.list, self._measure)
        self.refresh()

    def refresh(self) -> None:
        rules = self._session.draft.inputs.overrides
        chosen = self.list.currentRow()
        self.list.clear()
        titles = {method.name: method.title for method in self._session.draft.methods}
        for index, rule in enumerate(rules):
            count = self._count(index)
            held = "" if count is None else f" ({count})"
            text = f"{describe(rule)}{held}\n→ {describe_change(rule, titles)}"
            item = QListWidgetItem(plain(text), self.list)
            item.setToolTip(tooltip("\n".join([text, *rule.tensors])))
        self.list.setCurrentRow(min(chosen, len(rules) - 1))
        self.list.setVisible(bool(rules))
        self._none.setVisible(not rules)
        self._measure(self.list.fontMetrics())
        self._allow()

    def _measure(self, metrics: QFontMetrics) -> None:
        line = 2 * metrics.lineSpacing() + 8
        self.list.setFixedHeight(min(self.list.count(), _LINES_SHOWN) * line + 6)

    def _count(self, index: int) -> int | None:
        """The number of tensors that match a rule; None while the plan has other rules."""
        plan = self._session.draft.plan
        if plan is None or plan.recipe.overrides != self._session.draft.inputs.overrides:
            return None
        return sum(row.override is not None and index in row.override.rules for row in plan.rows)

    def _make_list(self) -> QListWidget:
        tip = "Different settings for some tensors; later ones take precedence"
        made = named(QListWidget(), "Overrides", tip)
        made.setObjectName("overrides")
        made.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        made.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        made.itemActivated.connect(lambda _: self._edit())
        made.currentRowChanged.connect(lambda _: self._allow())
        widget_action(made, "Remove override", self._remove, QKeySequence.StandardKey.Delete)
        return made

    def _edit(self) -> None:
        if self.edit.isEnabled():
            self.rule_wanted.emit(self.list.currentRow())

    def _remove(self) -> None:
        if self.remove.isEnabled():
            inputs, index = self._session.draft.inputs, self.list.currentRow()
            rules = (*inputs.overrides[:index], *inputs.overrides[index + 1 :])
            self._session.inputs_wanted.emit(replace(inputs, overrides=rules))

    def _allow(self) -> None:
        """Nothing can change during a merge."""
        session = self._session
        locked = session.activity.is_running(State.MERGING, State.EXPORTING)
        free = session.draft.plan is not None and not locked
        self.add.setEnabled(free)
        for button in (self.edit, self.remove):
            button.setEnabled(free and self.list.currentRow() >= 0)
