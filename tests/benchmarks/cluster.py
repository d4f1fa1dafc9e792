"""Merging by several processes: ``python -m tests.benchmarks.cluster [--OPTION]``.

On a GPT-2 set that it makes itself: one process of two threads against two workers of one thread,
and what a unit costs beside its reading, computing and writing. ``--predict``: the predicted time
against the measured one, by method (all that need no data).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ace_gui.engine.cluster.estimates import planned_units, schedule
from ace_gui.engine.cluster.ray_workers import RayWorkers, workers_at
from ace_gui.engine.cluster.trials import measured_speed
from ace_gui.engine.contract.plan import bytes_in_output
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.planning.prepare import prepare
from ace_gui.methods import METHODS, checked_parameters
from ace_gui.recipe import Recipe
from tests.benchmarks.checkpoints import gpt2_set
from tests.benchmarks.measuring import say
from tests.helpers.recipes import file_over, recipe_over

TIMED = """
import json, sys, time
import psutil
from pathlib import Path
from ace_gui.engine import workflow
from ace_gui.engine.cluster import ray_workers
from ace_gui.engine.contract.events import MergeStarted, MergeFinished
from ace_gui.recipe.recipe_file import load_recipe

def processor_seconds():
    own = psutil.Process()
    found = 0.0
    for each in [own, *own.children(recursive=True)]:
        try:
            found += sum(each.cpu_times()[:2])
        except psutil.Error:
            pass
    return found

def now():
    return time.monotonic(), processor_seconds()

units, marks = [], {}
results, welcome = ray_workers.RayWorkers.results, ray_workers.RayWorkers._check
def noted(self, calls, **more):
    for found in results(self, calls, **more):
        if found is not None:
            units.append(found[1].seconds)
        yield found
def welcomed(self, kind):
    welcome(self, kind)
    marks["ready"] = now()  # the last one counts
ray_workers.RayWorkers.results, ray_workers.RayWorkers._check = noted, welcomed
options = workflow.Options(device="cpu", threads=int(sys.argv[3]), cluster=sys.argv[4])
for event in workflow.merge_to_folder(load_recipe(Path(sys.argv[1])), Path(sys.argv[2]), options):
    if isinstance(event, MergeStarted):
        started = now()
    if isinstance(event, MergeFinished):
        ended = now()
        ready = marks.get("ready", started)
        print(json.dumps({
            "start": ready[0] - started[0],
            "seconds": ended[0] - ready[0],
            "processor": ended[1] - ready[1],
            "units": units,
        }))
"""
"""Prints seconds of wall and of processor time (this process and all that it started), from when
the workers are ready; before that, how long starting the cluster and them took."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experts", type=int, default=7)
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--methods", nargs="*", default=(), help="of --predict")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.predict:
            predictions(Path(folder), options.experts, options.methods)
        else:
            compared(Path(folder), options.experts)


def compared(folder: Path, experts: int) -> None:
    base, tuned = gpt2_set(folder / "models", experts)
    recipe = file_over(folder, base, tuned, merge_method="ace")
    say("                          wall   processor")
    figures = {}
    for title, threads, cluster in (
        ("one process, 2 threads", 2, ""),
        ("two workers", 1, "local:2"),
        ("one process, 1 thread", 1, ""),
    ):
        figures[title] = timed(recipe, folder / title, threads, cluster)
        seconds = figures[title]["seconds"]
        processor = figures[title]["processor"]
        say(f"{title:22} {seconds:6.1f} s {processor:6.1f} s")
    one_worker, two_workers, alone = figures.values()
    units = two_workers["units"]
    wall, processor = (one_worker[key] / two_workers[key] for key in ("seconds", "processor"))
    say(f"speed of two workers by that of one process: {wall:.2f} ({processor:.2f} processor time)")
    say(f"before that, until the workers are there: {two_workers['start']:.1f} s")
    more = (two_workers["processor"] - alone["processor"]) / len(units)
    waited = (2 * two_workers["seconds"] - sum(units)) / len(units)
    say(
        f"{len(units)} units; beside reading, computing and writing {1000 * waited:.0f} ms each, "
        f"{1000 * more:.0f} ms of processor time"
    )


def data_free(experts: int) -> list[str]:
    """Methods that need nothing but the models, leave nothing beside the merged one, and merge so
    many experts."""
    return [
        method.name
        for method in METHODS.values()
        if method.modules is None
        and method.need(checked_parameters(method, {})) is None
        and method.least <= experts <= (method.most or experts)
    ]


def predictions(folder: Path, experts: int, methods: Sequence[str]) -> None:
    """What the plan says of two workers that are there, and how long they take."""
    base, tuned = gpt2_set(folder / "models", experts)
    say(f"GPT-2 x {experts}")
    say("method              predicted  measured           trials")
    with workers_at("local:2", "cpu", 1) as workers:
        assert workers is not None
        for method in methods or data_free(experts):
            recipe = recipe_over(base, tuned, merge_method=method)
            prepared = prepare(recipe)
            workers.begin(prepared)
            for _ in workers.map_unordered(
                os.getpid, [(), ()], ["", ""]
            ):  # till they have opened it
                pass
            started = time.monotonic()
            speed = measured_speed(prepared, workers)
            written = bytes_in_output(prepared.plan.rows, None)
            reported = schedule(planned_units(prepared, speed), 2, written, speed).seconds
            tried = time.monotonic() - started
            started = time.monotonic()
            merged(recipe, folder / method, workers)
            took = time.monotonic() - started
            share = 100 * (reported / took - 1)
            say(f"{method:18} {reported:8.1f} s {took:8.1f} s {share:+6.0f} % {tried:8.1f} s")
            shutil.rmtree(folder / method)


def timed(recipe: Path, out: Path, threads: int, cluster: str) -> dict:
    command = [sys.executable, "-c", TIMED, str(recipe), str(out), str(threads), cluster]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def merged(recipe: Recipe, store: Path, workers: RayWorkers) -> None:
    """Merge to the end."""
    for _ in merge(prepare(recipe), store, device="cpu", workers=workers):
        pass


if __name__ == "__main__":
    main()
