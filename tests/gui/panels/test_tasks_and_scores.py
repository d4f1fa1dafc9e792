"""The Scores workspace: tasks that are added and edited, and what their scores come to."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.events import (
    Evaluated,
    EvaluationProgress,
    JobCancelled,
    JobDone,
    JobFailed,
)
from ace_gui.engine.contract.jobs import (
    CompareExamplesJob,
    DescribeTasksJob,
    EvaluateJob,
    KnownScoresJob,
    MergeJob,
    TryJob,
)
from ace_gui.engine.contract.scored import (
    EXPERTS,
    AnswerVerdict,
    ComparedExample,
    ExamplesCompared,
    ShownExample,
    TaskDescribed,
)
from ace_gui.errors import EngineError
from ace_gui.gui.control.scoring import DELAY, WHILE_MERGING, expert_named
from ace_gui.gui.models.scores_models import GAINED, KEPT, LOST, MERGE
from ace_gui.gui.panels.examples_tab import ExamplesStrip, ExamplesTab, listed_examples
from ace_gui.gui.panels.score_figures import Mark, ScoreLine
from ace_gui.gui.panels.scores_page import REFRESH, ScoresPage, ScoresTab
from ace_gui.gui.panels.tasks_tab import TasksTab
from ace_gui.gui.panels.tune_tab import TuneTab
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.shell.window_frame import Space
from ace_gui.gui.state.known_scores import figures_of
from ace_gui.gui.state.results import mean_score
from ace_gui.gui.state.session import WAIT
from ace_gui.gui.text import tooltip
from ace_gui.recipe.recipe_file import dump_recipe
from ace_gui.recipe.values import Chat, Metric, Task, TaskKind
from tests.gui.fakes import COLA, SST2, FakeWorker, load, merged, started, task_score
from tests.helpers.windows import drop, stops

DATA = (Path("/data/cola.csv"), Path("/data/sst2.csv"))
TASK_DATA = tuple(Task(data=path, expert=path.stem) for path in DATA)


def scores_place(page: ScoresPage) -> ScoresTab:
    tab = page.show_tab(ScoresTab)
    tab.refresh()
    return tab


def described(task: Task, **changes: object) -> TaskDescribed:
    description = TaskDescribed(
        task=task,
        expert=task.title,
        kinds=(TaskKind.TEXT_CLASSIFICATION, TaskKind.REGRESSION),
        kind=TaskKind.TEXT_CLASSIFICATION,
        metrics=(Metric.ACCURACY, Metric.F1),
        metric=Metric.ACCURACY,
        table_columns=("sentence", "label", "source"),
        roles=("text", "label"),
        optional=("pair",),
        columns={"text": ("sentence",), "label": ("label",)},
        count=40,
        examples=(ShownExample(row="row 2", texts=(("text", "a good film"),), label="yes"),),
    )
    return replace(description, **changes)


def add_described(window: MainWindow, worker: FakeWorker, qtbot: QtBot) -> TaskDescribed:
    """Add a task, and answer what it is."""
    window.scoring.add(DATA[:1])
    qtbot.waitUntil(lambda: bool(worker.jobs_of(DescribeTasksJob)))
    description = described(window.session.draft.inputs.tasks[0])
    worker.say(description, job=worker.newest(DescribeTasksJob))
    return description


@pytest.mark.parametrize(
    ("title", "expert"),
    [
        ("nli", "bert-nli"),
        ("NLI_test", "bert-nli"),
        ("bert-topic", "bert-topic"),
        ("bert-validation", None),
        ("topic-or-nli", None),
        ("other", None),
    ],
)
def test_data_belong_to_the_expert_with_their_name(title, expert):
    assert expert_named(title, ("bert-nli", "bert-topic", "bert-sentiment")) == expert


def test_a_problem_of_a_task_names_labels_in_quotation_marks_and_its_file_once(
    page, loaded, worker, qtbot
):
    tab = page.show_tab(TasksTab)
    description = add_described(loaded, worker, qtbot)
    fault = f"{description.task.data}, row 2: The label `b` is not among the head's."
    worker.say(replace(description, fault=fault), job=worker.newest(DescribeTasksJob))
    assert tab.list.item(0).text() == "cola\nrow 2: The label “b” is not among the head's."
    assert tab.editor.fault.text() == fault.replace("`b`", "“b”")


@pytest.mark.parametrize(("wrong", "name"), [("labels", "labels"), ("text", "column of text")])
def test_the_field_that_is_wrong_is_marked_until_it_is_right(
    page, loaded, worker, qtbot, wrong, name
):
    tab = page.show_tab(TasksTab)
    description = add_described(loaded, worker, qtbot)
    number = worker.newest(DescribeTasksJob)
    worker.say(replace(description, fault="It does not fit.", wrong=wrong), job=number)
    fields = tab.editor.form.fields
    assert [key for key, field in fields.items() if field.control.property("invalid")] == [name]
    assert fields[name].control.accessibleDescription() == "It does not fit."
    worker.say(description, job=number)
    assert not any(field.control.property("invalid") for field in tab.editor.form.fields.values())
    assert tab.editor.form.fields[name].control.accessibleDescription() != "It does not fit."


def test_an_experts_labels_that_fit_are_proposed(page, loaded, worker, qtbot):
    tab = page.show_tab(TasksTab)
    description = add_described(loaded, worker, qtbot)
    task = replace(description.task, labels=("a", "b"))
    loaded.scoring.change(0, task)
    wrong = replace(
        description, task=task, fault="It does not fit.", wrong="labels", fitting=("sst2",)
    )
    worker.say(wrong, job=worker.newest(DescribeTasksJob))
    (button,) = [
        button
        for button in tab.editor.findChildren(QPushButton)
        if button.text() == "Use the labels of sst2"
    ]
    button.click()
    (changed,) = loaded.session.draft.inputs.tasks
    assert (changed.expert, changed.labels) == ("sst2", ())


def test_models_are_evaluated_where_a_task_was_added(page, loaded, worker, qtbot):
    tab = page.show_tab(TasksTab)
    add_described(loaded, worker, qtbot)
    assert tab.evaluate.isVisible()
    tab.evaluate.click()
    assert len(worker.jobs_of(EvaluateJob)) == 1
    worker.say(JobDone(), job=worker.newest(EvaluateJob))


def test_data_that_are_dropped_are_tasks_of_the_recipe(page, loaded, worker, qtbot):
    tab = page.show_tab(TasksTab)
    draft = loaded.session.draft
    assert not tab.list.isVisible()  # one sentence and an action stand there
    plan = draft.plan
    assert drop(tab, *DATA, DATA[0]).isAccepted()
    assert [task.title for task in draft.inputs.tasks] == ["cola", "sst2", "cola-2"]
    assert [task.expert for task in draft.inputs.tasks] == ["cola", "sst2", "cola"]
    assert draft.plan is plan  # nothing of the merge is another
    assert "tasks:" in dump_recipe(draft.inputs.recipe(), Path("/data"))
    qtbot.waitUntil(lambda: bool(worker.jobs_of(DescribeTasksJob)))
    number = worker.newest(DescribeTasksJob)
    assert worker.jobs[number].tasks == draft.inputs.tasks
    descriptions = [described(task) for task in draft.inputs.tasks]
    worker.say(
        descriptions[0],
        replace(descriptions[1], fault="data/sst2.csv, row 3: It is empty."),
        job=number,
    )
    texts = [tab.list.item(row).text() for row in range(3)]
    assert texts[0] == "cola\ntext-classification · 40 examples"
    assert texts[1] == "sst2\ndata/sst2.csv, row 3: It is empty."
    assert texts[2] == "cola-2\nreading the data …"


def test_models_and_recipes_are_no_data(page, tmp_path):
    (tmp_path / "config.json").touch()
    event = drop(
        page.show_tab(TasksTab), Path("/x/recipe.yaml"), Path("/x/a.safetensors"), tmp_path
    )
    assert not event.isAccepted()  # the window takes them


def test_what_is_guessed_of_a_task_can_be_said_otherwise(page, loaded, worker, qtbot):
    editor = page.show_tab(TasksTab).editor
    draft = loaded.session.draft
    add_described(loaded, worker, qtbot)

    def control(name: str) -> QWidget:
        return editor.form.fields[name].control

    assert control("kind").currentText() == "text-classification"
    roles = {"text": "sentence", "label": "label", "pair": "none"}
    assert {role: control(f"column of {role}").currentText() for role in roles} == roles
    texts = [label.text() for label in editor.findChildren(type(editor.fault))]
    assert "a good film" in texts
    assert "yes" in texts

    def choose(name: str, text: str) -> Task:
        control(name).setCurrentText(text)
        return draft.inputs.tasks[0]

    assert choose("metric", "f1").metric is Metric.F1
    assert choose("column of pair", "source").columns == {"pair": "source"}
    assert choose("column of pair", "none").columns == {"text": "sentence", "label": "label"}
    assert choose("expert", "sst2").expert == "sst2"
    control("limit").setValue(20)
    control("name").editingFinished.emit()
    assert draft.inputs.tasks[0].name is None, "the field was only left"
    control("name").setText("mood")
    control("name").editingFinished.emit()
    assert (draft.inputs.tasks[0].name, draft.inputs.tasks[0].limit) == ("mood", 20)
    editor.remove.click()
    assert draft.inputs.tasks == ()


def test_how_a_language_model_is_asked_can_be_chosen(page, loaded, worker, qtbot):
    editor = page.show_tab(TasksTab).editor
    draft = loaded.session.draft
    description = add_described(loaded, worker, qtbot)
    fields = editor.form.fields
    assert not {"prompt", "system", "chat"} & set(fields), "a class is not asked"
    for name, text in (("prompt", "Q: {text}"), ("system", "Be brief.")):
        kind = TaskKind.CAUSAL_LM
        editor.show_task(draft.inputs.tasks[0], replace(description, kind=kind), None, ())
        field = editor.form.fields[name].control
        field.setFocus()
        qtbot.keyClicks(field, text)
        assert draft.inputs.tasks[0].prompt != text, "only once it is written"
        field.clearFocus()
    editor.show_task(draft.inputs.tasks[0], replace(description, kind=kind), None, ())
    editor.form.fields["chat"].control.setCurrentText("never")
    task = draft.inputs.tasks[0]
    assert (task.prompt, task.system, task.chat) == ("Q: {text}", "Be brief.", Chat.OFF)


def test_tasks_outlive_a_plan_that_was_asked_for_before_them(loaded, worker):
    loaded.conductor.change(loaded.session.draft.inputs.with_method("linear"))
    loaded.scoring.add(DATA)
    load(worker, COLA, SST2)
    assert [task.title for task in loaded.session.draft.inputs.tasks] == ["cola", "sst2"]


def test_tasks_follow_the_name_of_their_expert(loaded):
    inputs = replace(loaded.session.draft.inputs, tasks=TASK_DATA)
    renamed = inputs.with_expert(1, replace(inputs.experts[1], name="mood"))
    assert [task.expert for task in renamed.tasks] == ["cola", "mood"]


def test_scores_are_asked_for_with_every_finished_merge_and_can_be_stopped(page, loaded, worker):
    tab = scores_place(page)
    assert not tab.no_scores.isVisible()
    tab.no_tasks.button.click()
    assert isinstance(page.tabs.current, TasksTab)
    page.tabs.current.findChild(QFileDialog).close()
    loaded.session.draft.set_tasks(TASK_DATA)
    tab = scores_place(page)
    store = merged(loaded, worker)
    tab.no_scores.button.click()
    number = worker.newest(EvaluateJob)
    assert worker.jobs[number].stores == (store,)
    assert worker.jobs[number].recipe.tasks == TASK_DATA
    worker.say(EvaluationProgress(model=str(store), task="cola", done=3, total=4), job=number)
    assert tab.evaluate.text() == "75 % · press to stop"
    tab.evaluate.click()
    assert number in worker.cancelled
    worker.say(JobCancelled(), job=number)
    assert tab.evaluate.text() == "Evaluate"


def test_what_waits_for_a_merge_says_so_and_what_does_not_works(page, loaded, worker, qtbot):
    store = Path(record_scores(loaded, worker))
    loaded.session.draft.set_parameter("tau", 0.7)
    scores = scores_place(page)
    tune = page.show_tab(TuneTab)
    worker.say(JobCancelled(), job=worker.newest(CompareExamplesJob))  # for the row of examples
    loaded.workspace.show_look()
    methods = loaded.workspace.comparison.methods
    buttons = {scores.evaluate: WHILE_MERGING, tune.button: WAIT, methods.start: WAIT}
    tooltips = {button: button.toolTip() for button in buttons}
    loaded.actions_.merge.trigger()
    merging = worker.newest(MergeJob)
    worker.say(started(), job=merging)
    tune.refresh()
    for button, why in buttons.items():
        assert not button.isEnabled()
        assert button.toolTip() == tooltip(why)
    examples = loaded.workspace.show_scores().show_tab(ExamplesTab)
    qtbot.waitUntil(lambda: bool(worker.jobs_of(CompareExamplesJob)))
    assert worker.jobs_of(CompareExamplesJob)[-1].store == store, "its answers are known"
    worker.say(JobCancelled(), job=worker.newest(CompareExamplesJob))
    assert not examples.compare_button.isEnabled()
    assert examples.compare_button.toolTip() == tooltip(WHILE_MERGING)
    loaded.workspace.show_space(Space.TRY)
    try_page = loaded.workspace.trying
    try_page.text.setPlainText("the cat")
    assert not try_page.button.isEnabled()
    assert try_page.button.toolTip() == tooltip(WAIT)
    try_page.try_example(ShownExample(row="row 7"), "cola")
    assert not worker.jobs_of(TryJob)
    worker.say(JobCancelled(), job=merging)
    tune.refresh()
    assert try_page.button.isEnabled()
    assert {button: button.toolTip() for button in buttons} == tooltips
    assert scores.evaluate.isEnabled()


def test_scores_that_are_known_are_shown_without_evaluating(page, loaded, worker, qtbot):
    lookups = partial(worker.jobs_of, KnownScoresJob)
    loaded.session.draft.set_tasks(TASK_DATA)
    qtbot.waitUntil(lambda: len(lookups()) == 1)
    assert lookups()[0].recipe.tasks == TASK_DATA
    scores = [task_score("base", task, 0.25, normalised=0.25) for task in ("cola", "sst2")]
    worker.say(*scores, JobDone(), job=worker.newest(KnownScoresJob))
    known_scores = loaded.session.results.scores
    assert known_scores.is_complete("base")
    loaded.session.draft.set_parameter("tau", 0.7)
    qtbot.wait(2 * DELAY)
    assert len(lookups()) == 1, "another merge's parameters are no other models"
    assert not worker.jobs_of(EvaluateJob)
    store = merged(loaded, worker)
    qtbot.waitUntil(lambda: lookups()[-1].stores == (store,))
    count = len(lookups())
    loaded.notice.hide()  # the news of the merge
    worker.say(JobFailed(error=EngineError("Broken.")), job=worker.newest(KnownScoresJob))
    assert not loaded.notice.isVisible(), "nobody asked for it"
    loaded.session.draft.changed.emit()
    qtbot.wait(2 * DELAY)
    assert len(lookups()) == count, "once"
    loaded.session.draft.set_tasks(TASK_DATA[:1])
    qtbot.waitUntil(lambda: lookups()[-1].recipe.tasks == TASK_DATA[:1])


def record_scores(window: MainWindow, worker: FakeWorker) -> str:
    """Base, experts and one merge on two tasks; the merge loses one of four examples of cola."""
    window.session.draft.set_tasks(TASK_DATA)
    store = merged(window, worker)
    window.scoring.evaluate()
    scores = [
        *(task_score("base", task, 0.25, normalised=0.25) for task in ("cola", "sst2")),
        *(task_score(task, task, 1.0, on_own_task=True) for task in ("cola", "sst2")),
        task_score(str(store), "cola", 0.75, normalised=0.75),
        task_score(str(store), "sst2", 1.0, normalised=1.0),
    ]
    job = worker.newest(EvaluateJob)
    worker.say(*scores, Evaluated(scores=tuple(scores)), JobDone(), job=job)
    return str(store)


def test_tab_leaves_the_scores_and_comes_back_to_them(page, loaded, worker, qtbot):
    record_scores(loaded, worker)
    scores = scores_place(page)
    method = loaded.workspace.method
    loaded.conductor.change(loaded.session.draft.inputs.with_method("ties"))  # another form
    loaded.notice.hide()  # the news of the merge
    reached = stops(loaded, qtbot)
    parts = (loaded.header, method, page.tabs.bar, scores, loaded.statusBar())
    inside = [
        [part is control or part.isAncestorOf(control) for control in reached] for part in parts
    ]
    assert all(map(any, inside)), "every part is reached"
    assert [flags.index(True) for flags in inside] == sorted(flags.index(True) for flags in inside)
    assert {field.control for field in method.parameters.fields.values()} <= set(reached)


def test_success_is_only_said_where_the_experts_are_better_than_the_base(page, loaded, worker):
    store = record_scores(loaded, worker)
    levels = (0.25, 0.5, 1.0)
    for base, expert, metric in itertools.product(levels, levels, ("accuracy", "perplexity")):
        scores = []
        for task in ("cola", "sst2"):
            scores.append(task_score("base", task, base, metric=metric, normalised=1.0))
            scores.append(task_score(task, task, expert, metric=metric, on_own_task=True))
            scores.append(task_score(store, task, expert, metric=metric, normalised=1.0))
        loaded.session.results.scores.record(scores)
        text = scores_place(page).title.text()
        better = expert < base if metric == "perplexity" else expert > base
        assert ("100 %" in text) is better, (base, expert, metric)
        assert ("no better than the base" in text) is not better


def test_a_model_that_is_being_tried_is_not_called_untried(page, loaded, worker):
    store = record_scores(loaded, worker)
    scores = loaded.session.results.scores._scores
    for key in [key for key in scores if key[0] == store]:
        del scores[key]
    tab = scores_place(page)
    assert "is not evaluated" in tab.title.text()
    loaded.scoring.evaluate()
    tab.refresh()
    assert "being evaluated" in tab.title.text()
    worker.say(JobCancelled(), job=worker.newest(EvaluateJob))
    tab.refresh()
    assert "is not evaluated" in tab.title.text()


def test_a_run_has_a_mean_once_all_tasks_are_known(page, loaded, worker):
    record_scores(loaded, worker)
    (run,) = loaded.session.results.runs.all
    assert mean_score(run) == 0.875
    for title in ("cola", "sst2"):
        assert mean_score(replace(run, accuracies={title: run.accuracies[title]})) is None
    assert mean_score(replace(run, accuracies={})) is None


def test_other_tasks_are_a_change_to_be_saved(page, loaded, tmp_path):
    project = loaded.project
    project.saved(tmp_path / "a.yaml")
    assert not loaded.isWindowModified()
    for change in (
        lambda: loaded.scoring.add(DATA[:1]),
        lambda: loaded.scoring.change(0, Task(data=DATA[0], expert="sst2")),
        lambda: loaded.scoring.remove(0),
    ):
        change()
        assert project.is_modified
        assert loaded.isWindowModified()
        project.saved(tmp_path / "a.yaml")
        assert not loaded.isWindowModified()
    loaded.scoring.add(DATA[:1])
    loaded.scoring.remove(0)
    assert not loaded.isWindowModified(), "as it was saved"


def test_names_of_close_scores_stay_near_their_points(qtbot):
    line = ScoreLine()
    qtbot.addWidget(line)
    line.resize(980, line.sizeHint().height())
    close = [Mark(f"ACE-Merging · τ 0.{n}", 0.8 + n / 500, is_chosen=n == 3) for n in range(8)]
    line.show_marks([Mark("base", 0.5), *close, Mark("experts", 0.9)])
    rects = line.labels()
    assert {0, 4, 8, 9} <= set(rects), "both ends, the chosen and the best merge"
    assert len(rects) < len(close), "as many as have room"
    ordered = [rects[index] for index in sorted(rects)]
    assert all(a.right() < b.left() for a, b in itertools.pairwise(ordered))
    assert all(rect.left() >= 0 and rect.right() <= line.width() for rect in ordered)
    marks = line.positions()
    assert rects[0].center().x() == pytest.approx(marks[0]), "it has room below its point"
    assert all(abs(rect.center().x() - marks[n]) < 180 for n, rect in rects.items())
    assert rects[4].center().x() < marks[4], "names are moved to both sides"
    assert rects[8].center().x() > marks[8]


def test_the_scores_of_a_merge_are_said_drawn_and_listed(page, loaded, worker):
    record_scores(loaded, worker)
    tab = scores_place(page)
    assert tab.title.text() == "ACE-Merging keeps 88 % of what the experts reach"
    assert tab.note.text() == "2 tasks, 8 examples in all; standard error of the mean: 0.071"
    assert tab.line.accessibleDescription() == "base 0.250, ACE-Merging 0.875, experts 1.000"
    model = tab.figures.model
    titles = [row.title for row in model.rows]
    assert titles == ["mean", "cola", "sst2"]
    texts = [[model.index(row, c).data() for c in (MERGE, KEPT, LOST, GAINED)] for row in (0, 1)]
    assert texts == [["0.875 ± 0.071", "88 %", "1", "0"], ["0.750 ± 0.100", "75 %", "1", "0"]]
    role = Qt.ItemDataRole.TextAlignmentRole
    header = Qt.Orientation.Horizontal
    for column in range(model.columnCount()):  # figures stand below their titles
        assert model.index(0, column).data(role) == model.headerData(column, header, role)
    columns = {column.title: column.values for column in tab.bars.columns()}
    assert np.asarray(columns["ACE-Merging"]).tolist() == [0.875, 0.75, 1.0]
    assert "cola: base 0.250 ± 0.100" in tab.bars.accessibleDescription()
    run = loaded.session.results.runs.all[0]
    assert run.accuracies == {"cola": 0.75, "sst2": 1.0}


def test_scores_that_came_in_another_workspace_are_shown_when_one_comes_back(
    page, loaded, worker, qtbot
):
    tab = scores_place(page)
    loaded.workspace.show_space(0)
    record_scores(loaded, worker)
    qtbot.wait(3 * REFRESH)
    assert not tab.title.text(), "drawn for nobody"
    loaded.workspace.show_scores()
    assert tab.title.text() == "ACE-Merging keeps 88 % of what the experts reach"


def test_two_models_are_tested_against_each_other_in_words(page, loaded, worker):
    record_scores(loaded, worker)
    card = scores_place(page).figures
    assert [card.first.itemText(n) for n in range(card.first.count())] == [
        "base",
        "ACE-Merging",
        "experts",
    ]
    assert card.test.text().startswith(
        "Of 8 examples, ACE-Merging alone is right on 0 and experts on 1."
    )
    card.first.choose("base")
    assert card.test.text().startswith("Of 8 examples, base alone is right on 0 and experts on 6.")
    card.second.choose("base")
    assert card.test.text() == "Choose two different models."


def test_scores_of_other_models_and_tasks_are_forgotten(page, loaded, worker):
    store = record_scores(loaded, worker)
    scores = loaded.session.results.scores
    assert scores.is_complete(store)
    loaded.scoring.change(0, replace(TASK_DATA[0], limit=10))
    assert list(scores.line(store)) == ["sst2"]
    assert not scores.is_complete(EXPERTS)
    loaded.conductor.change(loaded.session.draft.inputs.without_experts([0]))
    load(worker, SST2)
    assert scores.models == frozenset()


def test_chance_is_a_line_and_a_column_where_it_is_known(page, loaded, worker):
    store = record_scores(loaded, worker)
    tab = scores_place(page)
    assert "chance" not in tab.bars.items
    assert "Chance" not in tab.figures.note.text()
    scores = loaded.session.results.scores
    scores.describe(described(TASK_DATA[0], chance=0.25))
    tab.refresh()
    x, y = tab.bars.items["chance"].getOriginalDataset()
    drawn = np.isfinite(y)
    assert set(y[drawn]) == {0.25}
    assert set(np.round(x[drawn])) == {1}, "not for the mean, as chance is not known of all tasks"
    rows = {row.title: row for row in figures_of(scores, store)}
    assert rows["cola"].chance == 0.25
    assert math.isnan(rows["mean"].chance)
    assert tab.figures.note.text().endswith("Chance: cola 0.250.")
    column = [column for column in tab.figures.model.exported() if column.title == "chance"]
    assert list(column[0].values)[1] == 0.25


def test_perplexities_are_drawn_as_shares_of_the_experts(page, loaded):
    loaded.session.draft.set_tasks(TASK_DATA)
    scores = loaded.session.results.scores
    scores.record(
        [
            task_score("base", "cola", 0.5, normalised=0.5),
            task_score("cola", "cola", 1.0, on_own_task=True),
            task_score("base", "sst2", 30.0, normalised=0.5, metric="perplexity"),
            task_score("sst2", "sst2", 15.0, on_own_task=True, metric="perplexity"),
        ]
    )
    tab = scores_place(page)
    assert tab.bars.title.full_text == "Share of the expert's score by task"
    assert "cola: base 0.500, expert 1.000" in tab.bars.accessibleDescription()
    rows = figures_of(scores, "base")
    assert rows[0].kept == rows[0].base_kept == 0.5
    assert math.isnan(rows[0].base.value)  # no mean of more and of less is better


# Examples


def compared(task: str, *, reference: str, **counts: int) -> ExamplesCompared:
    by_verdict = {verdict: counts.get(verdict.name.lower(), 0) for verdict in AnswerVerdict}
    listed = {
        verdict: tuple(
            ComparedExample(
                example=ShownExample(
                    row=f"row {n}", texts=(("text", f"{verdict.name} {n} of {task}"),), label="yes"
                ),
                answer="no" if verdict is not AnswerVerdict.GAINED else "yes",
                other="yes" if verdict is AnswerVerdict.LOST else "no",
            )
            for n in range(min(count, 3))
        )
        for verdict, count in by_verdict.items()
        if verdict is not AnswerVerdict.BOTH_RIGHT
    }
    return ExamplesCompared(
        task=task,
        kind=TaskKind.TEXT_CLASSIFICATION,
        metric=Metric.ACCURACY,
        model="merged",
        other=reference,
        counts=by_verdict,
        examples=listed,
    )


def test_examples_lost_and_gained_are_listed_and_filtered(page, loaded, worker, qtbot):
    store = record_scores(loaded, worker)
    tab = page.show_tab(ExamplesTab)
    qtbot.waitUntil(tab.isVisible)
    tab.refresh()
    number = worker.newest(CompareExamplesJob)  # answers are remembered: asked for at once
    assert (worker.jobs[number].store, worker.jobs[number].with_base) == (Path(store), False)
    worker.say(
        compared("cola", reference="cola", lost=5, gained=1),
        compared("sst2", reference="sst2", lost=1, both_wrong=2),
        JobDone(),
        job=number,
    )
    titles = [button.text() for button in tab.verdict.findChildren(QPushButton)]
    assert titles == ["Lost 6", "Gained 1", "Both wrong 2"]
    assert tab.note.text().startswith("The first 4 of 6 are shown.")
    first = tab.list.rows.index(0, 0)
    assert first.data(Qt.ItemDataRole.AccessibleTextRole) == (
        "cola, row 0: LOST 0 of cola. should be yes; the merge answers no, cola yes"
    )
    assert tab.detail.answers.text() == "should be: yes\nmerge: no\ncola: yes"
    tab.task.choose("sst2")
    assert [example.task for example in tab.list.examples] == ["sst2"]
    tab.verdict.findChildren(QPushButton)[1].click()
    assert tab.list.rows.rowCount() == 0
    tab.task.choose("")
    assert [example.comparison.answer for example in tab.list.examples] == ["yes"]
    tab.against.findChildren(QPushButton)[1].click()
    against_base = worker.newest(CompareExamplesJob)
    assert worker.jobs[against_base].with_base
    worker.say(compared("cola", reference="base", gained=2), JobDone(), job=against_base)
    assert "base no" in tab.list.rows.index(0, 0).data()
    assert number != against_base


def test_some_examples_of_each_task_stand_below_the_scores(page, loaded, worker, qtbot):
    store = record_scores(loaded, worker)
    strip = scores_place(page).examples
    lost, gained = strip.rows.values()
    assert lost.isHidden()
    loaded.resize(1440, 1000)
    # without a click: the answers are known
    qtbot.waitUntil(lambda: bool(worker.jobs_of(CompareExamplesJob)))
    number = worker.newest(CompareExamplesJob)
    assert (worker.jobs[number].store, worker.jobs[number].with_base) == (Path(store), False)
    worker.say(
        compared("cola", reference="cola", lost=5, gained=1),
        compared("sst2", reference="sst2", lost=1),
        JobDone(),
        job=number,
    )
    qtbot.waitUntil(lambda: not lost.isHidden())
    assert lost.title.text().startswith("Lost 6")
    assert gained.title.text().startswith("Gained 1")
    assert [example.task for example in lost.list.examples] == ["cola", "sst2"]
    assert [example.comparison.answer for example in gained.list.examples] == ["yes"]
    assert lost.heads.isHidden(), "rows of text name their task themselves"
    strip.all.click()
    assert isinstance(page.tabs.current, ExamplesTab)


def test_pictures_below_the_scores_stand_under_their_task_and_its_count(loaded, qtbot):
    picture = np.zeros((4, 4, 3), np.uint8)
    by_task = {}
    for task, count in (("cola", 5), ("sst2", 1)):
        comparison = compared(task, reference=task, lost=count)
        lost = (
            replace(listed, example=replace(listed.example, picture=picture))
            for listed in comparison.examples[AnswerVerdict.LOST]
        )
        by_task[task] = replace(
            comparison, examples={**comparison.examples, AnswerVerdict.LOST: tuple(lost)}
        )
    strip = ExamplesStrip(loaded.session, loaded.scoring)
    qtbot.addWidget(strip)
    strip.resize(900, 400)
    row = strip.rows[AnswerVerdict.LOST]
    row.show_examples(
        listed_examples(loaded.session, by_task.values(), AnswerVerdict.LOST), by_task
    )
    assert not row.heads.isHidden()
    assert row.heads.accessibleName() == "cola 5, sst2 1"


def test_examples_of_models_that_were_not_tried_are_asked_for_by_hand(page, loaded, worker, qtbot):
    tab = page.show_tab(ExamplesTab)
    assert not tab.compare_button.isEnabled()
    assert "Add a task first." in tab.compare_button.toolTip()
    loaded.session.draft.set_tasks(TASK_DATA)
    store = merged(loaded, worker)
    assert not worker.jobs_of(CompareExamplesJob)
    tab.compare_button.click()
    number = worker.newest(CompareExamplesJob)
    assert worker.jobs[number].store == store
    worker.say(compared("cola", reference="cola", lost=1), JobDone(), job=number)
    assert tab.list.rows.rowCount() == 1
    loaded.scoring.remove(0)  # answers to other tasks are no longer these
    assert not loaded.session.results.scores.examples(store, with_base=False)
