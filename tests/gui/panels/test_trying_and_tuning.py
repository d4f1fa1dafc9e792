"""The places where one tries a text or a picture, and looks for values of parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from pyqtgraph import TextItem
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QImage

from ace_gui.engine.contract.events import JobCancelled, JobDone, JobFailed, PlanReady
from ace_gui.engine.contract.jobs import MakeReadyJob, PlanJob, TryJob, TuneJob
from ace_gui.engine.contract.scored import (
    ParameterRange,
    ShownExample,
    TaskDescribed,
    Tuned,
    TunePoint,
)
from ace_gui.engine.contract.tried import Ending, Tried, TriedBegun, TriedText
from ace_gui.errors import TaskError
from ace_gui.gui.panels.try_page import TryPage
from ace_gui.gui.panels.tune_tab import TuneTab
from ace_gui.gui.shell.window_frame import Space
from ace_gui.recipe.values import Task, TaskKind
from tests.gui.fakes import merged, plan, task_score

TASKS = tuple(Task(data=Path(f"/data/{name}.csv"), expert=name) for name in ("cola", "sst2"))


def texts(index: TryPage) -> list[str]:
    index.show_answers()
    return [card.text.toPlainText() for card in index.cards]


def trying(loaded) -> TryPage:
    loaded.workspace.show_space(Space.TRY)
    return loaded.workspace.trying


def ticked(index: TryPage) -> list[str]:
    return [model.key for model in index.models.chosen]


# Trying


def test_what_models_write_streams_side_by_side_and_can_be_stopped(page, loaded, worker):
    store = merged(loaded, worker)
    index = trying(loaded)
    assert not index.button.isEnabled()
    assert index.button.toolTip() == "Type a text first."
    index.text.setPlainText("the cat")
    index.length.setValue(7)
    index.button.click()
    number = worker.newest(TryJob)
    job = worker.jobs[number]
    assert (job.task.expert, job.text, job.stores) == ("cola", "the cat", (store,))
    assert job.most_tokens == 7
    worker.say(TriedBegun(model="base"), TriedText(model="base", piece="sat "), job=number)
    worker.say(TriedText(model="base", piece="down"), Tried(model="base"), job=number)
    worker.say(TriedBegun(model="cola"), TriedText(model="cola", piece="ran"), job=number)
    assert texts(index) == ["sat down", "ran", ""]
    assert [card.state.isVisibleTo(card) for card in index.cards] == [False, True, False]
    assert index.button.text() == "Stop"
    index.button.click()
    assert number in worker.cancelled
    worker.say(JobCancelled(), job=number)
    assert texts(index) == ["sat down", "ran", ""]
    assert index.button.text() == "Send"
    assert not any(card.state.isVisibleTo(card) for card in index.cards)


def test_the_current_merge_is_asked_unless_another_is_ticked(page, loaded, worker):
    index = trying(loaded)
    stores = []
    for tau in (None, 0.7, 0.8):
        loaded.conductor.set_parameter("tau", tau)
        stores.append(str(merged(loaded, worker)))
        assert ticked(index) == ["base", "cola", stores[-1]]
    for store in (stores[0], stores[1], stores[0], stores[2]):
        (run,) = (run for run in loaded.session.results.runs.all if str(run.store) == store)
        loaded.runs.restore(run)
        worker.say(PlanReady(plan=plan(run.recipe)), JobDone(), job=worker.newest(PlanJob))
        assert ticked(index) == ["base", "cola", store]
    index.models._ticks[stores[0]].click()
    index.models._ticks["base"].click()
    assert ticked(index) == ["cola", stores[2], stores[0]]
    index.refresh()
    assert ticked(index) == ["cola", stores[2], stores[0]], "what the person ticked stays"
    assert [card.model.key for card in index.cards] == ticked(index)


CLASSES = {
    "GPT2LMHeadModel": ("text", "length"),
    "LlamaForCausalLM": ("text", "length"),
    "T5ForConditionalGeneration": ("text", "length"),
    "BertForSequenceClassification": ("text",),
    "ViTForImageClassification": ("choose",),
    "CLIPModel": ("choose",),
    "Toy": ("text", "choose", "length"),
}


def test_only_what_the_model_takes_is_asked_for(page, loaded):
    planned = loaded.session.draft.plan
    index = trying(loaded)
    for architecture, inputs in CLASSES.items():
        experts = tuple(replace(expert, architecture=architecture) for expert in planned.experts)
        loaded.session.draft.plan = replace(planned, experts=experts)
        index.refresh()
        fields = ("text", "choose", "length")
        offered = {name for name in fields if getattr(index, name).isVisibleTo(index)}
        assert offered == set(inputs), architecture


def test_a_chat_goes_on_until_a_new_one_is_begun(page, loaded, worker):
    index = trying(loaded)

    def ask(text: str, *answers: str, chat: bool = True) -> TryJob:
        index.text.setPlainText(text)
        index.button.click()
        number = worker.newest(TryJob)
        for model, answer in zip(("base", "cola"), answers, strict=True):
            begun = TriedBegun(model=model)
            piece = TriedText(model=model, piece=answer)
            is_chat = chat and model == "cola"
            worker.say(begun, piece, Tried(model=model, chat=is_chat), job=number)
        worker.say(JobDone(), job=number)
        index.show_answers()
        job: TryJob = worker.jobs[number]
        return job

    assert not ask("plain", "a", "b", chat=False).questions
    assert not index.new_chat.isVisibleTo(index)
    assert not ask("first", "one", "two").questions
    assert index.new_chat.isVisibleTo(index)
    second = ask("second", "three", "four")
    assert second.questions == ("first",)
    assert second.answers == {"base": ("one",), "cola": ("two",)}
    assert all(word in texts(index)[1] for word in ("first", "two", "four"))
    index.new_chat.click()
    assert texts(index) == ["", ""]
    assert not ask("third", "five", "six").questions


def test_a_picture_is_tried_at_once_and_shares_are_shown(page, loaded, worker, tmp_path):
    loaded.session.draft.set_tasks(TASKS)
    index = trying(loaded)
    description = TaskDescribed(task=TASKS[0], kind=TaskKind.IMAGE_CLASSIFICATION)
    loaded.session.results.scores.describe(description)
    assert index.choose.isVisibleTo(index)
    assert not index.text.isVisibleTo(index)
    assert index.button.toolTip() == "Drop or choose a picture first."
    file = tmp_path / "a.png"
    QImage(20, 10, QImage.Format.Format_RGB888).save(str(file))
    index.take_picture(file)
    number = worker.newest(TryJob)
    assert worker.jobs[number].picture == file
    shares = (("seven", 0.75), ("one", 0.25))
    worker.say(TriedBegun(model="cola"), Tried(model="cola", shares=shares), job=number)
    worker.say(JobDone(), job=number)
    index.show_answers()
    assert [(bar.title, bar.share) for bar in index.cards[1].bars.bars] == list(shares)
    assert index.cards[1].bars.accessibleName() == "seven 75.0 %, one 25.0 %"


def test_an_example_is_tried_as_it_is_in_the_data(page, loaded, worker):
    loaded.session.draft.set_tasks(TASKS)
    example = ShownExample(row="row 7", picture=np.zeros((4, 4, 3), np.uint8), label="one")
    trying(loaded).try_example(example, "sst2")
    number = worker.newest(TryJob)
    job = worker.jobs[number]
    assert (job.task, job.row) == (TASKS[1], "row 7")
    index = trying(loaded)
    assert index.task.current == "sst2"
    worker.say(JobFailed(error=TaskError("There is no such row.")), job=number)
    index.show_answers()
    assert index.problem.text() == "There is no such row."
    index.text.setPlainText("something else")
    index.button.click()
    assert worker.jobs[worker.newest(TryJob)].row == ""
    worker.say(JobDone())


WRITERS = ("base", "cola", "sst2")


def as_writers(loaded) -> TryPage:
    """The page with language models; the user asks both experts."""
    planned = loaded.session.draft.plan
    experts = tuple(replace(expert, architecture="LlamaForCausalLM") for expert in planned.experts)
    loaded.session.draft.plan = replace(planned, experts=experts)
    index = trying(loaded)
    index.refresh()
    index.models._ticks["sst2"].click()
    index.text.setPlainText("the cat")
    return index


def test_models_that_write_are_loaded_while_the_question_is_typed(page, loaded, worker):
    index = as_writers(loaded)
    (earlier, made_ready) = worker.jobs_of(MakeReadyJob)
    assert earlier.experts == ("cola",)
    assert made_ready.experts == ("cola", "sst2")
    index.refresh()
    assert len(worker.jobs_of(MakeReadyJob)) == 2, "once for each choice"
    index.button.click()
    assert worker.newest(MakeReadyJob) in worker.withdrawn
    assert worker.jobs_of(TryJob)[-1].experts == made_ready.experts
    worker.say(JobDone(), job=worker.newest(TryJob))


def answer_all(worker, *answers: str, error: str = "") -> None:
    number = worker.newest(TryJob)
    for model, answer in zip(WRITERS, answers, strict=True):
        done = Tried(
            model=model, chat=True, tokens=4, seconds=2.0, ending=Ending.END_TOKEN, error=error
        )
        worker.say(TriedBegun(model=model), TriedText(model=model, piece=answer), done, job=number)
    worker.say(JobDone(), job=number)


def test_every_language_model_can_be_asked_and_says_how_it_ended(page, loaded, worker):
    index = as_writers(loaded)
    assert not index.task.isVisibleTo(index), "all answer through one head"
    index.button.click()
    job = worker.jobs_of(TryJob)[-1]
    assert (job.experts, job.with_base, job.stores) == (("cola", "sst2"), True, ())
    answer_all(worker, "one", "two", "three")
    assert texts(index) == ["one", "two", "three"]
    facts = "4 tokens · 2.0 tokens/s · stopped by its end token"
    assert [card.facts.text() for card in index.cards] == [facts] * 3
    assert [card.question.text() for card in index.cards] == ["the cat"] * 3
    index.cards[1].copy.click()
    assert QGuiApplication.clipboard().text() == "two"
    index.models._ticks["base"].click()
    index.models._ticks["cola"].click()
    index.button.click()
    job = worker.jobs_of(TryJob)[-1]
    assert (job.experts, job.with_base) == (("sst2",), False)
    worker.say(JobDone(), job=worker.newest(TryJob))
    index.models._ticks["sst2"].click()
    assert index.button.toolTip() == "Tick a model first."


def test_a_question_is_asked_again_without_its_answers(page, loaded, worker):
    index = as_writers(loaded)
    index.button.click()
    answer_all(worker, "one", "two", "three")
    index.show_answers()
    index.button.click()
    answer_all(worker, "four", "five", "six")
    index.show_answers()
    second = worker.jobs_of(TryJob)[-1]
    index.again.click()
    assert worker.jobs_of(TryJob)[-1] == second
    assert second.answers["cola"] == ("two",)
    answer_all(worker, "seven", "eight", "nine")
    index.show_answers()
    index.button.click()
    assert worker.jobs_of(TryJob)[-1].answers["cola"] == ("two", "eight")
    worker.say(JobDone(), job=worker.newest(TryJob))


def test_ctrl_return_sends(page, loaded, worker, qtbot):
    index = as_writers(loaded)
    qtbot.waitUntil(index.text.isVisible)
    index.text.setFocus()
    qtbot.keyClick(index.text, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert worker.jobs_of(TryJob)[-1].text == "the cat"
    worker.say(JobDone(), job=worker.newest(TryJob))


def test_blind_hides_names_until_one_is_chosen_and_counts(page, loaded, worker, monkeypatch):
    monkeypatch.setattr("random.sample", lambda keys, count: list(reversed(keys)))
    index = as_writers(loaded)
    index.blind.setChecked(True)
    for turn in range(6):
        index.button.click()
        assert not worker.jobs_of(TryJob)[-1].questions, "earlier answers would tell"
        number = worker.newest(TryJob)
        worker.say(TriedBegun(model="base"), TriedText(model="base", piece="a"), job=number)
        assert texts(index) == ["", "", ""], "the order of answers would tell"
        answer_all(worker, "one", "two", "three")
        assert texts(index) == ["three", "two", "one"]
        assert [card.role.text() for card in index.cards] == ["Answer A", "Answer B", "Answer C"]
        assert not any(card.title.text() for card in index.cards)
        spoken = [card.text.accessibleName() for card in index.cards]
        assert not any(name in text for text in spoken for name in WRITERS)
        assert not index.models.isEnabled()
        index.cards[0].prefer.click()
        assert [card.model.key for card in index.cards] == list(WRITERS)
        assert index.cards[2].title.full_text == "sst2"
        assert f"sst2 {turn + 1}" in index.verdict.text()
    assert "sst2 is preferred to cola (sign test, p = 0.031)" in index.verdict.text()
    index.blind.setChecked(False)
    assert not index.verdict.isVisibleTo(index)


def test_a_model_that_failed_cannot_be_the_best(page, loaded, worker):
    index = as_writers(loaded)
    index.blind.setChecked(True)
    index.button.click()
    answer_all(worker, "", "", "", error="no memory")
    index.show_answers()
    assert not any(card.prefer.isVisibleTo(card) for card in index.cards)


# Tuning


def point(value: float, score: float | None, index: int) -> TunePoint:
    return TunePoint(parameters={"tau": value}, index=index, of=2, score=score, seconds=2.0)


def vary_tau(index: TuneTab, lowest: float, highest: float) -> None:
    """Choose this parameter alone, and its range."""
    for name, (tick, low, high) in index.ranges.rows.items():
        tick.setChecked(name == "tau")
        if name == "tau":
            low.setValue(lowest)
            high.setValue(highest)


def test_a_parameter_is_tuned_and_its_value_taken_with_a_note(page, loaded, worker):
    index = page.show_tab(TuneTab)
    assert not index.button.isEnabled()
    assert index.button.toolTip() == index.cost.text() == "Add a task first."
    assert not index.problem.text(), "nothing has gone wrong"
    loaded.session.draft.set_tasks(TASKS)
    vary_tau(index, 0.1, 0.9)
    index.merges.setValue(2)
    index.button.click()
    number = worker.newest(TuneJob)
    job = worker.jobs[number]
    assert job.ranges == (ParameterRange(name="tau", low=0.1, high=0.9),)
    assert (job.merges, job.limit) == (2, None)
    points = point(0.1, 0.5, 0), point(0.9, 0.75, 1)
    worker.say(points[0], job=number)
    assert index.cost.text() == "1 of 2 merges done, about 0:06 left."
    before, after = (
        tuple(task_score("merged", task, mean, normalised=mean) for task in ("cola", "sst2"))
        for mean in (0.5, 0.75)
    )
    best = points[1]
    recipe = job.recipe
    tuned = Tuned(points=points, best=best, scores=after, before=before, seconds=8.0, recipe=recipe)
    worker.say(points[1], tuned, JobDone(), job=number)
    assert index.result.text() == "tau 0.9: from 50.0 % to 75.0 % of the experts' scores"
    assert index.curve.message() is None
    texts = (
        graphic for graphic in index.curve.canvas.scene().items() if isinstance(graphic, TextItem)
    )
    boxes = [text for text in texts if text.fill.style() != Qt.BrushStyle.NoBrush]
    assert not boxes, "a point without a name covers no curve"
    assert "tau 0.9: 0.7500, chosen" in index.curve.accessibleDescription()
    assert [column.values[1].item() for column in index.curve.columns()] == [0.9, 0.75, 2.0]
    figures = index.figures.model()
    assert [figures.index(row, 0).data() for row in (0, 1)] == ["0.500", "0.750"]
    index.use.click()
    draft = loaded.session.draft
    assert draft.inputs.touched == {"tau": 0.9}
    assert not index.use.isEnabled()
    text = loaded.opener.recipe_text(Path("/x"), mergekit=False)
    assert text.startswith("# Tuned by ACE workbench: tau 0.9, the best of 2 merges on half of")
    loaded.conductor.set_parameter("tau", 0.4)
    assert not loaded.opener.recipe_text(Path("/x"), mergekit=False).startswith("#")
    assert index.use.isEnabled()


def test_a_search_that_finds_nothing_better_says_so(page, loaded, worker):
    loaded.session.draft.set_tasks(TASKS)
    index = page.show_tab(TuneTab)
    for name, (tick, *_) in index.ranges.rows.items():
        tick.setChecked(name == "tau")
    index.button.click()
    number = worker.newest(TuneJob)
    points = point(0.3, 0.5, 0), point(0.9, 0.5, 1)  # 0.3: the default
    before, after = (
        tuple(task_score("merged", task, mean, normalised=mean) for task in ("cola", "sst2"))
        for mean in (0.5, 0.50001)
    )
    tuned = Tuned(
        points=points,
        best=points[0],
        scores=after,
        before=before,
        seconds=8.0,
        recipe=worker.jobs[number].recipe,
    )
    worker.say(*points, tuned, JobDone(), job=number)
    text = index.result.text()
    assert text.startswith("By these scores nothing can be chosen")
    assert text.endswith("tau 0.3: still 50.0 % of the experts' scores")
    assert not index.use.isEnabled()
    assert index.use.text() == "These values are in the recipe"


def test_tuning_can_be_stopped_and_says_why_it_failed(page, loaded, worker):
    loaded.session.draft.set_tasks(TASKS)
    index = page.show_tab(TuneTab)
    index.button.click()
    number = worker.newest(TuneJob)
    index.button.click()
    assert number in worker.cancelled
    worker.say(JobCancelled(), job=number)
    index.button.click()
    error = JobFailed(error=TaskError("There are too few examples."))
    worker.say(error, job=worker.newest(TuneJob))
    assert index.problem.text() == "There are too few examples."
    empty = next(iter(index.ranges.rows.values()))
    empty[1].setValue(5.0)
    empty[2].setValue(1.0)
    index.refresh()
    assert "is empty" in index.button.toolTip()


def test_points_of_several_parameters_stand_along_one_of_them(page, loaded, worker):
    loaded.session.draft.set_tasks(TASKS)
    index = page.show_tab(TuneTab)
    for tick, _low, _high in index.ranges.rows.values():
        tick.setChecked(True)
    index.button.click()
    number = worker.newest(TuneJob)
    several = replace(point(0.3, 0.5, 0), parameters={"epsilon": 1e-4, "tau": 0.3, "k_frac": 0.5})
    worker.say(several, replace(several, index=1, score=None, error="no"), job=number)
    assert index.axis.options == ("epsilon", "tau", "k_frac")
    assert index.curve.title.full_text == "Score by epsilon"
    index.axis.choose("tau")
    assert index.curve.title.full_text == "Score by tau"
    worker.say(JobDone(), job=number)
