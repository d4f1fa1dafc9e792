"""The method's parameters as a form, built from the engine's field descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QRegularExpression, Qt, Signal
from PySide6.QtGui import QAction, QHideEvent, QRegularExpressionValidator, QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from ace_gui.engine.contract.events import MethodInfo
from ace_gui.engine.contract.figures.forecast import Forecast
from ace_gui.engine.contract.plan import AUTOMATIC
from ace_gui.gui.panels.overrides_panel import OverridesPanel
from ace_gui.gui.state.chosen.inputs import Inputs
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import tooltip
from ace_gui.gui.theme import Face, face
from ace_gui.gui.widgets.fields.after_field import AfterField
from ace_gui.gui.widgets.fields.buttons import action_button
from ace_gui.gui.widgets.fields.parameter import ParameterField, in_line
from ace_gui.gui.widgets.labels.formula import citation
from ace_gui.gui.widgets.labels.plain_label import heading, muted_label, plain_label
from ace_gui.gui.widgets.layout.arrangement import Column, tab_through
from ace_gui.gui.widgets.layout.folding import Folding
from ace_gui.gui.widgets.layout.font_metrics import on_font_change
from ace_gui.recipe.values import After, Heads, NonFinite, OutputDtype, Poolers, Vocabulary

OUT_DTYPES: tuple[tuple[OutputDtype | None, str], ...] = (
    (None, "as the base"),
    ("float32", "float32"),
    ("bfloat16", "bfloat16"),
    ("float16", "float16"),
    ("float64", "float64"),
)
NON_FINITE = (
    (NonFinite.STOP, "stop"),
    (NonFinite.KEEP_BASE, "keep the base's tensor"),
    (NonFinite.SKIP_EXPERT, "leave the expert out"),
)
_OUT_DTYPE_TIP = "Number format of the merged tensors; rounded once, on writing."
_NON_FINITE_TIP = (
    "The treatment of a tensor in which an expert has NaN (not a number) or Inf (infinity), for "
    "example after a training run that diverged. The layer's notes and the model card name every "
    "such tensor."
)
VOCABULARIES = (
    (Vocabulary.POSITION, "row by row"),
    (Vocabulary.TOKENS, "matched by token"),
    (Vocabulary.UNION, "union of all tokens"),
    (Vocabulary.BASE_TOKENS, "the base's tokens alone"),
    (Vocabulary.BASE, "as in the base"),
)
_VOCABULARY_TIP = (
    "Embeddings and vocabulary heads have a row for each token. Row by row needs vocabularies of "
    "one size. Matched by token, each row is combined with the experts' rows of the same token, "
    "at any index; an expert without the token counts as unchanged. Tokens that the base "
    "lacks and all experts have are added, with the mean of their rows. The union also adds tokens "
    "of only some experts; the base's tokens alone adds none. Or the base's rows are kept."
)
_HEADS_TIP = (
    "Task heads are merged if all experts have one task: heads of one shape with the same labels. "
    "Otherwise, or without this option, each expert's own head is saved with the merged model."
)
_POOLERS_TIP = (
    "A pooler feeds the task head alone, and is trained for one head. If each expert's own head is "
    "saved with the merged model, so is its pooler. Without this option, poolers are merged."
)
_FUSED_TIP = (
    "Some models keep the matrices for query, key and value, or for gate and up, in one tensor. "
    "Split, each has its own γ, regime and spectrum; the published procedure treats them as one. "
    "The merged model's tensors keep their shapes either way."
)
_SEED_TIP = (
    "This method uses random numbers. The same seed gives the same ones for any order and device; "
    "another seed shows how much the result varies."
)
_SEED = QRegularExpression(r"\d{1,18}")
_SCOPE_TIP = (
    "Which tensors the method merges, and in which orientation; the authors' presets reproduce "
    "their scripts."
)

_FORECAST_TIP = (
    "Norm of the change of all merged matrices together, over the mean of the experts'. Before a "
    "merge it is estimated from a few matrices; after it, it is exact. A change far above the cap "
    "is more than the experts learned: try the automatic variant of ACE, or a cap."
)
_OVERRIDES_TIP = (
    "Some tensors can be merged with another method or other values, averaged, or kept from the "
    "base. If two overrides match a tensor, the later one applies."
)


class MethodPanel(QWidget):
    """``parameter_edited`` carries a name and a value (None: the default); ``inputs_edited`` the
    Inputs with other values of the common options; ``seen`` whether the panel is visible."""

    seen = Signal(bool)
    parameter_edited = Signal(str, object)
    inputs_edited = Signal(object)

    def __init__(self, session: Session, choose: QAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._shown: MethodInfo | None = None
        self.fields: dict[str, ParameterField] = {}
        self._title = plain_label("", self, wrap=False)
        self._title.setFont(face(Face.STRONG))
        self._change = action_button(choose, "Change…", self, kind="link")
        self._change.setAccessibleName("Change the method")
        self._waiting = muted_label("Starting the engine …", self)
        self.after = AfterField(parent=self)
        self.after.edited.connect(self._choose_after)
        self.scope = self._combo("Scope", _SCOPE_TIP, ())
        self._scope_note = muted_label("", self)
        self.out_dtype = self._combo("Output type", _OUT_DTYPE_TIP, OUT_DTYPES)
        self.non_finite = self._combo("NaN and Inf", _NON_FINITE_TIP, NON_FINITE)
        self.vocabulary = self._combo("Vocabulary", _VOCABULARY_TIP, VOCABULARIES)
        self.split_fused = QCheckBox("split for the merge", self)
        self.split_fused.setAccessibleName("Split fused matrices for the merge")
        self.split_fused.setToolTip(tooltip(_FUSED_TIP))
        self.split_fused.clicked.connect(self._choose)
        self.heads = QCheckBox("merge by task", self)
        self.heads.setAccessibleName("Merge the heads of experts of one task")
        self.heads.setToolTip(tooltip(_HEADS_TIP))
        self.heads.clicked.connect(self._choose)
        self.poolers = QCheckBox("keep with its head", self)
        self.poolers.setAccessibleName("Keep poolers with the heads that they feed")
        self.poolers.setToolTip(tooltip(_POOLERS_TIP))
        self.poolers.clicked.connect(self._choose)
        self.seed = self._make_seed()
        self.more = self._make_more()
        self._unusual: frozenset[str] = frozenset()
        self.overrides = OverridesPanel(session, self)
        self.overrides.setToolTip(tooltip(_OVERRIDES_TIP))
        self.exceptions = Folding("Overrides", self.overrides, self)
        self._overridden = False
        self._values = QWidget(self)  # replaced by the form of each method
        self.forecast = muted_label("", self)
        self.forecast.setToolTip(tooltip(_FORECAST_TIP))
        self.forecast.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 4, 0, 0)
        layout.setSpacing(4)
        head = QHBoxLayout()
        head.setContentsMargins(0, 0, 8, 0)
        head.addWidget(heading("Method", self), 1)
        head.addWidget(self._change)
        layout.addLayout(head)
        layout.addWidget(self._title)
        layout.addWidget(self._waiting)
        layout.addWidget(self._values)
        layout.addStretch(1)
        self._rebuild()
        session.draft.changed.connect(self.refresh)
        session.draft.tau_changed.connect(self._show_tau)
        self.refresh()

    def show_forecast(self, found: Forecast | None) -> None:
        """Show how far the merge moves the model, as far as known."""
        self.forecast.setText("" if found is None else found.sentence)
        self.forecast.setVisible(found is not None)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.seen.emit(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.seen.emit(False)

    def refresh(self) -> None:
        """Show the chosen method and the effective values."""
        method = self._session.draft.method
        self._waiting.setVisible(self._session.engine is None)
        if method != self._shown:
            self._shown = method
            self._rebuild()
        self._show_title()
        self._values.setVisible(self._session.engine is not None)
        self._fill_scopes()
        inputs, plan = self._session.draft.inputs, self._session.draft.plan
        notes = plan.parameter_notes if plan is not None else {}
        for name, field in self.fields.items():
            value = self._session.draft.parameter(name)
            if value is not None:
                field.show_value(value, notes.get(name, ""), touched=name in inputs.touched)
            self._form.setRowVisible(field, field.field.applies(self._session.draft.parameter))
            if self._form.isRowVisible(field) is False:
                field.note.hide()
        self.after.show_after(inputs.after)
        # The automatic variant has its own cap, shown above.
        own = self._session.draft.parameter("variant") == AUTOMATIC
        self._more_form.setRowVisible(self.after.cap, bool(inputs.after.cap) or not own)
        self.seed.setText(str(inputs.seed))
        self.out_dtype.setCurrentIndex(_index_of(OUT_DTYPES, inputs.out_dtype))
        self.non_finite.setCurrentIndex(_index_of(NON_FINITE, inputs.non_finite))
        self.vocabulary.setCurrentIndex(_index_of(VOCABULARIES, inputs.vocabulary))
        self.split_fused.setChecked(inputs.split_fused)
        self.heads.setChecked(inputs.heads is not Heads.KEEP)
        self.poolers.setChecked(inputs.poolers is Poolers.KEEP)
        self._open_for_unusual(inputs)

    def _show_title(self) -> None:
        if self._shown is not None:
            recommended = self._session.draft.recommended
            chosen = recommended[:1] if self._session.draft.inputs.is_recommended else ()
            self._title.setText((*chosen, self._shown)[0].title)

    def _open_for_unusual(self, inputs: Inputs) -> None:
        """Expand the further options if one of them differs from its default."""
        usual = Inputs().recommended() if inputs.is_recommended else Inputs()
        seeded = self._shown is not None and self._shown.seeded
        names = ["after", "out_dtype", "non_finite", "vocabulary", "heads", "split_fused"]
        names += ["seed"] * seeded
        unusual = frozenset(n for n in names if getattr(inputs, n) != getattr(usual, n))
        if unusual - self._unusual:
            self.more.unfold()
        self._unusual = unusual
        if inputs.overrides and not self._overridden:
            self.exceptions.unfold()
        self._overridden = bool(inputs.overrides)

    def _make_more(self) -> Folding:
        """The options that few users change, under their own heading."""
        content = QWidget(self)
        form = self._more_form = _form(content)
        form.setContentsMargins(0, 0, 0, 0)
        self.after.add_to(form, _row_label)
        self._seed_line = in_line(self.seed)
        self._seed_label = _row_label("Seed", self.seed.toolTip())
        form.addRow(self._seed_label, self._seed_line)
        form.addRow(_row_label("Fused", self.split_fused.toolTip()), self.split_fused)
        form.addRow(_row_label("Heads", self.heads.toolTip()), self.heads)
        form.addRow(_row_label("Poolers", self.poolers.toolTip()), self.poolers)
        form.addRow(_row_label("Vocabulary", self.vocabulary.toolTip()), in_line(self.vocabulary))
        form.addRow(_row_label("Output", self.out_dtype.toolTip()), in_line(self.out_dtype))
        form.addRow(_row_label("NaN, Inf", self.non_finite.toolTip()), in_line(self.non_finite))
        return Folding("More options", content, self)

    def _rebuild(self) -> None:
        """Rebuild the method's form; the options common to all methods move into it."""
        method = self._shown
        form_widget = Column()
        form = self._form = _form(form_widget)
        self.fields = {}
        if method is not None:
            form.addRow(muted_label(method.summary))
            for info in method.fields:
                self._add_field(form, ParameterField(info, form_widget))
        for widget in (self._seed_label, self._seed_line):
            widget.setVisible(method is not None and method.seeded)
        form.addRow(self.forecast)
        form.addRow(_row_label("Scope", _SCOPE_TIP), in_line(self.scope))
        form.addRow("", self._scope_note)
        form.addRow(self.more)
        form.addRow(self.exceptions)
        if method is not None:
            about = QWidget()
            lines = QVBoxLayout(about)
            lines.setContentsMargins(0, 0, 0, 0)
            # the typeset formula is too wide for the column
            lines.addWidget(plain_label(method.formula))
            lines.addWidget(citation(method.citation))
            form.addRow(Folding("Formula and paper", about))
        whole = self.layout()
        assert whole is not None
        whole.replaceWidget(self._values, form_widget)
        self._values.deleteLater()
        self._values = form_widget
        tab_through(self._change, form_widget)

    def _add_field(self, form: QFormLayout, field: ParameterField) -> None:
        name = field.field.name
        field.edited.connect(lambda value, name=name: self.parameter_edited.emit(name, value))
        form.addRow(_row_label(field.field.label, field.control.toolTip()), field)
        form.addRow(field.note)
        self.fields[name] = field

    def _fill_scopes(self) -> None:
        scopes = self._session.engine.scopes if self._session.engine else ()
        if self.scope.count() != len(scopes):
            self.scope.clear()
            for name, description in scopes:
                self.scope.addItem(name, name)
                tip = tooltip(description)
                self.scope.setItemData(self.scope.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        scope = self._session.draft.inputs.scope
        self.scope.setCurrentIndex(self.scope.findData(scope))
        self._scope_note.setText(dict(scopes).get(scope, ""))
        self._scope_note.setVisible(scope != Inputs().scope)

    def _choose(self) -> None:
        inputs: Inputs = self._session.draft.inputs
        self.inputs_edited.emit(
            replace(
                inputs,
                scope=self.scope.currentData(),
                out_dtype=OUT_DTYPES[self.out_dtype.currentIndex()][0],
                non_finite=NON_FINITE[self.non_finite.currentIndex()][0],
                vocabulary=VOCABULARIES[self.vocabulary.currentIndex()][0],
                split_fused=self.split_fused.isChecked(),
                heads=self._chosen_heads(inputs.heads),
                poolers=Poolers.KEEP if self.poolers.isChecked() else Poolers.MERGE,
            )
        )

    def _chosen_heads(self, now: Heads) -> Heads:
        """Apply the check box. A recipe that always merges heads keeps that."""
        if self.heads.isChecked():
            return Heads.AUTO if now is Heads.KEEP else now
        return Heads.KEEP

    def _choose_after(self, after: After) -> None:
        self.inputs_edited.emit(replace(self._session.draft.inputs, after=after))

    def _choose_seed(self) -> None:
        inputs, seed = self._session.draft.inputs, int(self.seed.text())
        if seed != inputs.seed:
            self.inputs_edited.emit(replace(inputs, seed=seed))

    def _show_tau(self, tau: float) -> None:
        field = self.fields.get("tau")
        if field is not None:
            field.show_value(tau, "", touched=self._session.draft.tau_is_set)

    def _make_seed(self) -> QLineEdit:
        seed = QLineEdit(self)
        seed.setValidator(QRegularExpressionValidator(_SEED, seed))
        seed.setAccessibleName("Seed")
        seed.setToolTip(tooltip(_SEED_TIP))
        seed.editingFinished.connect(self._choose_seed)
        return seed

    def _combo(self, name: str, tip: str, choices: Sequence[tuple[object, str]]) -> QComboBox:
        combo = QComboBox(self)
        combo.addItems([text for _, text in choices])
        combo.activated.connect(self._choose)
        combo.setAccessibleName(name)
        combo.setToolTip(tooltip(tip))
        combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        combo.setMinimumContentsLength(8)
        return combo


def _index_of(choices: Sequence[tuple[object, str]], value: object) -> int:
    return [choice for choice, _ in choices].index(value)


def _form(widget: QWidget) -> QFormLayout:
    form = QFormLayout(widget)
    form.setContentsMargins(0, 0, 8, 0)
    form.setVerticalSpacing(6)
    form.setHorizontalSpacing(8)
    form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)  # for large font sizes
    form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    return form


def _row_label(text: str, tip: str) -> QWidget:
    label = plain_label(text, wrap=False)
    label.setProperty("kind", "secondary")
    widest = "Refined fraction"
    on_font_change(label, lambda each: label.setMinimumWidth(each.horizontalAdvance(widest) + 4))
    label.setToolTip(tip)
    return label
