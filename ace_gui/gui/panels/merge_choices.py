"""The list of what can be compared: finished merges, methods, or values of one parameter."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent, QFontMetrics, QKeyEvent
from PySide6.QtWidgets import QButtonGroup, QLabel, QLineEdit, QVBoxLayout, QWidget

from ace_gui.engine.contract.events import MethodInfo
from ace_gui.field_info import FieldInfo
from ace_gui.formatting import duration
from ace_gui.gui.control.merge_times import MergeTimes, merge_key
from ace_gui.gui.panels.job_page import merges_of
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.draft import Inputs, by_family
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, tooltip
from ace_gui.gui.widgets.controls import Choice, ElidedCheckBox, named, push_button
from ace_gui.gui.widgets.labels import muted_label
from ace_gui.gui.widgets.layout import (
    WrappedColumn,
    across,
    down,
    on_font_change,
    on_visibility_change,
    scroll_area,
)
from ace_gui.gui.widgets.tables import misfit
from ace_gui.recipe import Recipe, recommended
from ace_gui.recipe.values import ParameterValue

_Key = tuple[str, str | None]
"""A method and its variant; None for the default or only variant."""

_LIST: Final = 7
"""In text lines: the minimum height of the list."""

_CURRENT: Final = "The current merge is always among the results."
_FINISHED: Final = "A finished merge: it is only measured."
_ESTIMATED: Final = "Estimated time of this merge of the open models, as h:mm:ss or m:ss"


class _Box(ElidedCheckBox):
    """Up and down move the focus to the next box. ``entered`` carries the box with the focus."""

    entered = Signal(QWidget)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.entered.emit(self)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()), 0)
        if not step:
            super().keyPressEvent(event)
            return
        boxes = [box for box in self.group().buttons() if not box.isHidden() and box.isEnabled()]
        index = min(max(boxes.index(self) + step, 0), len(boxes) - 1)
        boxes[index].setFocus(Qt.FocusReason.TabFocusReason)  # with a ring


class MergeChoices(QWidget):
    """The finished merges, methods or values to compare. ``changed``: the user has chosen others.

    Beside each method that is chosen or on the shelf stands the time that ``times`` estimates.
    """

    changed = Signal()

    def __init__(self, session: Session, times: MergeTimes) -> None:
        super().__init__()
        self._session = session
        self._times = times
        self._numbers: dict[str, FieldInfo] = {}
        self._is_chosen = False
        """Whether the ticks are the user's, and not proposed."""
        self.boxes: dict[_Key, _Box] = {}
        """The boxes of methods."""
        self.run_boxes: dict[str, _Box] = {}
        """The boxes of finished merges, by store."""
        self._time_labels: dict[_Key, QLabel] = {}
        self._offered_merges: tuple[object, ...] = ()
        self._merged: dict[_Key, str] = {}
        """The stores of finished merges by the method that stands for them."""
        self._merge_keys: Mapping[_Key, str] = {}
        """Of the methods in the list, for these inputs and methods."""
        self._keyed_inputs: Inputs | None = None
        self._keyed_methods: tuple[MethodInfo, ...] = ()
        self.methods = scroll_area("Methods to compare", tabs=False)
        self.parameter = Choice("Parameter to vary", {None: ("no parameter", "")})
        self.values = named(QLineEdit(placeholderText="0.1, 0.2, 0.5"), "Values to try")
        tick = self._tick
        self.all = push_button("Select a&ll", lambda: tick(True), tip="Select every method")
        self.none = push_button("&None", lambda: tick(False), tip="Deselect every method")
        note = muted_label("or values of one parameter")
        ticks = across(self.all, self.none)
        self.setLayout(down((self.methods, 1), ticks, note, self.parameter, self.values))
        self._begin_anew()
        self._fill_parameters()
        self._allow()
        self.parameter.chosen.connect(self._allow)
        self.values.textChanged.connect(lambda _: self._allow())
        session.draft.changed.connect(self._fill_parameters)
        session.draft.changed.connect(self._offer_what_fits)
        session.draft.changed.connect(self._refill)
        session.engine_changed.connect(self._begin_anew)
        for runs_changed in (session.results.runs.changed, session.results.changed):
            runs_changed.connect(self._refill)
        on_font_change(self, self._measure)
        times.watch(self._timed_inputs)
        times.changed.connect(self._show_times)
        on_visibility_change(self, times.set_visible)

    def _measure(self, metrics: QFontMetrics) -> None:
        self.methods.setMinimumHeight(_LIST * metrics.height())

    @property
    def count(self) -> int:
        if self._varies:
            return len(self._written_values())
        return len(self._ticked()) + len(self.runs())

    @property
    def _varies(self) -> bool:
        return self.parameter.current is not None

    @property
    def _offered(self) -> tuple[MethodInfo, ...]:
        draft = self._session.draft
        return (*draft.recommended, *draft.methods)

    def recipes(self) -> list[Recipe]:
        """The recipes to merge: one per checked method, or one per value."""
        inputs = self._session.draft.inputs
        if self._varies:
            name = self.parameter.current
            return [inputs.with_parameter(name, value).recipe() for value in self._written_values()]
        return [_under(inputs, *chosen).recipe() for chosen in self._ticked()]

    def runs(self) -> list[MergeRun]:
        """The finished merges to measure beside them, without the current one."""
        if self._varies:
            return []
        return [
            run
            for run in self._session.results.runs.all
            if (box := self.run_boxes.get(str(run.store))) is not None
            and box.isChecked()
            and box.isEnabled()
        ]

    def _allow(self) -> None:
        self.values.setVisible(self._varies)
        self.methods.setEnabled(not self._varies)
        self.changed.emit()

    def _begin_anew(self) -> None:
        """Offer the methods of the engine, and propose some."""
        self._is_chosen = False
        self._merged = self._find_merged()
        self._fill_methods()

    def _refill(self) -> None:
        """Offer the finished merges as they are now; what the user has ticked stays."""
        merged = self._find_merged()
        current = self._session.results.merge
        runs = tuple(run.store for run in self._finished_runs())
        offered = (runs, merged, None if current is None else current.store)
        if offered == self._offered_merges:
            return
        self._offered_merges = offered
        self._merged = merged
        ticked = set(self._ticked())
        ticked_runs = {store for store, box in self.run_boxes.items() if box.isChecked()}
        self._fill_methods()
        if self._is_chosen:
            for key, box in self.boxes.items():
                box.setChecked(key in ticked and not box.isHidden())
        for store in ticked_runs & self.run_boxes.keys():
            self.run_boxes[store].setChecked(True)

    def _fill_methods(self) -> None:
        """Add a box for each finished merge and each variant of each method."""
        column = WrappedColumn()
        layout = QVBoxLayout(column)
        layout.setSpacing(3)
        group = QButtonGroup(column, exclusive=False)
        self.boxes.clear()
        self._time_labels.clear()
        self._add_runs(column, layout, group)
        for family, members in by_family(self._offered):
            layout.addWidget(muted_label(family))
            for method in members:
                for key, title in _entries(method):
                    box = self._box(title, tooltip(method.summary), column, group)
                    time = muted_label()
                    layout.addLayout(across(box, None, time))
                    self.boxes[key] = box
                    self._time_labels[key] = time
        layout.addStretch(1)
        self.methods.setWidget(column)
        column.setAutoFillBackground(False)  # the scroll area has set it, with the window's grey
        self._offer_what_fits()
        self._show_times()

    def _offered_runs(self) -> Iterator[MergeRun]:
        """The finished merges of the open base that no method in the list stands for."""
        by_method = set(self._merged.values())
        for run in self._finished_runs():
            if str(run.store) not in by_method:
                yield run

    def _finished_runs(self) -> Iterator[MergeRun]:
        base = self._session.draft.inputs.base
        for run in self._session.results.runs.all:
            if run.finished is not None and not run.outdated and run.recipe.base_model == base:
                yield run

    def _find_merged(self) -> dict[_Key, str]:
        """The stores of the finished merges that methods of the list stand for."""
        stores = {merge_key(run.recipe): str(run.store) for run in self._finished_runs()}
        if not stores:
            return {}
        merge_keys = self._find_merge_keys()
        return {key: stores[text] for key, text in merge_keys.items() if text in stores}

    def _find_merge_keys(self) -> Mapping[_Key, str]:
        """The ``merge_key`` of each method in the list, for the open models."""
        draft = self._session.draft
        inputs = draft.inputs
        if inputs.base is None:
            return {}
        if self._keyed_inputs is not inputs or self._keyed_methods is not draft.methods:
            self._keyed_inputs = inputs
            self._keyed_methods = draft.methods
            self._merge_keys = {
                key: merge_key(_under(inputs, *key).recipe())
                for method in self._offered
                for key, _ in _entries(method)
            }
        return self._merge_keys

    def _add_runs(self, column: QWidget, layout: QVBoxLayout, group: QButtonGroup) -> None:
        self.run_boxes.clear()
        titles = merges_of(self._session)
        runs = list(self._offered_runs())
        if runs:
            layout.addWidget(muted_label("Finished merges"))
        for run in runs:
            store = str(run.store)
            is_current = run is self._session.results.merge
            tip = _CURRENT if is_current else _FINISHED
            box = self._box(plain(titles.get(store, "")), tip, column, group)
            box.setChecked(is_current)
            box.setEnabled(not is_current)
            layout.addWidget(box)
            self.run_boxes[store] = box

    def _box(self, title: str, tip: str, column: QWidget, group: QButtonGroup) -> _Box:
        box = _Box(title, column)
        group.addButton(box)
        box.setToolTip(tip)
        box.toggled.connect(lambda _: self._allow())
        box.clicked.connect(self._note_choice)
        box.entered.connect(self._make_entry)
        return box

    def _timed_inputs(self) -> list[Inputs]:
        """What is ticked, and then the shelf."""
        keys = dict.fromkeys((*self._ticked(), *self._shelf()))
        inputs = self._session.draft.inputs
        if inputs.base is None:
            return []
        return [_under(inputs, *key) for key in keys if key not in self._merged]

    def _show_times(self) -> None:
        """Show how long the merges take; what is not known yet stays empty."""
        merge_keys = self._find_merge_keys()
        for key, label in self._time_labels.items():
            text = ""
            tip = _ESTIMATED
            if key in self._merged:
                text = "merged"
                tip = _FINISHED
            elif key in merge_keys:
                seconds = self._times.of(merge_keys[key])
                text = "" if seconds is None else f"≈ {duration(seconds)}"
            label.setText(text)
            label.setToolTip(tip)
            self.boxes[key].setAccessibleDescription(f"{tip}: {text}" if text else "")

    def _note_choice(self) -> None:
        self._is_chosen = True

    def _shelf(self) -> list[_Key]:
        """The methods to try first that can merge what is open."""
        methods = {method.name: method for method in self._offered}
        has_data = bool(self._session.draft.inputs.tasks)
        keys = []
        for entry in recommended.SHELF_NAMES:
            name, _, variant = entry.partition(":")
            key = (name, variant or None)
            if key not in self.boxes:
                key = (name, None)
            if not self._is_hidden(key) and (has_data or not methods[name].needs):
                keys.append(key)
        return keys

    def _propose(self) -> None:
        """Tick the window's method and the shelf."""
        methods = {method.name: method for method in self._offered}
        current = [
            key for key in self.boxes if self._is_current(methods[key[0]], self._variant(key))
        ]
        proposed = {*current, *self._shelf()}
        for key, box in self.boxes.items():
            box.setChecked(key in proposed and not box.isHidden())

    def _is_hidden(self, key: _Key) -> bool:
        return key not in self.boxes or self.boxes[key].isHidden()

    def _variant(self, key: _Key) -> str | None:
        """The variant of a box by name, also the default one; None for a method without variants
        and for the recommended merge."""
        name, variant = key
        method = next(method for method in self._offered if method.name == name)
        if variant is not None or name == recommended.NAME or not method.variants:
            return variant
        return method.variants[0]

    def _offer_what_fits(self) -> None:
        """Enable only methods that support this number of experts."""
        count = len(self._session.draft.inputs.experts)
        methods = {method.name: method for method in self._offered}
        for (name, variant), box in self.boxes.items():
            fits = count > 0 and not misfit(methods[name], count)
            box.setVisible(fits)
            self._time_labels[name, variant].setVisible(fits)
            box.setChecked(fits and box.isChecked())
        if not self._is_chosen:
            self._propose()
        enabled = [box for box in self.run_boxes.values() if box.isEnabled()]
        visible = [*enabled, *(box for box in self.boxes.values() if not box.isHidden())]
        self._make_entry(next((box for box in visible if box.hasFocus()), (*visible, None)[0]))

    def _make_entry(self, entry: QWidget | None) -> None:
        """Bring this box into view; the Tab key reaches no other."""
        for box in (*self.run_boxes.values(), *self.boxes.values()):
            if box is entry:
                policy = Qt.FocusPolicy.StrongFocus
            else:
                policy = Qt.FocusPolicy.ClickFocus
            box.setFocusPolicy(policy)
        if entry is not None and entry.hasFocus():
            self.methods.ensureWidgetVisible(entry)

    def _is_current(self, method: MethodInfo, variant: str | None) -> bool:
        draft = self._session.draft
        if draft.inputs.is_recommended:
            return method.name == recommended.NAME
        in_force = variant in (None, draft.parameter("variant"))
        return method.name == draft.inputs.method and in_force

    def _fill_parameters(self) -> None:
        """Offer the numeric parameters of the window's method, to vary one of them."""
        draft = self._session.draft
        self._numbers = {
            field.name: field for field in draft.fields if field.kind in ("float", "int")
        }
        of = f"Values of one parameter of {draft.label}"
        tip = f"{of}, separated by commas, instead of other methods"
        labels = {name: (number.label, tip) for name, number in self._numbers.items()}
        self.parameter.offer({None: ("no parameter", tip), **labels})
        self.values.setToolTip(tip)

    def _written_values(self) -> list[ParameterValue]:
        """The values in the field that are numbers in range."""
        item = self._numbers[self.parameter.current]
        values = []
        for text in self.values.text().replace(";", ",").split(","):
            try:
                value = int(text) if item.kind == "int" else float(text)
            except ValueError:
                continue
            low = item.low is None or (value > item.low if item.low_open else value >= item.low)
            if low and (item.high is None or value <= item.high):
                values.append(value)
        return list(dict.fromkeys(values))

    def _ticked(self) -> list[_Key]:
        return [chosen for chosen, box in self.boxes.items() if box.isChecked()]

    def tick(self, names: Collection[str]) -> None:
        """Select these methods alone, each in its default variant."""
        self._is_chosen = True
        self.parameter.choose(None)
        for (name, variant), box in self.boxes.items():
            box.setChecked(name in names and variant is None and not box.isHidden())

    def _tick(self, ticked: bool) -> None:
        self._is_chosen = True
        for box in self.boxes.values():
            box.setChecked(ticked and not box.isHidden())


def _entries(method: MethodInfo) -> Iterator[tuple[_Key, str]]:
    """Each variant of a method, with its label. The recommended merge has one of its own."""
    if method.name == recommended.NAME or not method.variants:
        yield (method.name, None), method.label()
        return
    for variant in method.variants:
        is_default = variant == method.variants[0]
        yield (method.name, None if is_default else variant), method.label(variant)


def _under(inputs: Inputs, method: str, variant: str | None) -> Inputs:
    """The inputs with this method and variant. Another method drops the overrides."""
    changed = inputs.with_method(method)
    if changed.method == inputs.method:
        rules = inputs.overrides
    else:
        rules = ()
    changed = replace(changed, overrides=rules)
    if method == recommended.NAME:
        return changed
    return changed.with_parameter("variant", variant)
