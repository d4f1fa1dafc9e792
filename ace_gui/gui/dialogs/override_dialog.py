"""One override: its tensors, and their settings."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from ace_gui.engine.contract.events import MethodInfo
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.formatting import counted
from ace_gui.gui.dialogs.dialog import Dialog
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import tooltip
from ace_gui.gui.widgets.controls import Choice, named
from ace_gui.gui.widgets.form import AfterForm, Form
from ace_gui.gui.widgets.labels import heading, muted_label
from ace_gui.gui.widgets.layout import Folding, clear_layout, scroll_area
from ace_gui.recipe import Override
from ace_gui.recipe.overrides import Fate, check_blocks
from ace_gui.recipe.values import After, ParameterValue

ANY_ROLE: Final = "any role"
_RECIPE: Final = ""
"""The entry for the recipe's method, whichever it is."""
_OTHER_FATES: Final[dict[Fate, str]] = {"average": "average", "base": "keep from the base"}
_ROLE_TIP = "The role of the tensors in the model"
_BLOCKS_TIP = "Transformer blocks, counted from 0: 4-7, or 3, or 0,2,9-. Empty: all."
_PATTERN_TIP = "Names of tensors, with * for any text and ? for any character. Empty: all."


class OverrideDialog(Dialog):
    """Edits one rule. ``rule_made`` carries the accepted Override.

    Expert weights of a rule can only be set in a recipe file; they are kept.
    """

    rule_made = Signal(object)

    def __init__(self, session: Session, rule: Override | None, parent: QWidget | None) -> None:
        title = "Override" if rule is not None else "Add an override"
        super().__init__(title, parent, cancels=True)
        self._session = session
        self._rule = rule = rule or Override()
        self._values: dict[str, ParameterValue] = dict(rule.parameters)
        self._after = rule.after
        self.setMinimumWidth(460)
        self.role = Choice("Role", self._roles())
        self.blocks = named(QLineEdit(rule.blocks, placeholderText="all blocks"), "Blocks")
        self.pattern = named(QLineEdit(rule.pattern, placeholderText="all names"), "Names")
        self.outcome = Choice("How to merge them", self._outcomes())
        chosen = rule.disposition if rule.disposition in ("average", "base") else rule.merge_method
        for choice, value in ((self.role, rule.role), (self.outcome, chosen)):
            if value in choice.options:
                choice.choose(value)
        self.verdict = muted_label()
        self._parameters = QVBoxLayout()
        self.ok = self.add_button("OK", self.accept)
        self._lay_out()
        self._show_parameters()
        for changed in (self.role.chosen, self.blocks.textChanged, self.pattern.textChanged):
            changed.connect(self._judge)
        self.outcome.chosen.connect(self._change_outcome)
        self._judge()

    def rule(self) -> Override:
        method, chosen = self._method(), self.outcome.current
        fate: Fate | None = "merge" if method is not None else chosen
        if chosen == _RECIPE:
            fate = None
        return Override(
            role=self.role.current,
            blocks=self.blocks.text().strip() or None,
            pattern=self.pattern.text().strip() or None,
            tensors=self._rule.tensors,
            disposition=fate,
            merge_method=None if method is None else chosen or None,
            parameters=dict(self._values) if method is not None else {},
            weights=self._rule.weights,
            experts=self._rule.experts,
            after=self._after if method is not None else After(),
        )

    def accept(self) -> None:
        self.rule_made.emit(self.rule())
        super().accept()

    def _roles(self) -> dict[str | None, tuple[str, str]]:
        tip = _ROLE_TIP
        roles = dict.fromkeys(row.role for row in self._session.layers.rows)
        return {None: (ANY_ROLE, tip)} | {role: (role, tip) for role in roles}

    def _outcomes(self) -> dict[str, tuple[str, str]]:
        methods = self._session.draft.methods
        offered = {_RECIPE: "merge as in the recipe, with other values"}
        offered |= {method.name: f"merge with {method.title}" for method in methods}
        return {value: (text, "") for value, text in (offered | _OTHER_FATES).items()}

    def _lay_out(self) -> None:
        selector = Form(())
        selector.add_row("Role", self.role, _ROLE_TIP)
        for label, field, tip in (
            ("Blocks", self.blocks, _BLOCKS_TIP),
            ("Names", self.pattern, _PATTERN_TIP),
        ):
            field.setToolTip(tooltip(tip))
            selector.add_row(label, field, field.toolTip())
        if self._rule.tensors:
            listed = counted(len(self._rule.tensors), "listed tensor", "listed tensors")
            among = muted_label(listed)
            among.setToolTip(tooltip("\n".join(self._rule.tensors)))
            selector.add_row("Among", among)
        which = heading("Tensors"), selector, self.verdict
        self.fill(*which, heading("Treatment"), self.outcome, self._parameters, None)

    def _method(self) -> MethodInfo | None:
        name = self.outcome.current or self._session.draft.inputs.method
        return next((method for method in self._session.draft.methods if method.name == name), None)

    def _change_outcome(self) -> None:
        self._values = {}
        self._show_parameters()
        self._judge()

    def _show_parameters(self) -> None:
        """A field for every parameter of the chosen method, and for the steps after merging."""
        clear_layout(self._parameters)
        method = self._method()
        if method is None:
            return
        area = scroll_area("Values of the override")
        self.form, self.after = Form(method.fields), AfterForm(inherits=True)
        self.form.edited.connect(self._set)
        self.after.changed.connect(self._set_after)
        folding = Folding("After the method", self.after)
        self.form.add_row("", folding)
        if self._after != After():
            folding.unfold()
        area.setWidget(self.form)
        self._parameters.addWidget(area)
        self._show_values()

    def _set(self, name: str, value: ParameterValue | None) -> None:
        self._values.pop(name, None)
        if value is not None:
            self._values[name] = value
        self._show_values()
        self._judge()

    def _set_after(self, after: After) -> None:
        self._after = after
        self._show_values()
        self._judge()

    def _show_values(self) -> None:
        """Those of the rule; else the recipe's if the rule keeps its method; else the defaults."""
        draft = self._session.draft
        keeps = self.outcome.current in (_RECIPE, draft.inputs.method)
        values: dict[str, ParameterValue] = {}
        for name, each in self.form.fields.items():
            known = draft.parameter(name) if keeps else None
            values[name] = each.field.default if known is None else known
        self.form.show_values((values | self._values).get, self._values)
        self.after.show_after(self._after, draft.inputs.after)

    def _judge(self) -> None:
        """Show how many tensors match the rule, or why it is invalid."""
        rule = self.rule()
        try:
            check_blocks(rule.blocks or "0")
        except ValueError as error:
            self.verdict.setText(f"Blocks {error}.")
            self.ok.setEnabled(False)
            return
        rows = self._session.layers.rows
        held = [row for row in rows if rule.selects and holds_for(rule, row)]
        counted_rows = f"{len(held)} of {len(rows)} tensors"
        self.verdict.setText(counted_rows if rule.selects else "Choose a role, blocks or names.")
        self.ok.setEnabled(bool(held) and rule.changes)


def holds_for(rule: Override, row: PlanRow) -> bool:
    """Whether a rule matches a row of the plan."""
    return any(rule.holds_for(name, row.role, row.block) for name in {row.name, row.tensor})
