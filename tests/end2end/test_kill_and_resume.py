"""A merge that is killed at any moment leaves nothing that looks complete, and resumes exactly."""

import random
import signal
import time
from dataclasses import replace
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.output import adapter_writing, exporting
from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.errors import OutputError
from ace_gui.output_files import staging_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import Output
from tests.helpers.merges import files
from tests.helpers.models import roberta_family
from tests.helpers.recipes import recipe_of


def merge_to(recipe: Recipe, out: Path, resume: bool) -> None:
    """What ``ace-gui merge`` does, in a child of a process that has everything imported."""
    from ace_gui.checkpoints.staging import claimed
    from ace_gui.engine.merging.merge import merge
    from ace_gui.engine.output.exporting import publish
    from ace_gui.engine.planning.prepare import prepare
    from ace_gui.output_files import staging_folder

    store = staging_folder(out)
    with claimed(out):
        for _ in merge(prepare(recipe), store, device="cpu", resume=resume, as_output=True):
            pass
        publish(store, out)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    return recipe_of(roberta_family(tmp_path_factory.mktemp("family")))


def run(
    context: ForkServerContext,
    recipe: Recipe,
    out: Path,
    *,
    resume: bool = False,
    kill_after: float | None = None,
) -> float:
    """Seconds that a merge took; it is killed after ``kill_after``."""
    started = time.monotonic()
    process = context.Process(target=merge_to, args=(recipe, out, resume))
    process.start()
    process.join(kill_after)
    if process.exitcode is None:
        process.kill()
        process.join()
    assert process.exitcode in {0, -signal.SIGKILL}
    process.close()
    return time.monotonic() - started


def kill_and_resume(context: ForkServerContext, recipe: Recipe, folder: Path, times: int) -> int:
    """How many of the kills came before the merge was done; every one is checked."""
    uninterrupted = folder / "whole" / "out"
    uninterrupted.parent.mkdir()
    run(context, recipe, uninterrupted)
    expected = files(uninterrupted)
    seconds = run(context, recipe, folder / "timed")  # the first one also warms up
    moments = random.Random(0)
    killed = 0
    for number in range(times):
        attempt_folder = folder / str(number)
        attempt_folder.mkdir()
        out = attempt_folder / "out"
        run(context, recipe, out, kill_after=moments.uniform(0, seconds))
        resumes = not out.exists()
        if resumes:
            killed += 1
            run(context, recipe, out, resume=True)
        assert files(out) == expected
        leftovers = [path for path in attempt_folder.iterdir() if path != out]
        # Killed after the model was renamed: the journal beside it goes with the next try.
        assert not leftovers or not resumes
        assert not any((path / MODEL).exists() for path in leftovers)
    return killed


def test_a_few_kills(context: ForkServerContext, recipe: Recipe, tmp_path: Path) -> None:
    assert kill_and_resume(context, recipe, tmp_path, 4) >= 1


def merge_again(recipe: Recipe, folder: Path) -> None:
    for _ in merge_to_folder(recipe, folder, Options(device="cpu", resume=True)):
        pass


@pytest.mark.parametrize("output", ["model", "adapter"])
def test_what_a_kill_leaves_beside_a_result_goes_with_the_next_try(
    output: str, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    rank = 2 if output == "adapter" else None
    written = replace(recipe, output=Output(output), rank=rank)
    with monkeypatch.context() as patches:  # the kill comes before the store is removed
        patches.setattr(exporting, "discard", lambda store: None)
        patches.setattr(adapter_writing, "discard", lambda store: None)
        merge_again(written, folder)
    store = staging_folder(folder)
    published = files(folder)
    assert store.exists()
    with pytest.raises(OutputError, match="already complete"):
        merge_again(written, folder)
    assert not store.exists()
    assert files(folder) == published
    with pytest.raises(OutputError, match="not empty"):
        merge_again(written, folder)


def test_a_store_with_a_result_in_it_stays(recipe: Recipe, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    events = merge_to_folder(recipe, folder, Options(device="cpu"))
    for _ in zip(range(3), events, strict=False):
        pass
    events.close()
    folder.mkdir()
    (folder / "notes.txt").touch()
    with pytest.raises(OutputError, match="not empty"):
        merge_again(recipe, folder)
    assert (staging_folder(folder) / MODEL).is_dir()


@pytest.mark.long
def test_two_hundred_kills(context: ForkServerContext, recipe: Recipe, tmp_path: Path) -> None:
    assert kill_and_resume(context, recipe, tmp_path, 200) >= 100
