"""The Scores workspace of the real window."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ace_gui.engine.contract.events import JobDone
from ace_gui.engine.contract.jobs import DescribeTasksJob
from ace_gui.gui.panels.scores_page import ScoresPage
from tests.helpers.windows import timers_rest


@pytest.fixture
def page(loaded, worker, qtbot) -> Iterator[ScoresPage]:
    """The Scores page; data that are read in the background are answered at the end."""
    yield loaded.workspace.show_scores()
    qtbot.waitUntil(lambda: timers_rest(loaded.engine))
    for number, job in worker.jobs.items():
        if isinstance(job, DescribeTasksJob):
            worker.say(JobDone(), job=number)
