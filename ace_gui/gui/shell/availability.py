"""Which of the window's actions can be used now, and what the changing ones are called."""

from __future__ import annotations

from ace_gui.gui.control.merge_operation import MergeOperation
from ace_gui.gui.shell.actions import Actions
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.session import Session
from ace_gui.gui.words import tr

BUSY = (State.MERGING, State.EXPORTING)
_CANCELLABLE = (
    State.PLANNING,
    State.ANALYSING,
    State.REPORTING,
    State.SCORING,
    State.TUNING,
)


def allow(a: Actions, session: Session, merge: MergeOperation) -> None:
    """Bring the actions in step with the session."""
    running = session.activity.is_running
    busy = running(*BUSY)
    inputs, plan = session.draft.inputs, session.draft.plan
    loaded = inputs.base is not None
    for action in (a.open_base, a.open_base_file, a.open_cached, a.open_recipe, a.scan, a.sample):
        action.setEnabled(not busy)
    for action in (a.add_experts, a.add_expert_files, a.close_models):
        action.setEnabled(loaded and not busy)
    looks = (
        a.find,
        a.next_layer,
        a.previous_layer,
        a.top_layer,
        a.inputs,
        a.maximise,
        a.reset_layout,
    )
    for action in looks:
        action.setEnabled(loaded)
    a.stop_opening.setEnabled(running(State.PLANNING))
    for action in (a.save_recipe, a.save_recipe_as):
        action.setEnabled(loaded and bool(inputs.experts))
    a.merge.setEnabled(session.can_merge)
    done = session.merge_is_current and session.results.is_merged
    goes_on = loaded and not busy and not done and merge.can_continue
    a.merge.setText(tr("Continue &merge") if goes_on else tr("&Merge"))
    a.compare.setEnabled(plan is not None and bool(plan.experts))
    a.cancel.setEnabled(busy or running(*_CANCELLABLE))
    a.export.setEnabled(session.can_export)
    a.report.setEnabled(session.can_report)
    a.choose_method.setEnabled(session.engine is not None)
