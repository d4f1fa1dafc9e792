"""Where the time of a whole merge goes: ``python -m tests.benchmarks.stages [--set gpt2] …``.

Runs ``ace-gui merge`` in a process of its own, its functions wrapped in clocks. What a function
spends in another one of the table counts for that one only, so that the first column adds up to the
wall time of the process. The second column is what other threads did meanwhile. ``--recipe`` takes
a recipe of yours instead of checkpoints made for the purpose.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path

STAGES = {
    "describe the models": ["ace_gui.engine.planning.models:remembered"],
    "plan": ["ace_gui.engine.workflow:prepare"],
    "read": ["ace_gui.checkpoints.reader:TensorReader.read_part"],
    "look for NaN and Inf": ["ace_gui.engine.merging.readers:is_finite"],
    "widen, turn, subtract the base": [
        "ace_gui.engine.merging.task_vectors:TaskVectors.__getitem__"
    ],
    "ACE: norms and centring": ["ace_gui.methods.ace.algorithm:measure"],
    "ACE: probes": ["ace_gui.methods.ace.float32_check:probe"],
    "ACE: sums over experts": [
        "ace_gui.methods.ace.closed_form:collect",
        "ace_gui.methods.ace.closed_form:_stacked",
    ],
    "ACE: solve": [
        "ace_gui.methods.ace.closed_form:preliminary",
        "ace_gui.methods.ace.closed_form:solve_by_rows",
    ],
    "ACE: residual": ["ace_gui.methods.ace.closed_form:residual"],
    "ACE: refinement": ["ace_gui.methods.ace.algorithm:top_polars"],
    "ACE: the rest": ["ace_gui.methods.ace.algorithm:_merged"],
    "average": ["ace_gui.methods.shared.weighted_experts:WeightedExperts.weighted_sum"],
    "add the base, turn back": ["ace_gui.engine.merging.tensor_merge:TensorMerge._finished"],
    "write": ["ace_gui.checkpoints.writer:ShardedWriter.write_part"],
    "checksum": [
        "ace_gui.engine.merging.store:checksum",
        "ace_gui.engine.merging.store:checksum",
    ],
    "flush to the disk": ["ace_gui.checkpoints.writer:ShardedWriter.finish"],
    "verify: SHA-256": ["ace_gui.engine.merging.store:sha256"],
    "verify: read back, compare": ["ace_gui.engine.output.exporting:verify_shards"],
}
START, REST, END = "start-up: Python and imports", "everything else, waiting", "end of the process"


class Clocks:
    """Exclusive wall time by stage, of the main thread and of all others."""

    def __init__(self) -> None:
        self.main: dict[str, float] = defaultdict(float)
        self.others: dict[str, float] = defaultdict(float)
        self._own = threading.local()

    def wrapped(self, stage: str, function: Callable[..., object]) -> Callable[..., object]:
        """The function, its time counted for ``stage``."""

        @wraps(function)
        def timed(*args: object, **options: object) -> object:
            inner: list[float] = self._own.__dict__.setdefault("inner", [])
            inner.append(0.0)
            started = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                seconds = time.perf_counter() - started
                main = threading.current_thread() is threading.main_thread()
                (self.main if main else self.others)[stage] += seconds - inner.pop()
                if inner:
                    inner[-1] += seconds

        return timed


def functions() -> Iterator[tuple[str, object, str]]:
    """Every function of the table: its stage, and the module or class and the name it is under."""
    for stage, indices in STAGES.items():
        for index in indices:
            module, _, path = index.partition(":")
            owner: object = importlib.import_module(module)
            *outer, name = path.split(".")
            for part in outer:
                owner = getattr(owner, part)
            yield stage, owner, name


def child(recipe: str, out: str, report: str) -> None:
    """Merge under clocks; writes what they say to ``report``."""
    import psutil

    from ace_gui.cli.commands import app
    from ace_gui.processes import heavy_imports

    with heavy_imports():  # as the command would
        from ace_gui.cli.merging import merge_to_folder  # noqa: F401

    born = psutil.Process().create_time()
    clocks = Clocks()
    clocks.main[START] = time.time() - born
    for stage, owner, name in functions():
        setattr(owner, name, clocks.wrapped(stage, getattr(owner, name)))
    started = time.perf_counter()
    command = ["merge", recipe, "--out", out, "--device", "cpu"]
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(SystemExit):
        app(args=command, standalone_mode=False)
    merging = time.perf_counter() - started
    clocks.main[REST] = merging - sum(s for stage, s in clocks.main.items() if stage != START)
    Path(report).write_text(json.dumps([clocks.main, clocks.others, time.time()]))


def profile(recipe: Path) -> None:
    """Print the table of one recipe."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "clocks.json"
        words = ["--child", str(recipe), str(Path(folder) / "out"), str(report)]
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tests.benchmarks.stages", *words], check=True)
        total, ended = time.perf_counter() - started, time.time()
        main, others, finished = json.loads(report.read_text())
    main[END] = ended - finished
    print(f"\n{recipe.name}: {total:.2f} s, {os.cpu_count()} processors")
    print(f"{'':<32} {'seconds':>8} {'share':>6} {'other threads':>14}")
    for stage in (START, *STAGES, REST, END):
        own, other = main.get(stage, 0.0), others.get(stage, 0.0)
        if max(own, other) >= 0.005:
            print(f"{stage:<32} {own:>8.2f} {own / total:>6.1%} {other:>14.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.stages")
    parser.add_argument("--set", default="gpt2", choices=["gpt2", "vit"])
    parser.add_argument("--experts", type=int, default=7)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--recipe", type=Path, help="a recipe of yours instead")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
    elif options.recipe:
        profile(options.recipe)
    else:
        from tests.benchmarks.end_to_end import SETS, recipe

        with tempfile.TemporaryDirectory() as folder:
            make = SETS[options.set]
            base, tuned = make(Path(folder) / "models", options.experts, layers=options.layers)
            for method in ("ace", "linear"):
                profile(recipe(Path(folder), base, tuned, method))


if __name__ == "__main__":
    main()
