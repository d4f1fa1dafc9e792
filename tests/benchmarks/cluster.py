"""Merging by several processes: ``python -m tests.benchmarks.cluster [--OPTION]``.

On a GPT-2 set that it makes itself: one process of two threads against two workers of one thread,
and what a unit costs beside its reading and computing. ``--predict``: the predicted time against
the measured one, by method. ``--kills 50``: merges of which random workers are killed, compared bit
for bit. ``--large``: the plan of models that no machine here could hold, from headers alone.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
import torch
import yaml

from ace_gui.engine.cluster.address import Address
from ace_gui.engine.cluster.pool import Pool
from ace_gui.engine.cluster.ray_cluster import ray_workers
from ace_gui.engine.cluster.ray_workers import RayWorkers
from ace_gui.engine.cluster.schedule import measured, planned_units, schedule
from ace_gui.engine.contract.events import TensorFinished
from ace_gui.engine.contract.plan import bytes_in_output
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import WorkbenchError
from ace_gui.recipe import Recipe
from tests.benchmarks.checkpoints import gpt2_set
from tests.benchmarks.measuring import say, write_rate
from tests.helpers.models import gpt2_family
from tests.helpers.recipes import recipe_of, recipe_over

TIMED = """
import json, sys, time
import psutil
from pathlib import Path
from ace_gui.engine import workflow
from ace_gui.engine.cluster import pool, ray_cluster
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
results, welcome, connect = pool.Pool.results, pool.Pool._welcome, ray_cluster._connect
def noted(self, calls, **more):
    for found in results(self, calls, **more):
        if found is not None:
            units.append(found[1].seconds)
        yield found
def welcomed(self, kind):
    welcome(self, kind)
    marks["ready"] = now()  # the last one counts
def connected(*given):
    before = time.monotonic()
    connect(*given)
    marks["connect"] = time.monotonic() - before
pool.Pool.results, pool.Pool._welcome, ray_cluster._connect = noted, welcomed, connected
options = workflow.Options(device="cpu", threads=int(sys.argv[3]), cluster=sys.argv[4])
for event in workflow.merge_to_folder(load_recipe(Path(sys.argv[1])), Path(sys.argv[2]), options):
    if isinstance(event, MergeStarted):
        started = now()
    if isinstance(event, MergeFinished):
        ended = now()
        ready = marks.get("ready", started)
        print(json.dumps({
            "connect": marks.get("connect", 0.0),
            "start": ready[0] - started[0],
            "seconds": ended[0] - ready[0],
            "processor": ended[1] - ready[1],
            "units": units,
        }))
"""
"""Prints seconds of wall and of processor time (this process and all that it started), from when
the workers are ready; before that, how long reaching the cluster and starting them took."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experts", type=int, default=7)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--predict", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.large:
            large(Path(folder))
        elif options.predict:
            predictions(Path(folder), options.experts)
        elif options.kills:
            killed(Path(folder), options.kills)
        else:
            compared(Path(folder), options.experts)


def compared(folder: Path, experts: int) -> None:
    base, tuned = gpt2_set(folder / "models", experts)
    recipe = folder / "recipe.yaml"
    models = [{"model": str(path)} for path in tuned]
    recipe.write_text(
        yaml.safe_dump({"merge_method": "ace", "base_model": str(base), "models": models})
    )
    timed(recipe, folder / "warm", 2, "")
    one = timed(recipe, folder / "one", 2, "")
    two = timed(recipe, folder / "two", 1, "local:2")
    alone = timed(recipe, folder / "alone", 1, "")
    units = two["units"]
    say("                        wall   processor")
    rows = (("one process, 2 threads", one), ("two workers", two), ("one process, 1 thread", alone))
    for title, found in rows:
        say(f"{title:22} {found['seconds']:6.1f} s {found['processor']:6.1f} s")
    wall, processor = (one[key] / two[key] for key in ("seconds", "processor"))
    say(f"speed of two workers by that of one process: {wall:.2f} ({processor:.2f} processor time)")
    say(f"before that: Ray {two['connect']:.1f} s, workers {two['start']:.1f} s")
    more = (two["processor"] - alone["processor"]) / len(units)
    waited = (2 * two["seconds"] - sum(units)) / len(units)
    say(
        f"{len(units)} units; beside reading and computing {1000 * waited:.0f} ms each, "
        f"{1000 * more:.0f} ms of processor time"
    )


PREDICTED = ("linear", "task_arithmetic", "ties", "dare_ties", "ace", "tsv_m")


def predictions(folder: Path, experts: int) -> None:
    """What the plan says of two workers that are there, and how long they take."""
    base, tuned = gpt2_set(folder / "models", experts)
    write = write_rate(folder, 2**28)
    say(f"GPT-2 x {experts}; the disk writes {write / 1e6:.0f} MB/s")
    say("method              predicted  measured")
    with ray_workers(Address.of("local:2"), threads=1, gpus=False) as workers:
        for method in PREDICTED:
            recipe = recipe_over(base, tuned, merge_method=method)
            prepared = prepare(recipe)
            workers.begin(prepared)
            speed = measured(prepared, write, workers)
            written = bytes_in_output(prepared.plan.rows, None)
            told = schedule(planned_units(prepared, speed), 2, written, speed).seconds
            started = time.monotonic()
            merged(recipe, folder / method, workers)
            took = time.monotonic() - started
            say(f"{method:18} {told:8.1f} s {took:8.1f} s {100 * (told / took - 1):+6.0f} %")
            shutil.rmtree(folder / method)


def timed(recipe: Path, out: Path, threads: int, cluster: str) -> dict:
    command = [sys.executable, "-c", TIMED, str(recipe), str(out), str(threads), cluster]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def killed(folder: Path, merges: int) -> None:
    """Merges by two workers that are up all the time, each event in so many of them; and what
    happens to the cluster as a whole."""
    torch.set_num_threads(1)
    recipe = recipe_of(gpt2_family(folder / "family"))
    expected = merged(recipe, folder / "alone", None)
    draw, tally = random.Random(0), Counter[str]()
    with ray_workers(Address.of("local:2"), threads=1, gpus=False) as workers:
        merged(recipe, folder / "warm", workers)
        for number in range(merges):
            before = workers.pool.lost
            killer = threading.Thread(target=kill_some, args=(workers.pool, draw, 1 + number % 2))
            killer.start()
            same = merged(recipe, folder / f"many-{number}", workers, killer) == expected
            tally += Counter(merges=1, killed=workers.pool.lost - before, same=same)
            say("{merges} merges, {killed} workers killed, {same} bit-identical".format(**tally))
        workers.pool.longest = 5.0
        store = folder / "hangs"
        hung = merged(recipe, store, workers, hang=workers.pool) == expected
        say(f"a worker that hangs: {'bit-identical' if hung else 'DIFFERENT'}")
    for what, victims in (("three losses over one tensor", "ray::Worker"), ("the head", "gcs_s")):
        store = folder / victims.replace(":", "")
        try:
            with ray_workers(Address.of("local:1"), threads=1, gpus=False) as workers:
                merged(recipe, store, workers, relentless=victims)
            say(f"{what}: NOT NOTICED")
        except WorkbenchError as error:
            say(f"{what}: {error.sentence}")
        same = merged(recipe, store, None, resume=True) == expected
        say(f"  then resumed: {'bit-identical' if same else 'DIFFERENT'}")


def merged(
    recipe: Recipe,
    store: Path,
    workers: RayWorkers | None,
    killer: threading.Thread | None = None,
    *,
    hang: Pool | None = None,
    relentless: str = "",
    resume: bool = False,
) -> str:
    """A digest of what is merged. A ``killer`` is waited for, while units come slowly."""
    events = merge(prepare(recipe), store, device="cpu", workers=workers, resume=resume)
    for event in events:
        if isinstance(event, TensorFinished) and killer is not None and killer.is_alive():
            time.sleep(0.02)
        if isinstance(event, TensorFinished) and hang is not None:
            hang._members[0].handle.do.remote("run", time.sleep, (3600,))
            hang = None
        if relentless and (event is None or isinstance(event, TensorFinished)):
            for victim in processes_called(relentless):
                victim.kill()
    return hashlib.sha256((store / MODEL / "model.safetensors").read_bytes()).hexdigest()


def processes_called(name: str) -> list[psutil.Process]:
    """Those below this process."""
    children = psutil.Process().children(recursive=True)
    found = []
    for child in children:
        with contextlib.suppress(psutil.Error):
            if child.name().startswith(name) or any(
                word.startswith(name) for word in child.cmdline()[:1]
            ):
                found.append(child)
    return found


def kill_some(pool: Pool, draw: random.Random, count: int) -> None:
    """Kill workers at random moments; a new one may be hit while it starts."""
    for _ in range(count):
        time.sleep(draw.uniform(0.0, 1.5))
        known = processes_called("ray::Worker")
        if known:
            draw.choice(known).kill()


def large(folder: Path) -> None:
    """Llama-70B × 4 and a 400 B mixture of experts × 2, on 1, 8 and 64 GPUs."""
    from transformers import LlamaConfig, Qwen3MoeConfig

    from tests.helpers.sparse_models import sparse_model

    llama = LlamaConfig(
        hidden_size=8192,
        intermediate_size=28672,
        num_hidden_layers=80,
        num_attention_heads=64,
        num_key_value_heads=8,
        vocab_size=128256,
    )
    mixture = Qwen3MoeConfig(
        hidden_size=6144,
        intermediate_size=16384,
        moe_intermediate_size=2560,
        num_hidden_layers=62,
        num_attention_heads=64,
        num_key_value_heads=8,
        num_experts=132,
        vocab_size=151936,
    )
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    for title, config, experts in (("llama", llama, 4), ("mixture", mixture, 2)):
        models = [sparse_model(config, folder / title / f"m{t}") for t in range(experts + 1)]
        recipe = folder / f"{title}.yaml"
        entries = [{"model": str(path)} for path in models[1:]]
        document = {"merge_method": "ace", "base_model": str(models[0]), "models": entries}
        recipe.write_text(yaml.safe_dump(document))
        command = [sys.executable, "-m", "ace_gui", "plan", str(recipe), "--workers", "1,8,64"]
        started = time.monotonic()
        process = psutil.Popen([*command, "--speed", "30000", "--disk", "3000"])
        peak = 0
        while process.poll() is None:
            with contextlib.suppress(psutil.Error):
                peak = max(peak, process.memory_info().rss)
            time.sleep(0.05)
        say(f"{title}: planned in {time.monotonic() - started:.1f} s, peak {peak / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
