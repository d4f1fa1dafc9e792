"""Which of the window's actions are enabled now, and why the others are not."""

from __future__ import annotations

from typing import Final

from PySide6.QtGui import QAction

from ace_gui.gui.control.operations.merge_operation import MergeOperation
from ace_gui.gui.shell.actions import Actions, set_allowed
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.session import Session

BUSY = (State.MERGING, State.EXPORTING)
_CANCELLABLE = (
    State.PLANNING,
    State.ANALYSING,
    State.REPORTING,
    State.SCORING,
    State.COMPARING,
    State.TUNING,
)
NO_MODEL: Final = "Open a base model first."
NO_EXPERT: Final = "Add an expert first."
NO_MERGE: Final = "Merge first."
WAIT: Final = "Wait for the merge or the export to end, or cancel it."
_PLANNING: Final = "The models are still being read."


def allow(a: Actions, session: Session, merge: MergeOperation) -> None:
    """Update the actions to match the session."""
    running = session.activity.is_running
    busy = running(*BUSY)
    inputs, plan = session.draft.inputs, session.draft.plan
    loaded = inputs.base is not None
    waits = WAIT if busy else ""
    no_model = "" if loaded else NO_MODEL
    no_expert = no_model or ("" if inputs.experts else NO_EXPERT)
    for action in (a.open_base, a.open_cached, a.open_recipe, a.scan, a.sample):
        _allow(action, waits)
    for action in (a.add_experts, a.close_models):
        _allow(action, no_model or waits)
    looks = (
        a.find,
        a.next_layer,
        a.previous_layer,
        a.top_layer,
        a.inputs,
        a.maximise,
        a.detach,
        a.reset_layout,
    )
    for action in looks:
        _allow(action, no_model)
    _allow(a.stop_opening, "" if running(State.PLANNING) else "Nothing is being opened.")
    for action in (a.save_recipe, a.save_recipe_as):
        _allow(action, no_expert)
    _allow(a.merge, "" if session.can_merge else no_expert or waits or _PLANNING)
    done = session.merge_is_current and session.results.is_merged
    goes_on = loaded and not busy and not done and merge.can_continue
    a.merge.setText("Continue &merge" if goes_on else "&Merge")
    comparable = plan is not None and bool(plan.experts)
    _allow(a.compare, "" if comparable else no_expert or _PLANNING)
    _allow(a.cancel, "" if busy or running(*_CANCELLABLE) else "Nothing is running.")
    _allow(a.export, "" if session.can_export else waits or NO_MERGE)
    written = "A report is being written." if session.can_export else waits or NO_MERGE
    _allow(a.report, "" if session.can_report else written)
    starting = "The engine is still starting."
    _allow(a.choose_method, "" if session.engine is not None else starting)


def _allow(action: QAction, why: str) -> None:
    set_allowed(action, why if why else "")
