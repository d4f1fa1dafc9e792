"""What befalls a real Ray cluster of this machine, in a process of its own, as Ray leaves threads.

``python -m tests.helpers.cluster_faults FOLDER`` prints what came of each fault, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import torch

from ace_gui.engine.cluster import worker
from ace_gui.engine.cluster.ray_workers import RayWorkers, workers_at
from ace_gui.engine.contract.events import MergeStarted, TensorFinished
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import ClusterError
from ace_gui.recipe import Recipe
from tests.helpers.models import gpt2_family
from tests.helpers.recipes import recipe_of

DOOMED = "transformer.h.1.mlp.c_fc.weight"


def doom(name: str) -> None:
    """In a worker: from now on, be killed over a tensor."""
    original = worker.merge_unit

    def merge_or_die(unit, *arguments):
        if any(row.name == name for row in unit):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(unit, *arguments)

    worker.merge_unit = merge_or_die


def starve() -> None:
    """In a worker: have no more memory than now."""
    now = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (now, now))


def merged(
    recipe: Recipe,
    store: Path,
    workers: RayWorkers | None,
    *,
    after_first: Callable[[], object] = lambda: None,
    resume: bool = False,
) -> str:
    """A digest of what is merged; of a merge that stops, its sentence."""
    fresh = True
    events = merge(prepare(recipe), store, device="cpu", workers=workers, resume=resume)
    try:
        for event in events:
            if fresh and isinstance(event, TensorFinished):
                fresh = False
                after_first()
    except ClusterError as error:
        return error.sentence
    return hashlib.sha256((store / MODEL / "model.safetensors").read_bytes()).hexdigest()


def stop_workers() -> None:
    """Have every worker stop, as a person does with Ctrl+Z."""
    for process in psutil.Process().children(recursive=True):
        if worker.WORKER_TITLE in (process.cmdline() or [""])[0]:
            process.suspend()


def main() -> None:
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    recipe = recipe_of(gpt2_family(folder / "family"))
    report = {"alone": merged(recipe, folder / "alone", None)}
    report["cancelled"] = cancelled(recipe, folder / "cancelled")
    with workers_at("local:2", "cpu", 1) as workers:
        assert workers is not None
        report["well"] = merged(recipe, folder / "well", workers)

        workers.longest_seconds = 3.0
        report["stopped"] = merged(recipe, folder / "stopped", workers, after_first=stop_workers)
        workers.longest_seconds = 600.0

        list(workers.map_unordered(starve, [(), ()], ["", ""]))
        before = workers.lost
        report["two without memory"] = merged(recipe, folder / "two", workers)
        report["lost for want of memory"] = workers.lost - before

        workers.close()
        workers.broadcast("run", doom, (DOOMED,))
        report["killed"] = merged(recipe, folder / "killed", workers)
        workers.close()
        workers.broadcast("run", time.time, ())
        report["killed, resumed"] = merged(recipe, folder / "killed", workers, resume=True)

        workers.close()
        workers._broadcasts.clear()
        workers.broadcast("run", starve, ())  # before they open the models
        report["all without memory"] = merged(recipe, folder / "starved", workers)
        workers.close()
        workers._broadcasts.clear()
        report["all without memory, resumed"] = merged(
            recipe, folder / "starved", workers, resume=True
        )
    _, alive = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=20)
    report["left"] = [process.name() for process in alive]
    sys.stdout.write(json.dumps(report) + "\n")


def cancelled(recipe: Recipe, store: Path) -> float:
    """Seconds that it takes to give a merge up while Ray starts."""
    with workers_at("local:2", "cpu", 1) as workers:
        assert workers is not None
        events = merge(prepare(recipe), store, device="cpu", workers=workers)
        while not isinstance(next(events), MergeStarted):
            pass
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            assert next(events) is None
        began = time.monotonic()
        events.close()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
