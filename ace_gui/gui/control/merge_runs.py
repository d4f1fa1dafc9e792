"""The window's merges and their stores on the disk: begun, kept for comparing, let go."""

from __future__ import annotations

from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.session import Session


class MergeRuns:
    """Gives every merge of the session a store, and discards the stores of those that go."""

    def __init__(self, session: Session, stores: MergeStores) -> None:
        self._session = session
        self._stores = stores

    @property
    def can_continue(self) -> bool:
        """Whether a merge would go on with one that this window or an earlier one began."""
        inputs = self._session.inputs
        if self._session.can_resume or inputs.base is None:
            return self._session.can_resume
        return self._stores.has(inputs.recipe())

    def new(self) -> MergeRun:
        """A merge of what is chosen now, in the place of the one before."""
        session = self._session
        self.drop()
        recipe = session.inputs.recipe()
        store = self._stores.new(recipe)
        session.runs.forget(store)  # merged once more
        return MergeRun(
            recipe=recipe,
            key=session.recipe_key(),
            store=store,
            parameters=session.resolved_parameters(),
        )

    def drop(self) -> None:
        """Forget the merge; a finished one stays among the runs."""
        run = self._session.merge
        if run is not None:
            if run.finished is None:
                self._stores.discard(run.store)
            self._session.start_merge(None)

    def drop_all(self) -> None:
        """Forget every merge, finished or not."""
        self.drop()
        self._session.comparison.compare(None, None)
        for run in self._session.runs.clear():
            self._stores.discard(run.store)

    def keep(self) -> None:
        """Keep the finished merge for comparing, in the place of the oldest."""
        run = self._session.merge
        if run is not None:
            for old in self._session.runs.keep(run):
                self._stores.discard(old.store)
