"""The method's parameters, the other choices of the recipe, and its overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QFontMetrics, QKeySequence
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QWidget

from ace_gui.ace_variants import AUTOMATIC
from ace_gui.engine.contract.model_figures import Forecast
from ace_gui.field_info import Option
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.theme import Face
from ace_gui.gui.widgets.alignment_form import AlignmentForm
from ace_gui.gui.widgets.controls import action_button, named, tool_button, widget_action
from ace_gui.gui.widgets.form import AfterForm, Form, OptionForm, ParameterField
from ace_gui.gui.widgets.labels import explain, heading, muted_label, plain_label
from ace_gui.gui.widgets.layout import (
    Folding,
    across,
    down,
    on_font_change,
    pane,
)
from ace_gui.recipe.overrides import describe, describe_change
from ace_gui.recipe.values import Heads, NonFinite, Poolers, SanityCheck, Vocabulary


def _seed(text: str) -> int:
    """The seed in a text. ValueError if there is none."""
    if not text.isdecimal() or int(text) >= 2**63:
        raise ValueError(text)
    return int(text)


OPTIONS: Final = (
    Option(  # the first option, for methods that draw random numbers
        name="seed",
        label="Seed",
        help="This method uses random numbers. The same seed gives the same numbers in any order "
        "and on any device; another seed shows how much the result varies.",
        kind="digits",
        default=str(Inputs().seed),
        read=_seed,
        write=str,
    ),
    Option(
        name="split_fused",
        label="Fused",
        help="Some models keep the matrices for query, key and value, or for gate and up, "
        "in one tensor. The published procedure treats them as one. If they are "
        "split, each has its own γ, regime and spectrum. The merged model's tensors "
        "keep their shapes either way.",
        values={"as one matrix": False, "split": True},
    ),
    Option(
        name="heads",
        label="Heads",
        help="Heads of one task have the same shape and the same labels. Heads can be "
        "merged always, never, or only if all experts have the same task. Heads that "
        "are not merged are saved with the merged model.",
        values={
            "merge if one task": Heads.AUTO,
            "save separately": Heads.KEEP,
            "always merge": Heads.MERGE,
        },
    ),
    Option(
        name="poolers",
        label="Poolers",
        help="A pooler feeds only the task head, and is trained for it. It can be merged, "
        "or saved with each expert's head if the heads are saved.",
        values={"merge": Poolers.MERGE, "keep with head": Poolers.KEEP},
    ),
    Option(
        name="vocabulary",
        label="Vocabulary",
        help="Embeddings and vocabulary heads have a row for each token. “Row by row” "
        "needs vocabularies of one size. “Matched by token” combines the rows of the "
        "same token, at any index; an expert without the token counts as unchanged. "
        "Tokens that the base lacks and all experts have are added, with the mean of "
        "their rows. “Union of all tokens” also adds tokens of only some experts, and "
        "“the base's tokens” adds none. “As in the base” keeps the base's rows.",
        values={
            "row by row": Vocabulary.POSITION,
            "matched by token": Vocabulary.TOKENS,
            "union of all tokens": Vocabulary.UNION,
            "the base's tokens": Vocabulary.BASE_TOKENS,
            "as in the base": Vocabulary.BASE,
        },
    ),
    Option(
        name="out_dtype",
        label="Output",
        help="Number format of the merged tensors; rounded once, on writing.",
        values={"as the base": None}
        | {name: name for name in ("float32", "bfloat16", "float16", "float64")},
    ),
    Option(
        name="check",
        label="Check",
        help="Whether a merged language model is tried on a few lines of usual text in several "
        "languages and on code, beside base and experts. A merge that is far above all of them "
        "gets a warning. The merge stays as it is.",
        values={"if quick": SanityCheck.AUTO, "always": SanityCheck.ON, "never": SanityCheck.OFF},
    ),
    Option(
        name="non_finite",
        label="NaN, Inf",
        help="What to do if an expert's tensor has NaN (not a number) or Inf (infinity), "
        "for example because its training diverged. The layer's notes and the "
        "model card name every such tensor.",
        values={
            "stop": NonFinite.STOP,
            "keep the base's": NonFinite.KEEP_BASE,
            "leave expert out": NonFinite.SKIP_EXPERT,
        },
    ),
)


def scope_option(scopes: Mapping[str, str]) -> Option:
    """The option for the tensors to merge. ``scopes``: the engine's descriptions by name."""
    lines = "\n".join(f"{name}: {description}" for name, description in scopes.items())
    return Option(
        name="scope",
        label="Scope",
        help="Which tensors the method merges, and in which orientation; the authors' presets "
        f"reproduce their scripts.\n{lines}",
        values={name: name for name in scopes},
    )


_FORECAST_TIP = (
    "Norm of the merged change of all matrices, relative to the experts' mean. Before a "
    "merge it is estimated from a few matrices; afterwards it is exact. A change far above "
    "the cap is larger than the experts' changes: try the automatic variant of ACE, or a cap."
)
_OVERRIDES_TIP = (
    "Some tensors can be merged with another method or other values, averaged, or kept from the "
    "base. If two overrides match a tensor, the later one applies."
)


def _can_align(inputs: Inputs) -> bool:
    """Whether aligning the merge is offered: every expert has inputs, or it is chosen."""
    if inputs.distil:
        return True
    if inputs.base is None or not inputs.experts:
        return False
    return not inputs.recipe().without_calibration


class MethodPanel(QWidget):
    """The method with its parameters, the further options, and the overrides."""

    def __init__(self, session: Session, choose: QAction) -> None:
        super().__init__()
        self._session = session
        self._unusual: frozenset[str] = frozenset()
        self._overridden = False
        self._title = plain_label(wrap=False, role=Face.STRONG)
        self._title.setObjectName("method")
        self._change = action_button(choose, "Change…", self, kind="link")
        self._change.setAccessibleName("Change the method")
        self._waiting = muted_label("Starting the engine …")
        self.parameters = Form()
        self.options = OptionForm()
        self.after = AfterForm()
        self.alignment = AlignmentForm()
        self.forecast = muted_label()
        self.forecast.hide()
        self.more = Folding("More options", pane(down(self.options, self.after, gap=6)))
        self.overrides = OverridesPanel(session)
        self.overrides.setToolTip(tooltip(_OVERRIDES_TIP))
        self.exceptions = Folding("Overrides", self.overrides)
        head = across((heading("Method"), 1), self._change)
        parts = (
            self._title,
            self._waiting,
            self.parameters,
            self.alignment,
            self.forecast,
            self.more,
        )
        self.setLayout(down(head, *parts, self.exceptions, None, margins=(8, 4, 8, 0), gap=4))
        draft = session.draft
        inputs_wanted = session.inputs_wanted
        self.parameters.edited.connect(session.parameter_wanted)
        self.options.changed.connect(inputs_wanted)
        self.after.changed.connect(
            lambda after: inputs_wanted.emit(replace(draft.inputs, after=after))
        )
        self.alignment.chosen.connect(
            lambda distil: inputs_wanted.emit(replace(draft.inputs, distil=distil))
        )
        draft.changed.connect(self.refresh)
        draft.tau_changed.connect(self._show_tau)
        self.refresh()

    @property
    def fields(self) -> dict[str, ParameterField]:
        return self.parameters.fields

    def show_forecast(self, forecast: Forecast | None) -> None:
        """Show how far the merge moves the model, as far as known."""
        self.forecast.setText("" if forecast is None else forecast.sentence)
        self.forecast.setToolTip(tooltip(_FORECAST_TIP if forecast else ""))
        self.forecast.setVisible(forecast is not None)

    def refresh(self) -> None:
        draft = self._session.draft
        engine = self._session.engine
        self._waiting.setVisible(engine is None)
        for part in (self.parameters, self.more, self.exceptions):
            part.setVisible(engine is not None)
        method = draft.shown_method
        if method is not None:
            self._title.setText(draft.label)
            self._title.setToolTip(tooltip(method.summary))
        plan = draft.plan
        inputs = draft.inputs
        if plan is not None:
            notes = plan.parameter_notes
        else:
            notes = {}
        changed = dict(inputs.touched.items() - inputs.with_defaults.touched.items())
        self.parameters.declare(draft.fields)
        self.parameters.show_values(draft.parameter, changed, notes)
        self._show_options(inputs)
        self._open_for_unusual(inputs)

    def _show_options(self, inputs: Inputs) -> None:
        self.options.show_record(self._options, inputs, inputs.with_defaults)
        self.after.show_after(inputs.after, defaults=inputs.with_defaults.after)
        self.alignment.show_choice(inputs.distil)
        self.alignment.setVisible(self._session.engine is not None and _can_align(inputs))
        # The automatic variant has its own cap among its parameters.
        is_automatic = self._session.draft.parameter("variant") == AUTOMATIC
        self.after.show_row(self.after.fields["cap"], bool(inputs.after.cap) or not is_automatic)

    @property
    def _options(self) -> tuple[Option, ...]:
        """The options that have an effect with the method."""
        session = self._session
        if session.engine is not None:
            scopes = dict(session.engine.scopes)
        else:
            scopes = {}
        seeded = session.draft.method is not None and session.draft.method.seeded
        return (scope_option(scopes), *OPTIONS[not seeded :])

    def _open_for_unusual(self, inputs: Inputs) -> None:
        """Expand the further options if one of them differs from its usual value."""
        names = ("after", *(option.name for option in self._options))
        unusual = frozenset(
            n for n in names if getattr(inputs, n) != getattr(inputs.with_defaults, n)
        )
        if unusual - self._unusual:
            self.more.unfold()
        self._unusual = unusual
        if bool(inputs.overrides) != self._overridden:
            (self.exceptions.unfold if inputs.overrides else self.exceptions.fold)()
        self._overridden = bool(inputs.overrides)

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
        current = self.list.currentRow()
        self.list.clear()
        titles = {method.name: method.title for method in self._session.draft.methods}
        for index, rule in enumerate(rules):
            count = self._count(index)
            if count is None:
                number = ""
            else:
                number = f" ({count})"
            text = f"{describe(rule)}{number}\n→ {describe_change(rule, titles)}"
            item = QListWidgetItem(plain(text), self.list)
            item.setToolTip(tooltip("\n".join([text, *rule.tensors])))
        self.list.setCurrentRow(min(current, len(rules) - 1))
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
        view = named(QListWidget(), "Overrides", tip)
        view.setObjectName("overrides")
        view.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        view.itemActivated.connect(lambda _: self._edit())
        view.currentRowChanged.connect(lambda _: self._allow())
        widget_action(view, "Remove override", self._remove, QKeySequence.StandardKey.Delete)
        return view

    def _edit(self) -> None:
        if self.edit.isEnabled():
            self.rule_wanted.emit(self.list.currentRow())

    def _remove(self) -> None:
        if self.remove.isEnabled():
            inputs = self._session.draft.inputs
            index = self.list.currentRow()
            rules = (*inputs.overrides[:index], *inputs.overrides[index + 1 :])
            self._session.inputs_wanted.emit(replace(inputs, overrides=rules))

    def _allow(self) -> None:
        """Enable the buttons, but not during a merge."""
        session = self._session
        locked = session.activity.is_writing
        free = session.draft.plan is not None and not locked
        self.add.setEnabled(free)
        for button in (self.edit, self.remove):
            button.setEnabled(free and self.list.currentRow() >= 0)
