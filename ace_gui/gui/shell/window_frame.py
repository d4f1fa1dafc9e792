"""The header with menus, workspaces and the main button, and the footer with the running work."""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from math import isfinite
from typing import Final

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QAction, QFontMetrics, QIcon
from PySide6.QtWidgets import (
    QApplication,
    QGridLayout,
    QMenuBar,
    QPushButton,
    QSizePolicy,
    QStatusBar,
    QToolButton,
    QWidget,
)

from ace_gui.engine.contract.plan import Disposition
from ace_gui.formatting import counted, duration, human_bytes
from ace_gui.gui.shell.actions import Actions, DeviceMenu
from ace_gui.gui.state.activity import STARTING, ActivityState, Progress, start_once
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import sentence_case
from ace_gui.gui.theme import Face, change_kind, face, icon
from ace_gui.gui.theme.drawn_controls import scale
from ace_gui.gui.widgets.controls import (
    PROGRESS_WIDTH,
    ProgressBar,
    ProgressButton,
    Segments,
    action_button,
    push_button,
)
from ace_gui.gui.widgets.labels import ElidedLabel, IconLabel, plain_label, secondary_label
from ace_gui.gui.widgets.layout import across

REFRESH: Final = 60  # ms between updates of the progress, each of which repaints the whole window
CHANGED: Final = "Settings changed since this merge"
_TICK: Final = 16  # px
_PADDING: Final = 94  # px: two buttons and the gap between them
_WORDS: Final = {ActivityState.MERGING: "Merging …", ActivityState.EXPORTING: "Exporting …"}


class PrimaryArea(QWidget):
    """The main button and its message. Buttons trigger the window's actions, as shortcuts do."""

    def __init__(self, session: Session, actions: Actions) -> None:
        super().__init__()
        self._session = session
        self._actions = actions
        self._tick = IconLabel(_TICK, icon("check"), self)
        self.message = secondary_label()
        self.message.setWordWrap(False)
        self.outdated = plain_label(CHANGED, wrap=False, kind="warn-pill", role=Face.CAPTION)
        self.again = QPushButton(self)
        self.cancel = QPushButton(self)
        for button, action in ((self.again, actions.merge), (self.cancel, actions.cancel)):
            button.setFont(face(Face.BUTTON))
            button.setProperty("kind", "ghost")
            button.clicked.connect(lambda _=False, action=action: action.trigger())
        actions.cancel.triggered.connect(lambda _=False: self._show_stopping())
        self.main = ProgressButton(self)
        self.main.clicked.connect(lambda _=False: self._next.trigger() if self._next else None)
        self._next: QAction | None = None
        self._stopping = False
        self._lent: QWidget | None = None  # the widget with the focus while ``main`` is disabled
        self._brief = 0
        row = across(gap=8)
        texts = (self._tick, self.message, self.outdated)
        for widget in (*texts, self.again, self.cancel, self.main):
            row.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
        self.setLayout(row)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self._timer = QTimer(self, singleShot=True, interval=REFRESH)
        self._timer.timeout.connect(self.refresh)
        session.activity.progressed.connect(lambda: start_once(self._timer))
        for changed in (session.activity.changed, session.draft.changed, session.results.changed):
            changed.connect(self.refresh)
        for action in (actions.add_experts, actions.merge, actions.export):
            action.changed.connect(self.refresh)
        self.refresh()

    def set_compact(self, brief: int) -> None:
        """Save space. ``brief`` 1: a symbol with a tooltip replaces the text. 2: also show only one
        button, because the menus have the other one."""
        if brief != self._brief:
            self._brief = brief
            self.refresh()

    def needed(self, brief: int) -> int:
        """The width in px for the longest text if ``brief`` is 0, 1 or 2."""
        write = QFontMetrics(face(Face.BUTTON)).horizontalAdvance
        sign = round(_TICK * scale())
        if brief > 1:
            return max(write("Export…") + _PADDING // 2, PROGRESS_WIDTH) + 2 * sign
        merged = write("Merge again") + write("Export…") + _PADDING + sign
        merging = max(write("Cancel"), write("Stopping…")) + PROGRESS_WIDTH + _PADDING // 2
        buttons = max(merged, merging)
        width = QFontMetrics(face(Face.BODY)).horizontalAdvance(CHANGED)
        return buttons + (sign if brief else width + 2 * sign)

    def refresh(self) -> None:
        """Show the next action."""
        self._timer.stop()
        session = self._session
        running = session.activity.foremost
        self.setVisible(session.draft.inputs.base is not None)
        self._stopping &= running in _WORDS
        self._show_cancel("Stopping…" if self._stopping else "Cancel", running in _WORDS)
        self.outdated.hide()
        if running in _WORDS:
            self._show_progress(running)
        elif session.results.is_merged:
            self._show_merged()
        else:
            actions = self._actions
            experts = session.draft.inputs.experts
            self._offer(actions.merge if experts else actions.add_experts, "primary")
            self._say("")
            self.again.hide()

    def _show_cancel(self, words: str, visible: bool) -> None:
        brief = self._brief > 1
        self.cancel.setVisible(visible)
        self.cancel.setEnabled(not self._stopping)
        self.cancel.setText("" if brief else words)
        self.cancel.setIcon(icon("cancel") if brief else QIcon())
        self.cancel.setToolTip(words if brief else "")
        self.cancel.setAccessibleName(words)

    def _show_progress(self, state: ActivityState) -> None:
        progress = self._session.activity.progress
        if progress is not None and progress.state is state:
            title = progress.title
        else:
            title = ""
        self._say(sentence_case(title))
        self.again.hide()
        self._next = None
        change_kind(self.main, "progress")
        self.main.setIcon(QIcon())
        self._allow(True)
        if (progress := self._session.activity.counted(state)) is None:
            self.main.show_progress(0.0, _WORDS[state])
        else:
            words = progress_text(progress)
            if self._brief:
                brief = words.partition(" · ")[0]
            else:
                brief = words
            self.main.show_progress(progress.done / progress.total, brief)

    def _show_merged(self) -> None:
        session = self._session
        a = self._actions
        if session.results.merge:
            finished = session.results.merge.finished
        else:
            finished = None
        if session.merge_is_current and finished is not None:
            self._say(f"Merged in {duration(finished.seconds)}", done=True)
            self._offer(a.export, "primary", "export")
            self.again.setText("Merge again")
        else:
            self._say("")
            self.outdated.setVisible(not self._brief)
            self._offer(a.merge, "again")
            self.again.setText("Export…")
        if session.merge_is_current:
            again = a.merge
        else:
            again = a.export
        self.again.setVisible(self._brief < 2)
        self.again.setEnabled(again.isEnabled())
        self.again.setToolTip(again.toolTip())
        self.again.setAccessibleName(self.again.text().removesuffix("…"))

    def _offer(self, action: QAction, kind: str, picture: str = "") -> None:
        self._next = action
        if action.isEnabled():
            token = "on_accent"
        else:
            token = "text3"
        change_kind(self.main, kind)
        self.main.setIcon(icon(picture, token) if picture else QIcon())
        if kind == "again":
            self.main.show_action("Merge again", CHANGED)
        else:
            self.main.show_action(action.text().replace("&", ""), action.toolTip())
        self._allow(action.isEnabled())

    def _allow(self, allowed: bool) -> None:
        """Enable or disable the button, and give back the focus that it lost while disabled."""
        had_focus = self.main.hasFocus()
        focused = QApplication.focusWidget()
        self.main.setEnabled(allowed)
        if had_focus and not allowed:
            self._lent = QApplication.focusWidget()
        elif allowed and self._lent is not None:
            if self._lent is focused:
                self.main.setFocus()
            self._lent = None

    def _say(self, text: str, *, done: bool = False) -> None:
        self._tick.setVisible(done)
        self._tick.setToolTip(text)
        self._tick.setAccessibleName(text)
        self.message.setVisible(bool(text) and not self._brief)
        self.message.setText(text)

    def _show_stopping(self) -> None:
        """Show at once that the work stops, because the engine may need a while."""
        self._stopping = True
        self.refresh()


def progress_text(progress: Progress) -> str:
    """``12 of 24 · 0:04 left``, or ``3.1 MB of 9.6 MB`` for an export."""
    if progress.state is ActivityState.EXPORTING:
        return f"{human_bytes(progress.done)} of {human_bytes(progress.total)}"
    parts = [f"{progress.done} of {progress.total}"]
    if progress.seconds_left is not None:
        parts.append(f"{duration(progress.seconds_left)} left")
    return " · ".join(parts)


HEIGHT: Final = 48


class Space(IntEnum):
    """The pages of ``Workspace``, in the order of the header."""

    LAYERS = 0
    TRY = 1
    SCORES = 2
    COMPARE = 3
    FIGURES = 4


WORKSPACES: Final = (  # title and tooltip, in the order of the pages of ``Workspace``
    ("Layers", "The model's tensors, with details of each"),
    ("Try it", "The same question to base, experts and merges"),
    ("Scores", "Scores of the models on your own tasks"),
    ("Compare", "Comparison of finished merges, and of methods"),
    ("Figures", "Figures for print, with their data"),
)
_BRAND: Final = 22  # px
_BETWEEN: Final = 58  # px: margins and gaps


class WindowHeader(QWidget):
    """The header. ``workspaces`` has one segment per page of the window."""

    def __init__(self, primary: PrimaryArea) -> None:
        super().__init__()
        self.primary = primary
        self.menu_bar = QMenuBar(self)
        self.workspaces = Segments("Workspaces", self)
        for title, tip in WORKSPACES:
            self.workspaces.add(title, tip)
        self._brand = IconLabel(_BRAND, icon("brand", "accent"), self)
        brand_row = across(self._brand, gap=8)
        brand_row.addWidget(self.menu_bar, 1, Qt.AlignmentFlag.AlignVCenter)
        middle = Qt.AlignmentFlag.AlignVCenter
        row = self._grid = QGridLayout(self)
        row.setContentsMargins(16, 0, 12, 0)
        row.setHorizontalSpacing(12)
        row.addLayout(brand_row, 0, 0)
        self._two_rows = False
        self._place_workspaces()
        row.addWidget(primary, 0, 2, middle | Qt.AlignmentFlag.AlignRight)
        row.setColumnStretch(0, 1)
        row.setColumnStretch(2, 1)
        self.setMinimumHeight(HEIGHT)

    def event(self, event: QEvent) -> bool:
        handled = super().event(event)
        if event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self._fit()
        return handled

    def _fit(self) -> None:
        """Replace text by symbols if there is little room."""
        room = self.width() - self.menu_bar.sizeHint().width()
        room -= self._brand.width() + _BETWEEN
        room_left = room - self.workspaces.sizeHint().width()
        two_rows = room_left < self.primary.needed(2)
        if two_rows != self._two_rows:
            self._two_rows = two_rows
            self._place_workspaces()
        if not two_rows:
            room = room_left
        self.primary.set_compact(sum(room < self.primary.needed(brief) for brief in (0, 1)))

    def _place_workspaces(self) -> None:
        """Place the segments between the menus and the main button, or in a second row."""
        centred = Qt.AlignmentFlag.AlignCenter
        if self._two_rows:
            self._grid.addWidget(self.workspaces, 1, 0, 1, 3, centred)
        else:
            self._grid.addWidget(self.workspaces, 0, 1, centred)


COUNTING: Final = 200  # ms between two counts of the model's tensors
_BAR: Final = 120  # px


class Footer(QStatusBar):
    """The footer: ``CPU, 2 threads · needs about 88 MB`` at the left, the tensor count at the
    right.

    Merging and exporting show their progress in the header; all other work shows it here.
    """

    def __init__(self, session: Session, devices: DeviceMenu, actions: Actions) -> None:
        super().__init__()
        self._session = session
        self._devices = devices
        self.setAccessibleName("Status")
        self.setSizeGripEnabled(False)
        self.setContentsMargins(8, 0, 12, 0)
        self.device = QToolButton(self)
        self.device.setFont(face(Face.CAPTION))
        self.device.setMenu(devices)
        self.device.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.device.setToolTip("Where to compute")
        self.text = ElidedLabel(self, sentence=True, caption=True)
        self.bar = ProgressBar("Progress", self)
        self.bar.setFixedSize(_BAR, 6)
        self.stop = push_button("Cancel", actions.cancel.trigger, kind="link", role=Face.CAPTION)
        self.tensors = ElidedLabel(self, sentence=True, caption=True)
        for label in (self.text, self.tensors):
            label.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        for widget in (self.device, self.text, self.bar, self.stop):
            self.addWidget(widget)
        links = {
            "Glossary": actions.glossary,
            "Shortcuts": actions.shortcuts,
            "Preferences…": actions.preferences,
        }
        self._links = [action_button(a, text, self, kind="ghost") for text, a in links.items()]
        for link in self._links:
            link.setFont(face(Face.CAPTION))
        for part in (self.tensors, *self._links):
            self.addPermanentWidget(part)
        self._follow(session)
        self.refresh()

    def _follow(self, session: Session) -> None:
        for part in (session.activity, session.results, session.draft):
            part.changed.connect(self.refresh)
        session.engine_changed.connect(self.refresh)
        self._timer = QTimer(self, singleShot=True, interval=REFRESH)
        self._timer.timeout.connect(self.refresh)
        session.activity.progressed.connect(lambda: start_once(self._timer))
        self._counting = QTimer(self, singleShot=True, interval=COUNTING)
        self._counting.timeout.connect(self._count)
        session.layers.learnt.connect(lambda _name: start_once(self._counting))
        for signal in (session.draft.changed, session.draft.tau_changed):
            signal.connect(lambda *_: start_once(self._counting))

    def refresh(self) -> None:
        session = self._session
        self._timer.stop()
        self.device.setText(self._device_text())
        self.device.setAccessibleName(f"Device: {self.device.text()}")
        activity = session.activity
        # what waits for the engine says the same beside it
        self.device.setHidden(activity.engine_is_starting and activity.foremost is not None)
        self._show_work()
        for link in self._links:  # the welcome page has links instead of counts
            link.setVisible(session.draft.inputs.base is None)

    def _device_text(self) -> str:
        session = self._session
        if session.engine is None or session.activity.engine_is_starting:
            return f"{sentence_case(STARTING)} …"
        if session.cluster:
            return f"Cluster: {self._devices.title_chosen}"
        chosen = self._devices.title_chosen or session.device
        count = session.engine.threads
        if session.device == "auto":
            name = "CPU"
        else:
            name = chosen
        return f"{name}, {counted(count, 'thread', 'threads')}"

    def _show_work(self) -> None:
        """Show the most important work, unless the header shows it. Updates of the progress bar are
        disabled meanwhile, because each change would repaint it and the window at once."""
        session = self._session
        parts = []
        state = session.activity.foremost
        if state in {ActivityState.MERGING, ActivityState.EXPORTING}:
            state = None
        progress = session.activity.counted(state)
        if state is not None:
            if progress:
                title = progress.title
            else:
                title = ""
            word = sentence_case(title or session.activity.words(state))
            if progress:
                share = f", {progress.done} of {progress.total}"
            else:
                share = " …"
            parts.append(word + share)
        if session.draft.plan is not None and session.draft.plan.experts:
            parts.append(f"Needs about {human_bytes(session.draft.plan.peak_bytes)} of memory")
        self.text.set_full_text(" · ".join(parts))
        self.bar.setUpdatesEnabled(False)
        for widget in (self.bar, self.stop):
            widget.setVisible(state is not None)
        if progress:
            self.bar.show_share(round(1000 * progress.done / progress.total), 1000)
        else:
            self.bar.show_share(0, 0)
        self.bar.setUpdatesEnabled(True)

    def _count(self) -> None:
        session = self._session
        rows = session.layers.rows
        kinds = Counter(row.disposition for row in rows)
        if rows:
            counts = [counted(len(rows), "tensor", "tensors")]
        else:
            counts = []
        known = session.layers.statistics
        unchanged = [
            row
            for row in rows
            if row.is_merged and row.name in known and known[row.name].is_unchanged
        ]
        kinds[Disposition.MERGED] -= len(unchanged)
        counts += [f"{kinds[kind]} {kind.value}" for kind in Disposition if kinds[kind]]
        if unchanged:
            counts.append(f"{len(unchanged)} unchanged")
        tau = session.draft.tau  # read once, because it is looked up each time
        if session.draft.has_gamma and isfinite(tau):
            gammas = (session.layers.gamma(row.name) for row in session.layers.merged)
            above = sum(gamma is not None and gamma > tau for gamma in gammas)
            counts.append(f"{above} heterogeneous")
        self.tensors.set_full_text(" · ".join(counts if rows else ()))
