"""Dialogs to choose a method from all families, and to edit an override for some tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from PySide6.QtCore import (
    QItemSelectionModel,
    QModelIndex,
    QRegularExpression,
    QSize,
    QSortFilterProxyModel,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QKeySequence, QShortcut, QShowEvent, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QGridLayout,
    QLineEdit,
    QTreeView,
    QWidget,
)

from ace_gui.engine.contract.events import MethodInfo
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.field_info import FieldInfo
from ace_gui.formatting import counted, duration
from ace_gui.gui.control.engine_client import RunningJob
from ace_gui.gui.dialogs.dialog import Dialog
from ace_gui.gui.state.draft import by_family
from ace_gui.gui.state.known_scores import sample_figures
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import quoted, tooltip, value_text
from ace_gui.gui.theme import Face, face
from ace_gui.gui.theme.drawn_controls import scale
from ace_gui.gui.widgets.controls import Choice, named, push_button, search_field
from ace_gui.gui.widgets.form import AfterForm, Form
from ace_gui.gui.widgets.labels import (
    citation,
    formula,
    heading,
    muted_label,
    plain_label,
    secondary_label,
)
from ace_gui.gui.widgets.layout import (
    FlowLayout,
    Folding,
    Part,
    WrappedColumn,
    across,
    down,
    pane,
    scroll_area,
    split,
)
from ace_gui.gui.widgets.tables import MEANS, METHOD, MISFIT, MethodCell, misfit, number_of_experts
from ace_gui.recipe import Override, recommended
from ace_gui.recipe.overrides import Fate, check_blocks
from ace_gui.recipe.values import After, ParameterValue

_SIZES: Final = (340, 692)
_PAUSE: Final = 400  # ms on a method before its time is estimated
_WORDS: Final = Qt.ItemDataRole.UserRole + 1


SHELF: Final = tuple(name for name in recommended.SHELF_NAMES if ":" not in name)
"""The methods that come first; a variant is chosen in the form of its method."""
FIRST: Final = "First choices"


class ChooseMethodDialog(Dialog):
    """``chosen`` carries the name of the chosen method, ``compare_wanted`` names to compare.

    ``current``: the current method. ``experts``: the number of loaded experts. ``costs``: known
    costs of a merge of these models, as a sentence by method. ``estimate``: begins to estimate how
    long a method takes, and passes the seconds to its second argument.
    """

    chosen = Signal(str)
    compare_wanted = Signal(object)

    def __init__(
        self,
        methods: Sequence[MethodInfo],
        current: str,
        experts: int,
        parent: QWidget,
        costs: Mapping[str, str] | None = None,
        estimate: Callable[[str, Callable[[float], object]], RunningJob | None] | None = None,
    ) -> None:
        super().__init__("Merge method", parent, cancels=True)
        self._experts = experts
        self._costs = costs or {}
        self._estimate = estimate
        self._estimating: RunningJob | None = None
        self._timer = QTimer(self, singleShot=True, interval=_PAUSE)
        self._timer.timeout.connect(self._begin_estimate)
        self.finished.connect(self._end_estimate)
        self.setProperty("kind", "card-dialog")
        self.fit(1032, 672)
        self._filtered = self._make_filter(methods)
        hint = "Name, word or author"
        self.filter = search_field("Find a method by name, word or author", hint)
        self.tree = self._make_tree()
        self.about = scroll_area("What the method does")
        self.about.viewport().setAutoFillBackground(False)  # the dialog's ground, not the window's
        self.use = self.add_button("&Use this method", self._choose, kind="primary")
        self.cost = muted_label()
        self.count = muted_label()
        self._shelf = [m.name for m in methods if m.name in SHELF and not misfit(m, experts)]
        tip = "Merge with each of them, and compare norms and scores"
        text = "Compare the first choices"
        self.compare = push_button(text, self._compare, kind="link", tip=tip)
        self.compare.setEnabled(experts > 0 and len(self._shelf) > 1)
        self._lay_out()
        self.filter.textChanged.connect(self._find)
        down = QShortcut(QKeySequence(Qt.Key.Key_Down), self.filter)
        down.setContext(Qt.ShortcutContext.WidgetShortcut)
        down.activated.connect(self.tree.setFocus)
        self.tree.selectionModel().currentChanged.connect(self._show)
        self.tree.doubleClicked.connect(lambda index: self.use.click() if _info(index) else None)
        self._show_count()
        self.select(current)
        self.filter.setFocus()

    def _make_filter(self, methods: Sequence[MethodInfo]) -> QSortFilterProxyModel:
        filtered = QSortFilterProxyModel(self)
        height = self.fontMetrics().height() + 6
        filtered.setSourceModel(_grouped(methods, self._experts, self, height))
        filtered.setFilterRole(_WORDS)
        filtered.setRecursiveFilteringEnabled(True)
        return filtered

    @property
    def method(self) -> MethodInfo | None:
        return _info(self.tree.currentIndex())

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._bring_into_view()  # the visible part of the list is known only now

    def _make_tree(self) -> QTreeView:
        tree = named(QTreeView(), "Methods")
        tree.setProperty("kind", "sunk")
        tree.setModel(self._filtered)
        tree.setHeaderHidden(True)
        tree.setRootIsDecorated(False)
        tree.setItemsExpandable(False)
        tree.setIndentation(12)
        tree.setUniformRowHeights(True)
        tree.setItemDelegate(MethodCell(tree))
        tree.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        tree.expandAll()
        return tree

    def _lay_out(self) -> None:
        title = plain_label("Merge method", wrap=False, role=Face.TITLE)
        means = muted_label("mean on the sample")
        means.setToolTip(tooltip(MEANS))
        means.setWordWrap(False)
        heads = across((self.count, 1), means, margins=(4, 0, 12, 0))
        parts = (title, self.filter, heads, (self.tree, 1), across(self.compare, None))
        list_pane = pane(down(*parts, margins=(16, 16, 16, 8), gap=12))
        list_pane.setProperty("kind", "side")
        sizes = [round(scale() * size) for size in _SIZES]
        splitter = split(list_pane, self.about, sizes=sizes, gap=1)
        foot = QFrame(self)
        foot.setProperty("kind", "foot")
        foot.setLayout(across((self.cost, 1), self.buttons, margins=(16, 12, 16, 12)))
        self.setLayout(down((splitter, 1), foot, gap=0))

    def _find(self, words: str) -> None:
        method = self.method
        options = QRegularExpression.PatternOption
        pattern = QRegularExpression(rf"\b{QRegularExpression.escape(words)}" if words else "")
        pattern.setPatternOptions(
            options.CaseInsensitiveOption | options.UseUnicodePropertiesOption
        )
        self._filtered.setFilterRegularExpression(pattern)
        self.tree.expandAll()
        self._show_count()
        self.select(method.name if method is not None else "")

    def select(self, name: str) -> None:
        """Select the listed method with this name, or else the first."""
        indices = self._visible_indices()
        with_name = [index for index in indices if (info := _info(index)) and info.name == name]
        index = (with_name or indices or [QModelIndex()])[0]
        self.tree.selectionModel().setCurrentIndex(
            index, QItemSelectionModel.SelectionFlag.ClearAndSelect
        )
        self._bring_into_view()
        self._show(index)

    def _visible_indices(self) -> list[QModelIndex]:
        """The listed methods, family by family."""
        families = [self._filtered.index(row, 0) for row in range(self._filtered.rowCount())]
        return [
            self._filtered.index(row, 0, family)
            for family in families
            for row in range(self._filtered.rowCount(family))
        ]

    def _bring_into_view(self) -> None:
        hint = QAbstractItemView.ScrollHint.PositionAtCenter
        self.tree.scrollTo(self.tree.currentIndex(), hint)

    def _show(self, index: QModelIndex) -> None:
        method = _info(index)
        self.use.setEnabled(method is not None)
        if method is not None:
            title = method.title.replace("&", "&&")
        else:
            title = "this method"
        self.use.setText(f"&Use {title}")
        self.cost.setText("" if method is None else self._costs.get(method.name, ""))
        self._end_estimate()
        self._timer.start()
        page = _about(method, self._experts)
        self.about.setWidget(page)
        page.setAutoFillBackground(False)  # the scroll area has set it, with the window's grey

    def _begin_estimate(self) -> None:
        """Estimate the time of a merge by the highlighted method."""
        method = self.method
        if method is None or self._estimate is None or misfit(method, self._experts):
            return
        needs = self._costs.get(method.name, "")

        def say(seconds: float) -> None:
            about = f"About {duration(seconds)}, by trials of its kinds of tensor"
            self.cost.setText(". ".join(filter(None, (about, needs))))

        self._estimating = self._estimate(method.name, say)

    def _end_estimate(self) -> None:
        self._timer.stop()
        if self._estimating is not None:
            self._estimating.drop()
            self._estimating = None

    def _show_count(self) -> None:
        """Show the number of listed methods; those of the first group are listed twice."""
        names = {
            info.name for index in self._visible_indices() if (info := _info(index)) is not None
        }
        self.count.setText(counted(len(names), "%n method", "%n methods"))

    def _compare(self) -> None:
        self.accept()
        self.compare_wanted.emit(self._shelf)

    def _choose(self) -> None:
        method = self.method
        if method is not None:
            self.accept()
            self.chosen.emit(method.name)


def _grouped(
    methods: Sequence[MethodInfo], experts: int, parent: QWidget, height: int
) -> QStandardItemModel:
    """The first choices, then the families, each with its methods. ``height``: of a row, in px."""
    model = QStandardItemModel(parent)
    first = sorted((m for m in methods if m.name in SHELF), key=lambda m: SHELF.index(m.name))
    if len(methods) > len(SHELF):
        groups = [(FIRST, first)]
    else:
        groups = []
    groups += [(family, list(members)) for family, members in by_family(methods)]
    for family, members in groups:
        title = QStandardItem(family)
        title.setSizeHint(QSize(0, height))
        title.setFlags(Qt.ItemFlag.ItemIsEnabled)
        title.setFont(face(Face.CAPTION_STRONG))
        for method in members:
            item = QStandardItem(method.title)
            item.setSizeHint(QSize(0, height))
            item.setData(method, METHOD)
            mean = sample_figures().methods.get(method.name)
            why = misfit(method, experts)
            item.setData(why, MISFIT)
            score_text = f"mean on the sample {mean:.3f}" if mean is not None else ""
            item.setAccessibleText(", ".join(filter(None, (method.title, why or score_text))))
            variants = () if method.name == recommended.NAME else method.variants
            stem = method.title.partition(", ")[0]  # it may be labelled by its variant
            titles = [method.title, *(f"{stem}, {variant}" for variant in variants)]
            shelf = (e for e in recommended.SHELF if e.name.partition(":")[0] == method.name)
            titles += [entry.title for entry in shelf]
            words = (method.name, *titles, method.summary, method.citation)
            item.setData(" ".join(words), _WORDS)
            title.appendRow(item)
        model.appendRow(title)
    return model


def _info(index: QModelIndex) -> MethodInfo | None:
    info = index.data(METHOD) if index.isValid() else None
    if isinstance(info, MethodInfo):
        return info
    return None


def _about(method: MethodInfo | None, experts: int) -> QWidget:
    """The description of a method."""
    page = WrappedColumn()
    margins = (24, 20, 24, 16)
    if method is None:
        page.setLayout(down(secondary_label("No method matches."), None, margins=margins))
        return page
    parts: list[Part] = [_title(method), secondary_label(method.summary)]
    if misfit(method, experts):
        loaded = counted(experts, "%n is loaded now.", "%n are loaded now.")
        parts.append(plain_label(f"{number_of_experts(method)}; {loaded}", kind="warn"))
    if method.needs or method.leaves:
        parts.append(muted_label(" ".join(filter(None, (method.needs, method.leaves)))))
    frame = QFrame()
    frame.setProperty("kind", "sunk")
    frame.setLayout(down(formula(method.name, method.formula), margins=(16, 12, 16, 12)))
    parts.append(frame)
    if method.fields:
        parts += [heading("Parameters"), _parameters(method.fields)]
    parts += [heading("Paper"), citation(method.citation), None]
    page.setLayout(down(*parts, margins=margins, gap=12))
    return page


def _title(method: MethodInfo) -> FlowLayout:
    """The method's name, and its requirements in a few words."""
    row = FlowLayout(spacing=8)
    row.addWidget(plain_label(method.title, wrap=False, role=Face.TITLE))
    words = ["needs data" if method.needs else "no data", number_of_experts(method)]
    words += ["adds modules"] if method.leaves else []
    words += ["uses random numbers"] if method.seeded else []
    for word in words:
        row.addWidget(plain_label(word, wrap=False, kind="quiet-pill", role=Face.CAPTION))
    return row


def _parameters(fields: Sequence[FieldInfo]) -> QGridLayout:
    """Name, default and meaning, one row per parameter."""
    grid = QGridLayout()
    grid.setHorizontalSpacing(16)
    grid.setVerticalSpacing(10)
    grid.setColumnStretch(2, 1)
    top = Qt.AlignmentFlag.AlignTop
    for row, field in enumerate(fields):
        value = plain_label(value_text(field.default), wrap=False, role=Face.MONO)
        grid.addWidget(plain_label(field.label, wrap=False), row, 0, top)
        grid.addWidget(value, row, 1, top)
        grid.addWidget(secondary_label(quoted(field.help)), row, 2, top)
    return grid


_ANY_ROLE: Final = "any role"
_RECIPE: Final = ""
"""The value of the entry for the recipe's method."""
_OTHER_FATES: Final[dict[str, str]] = {"average": "average", "base": "keep from the base"}
_ROLE_TIP = "The role of the tensors in the model"
_BLOCKS_TIP = "Transformer blocks, counted from 0: 4-7, or 3, or 0,2,9-. Empty: all."
_PATTERN_TIP = "Names of tensors, with * for any text and ? for any character. Empty: all."


class OverrideDialog(Dialog):
    """Edits one rule. ``rule_made`` carries the accepted Override.

    It keeps the experts' weights of a rule, which can only be set in a recipe file.
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
        self.form = Form()
        self.after = AfterForm(inherits=True)
        self.form.edited.connect(self._set)
        self.after.changed.connect(self._set_after)
        folding = Folding("After the method", self.after)
        self.form.add_row("", folding)
        if self._after != After():
            folding.unfold()
        self._area = scroll_area("Values of the override", self.form)
        self.ok = self.add_button("OK", self.accept)
        self._lay_out()
        self._show_values()
        for changed in (self.role.chosen, self.blocks.textChanged, self.pattern.textChanged):
            changed.connect(self._judge)
        self.outcome.chosen.connect(self._change_outcome)
        self._judge()

    def rule(self) -> Override:
        method = self._method()
        chosen = self.outcome.current
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
        return {None: (_ANY_ROLE, tip)} | {role: (role, tip) for role in roles}

    def _outcomes(self) -> dict[str, str]:
        methods = self._session.draft.methods
        offered = {_RECIPE: "merge as in the recipe, with other values"}
        return (
            offered
            | {method.name: f"merge with {method.title}" for method in methods}
            | _OTHER_FATES
        )

    def _lay_out(self) -> None:
        selector = Form()
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
        self.fill(*which, heading("Treatment"), self.outcome, (self._area, 1), None)

    def _method(self) -> MethodInfo | None:
        name = self.outcome.current or self._session.draft.inputs.method
        return next((method for method in self._session.draft.methods if method.name == name), None)

    def _change_outcome(self) -> None:
        self._values = {}
        self._show_values()
        self._judge()

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
        """Show the rule's values, else the recipe's if its method stays, else the defaults."""
        draft = self._session.draft
        method = self._method()
        self._area.setVisible(method is not None)
        self.form.declare(() if method is None else method.fields)
        keeps = self.outcome.current in (_RECIPE, draft.inputs.method)
        values: dict[str, ParameterValue] = {}
        for name, control in self.form.fields.items():
            value = draft.parameter(name) if keeps else None
            values[name] = control.field.default if value is None else value
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
        matching = [row for row in rows if rule.selects and holds_for(rule, row)]
        counted_rows = f"{len(matching)} of {len(rows)} tensors"
        self.verdict.setText(counted_rows if rule.selects else "Choose a role, blocks or names.")
        self.ok.setEnabled(bool(matching) and rule.changes)


def holds_for(rule: Override, row: PlanRow) -> bool:
    """Whether a rule matches a row of the plan."""
    return any(rule.holds_for(name, row.role, row.block) for name in {row.name, row.tensor})
