"""One text or picture tried on base, expert and merge, against the models asked directly."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from ace_gui.engine.contract.events import Job
from ace_gui.engine.contract.jobs import MakeReadyJob, MergeJob, TryJob
from ace_gui.engine.contract.tried import Tried, TriedBegun, TriedText
from ace_gui.engine.evaluating import kept_models
from ace_gui.engine.inspecting.compare_recipes import by_method
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.runner import Runner
from ace_gui.engine.service import NEEDS_MEMORY, safe_steps
from ace_gui.errors import TaskError
from ace_gui.paths import Sample
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.values import Task, TaskKind
from tests.helpers.scored_models import save_bert, save_gpt2


@pytest.fixture(scope="module")
def writers(tmp_path_factory) -> Recipe:
    """Two small language models, base and expert, of one family."""
    folder = tmp_path_factory.mktemp("writers")
    save_gpt2(folder / "base", seed=0)
    save_gpt2(folder / "expert", seed=1)
    return Recipe(
        base_model=folder / "base",
        models=(ModelEntry(model=folder / "expert"),),
        merge_method="linear",
    )


WRITING = Task(data=Path("expert"), name="expert", expert="expert")


def said(job: TryJob) -> dict[str, str]:
    """What each model wrote."""
    texts: dict[str, str] = {}
    for event in steps_of(job, Runner()):
        if isinstance(event, TriedText):
            texts[event.model] = texts.get(event.model, "") + event.piece
    return texts


def test_text_is_written_as_generate_writes_it(writers: Recipe):
    job = TryJob(recipe=writers, task=WRITING, text="the cat", most_tokens=8, device="cpu")
    texts = said(job)
    assert set(texts) == {"base", "expert"}
    for name, folder in (("base", writers.base_model), ("expert", writers.models[0].model)):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
        encoded = tokenizer("the cat", return_tensors="pt")
        written = model.generate(**encoded, max_new_tokens=8, do_sample=False, pad_token_id=3)
        expected = tokenizer.decode(written[0, 2:], skip_special_tokens=True)
        assert texts[name] == expected


def test_the_same_seed_draws_the_same_words(writers: Recipe):
    job = TryJob(
        recipe=writers, task=WRITING, text="the cat", temperature=1.5, seed=3, device="cpu"
    )
    first = said(job)
    assert said(job) == first
    assert any(said(replace(job, seed=seed)) != first for seed in (4, 5, 6))


def test_it_streams_and_stops_where_nobody_reads_on(writers: Recipe):
    job = TryJob(recipe=writers, task=WRITING, text="the", most_tokens=5000, device="cpu")
    events = steps_of(job, Runner())
    first = next(event for event in events if isinstance(event, TriedText))
    assert first.model == "base"
    started = time.monotonic()
    events.close()
    assert time.monotonic() - started < 30
    import threading

    assert not [thread for thread in threading.enumerate() if thread.name.startswith("writing")]


def test_an_example_has_the_shares_that_the_models_give(tmp_path):
    (recipe,) = by_method(load_recipe(Sample.IMAGES.recipe), ["linear"])
    task = recipe.tasks[0]
    store = tmp_path / "store"
    runner = Runner()
    list(steps_of(MergeJob(recipe=recipe, store=store), runner))
    row = "row 1"
    events = list(steps_of(TryJob(recipe=recipe, task=task, row=row, stores=(store,)), runner))
    names = [str(store), "base", "digits"]  # the merge is what one wants to see
    assert [event.model for event in events if isinstance(event, TriedBegun)] == names
    by_model = {event.model: event for event in events if isinstance(event, Tried)}
    assert [event.error for event in by_model.values()] == ["", "", ""]
    with np.load(task.data) as data:
        pixels = data["digits_images"][0]
    folder = recipe.models[0].model
    model = transformers.ViTForImageClassification.from_pretrained(folder).float().eval()
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    with torch.no_grad():
        inputs = processor(images=[Image.fromarray(pixels)], return_tensors="pt")
        logits = model(**inputs).logits[0].double()
    indices = [model.config.label2id[label] for label in task.labels]
    shares = logits[indices].softmax(dim=0)
    best = int(shares.argmax())
    label, share = by_model["digits"].shares[0]
    assert label == task.labels[best].removeprefix("digits/")
    assert share == pytest.approx(float(shares[best]), abs=1e-5)
    assert sum(share for _, share in by_model["base"].shares) == pytest.approx(1)


def test_a_text_and_a_picture_can_be_given(tmp_path):
    recipe = load_recipe(Sample.IMAGES.recipe)
    picture = tmp_path / "a.png"
    Image.fromarray(np.full((40, 30, 3), 200, np.uint8)).save(picture)
    task = recipe.tasks[1]
    events = steps_of(TryJob(recipe=recipe, task=task, picture=picture), Runner())
    answers = [event for event in events if isinstance(event, Tried)]
    assert [answer.model for answer in answers] == ["base", "shapes"]
    assert len(answers[0].shares) == 6
    with pytest.raises(TaskError, match="needs a picture"):
        list(steps_of(TryJob(recipe=recipe, task=task, text="a disc"), Runner()))

    for name, labels in (("base", ("no", "yes")), ("mood", ("no", "yes"))):
        save_bert(
            tmp_path / name,
            "SequenceClassification",
            seed=len(name),
            id2label=dict(enumerate(labels)),
        )
    models = (ModelEntry(model=tmp_path / "mood"),)
    texts = Recipe(base_model=tmp_path / "base", models=models, merge_method="linear")
    task = Task(data=Path("mood"), name="mood")
    events = steps_of(TryJob(recipe=texts, task=task, text="the cat sat"), Runner())
    answers = [event for event in events if isinstance(event, Tried)]
    assert [sorted(label for label, _ in answer.shares) for answer in answers] == [
        ["no", "yes"]
    ] * 2


def test_what_one_model_cannot_do_is_said_of_it_alone(tmp_path):
    save_bert(tmp_path / "base", "MaskedLM")
    save_bert(tmp_path / "mood", "SequenceClassification", id2label={0: "no", 1: "yes"})
    models = (ModelEntry(model=tmp_path / "mood"),)
    recipe = Recipe(base_model=tmp_path / "base", models=models, merge_method="linear")
    task = Task(data=Path("mood"), name="mood", kind=TaskKind.TEXT_CLASSIFICATION)
    job = TryJob(recipe=recipe, task=task, text="a dog", stores=(tmp_path / "gone",))
    by_model = {event.model: event for event in steps_of(job, Runner()) if isinstance(event, Tried)}
    assert by_model["base"].shares  # with the expert's head
    assert by_model["mood"].shares
    assert by_model[str(tmp_path / "gone")].error


def ready(job: TryJob, runner: Runner) -> None:
    list(steps_of(MakeReadyJob(**vars(job)), runner))


def test_models_made_ready_are_asked_without_loading_them(writers: Recipe, monkeypatch):
    job = TryJob(recipe=writers, task=WRITING, text="the cat", most_tokens=4, device="cpu")
    expected = said(job)
    runner = Runner()
    ready(job, runner)
    assert len(runner.asked_models) == 2
    monkeypatch.setattr(kept_models, "load", None)  # any call would fail
    texts: dict[str, str] = {}
    for event in steps_of(job, runner):
        if isinstance(event, TriedText):
            texts[event.model] = texts.get(event.model, "") + event.piece
    assert texts == expected


def test_a_model_whose_files_changed_is_loaded_again(writers: Recipe, tmp_path):
    shutil.copytree(writers.base_model, tmp_path / "base")
    changed = replace(writers, base_model=tmp_path / "base")
    job = TryJob(recipe=changed, task=WRITING, text="the cat", most_tokens=4, device="cpu")
    runner = Runner()
    ready(job, runner)
    before = list(runner.asked_models._kept)
    save_gpt2(tmp_path / "base", seed=5)
    list(steps_of(job, runner))
    models = [entry.model for entry in runner.asked_models._kept]
    assert before[0].model not in models


def test_without_room_the_model_used_longest_ago_goes(writers: Recipe, monkeypatch):
    monkeypatch.setattr(kept_models, "free_bytes", lambda _: 0)
    job = TryJob(recipe=writers, task=WRITING, text="the cat", most_tokens=4, device="cpu")
    runner = Runner()
    ready(job, runner)
    assert len(runner.asked_models) == 1
    assert set(said(job)) == {"base", "expert"}


@pytest.mark.parametrize("state", sorted(NEEDS_MEMORY))
def test_work_that_needs_memory_drops_them(writers: Recipe, state):
    class Work(Job, state=state):
        """Fails at once: nothing runs it."""

    job = TryJob(recipe=writers, task=WRITING, text="the cat", most_tokens=4, device="cpu")
    runner = Runner()
    ready(job, runner)
    list(safe_steps(Work(), runner))
    assert not len(runner.asked_models)
