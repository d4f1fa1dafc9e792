"""Two processes that want the same place: one makes it whole, the other is told in one sentence."""

import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
import torch

from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.pickle_conversion import find_converted
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.planning.prepare import prepare
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe
from tests.helpers.checkpoints import save_model
from tests.helpers.merges import files
from tests.helpers.racing import DONE, KILLED, TimedAction, Worker
from tests.helpers.recipes import recipe_over

TOLD = ("Another merge or export", "is not empty", "cannot be continued")
"""What the slower one reads; the last where it would resume what a killed one left."""


@pytest.fixture
def workers(context: ForkServerContext) -> Iterator[tuple[Worker, Worker]]:
    pair = Worker(context), Worker(context)
    yield pair
    for worker in pair:
        worker.close()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base, three experts, one of them pickled too, and two recipes that differ everywhere."""
    folder = tmp_path_factory.mktemp("models") / "all" / "of" / "them"
    generator = torch.Generator().manual_seed(0)
    base = {f"layers.{n}.mlp.weight": torch.randn(40, 40, generator=generator) for n in range(30)}
    paths = [save_model(folder / "base", base)]
    for name in ("one", "two", "three"):
        tuned = {n: t + 0.1 * torch.randn(t.shape, generator=generator) for n, t in base.items()}
        paths.append(save_model(folder / name, tuned))
    torch.save(tuned, folder / "pickle.bin")
    for name, experts in (("first", paths[1:3]), ("second", paths[2:])):
        text = dump_recipe(recipe_over(paths[0], experts), folder)
        (folder / f"{name}.yaml").write_text(text)
    return folder


@dataclass
class Races:
    """Two workers that do the same to two things into one place, one a thing."""

    workers: tuple[Worker, Worker]
    """Processes that begin at a moment of the system's clock."""
    action: str
    """What they do, as in ``TimedAction``."""
    folder: Path
    """Where every race has a folder of its own."""
    things: tuple[Path, Path]
    """The recipes or stores that they do it to, one for each worker."""
    moments: random.Random = field(default_factory=lambda: random.Random(0))
    """Draws how long after the moment each begins, and whom to kill when."""
    expected: dict[Path, dict[str, bytes]] = field(default_factory=dict)
    """What comes of each thing when nobody is in its way: files by their names."""
    reported: int = 0
    """How often a worker was told that it cannot be done."""
    seconds: float = 0.0
    """What one takes alone."""

    def run(self, count: int) -> None:
        for number, (worker, thing) in enumerate((w, t) for t in self.things for w in self.workers):
            self.alone(worker, thing, self.made(f"alone-{number}"))
        for number in range(count):
            path = self.made(str(number))
            self.race(path)
            shutil.rmtree(path)

    def made(self, name: str) -> Path:
        """As deep in the tree every time: recipes have relative paths."""
        (self.folder / name).mkdir(parents=True)
        return self.folder / name

    def alone(self, worker: Worker, thing: Path, path: Path) -> None:
        started = time.monotonic()
        worker.begin(TimedAction(self.action, thing, path / "out"))
        assert worker.end() == DONE
        self.seconds = time.monotonic() - started
        contents = files(path / "out")
        assert contents
        assert self.expected.setdefault(thing, contents) == contents

    def race(self, path: Path) -> None:
        """Begin both, kill one of them now and then, and look at what there is."""
        moment = time.monotonic() + 0.01
        out = path / "out"
        for worker, thing in zip(self.workers, self.things, strict=True):
            delay = self.moments.uniform(0, self.seconds)
            resume = self.moments.random() < 0.5
            worker.begin(TimedAction(self.action, thing, out, resume, moment + delay))
        if self.moments.random() < 0.3:
            time.sleep(self.moments.uniform(0, 2 * self.seconds))
            self.moments.choice(self.workers).kill()
        ends = [worker.end() for worker in self.workers]
        assert all("\n" not in end for end in ends), ends[0] + ends[1]
        self.judge(out, ends)

    def judge(self, out: Path, ends: list[str]) -> None:
        losers = [end for end in ends if end not in {DONE, KILLED}]
        assert all(any(what in end for what in TOLD) for end in losers), ends
        self.reported += len(losers)
        assert ends.count(DONE) + ends.count(KILLED) >= 1, ends
        if DONE in ends:
            assert ends.count(DONE) == 1
            assert files(out) == self.expected[self.things[ends.index(DONE)]]
        elif out.exists():  # killed before it could say so
            assert files(out) in self.expected.values()
        else:  # nothing that a killed one left stands in the way
            self.workers[0].begin(TimedAction(self.action, self.things[0], out))
            assert self.workers[0].end() == DONE
            assert files(out) == self.expected[self.things[0]]
        if KILLED not in ends:
            assert [path.name for path in out.parent.iterdir()] == ["out"]


Both = tuple[Worker, Worker]


def merges(workers: Both, models: Path, folder: Path, count: int) -> int:
    things = models / "first.yaml", models / "second.yaml"
    races = Races(workers, "merging", folder / "a" / "b", things)
    races.run(count)
    return races.reported


def test_a_few_pairs_of_merges(workers: Both, models: Path, tmp_path: Path) -> None:
    assert merges(workers, models, tmp_path, 10) >= 5


@pytest.mark.long
def test_two_hundred_pairs_of_merges(workers: Both, models: Path, tmp_path: Path) -> None:
    assert merges(workers, models, tmp_path, 200) >= 120


def exports(workers: Both, models: Path, folder: Path, count: int) -> int:
    stores = tuple(folder / name for name in ("first", "second"))
    for store in stores:
        prepared = prepare(load_recipe(models / f"{store.name}.yaml"))
        list(merge(prepared, store, device="cpu"))
    races = Races(workers, "exporting", folder / "a" / "b", (stores[0], stores[1]))
    races.run(count)
    return races.reported


def test_a_few_pairs_of_exports(workers: Both, models: Path, tmp_path: Path) -> None:
    assert exports(workers, models, tmp_path, 4) >= 2


@pytest.mark.long
def test_a_hundred_pairs_of_exports(workers: Both, models: Path, tmp_path: Path) -> None:
    assert exports(workers, models, tmp_path, 100) >= 60


def conversions(workers: Both, models: Path, folder: Path, count: int) -> None:
    """The second waits for the first and uses what that made."""
    pickle = models / "pickle.bin"
    moments = random.Random(0)
    tensors = torch.load(pickle, weights_only=True)
    for number in range(count):
        cache = folder / str(number)
        for worker in workers:
            worker.begin(TimedAction("converting", pickle, cache, moment=time.monotonic() + 0.02))
        killed = moments.random() < 0.3
        if killed:
            time.sleep(moments.uniform(0.02, 0.08))
            workers[number % 2].kill()
        ends = [worker.end() for worker in workers]
        assert ends[1 - number % 2] == DONE
        assert ends[number % 2] in {DONE, KILLED} if killed else DONE
        converted = find_converted(pickle, cache)
        assert converted is not None
        assert [path.name for path in converted.parent.iterdir()] == [converted.name] or killed
        with TensorReader(open_checkpoint(converted)) as reader:
            assert all(torch.equal(reader.read(name), tensors[name]) for name in tensors)


def test_a_few_pairs_of_conversions(workers: Both, models: Path, tmp_path: Path) -> None:
    conversions(workers, models, tmp_path, 4)


@pytest.mark.long
def test_a_hundred_pairs_of_conversions(workers: Both, models: Path, tmp_path: Path) -> None:
    conversions(workers, models, tmp_path, 100)
