"""Merging by several processes: ``python -m tests.benchmarks.cluster [--kills 50] [--large]``.

On a GPT-2 set that it makes itself: one process of two threads against two workers of one thread;
what a unit costs beside its reading and computing; the predicted time against the measured one;
merges of which random workers are killed, compared bit for bit. ``--large``: the plan of models
that no machine here could hold, from headers alone.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import yaml

from tests.benchmarks.checkpoints import gpt2_set
from tests.benchmarks.measuring import say
from tests.helpers.models import gpt2_family
from tests.helpers.recipes import file_of

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
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.large:
            large(Path(folder))
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
    say(f"predicted {predicted(recipe, 2):.1f} s, measured {two['seconds']:.1f} s")


def predicted(recipe: Path, workers: int) -> float:
    """What ``ace-gui plan`` says of so many workers of one thread each."""
    plan = recipe.parent / "plan.json"
    command = [sys.executable, "-m", "ace_gui", "plan", str(recipe), "--json", str(plan)]
    command += ["--threads", "1", "--workers", str(workers), "--overwrite"]
    subprocess.run(command, check=True, capture_output=True)
    return json.loads(plan.read_text())["schedules"][0]["seconds"]


def timed(recipe: Path, out: Path, threads: int, cluster: str) -> dict:
    command = [sys.executable, "-c", TIMED, str(recipe), str(out), str(threads), cluster]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def killed(folder: Path, merges: int) -> None:
    """Kill a worker at a random moment, and in every third merge another one later."""
    recipe = file_of(folder / "recipe", gpt2_family(folder / "family"))
    command = [sys.executable, "-m", "ace_gui", "merge", str(recipe)]
    subprocess.run([*command, "--out", str(folder / "alone"), "--threads", "1"], check=True)
    expected, draw, same, losses = digest(folder / "alone"), random.Random(0), 0, 0
    for number in range(merges):
        out = folder / f"many-{number}"
        merging = subprocess.Popen([*command, "--out", str(out), "--cluster", "local:2"])
        for _ in range(1 + number % 3 // 2):
            losses += kill_one(merging, draw)
        same += merging.wait() == 0 and digest(out) == expected
        say(f"{number + 1} merges, {losses} workers killed, {same} bit-identical")


def kill_one(merging: subprocess.Popen, draw: random.Random) -> bool:
    """Whether there was a worker to kill."""
    while merging.poll() is None:
        workers = [
            child
            for child in psutil.Process(merging.pid).children(recursive=True)
            if re.match("ray::Worker", child.name())
        ]
        if workers:
            time.sleep(draw.uniform(0, 4))
            if merging.poll() is None:
                victim = draw.choice(workers)
                if victim.is_running():
                    victim.kill()
                    return True
        time.sleep(0.05)
    return False


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


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
