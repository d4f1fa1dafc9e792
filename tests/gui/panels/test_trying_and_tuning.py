"""The places where one tries a text or a picture, and looks for values of parameters."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest
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
from ace_gui.gui.panels.answer_cards import experts_at_first
from ace_gui.gui.panels.try_page import TryPage
from ace_gui.gui.panels.tune_tab import TuneTab
from ace_gui.gui.shell.window_frame import Space
from ace_gui.recipe.values import Task, TaskKind
from tests.gui.fakes import COLA, SST2, merged, plan, recipe, task_score

TASKS = tuple(Task(data=Path(f"/data/{name}.csv"), expert=name) for name in ("cola", "sst2"))


def texts(try_page: TryPage) -> list[str]:
    try_page.show_answers()
    return [card.text.toPlainText() for card in try_page.cards]


def trying(loaded) -> TryPage:
    loaded.workspace.show_space(Space.TRY)
    return loaded.workspace.trying


def ticked(try_page: TryPage) -> list[str]:
    return [model.key for model in try_page.models.chosen]


# Trying


def test_what_models_write_streams_side_by_side_and_can_be_stopped(page, loaded, worker):
    store = merged(loaded, worker)
    try_page = trying(loaded)
    assert not try_page.button.isEnabled()
    assert try_page.button.toolTip() == "Type a text first."
    try_page.text.setPlainText("the cat")
    try_page.length.setValue(7)
    try_page.button.click()
    number = worker.newest(TryJob)
    job = worker.jobs[number]
    assert (job.task.expert, job.text, job.stores) == ("cola", "the cat", (store,))
    assert job.most_tokens == 7
    worker.say(TriedBegun(model="base"), TriedText(model="base", piece="sat "), job=number)
    worker.say(TriedText(model="base", piece="down"), Tried(model="base"), job=number)
    worker.say(TriedBegun(model="cola"), TriedText(model="cola", piece="ran"), job=number)
    assert texts(try_page) == ["sat down", "ran", ""]
    assert [card.state.isVisibleTo(card) for card in try_page.cards] == [False, True, False]
    assert try_page.button.text() == "Stop"
    try_page.button.click()
    assert number in worker.cancelled
    worker.say(JobCancelled(), job=number)
    assert texts(try_page) == ["sat down", "ran", ""]
    assert try_page.button.text() == "Send"
    assert not any(card.state.isVisibleTo(card) for card in try_page.cards)


def test_the_current_merge_is_asked_unless_another_is_ticked(page, loaded, worker):
    try_page = trying(loaded)
    stores = []
    for tau in (None, 0.7, 0.8):
        loaded.conductor.set_parameter("tau", tau)
        stores.append(str(merged(loaded, worker)))
        assert ticked(try_page) == ["base", "cola", stores[-1]]
    for store in (stores[0], stores[1], stores[0], stores[2]):
        (run,) = (run for run in loaded.session.results.runs.all if str(run.store) == store)
        loaded.runs.restore(run)
        worker.say(PlanReady(plan=plan(run.recipe)), JobDone(), job=worker.newest(PlanJob))
        assert ticked(try_page) == ["base", "cola", store]
    try_page.models._ticks[stores[0]].click()
    try_page.models._ticks["base"].click()
    assert ticked(try_page) == ["cola", stores[2], stores[0]]
    try_page.refresh()
    assert ticked(try_page) == ["cola", stores[2], stores[0]], "what the person ticked stays"
    assert [card.model.key for card in try_page.cards] == ticked(try_page)


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
    try_page = trying(loaded)
    for architecture, inputs in CLASSES.items():
        experts = tuple(replace(expert, architecture=architecture) for expert in planned.experts)
        loaded.session.draft.plan = replace(planned, experts=experts)
        try_page.refresh()
        fields = ("text", "choose", "length")
        offered = {name for name in fields if getattr(try_page, name).isVisibleTo(try_page)}
        assert offered == set(inputs), architecture


def test_a_chat_goes_on_until_a_new_one_is_begun(page, loaded, worker):
    try_page = trying(loaded)

    def ask(text: str, *answers: str, chat: bool = True) -> TryJob:
        try_page.text.setPlainText(text)
        try_page.button.click()
        number = worker.newest(TryJob)
        for model, answer in zip(("base", "cola"), answers, strict=True):
            begun = TriedBegun(model=model)
            piece = TriedText(model=model, piece=answer)
            is_chat = chat and model == "cola"
            worker.say(begun, piece, Tried(model=model, chat=is_chat), job=number)
        worker.say(JobDone(), job=number)
        try_page.show_answers()
        job: TryJob = worker.jobs[number]
        return job

    assert not ask("plain", "a", "b", chat=False).questions
    assert not try_page.new_chat.isVisibleTo(try_page)
    assert not ask("first", "one", "two").questions
    assert try_page.new_chat.isVisibleTo(try_page)
    second = ask("second", "three", "four")
    assert second.questions == ("first",)
    assert second.answers == {"base": ("one",), "cola": ("two",)}
    assert all(word in texts(try_page)[1] for word in ("first", "two", "four"))
    try_page.new_chat.click()
    assert texts(try_page) == ["", ""]
    assert not ask("third", "five", "six").questions


def test_a_picture_is_tried_at_once_and_shares_are_shown(page, loaded, worker, tmp_path):
    loaded.session.draft.set_tasks(TASKS)
    try_page = trying(loaded)
    description = TaskDescribed(task=TASKS[0], kind=TaskKind.IMAGE_CLASSIFICATION)
    loaded.session.results.scores.describe(description)
    assert try_page.choose.isVisibleTo(try_page)
    assert not try_page.text.isVisibleTo(try_page)
    assert try_page.button.toolTip() == "Drop or choose a picture first."
    file = tmp_path / "a.png"
    QImage(20, 10, QImage.Format.Format_RGB888).save(str(file))
    try_page.take_picture(file)
    number = worker.newest(TryJob)
    assert worker.jobs[number].picture == file
    shares = (("seven", 0.75), ("one", 0.25))
    worker.say(TriedBegun(model="cola"), Tried(model="cola", shares=shares), job=number)
    worker.say(JobDone(), job=number)
    try_page.show_answers()
    assert [(bar.title, bar.share) for bar in try_page.cards[1].bars.bars] == list(shares)
    assert try_page.cards[1].bars.accessibleName() == "seven 75.0 %, one 25.0 %"


def test_an_example_is_tried_as_it_is_in_the_data(page, loaded, worker):
    loaded.session.draft.set_tasks(TASKS)
    example = ShownExample(row="row 7", picture=np.zeros((4, 4, 3), np.uint8), label="one")
    trying(loaded).try_example(example, "sst2")
    number = worker.newest(TryJob)
    job = worker.jobs[number]
    assert (job.task, job.row) == (TASKS[1], "row 7")
    try_page = trying(loaded)
    assert try_page.task.current == "sst2"
    worker.say(JobFailed(error=TaskError("There is no such row.")), job=number)
    try_page.show_answers()
    assert try_page.problem.text() == "There is no such row."
    try_page.text.setPlainText("something else")
    try_page.button.click()
    assert worker.jobs[worker.newest(TryJob)].row == ""
    worker.say(JobDone())


WRITERS = ("base", "cola", "sst2")


def as_writers(loaded) -> TryPage:
    """The page with language models; the user asks both experts."""
    planned = loaded.session.draft.plan
    experts = tuple(replace(expert, architecture="LlamaForCausalLM") for expert in planned.experts)
    loaded.session.draft.plan = replace(planned, experts=experts)
    try_page = trying(loaded)
    try_page.refresh()
    try_page.models._ticks["sst2"].click()
    try_page.text.setPlainText("the cat")
    return try_page


def test_models_that_write_are_loaded_while_the_question_is_typed(page, loaded, worker):
    try_page = as_writers(loaded)
    (earlier, made_ready) = worker.jobs_of(MakeReadyJob)
    assert earlier.experts == ("cola",)
    assert made_ready.experts == ("cola", "sst2")
    try_page.refresh()
    assert len(worker.jobs_of(MakeReadyJob)) == 2, "once for each choice"
    try_page.button.click()
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
    try_page = as_writers(loaded)
    assert not try_page.task.isVisibleTo(try_page), "all answer through one head"
    try_page.button.click()
    job = worker.jobs_of(TryJob)[-1]
    assert (job.experts, job.with_base, job.stores) == (("cola", "sst2"), True, ())
    answer_all(worker, "one", "two", "three")
    assert texts(try_page) == ["one", "two", "three"]
    facts = "4 tokens · 2.0 tokens/s · stopped by its end token"
    assert [card.facts.text() for card in try_page.cards] == [facts] * 3
    assert [card.question.text() for card in try_page.cards] == ["the cat"] * 3
    try_page.cards[1].copy.click()
    assert QGuiApplication.clipboard().text() == "two"
    try_page.models._ticks["base"].click()
    try_page.models._ticks["cola"].click()
    try_page.button.click()
    job = worker.jobs_of(TryJob)[-1]
    assert (job.experts, job.with_base) == (("sst2",), False)
    worker.say(JobDone(), job=worker.newest(TryJob))
    try_page.models._ticks["sst2"].click()
    assert try_page.button.toolTip() == "Tick a model first."


def test_a_card_without_an_answer_says_what_it_waits_for(page, loaded, worker):
    index = as_writers(loaded)
    base, cola, sst2 = index.cards
    assert {card.waiting.text() for card in index.cards} == {"Not asked yet."}
    index.button.click()
    number = worker.newest(TryJob)
    worker.say(TriedBegun(model="base"), job=number)
    index.show_answers()
    assert not base.waiting.isVisibleTo(base)
    for card in (cola, sst2):
        assert "Waits for its turn" in card.waiting.text()
        assert card.waiting.isVisibleTo(card)
    worker.say(JobDone(), job=number)


def test_the_windows_merge_is_asked_before_others(page, loaded, worker):
    older = merged(loaded, worker)
    loaded.conductor.set_parameter("tau", 0.7)
    newer = merged(loaded, worker)
    loaded.runs.restore(loaded.session.results.runs.all[0])
    worker.say(PlanReady(plan=plan(recipe(COLA, SST2))), JobDone(), job=worker.newest(PlanJob))
    index = as_writers(loaded)
    index.models._ticks[str(newer)].click()
    index.button.click()
    assert worker.jobs_of(TryJob)[-1].stores == (older, newer)
    worker.say(JobDone(), job=worker.newest(TryJob))


@pytest.mark.parametrize(
    ("models", "experts", "ticked", "why"),
    [
        (100, 3, 3, ""),
        (100, 7, 4, "too narrow"),
        (4, 3, 2, "free"),
        (1, 3, 1, "free"),
        (5, 7, 3, "free"),
    ],
)
def test_as_many_experts_are_ticked_as_there_is_room_for(models, experts, ticked, why):
    """``models``: how many fit into the free memory. The base and the merge come first."""
    planned = plan(recipe(*[COLA] * experts))
    size = sum(4 * prod(row.shape) for row in planned.rows if row.in_base)
    count, sentence = experts_at_first(planned, 2, size * (models + 1))
    assert count == ticked
    assert why in sentence
    assert bool(sentence) == (ticked < experts)


def test_the_page_ticks_them_and_says_why_not_all(page, loaded, worker):
    planned = loaded.session.draft.plan
    experts = tuple(replace(expert, architecture="LlamaForCausalLM") for expert in planned.experts)
    index = trying(loaded)
    for free, keys in ((10**12, ["base", "cola", "sst2"]), (1, ["base", "cola"])):
        loaded.session.draft.plan = replace(planned, experts=experts, free_memory=free)
        index.refresh()
        assert ticked(index) == keys
        assert index.why_not_all.isVisibleTo(index) == (free == 1)


def test_a_question_is_asked_again_without_its_answers(page, loaded, worker):
    try_page = as_writers(loaded)
    try_page.button.click()
    answer_all(worker, "one", "two", "three")
    try_page.show_answers()
    try_page.button.click()
    answer_all(worker, "four", "five", "six")
    try_page.show_answers()
    second = worker.jobs_of(TryJob)[-1]
    try_page.again.click()
    assert worker.jobs_of(TryJob)[-1] == second
    assert second.answers["cola"] == ("two",)
    answer_all(worker, "seven", "eight", "nine")
    try_page.show_answers()
    try_page.button.click()
    assert worker.jobs_of(TryJob)[-1].answers["cola"] == ("two", "eight")
    worker.say(JobDone(), job=worker.newest(TryJob))


def test_ctrl_return_sends(page, loaded, worker, qtbot):
    try_page = as_writers(loaded)
    qtbot.waitUntil(try_page.text.isVisible)
    try_page.text.setFocus()
    qtbot.keyClick(try_page.text, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert worker.jobs_of(TryJob)[-1].text == "the cat"
    worker.say(JobDone(), job=worker.newest(TryJob))


def test_blind_hides_names_until_one_is_chosen_and_counts(page, loaded, worker, monkeypatch):
    monkeypatch.setattr("random.sample", lambda keys, count: list(reversed(keys)))
    try_page = as_writers(loaded)
    try_page.blind.setChecked(True)
    for turn in range(6):
        try_page.button.click()
        assert not worker.jobs_of(TryJob)[-1].questions, "earlier answers would tell"
        number = worker.newest(TryJob)
        worker.say(TriedBegun(model="base"), TriedText(model="base", piece="a"), job=number)
        assert texts(try_page) == ["", "", ""], "the order of answers would tell"
        answer_all(worker, "one", "two", "three")
        assert texts(try_page) == ["three", "two", "one"]
        assert [card.role.text() for card in try_page.cards] == ["Answer A", "Answer B", "Answer C"]
        assert not any(card.title.text() for card in try_page.cards)
        spoken = [card.text.accessibleName() for card in try_page.cards]
        assert not any(name in text for text in spoken for name in WRITERS)
        assert not try_page.models.isEnabled()
        try_page.cards[0].prefer.click()
        assert [card.model.key for card in try_page.cards] == list(WRITERS)
        assert try_page.cards[2].title.full_text == "sst2"
        assert f"sst2 {turn + 1}" in try_page.verdict.text()
    assert "sst2 is preferred to cola (sign test, p = 0.031)" in try_page.verdict.text()
    try_page.blind.setChecked(False)
    assert not try_page.verdict.isVisibleTo(try_page)


def test_a_model_that_failed_cannot_be_the_best(page, loaded, worker):
    try_page = as_writers(loaded)
    try_page.blind.setChecked(True)
    try_page.button.click()
    answer_all(worker, "", "", "", error="no memory")
    try_page.show_answers()
    assert not any(card.prefer.isVisibleTo(card) for card in try_page.cards)


# Tuning


def point(value: float, score: float | None, index: int) -> TunePoint:
    return TunePoint(parameters={"tau": value}, index=index, of=2, score=score, seconds=2.0)


def vary_tau(tab: TuneTab, lowest: float, highest: float) -> None:
    """Choose this parameter alone, and its range."""
    for name, (tick, low, high) in tab.ranges.rows.items():
        tick.setChecked(name == "tau")
        if name == "tau":
            low.setValue(lowest)
            high.setValue(highest)


def test_a_parameter_is_tuned_and_its_value_taken_with_a_note(page, loaded, worker):
    tab = page.show_tab(TuneTab)
    assert not tab.button.isEnabled()
    assert tab.button.toolTip() == tab.cost.text() == "Add a task first."
    assert not tab.problem.text(), "nothing has gone wrong"
    loaded.session.draft.set_tasks(TASKS)
    vary_tau(tab, 0.1, 0.9)
    tab.merges.setValue(2)
    tab.button.click()
    number = worker.newest(TuneJob)
    job = worker.jobs[number]
    assert job.ranges == (ParameterRange(name="tau", low=0.1, high=0.9),)
    assert (job.merges, job.limit) == (2, None)
    points = point(0.1, 0.5, 0), point(0.9, 0.75, 1)
    worker.say(points[0], job=number)
    assert tab.cost.text() == "1 of 2 merges done, about 0:06 left."
    before, after = (
        tuple(task_score("merged", task, mean, normalised=mean) for task in ("cola", "sst2"))
        for mean in (0.5, 0.75)
    )
    best = points[1]
    recipe = job.recipe
    tuned = Tuned(points=points, best=best, scores=after, before=before, seconds=8.0, recipe=recipe)
    worker.say(points[1], tuned, JobDone(), job=number)
    assert tab.result.text() == "tau 0.9: from 50.0 % to 75.0 % of the experts' scores"
    assert tab.curve.message() is None
    texts = (
        graphic for graphic in tab.curve.canvas.scene().items() if isinstance(graphic, TextItem)
    )
    boxes = [text for text in texts if text.fill.style() != Qt.BrushStyle.NoBrush]
    assert not boxes, "a point without a name covers no curve"
    assert "tau 0.9: 0.7500, chosen" in tab.curve.accessibleDescription()
    assert [column.values[1].item() for column in tab.curve.columns()] == [0.9, 0.75, 2.0]
    figures = tab.figures.model()
    assert [figures.index(row, 0).data() for row in (0, 1)] == ["0.500", "0.750"]
    tab.use.click()
    draft = loaded.session.draft
    assert draft.inputs.touched == {"tau": 0.9}
    assert not tab.use.isEnabled()
    text = loaded.opener.recipe_text(Path("/x"), mergekit=False)
    assert text.startswith("# Tuned by ACE workbench: tau 0.9, the best of 2 merges on half of")
    loaded.conductor.set_parameter("tau", 0.4)
    assert not loaded.opener.recipe_text(Path("/x"), mergekit=False).startswith("#")
    assert tab.use.isEnabled()


def test_a_search_that_finds_nothing_better_says_so(page, loaded, worker):
    loaded.session.draft.set_tasks(TASKS)
    tab = page.show_tab(TuneTab)
    for name, (tick, *_) in tab.ranges.rows.items():
        tick.setChecked(name == "tau")
    tab.button.click()
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
    text = tab.result.text()
    assert text.startswith("By these scores nothing can be chosen")
    assert text.endswith("tau 0.3: still 50.0 % of the experts' scores")
    assert not tab.use.isEnabled()
    assert tab.use.text() == "These values are in the recipe"


def test_tuning_can_be_stopped_and_says_why_it_failed(page, loaded, worker):
    loaded.session.draft.set_tasks(TASKS)
    tab = page.show_tab(TuneTab)
    tab.button.click()
    number = worker.newest(TuneJob)
    tab.button.click()
    assert number in worker.cancelled
    worker.say(JobCancelled(), job=number)
    tab.button.click()
    error = JobFailed(error=TaskError("There are too few examples."))
    worker.say(error, job=worker.newest(TuneJob))
    assert tab.problem.text() == "There are too few examples."
    empty = next(iter(tab.ranges.rows.values()))
    empty[1].setValue(5.0)
    empty[2].setValue(1.0)
    tab.refresh()
    assert "is empty" in tab.button.toolTip()


def test_points_of_several_parameters_stand_along_one_of_them(page, loaded, worker):
    loaded.session.draft.set_tasks(TASKS)
    tab = page.show_tab(TuneTab)
    for tick, _low, _high in tab.ranges.rows.values():
        tick.setChecked(True)
    tab.button.click()
    number = worker.newest(TuneJob)
    several = replace(point(0.3, 0.5, 0), parameters={"epsilon": 1e-4, "tau": 0.3, "k_frac": 0.5})
    worker.say(several, replace(several, index=1, score=None, error="no"), job=number)
    assert tab.axis.options == ("epsilon", "tau", "k_frac")
    assert tab.curve.title.full_text == "Score by epsilon"
    tab.axis.choose("tau")
    assert tab.curve.title.full_text == "Score by tau"
    worker.say(JobDone(), job=number)
