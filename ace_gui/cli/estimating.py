"""``ace-gui estimate`` and ``merge --dry-run``: work, memory, disk space and time of a merge."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from ace_gui.cli.arguments import counts_given
from ace_gui.cli.console import (
    Outputs,
    Terminal,
    print_checks,
    print_warnings,
    said_to_convert,
    shown,
)
from ace_gui.cli.streams import say
from ace_gui.engine.cluster.address import Address
from ace_gui.engine.cluster.estimates import SOME_BYTES, SOME_FLOPS
from ace_gui.engine.cluster.ray_cluster import workers_at
from ace_gui.engine.cluster.schedule import (
    PlannedUnit,
    Schedule,
    Speed,
    planned_units,
    schedule,
)
from ace_gui.engine.cluster.trials import measured
from ace_gui.engine.contract.checks import Verdict
from ace_gui.engine.devices import memory_of, resolve_device, use_threads
from ace_gui.engine.merging.merge import input_paths
from ace_gui.engine.planning.memory import free_bytes
from ace_gui.engine.planning.merge_checks import output_checks
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.engine.workflow import prepared_with_consent
from ace_gui.formatting import counted, duration, human_bytes
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe

if TYPE_CHECKING:
    from ace_gui.cli.commands import Estimate, Merge

PLAN_MARK: Final = b'{\n "units": ['
SHOWN: Final = 12
"""Lines of the table. The JSON has every unit."""

SPEED_FIELDS: Final = ("flops", "read", "write", "scan", "start")
"""The fields of the speed in the JSON."""

SAMPLES: Final = 64
SAMPLE_BYTES: Final = 4096

ASSUMED, GIVEN, MEASURED = "assumed", "given", "measured on this machine"
ZEROS: Final = (
    "hold only zeros, so no speed was measured with them: the time is that of an assumed machine"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sources:
    """Where each figure of the speed comes from, by its name; ``zeros``: files without values."""

    of: Mapping[str, str]
    zeros: tuple[Path, ...] = ()


def estimate_recipe(given: Estimate) -> None:
    """Print the units of work, the totals and the times, and where the speed comes from.

    If no speed is given, some matrices are merged to measure it, on the cluster if one is named.
    The start-up time of the cluster is then measured, too. Otherwise only headers are read.
    """
    address = Address.of(given.cluster) if given.cluster else None
    device = resolve_device(given.device)
    use_threads(given.threads)
    with said_to_convert(given.convert):
        prepared = prepared_with_consent(load_recipe(given.recipe), convert=given.convert)
    outputs = Outputs((given.recipe, *input_paths(prepared)), overwrite=given.overwrite)
    outputs.check({given.json: PLAN_MARK})
    speed, sources = _speed(prepared, given)
    planned = planned_units(prepared, speed)
    written = prepared.plan.bytes_to_write + prepared.plan.bytes_beside
    default = address.workers if address and address.workers else 1
    counts = counts_given(given.workers) or (default,)
    times = [schedule(planned, count, written, speed) for count in counts]
    content = {
        "units": [dataclasses.asdict(unit) for unit in planned],
        "speed": {name: getattr(speed, name) for name in SPEED_FIELDS},
        "speed_from": dict(sources.of),
        "only_zeros": [str(path) for path in sources.zeros],
        "bytes": {"output": written, "free_disk": free_bytes(Path.cwd())},
        "schedules": [dataclasses.asdict(each) for each in times],
    }
    outputs.write_json(given.json, content, PLAN_MARK)
    terminal = Terminal.of(given)
    checks = output_checks(prepared.plan, Path.cwd(), gpu_memory=memory_of(device))
    print_checks([each for each in checks if each.verdict is Verdict.ERROR], terminal.notes)
    _print_units(planned, terminal.results)
    _print_totals(planned, prepared, terminal.results)
    _print_disk(written, Path.cwd(), terminal.results)
    terminal.results.print(shown(_gpu_sentence(prepared, memory_of(device), str(device))))
    _print_times(times, speed, sources, terminal.results)
    _warn_of_zeros(sources, terminal.notes)


def under_old_name(given: Estimate) -> None:
    """``ace-gui plan``, which is estimate until the next release."""
    say("Note: ace-gui plan is now called ace-gui estimate; the old name goes in the next release.")
    estimate_recipe(given)


def print_dry_run(recipe: Recipe, given: Merge) -> None:
    """Print what a merge would do with the tensors, its memory, disk space and time.

    Writes nothing to the output folder; the folder need not be named. Raises the errors of
    ``prepare``.
    """
    device = resolve_device("cpu" if given.cluster else given.device)
    use_threads(given.threads)
    with said_to_convert(False):
        prepared = prepared_with_consent(recipe, convert=False)
    plan, terminal = prepared.plan, Terminal.of(given)
    console, folder = terminal.results, given.out or Path.cwd()
    counts = Counter((row.disposition.value, row.reason) for row in plan.rows)
    for (disposition, reason), count in counts.most_common():
        tensors = counted(count, "tensor", "tensors")
        console.print(shown(f"{tensors} {disposition}: {reason}"), soft_wrap=True)
    checks = output_checks(
        plan,
        folder,
        memory_bytes=None if given.memory is None else int(given.memory * 1e9),
        gpu_memory=memory_of(device),
        complete_heads=given.complete_heads,
    )
    print_warnings(plan.warnings, terminal.notes)
    print_checks(checks, terminal.notes)
    speed, sources = _speed(prepared, given)
    planned = planned_units(prepared, speed)
    written = plan.bytes_to_write + plan.bytes_beside
    _print_totals(planned, prepared, console)
    _print_disk(written, folder, console)
    console.print(shown(_gpu_sentence(prepared, memory_of(device), str(device))))
    _print_times([schedule(planned, 1, written, speed)], speed, sources, console)
    _warn_of_zeros(sources, terminal.notes)
    console.print("Nothing was written.")


def _speed(prepared: Prepared, given: Estimate | Merge) -> tuple[Speed, Sources]:
    """The speed of a worker: given, measured, or assumed where nothing could be measured."""
    gigaflops, disk = getattr(given, "speed", None), getattr(given, "disk", None)
    disk = None if disk is None else disk * 1e6
    paths = [file.path for file in prepared.files if file.path.suffix == ".safetensors"]
    zeros = tuple(path for path in dict.fromkeys(paths) if _holds_only_zeros(path))
    if gigaflops is not None or zeros:
        speed = Speed(flops=SOME_FLOPS, read=disk or SOME_BYTES, write=disk or SOME_BYTES)
        if gigaflops is not None:
            speed = dataclasses.replace(speed, flops=gigaflops * 1e9)
    else:
        speed = _measured(prepared, given)
        if disk is not None:
            speed = dataclasses.replace(speed, read=disk, write=disk)
    by_disk = {} if disk is None else {"read": GIVEN, "write": GIVEN}
    usual = {"flops": SOME_FLOPS, "read": SOME_BYTES, "write": SOME_BYTES}
    found = {
        name: ASSUMED if getattr(speed, name) == value else MEASURED
        for name, value in usual.items()
    }
    by_speed = {} if gigaflops is None else {"flops": GIVEN}
    return speed, Sources(of=found | by_disk | by_speed, zeros=zeros)


def _holds_only_zeros(file: Path) -> bool:
    """Whether every sample of the values of a safetensors file is zero, as in a sparse file."""
    size = file.stat().st_size
    with file.open("rb") as opened:
        start = 8 + int.from_bytes(opened.read(8), "little")
        for part in range(SAMPLES):
            opened.seek(start + part * (size - start) // SAMPLES)
            if any(opened.read(SAMPLE_BYTES)):
                return False
    return size > start


def _measured(prepared: Prepared, given: Estimate | Merge) -> Speed:
    started, start = time.monotonic(), 0.0
    with workers_at(given.cluster, "cpu", given.threads) as workers:
        if workers is not None:
            use_threads(workers.threads)
            workers.begin(prepared)
            for _ in workers.ready():
                pass
            for _ in workers.map_unordered(
                os.getpid, [()] * workers.count, ["a worker"] * workers.count
            ):
                start = time.monotonic() - started
        return dataclasses.replace(measured(prepared, workers), start=start)


def _print_units(planned: Sequence[PlannedUnit], console: Console) -> None:
    """One line for all units of the same size whose names differ in numbers alone."""
    folded: dict[tuple[object, ...], list[PlannedUnit]] = {}
    for unit in planned:
        key = re.sub(r"\d+", "*", unit.name), unit.rows, unit.flops, unit.bytes, unit.memory
        folded.setdefault(key, []).append(unit)
    title = f"{counted(len(planned), 'unit', 'units')} of work, the largest first"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in ("units", "operations", "moved", "memory", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("first tensor", overflow="fold")
    for (name, *_), units in list(folded.items())[:SHOWN]:
        one = units[0]
        several = f" (of {one.rows})" if one.rows > 1 else ""
        table.add_row(
            f"× {len(units)}" if len(units) > 1 else "",
            f"{one.flops / 1e9:,.1f} G",
            human_bytes(one.bytes),
            human_bytes(one.memory),
            f"{one.seconds:.3g}",
            shown(f"{name if len(units) > 1 else one.name}{several}"),
        )
    console.print(table)
    if len(folded) > SHOWN:
        console.print(f"… and {len(folded) - SHOWN} more lines; --json writes every unit.")


def _print_totals(planned: Sequence[PlannedUnit], prepared: Prepared, console: Console) -> None:
    flops, moved = sum(unit.flops for unit in planned), sum(unit.bytes for unit in planned)
    plan = prepared.plan
    console.print(
        f"\nWork: {flops / 1e12:,.2f} T operations; {human_bytes(moved)} read and written.\n"
        f"Memory: about {human_bytes(plan.peak_bytes)} of {human_bytes(plan.free_memory)} free."
    )


def _print_disk(written: int, folder: Path, console: Console) -> None:
    free = human_bytes(free_bytes(folder))
    console.print(
        shown(f"Disk: {human_bytes(written)} for the output; {free} free at {folder}."),
        soft_wrap=True,
    )


def _gpu_sentence(prepared: Prepared, memory: int, device: str) -> str:
    needed = human_bytes(prepared.plan.gpu_bytes)
    if not memory:
        return "GPU: none is used; the times are for the processor."
    fits = "" if memory >= prepared.plan.gpu_bytes else ", so larger matrices stay on the processor"
    return (
        f"GPU: {device} has {human_bytes(memory)}, the largest matrix needs {needed}{fits}. "
        "The times are for the processor alone."
    )


def _print_times(
    times: Sequence[Schedule],
    speed: Speed,
    sources: Sources,
    console: Console,
) -> None:
    of = sources.of
    console.print(
        f"Speed of a worker: {speed.flops / 1e9:,.1f} G operations a second ({of['flops']}); "
        f"reading {human_bytes(int(speed.read))} a second ({of['read']}); "
        f"writing {human_bytes(int(speed.write))} a second ({of['write']}).",
        soft_wrap=True,
    )
    if speed.tried:
        console.print(
            "Times of units: trials of "
            f"{counted(len(speed.tried), 'kind', 'kinds')} of tensor, {MEASURED}.",
            soft_wrap=True,
        )
    if speed.scan:
        console.print(f"Surveying the whole model first takes one worker {speed.scan:.3g} s.")
    if speed.start:
        console.print(f"Starting the workers takes {speed.start:.1f} s, which the times include.")
    table = Table(box=None, pad_edge=False)
    for heading in ("workers", "time", "at work", "limited by"):
        table.add_column(heading, justify="left" if heading == "limited by" else "right")
    for each in times:
        table.add_row(
            str(each.workers), duration(each.seconds), f"{each.busy:.0%}", each.bottleneck
        )
    console.print("", table)


def _warn_of_zeros(sources: Sources, console: Console) -> None:
    if sources.zeros:
        more = len(sources.zeros) - 1
        files = f"{sources.zeros[0]}" + (f" and {more} more" if more else "")
        print_warnings([f"{files} {ZEROS}."], console)
