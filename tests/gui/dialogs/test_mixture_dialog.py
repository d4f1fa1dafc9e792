"""A file of a mixture of experts is opened in the window, and built."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel

from ace_gui.engine.contract.events import (
    JobCancelled,
    JobDone,
    JobFailed,
    JobProgress,
    MixturePlanned,
)
from ace_gui.engine.contract.jobs import LoadRecipeJob, MixtureJob
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.runner import Runner
from ace_gui.errors import RecipeError
from ace_gui.gui.dialogs.mixture_dialog import MixtureDialog
from tests.helpers.dense_models import dense_folder, with_tokenizer


def _prompts(dialog: MixtureDialog) -> dict[str, str]:
    """What is read beside each expert's name."""
    start = "Prompts of "
    labels = [label for label in dialog.findChildren(QLabel) if label.accessibleName()]
    return {label.accessibleName().removeprefix(start): label.text() for label in labels}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with its models."""
    for number, name in enumerate(("base", "coder", "writer")):
        with_tokenizer(dense_folder(tmp_path / name, "llama", number))
    experts = [
        {
            "source_model": "coder",
            "positive_prompts": ["the code loop"],
            "negative_prompts": ["story"],
        },
        {"source_model": "writer", "positive_prompts": ["a king and the sea"]},
    ]
    content = {"merge_method": "moe", "base_model": "base", "experts": experts}
    path = tmp_path / "pair.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


@pytest.fixture
def dialog(window, worker, file) -> MixtureDialog:
    window.opener.open_paths([file])
    number = worker.newest(LoadRecipeJob)
    worker.say(*steps_of(worker.jobs[number], Runner()), JobDone(), job=number)
    return window.dialogs.mixture


def test_opening_the_file_shows_what_it_makes(dialog, window, worker):
    assert dialog.isVisible()
    assert _prompts(dialog) == {
        "coder": "the code loop; not: story",
        "writer": "a king and the sea",
    }
    assert dialog.mixture.model_class == "MixtralForCausalLM"
    assert dialog.mixture.attention == "of base"
    assert window.session.draft.inputs.base is None, "nothing else was opened"


def test_it_is_built(dialog, worker, tmp_path):
    dialog.folder.setText(str(tmp_path / "out"))
    assert dialog.run.isEnabled()
    dialog.run.click()
    number = worker.newest(MixtureJob)
    job = worker.jobs[number]
    assert job == MixtureJob(file=tmp_path / "pair.yaml", folder=tmp_path / "out")
    assert not dialog.folder.isEnabled()
    worker.say(*steps_of(job, Runner()), JobDone(), job=number)
    assert (tmp_path / "out" / "model.safetensors").is_file()
    assert "in " + str(tmp_path / "out") in dialog.outcome.text()
    assert dialog.gguf.isVisible()
    assert not dialog.run.isEnabled(), "the folder is full"


def test_what_is_stopped_goes_on(dialog, worker, tmp_path):
    dialog.folder.setText(str(tmp_path / "out"))
    dialog.run.click()
    number = worker.newest(MixtureJob)
    events = steps_of(worker.jobs[number], Runner())
    worker.say(*(next(events) for _ in range(5)), job=number)
    assert "press to stop" in dialog.run.text()
    events.close()
    dialog.run.click()
    worker.say(JobCancelled(), job=number)
    assert dialog.run.text() == "Continue"
    assert "what is finished is kept" in dialog.outcome.text()
    dialog.run.click()
    job = worker.jobs[worker.newest(MixtureJob)]
    assert job.resume
    worker.say(*steps_of(job, Runner()), JobDone(), job=worker.newest(MixtureJob))
    assert (tmp_path / "out" / "config.json").is_file()
    dialog.folder.setText(str(tmp_path / "other"))
    assert dialog.run.text() == "Build"


def test_an_error_is_said_in_the_dialog(dialog, worker, tmp_path):
    dialog.folder.setText(str(tmp_path / "out"))
    dialog.run.click()
    worker.say(JobProgress(done=1, total=9, title="routers"), job=worker.newest(MixtureJob))
    assert dialog.outcome.text() == "routers"
    error = RecipeError("Something is wrong.")
    worker.say(JobFailed(error=error), job=worker.newest(MixtureJob))
    assert dialog.problem.text() == "Something is wrong."
    assert dialog.run.isEnabled()


def test_folders_that_cannot_be_are_named(dialog, tmp_path):
    dialog.folder.setText(str(tmp_path / "base"))
    assert not dialog.run.isEnabled()
    assert dialog.verdict.text()


def test_closing_the_dialog_stops_it(dialog, worker, tmp_path):
    dialog.folder.setText(str(tmp_path / "out"))
    dialog.run.click()
    dialog.reject()
    assert worker.newest(MixtureJob) in worker.cancelled + worker.withdrawn


def test_many_experts_and_notes(window):
    names = tuple((f"expert-{number}", "a prompt of some words " * 9) for number in range(12))
    mixture = MixturePlanned(
        file=Path("/models/many.yaml"),
        model_class="Qwen3MoeForCausalLM",
        attention="of base and the experts, merged by ties",
        routers="hidden; 2 of 12 experts a token",
        experts=names,
        bytes=10**10,
        models=(),
        notes=("12 experts are not a power of two; llama.cpp and others may refuse that.",),
    )
    window.conductor.mixture_opened.emit(mixture)
    dialog = window.dialogs.mixture
    assert list(_prompts(dialog)) == [name for name, _ in names]
    dialog.resize(dialog.width(), 400)
    assert dialog.height() == 400, "it is scrolled where the screen is low"
    QTest.qWait(20)
    assert dialog.area.verticalScrollBar().maximum() > 0
    for label in dialog.findChildren(QLabel):
        assert label.height() >= label.heightForWidth(label.width()), label.text()


def test_what_can_be_made_of_it_is_scrolled_to(dialog, worker, tmp_path):
    dialog.resize(dialog.width(), 300)
    dialog.folder.setText(str(tmp_path / "out"))
    dialog.run.click()
    number = worker.newest(MixtureJob)
    worker.say(*steps_of(worker.jobs[number], Runner()), JobDone(), job=number)
    QTest.qWait(20)
    assert dialog.area.verticalScrollBar().value() > 0
