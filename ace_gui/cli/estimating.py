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

import torch
from rich.console import Console

from ace_gui.cli.console import Outputs, Terminal, print_checks, print_warnings, shown, table
from ace_gui.cli.options import counts_given
from ace_gui.cli.streams import say
from ace_gui.engine.cluster.estimates import (
    SOME_BYTES,
    SOME_FLOPS,
    PlannedUnit,
    Schedule,
    Speed,
    planned_units,
    schedule,
)
from ace_gui.engine.cluster.ray_cluster import Address
from ace_gui.engine.cluster.ray_workers import workers_at
from ace_gui.engine.cluster.trials import measured
from ace_gui.engine.contract.plan import Verdict
from ace_gui.engine.devices import memory_of, resolve_device, use_threads
from ace_gui.engine.merging.merge import input_paths
from ace_gui.engine.planning.memory import free_bytes
from ace_gui.engine.planning.merge_checks import output_checks
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.workflow import Options, prepared_with_consent, refuse_merge
from ace_gui.formatting import counted, duration, human_bytes
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe

if TYPE_CHECKING:
    from ace_gui.cli.commands import Estimate, Merge

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
class _Estimated:
    """``written``: bytes of the output. ``sources``: where each figure of the speed comes from, by
    its name. ``zeros``: files without values, by which no speed can be measured.
    """

    prepared: Prepared
    planned: Sequence[PlannedUnit]
    written: int
    times: Sequence[Schedule]
    speed: Speed
    sources: Mapping[str, str]
    zeros: tuple[Path, ...]


def estimate_recipe(given: Estimate) -> None:
    """Print the units of work, the totals and the times, and where the speed comes from.

    If no speed is given, some matrices are merged to measure it, on the cluster if one is named.
    The start-up time of the cluster is then measured, too. Otherwise only headers are read.
    """
    address = Address.of(given.cluster) if given.cluster else None
    device = resolve_device(given.device)
    prepared = prepared_with_consent(load_recipe(given.recipe), convert=given.convert)
    outputs = Outputs.of(given, (given.recipe, *input_paths(prepared)), "units")
    default = address.workers if address and address.workers else 1
    found = _estimated(prepared, given, counts_given(given.workers) or (default,))
    outputs.write_json(given.json, _record(found, Path.cwd()))
    terminal = Terminal.of(given)
    checks = output_checks(prepared.plan, Path.cwd(), gpu_memory=memory_of(device))
    print_checks(checks, terminal.notes, [Verdict.ERROR])
    _print_units(found.planned, terminal.results)
    _print(found, Path.cwd(), device, terminal)


def _record(found: _Estimated, folder: Path) -> dict[str, object]:
    return {
        "units": [dataclasses.asdict(unit) for unit in found.planned],
        "speed": {name: getattr(found.speed, name) for name in SPEED_FIELDS},
        "speed_from": dict(found.sources),
        "only_zeros": [str(path) for path in found.zeros],
        "bytes": {"output": found.written, "free_disk": free_bytes(folder)},
        "schedules": [dataclasses.asdict(each) for each in found.times],
    }


def under_old_name(given: Estimate) -> None:
    """``ace-gui plan``, which is estimate until the next release."""
    say("Note: ace-gui plan is now called ace-gui estimate; the next release removes the old name.")
    estimate_recipe(given)


def print_dry_run(recipe: Recipe, given: Merge, options: Options, outputs: Outputs) -> None:
    """Print what a merge would do with the tensors, its memory, disk space and time.

    Its JSON is that of ``estimate``. Writes nothing to the output folder; the folder need not be
    named. Raises the errors of ``prepare``; and after the estimate, the error with which the merge
    would be refused.
    """
    device = resolve_device("cpu" if given.cluster else given.device)
    prepared = prepared_with_consent(recipe, convert=False)
    plan, terminal = prepared.plan, Terminal.of(given)
    counts = Counter((row.disposition.value, row.reason) for row in plan.rows)
    for (disposition, reason), count in counts.most_common():
        tensors = counted(count, "tensor", "tensors")
        terminal.results.print(shown(f"{tensors} {disposition}: {reason}"), soft_wrap=True)
    folder = given.out or Path.cwd()
    checks = output_checks(
        plan,
        folder,
        memory_bytes=options.memory_bytes,
        gpu_memory=memory_of(device),
        complete_heads=options.complete_heads,
    )
    print_warnings(plan.warnings, terminal.notes)
    print_checks(checks, terminal.notes, [Verdict.WARNING])
    found = _estimated(prepared, given, (1,))
    outputs.write_json(given.json, _record(found, folder))
    _print(found, folder, device, terminal)
    refuse_merge(prepared, given.out, options, checks)
    terminal.results.print("Nothing was written.")


def _estimated(prepared: Prepared, given: Estimate | Merge, counts: Sequence[int]) -> _Estimated:
    """The times with these numbers of workers.

    The speed of a worker is given, measured, or assumed where nothing could be measured.
    """
    gigaflops, disk = getattr(given, "speed", None), getattr(given, "disk", None)
    paths = [file.path for file in prepared.files if file.path.suffix == ".safetensors"]
    zeros = tuple(path for path in dict.fromkeys(paths) if _holds_only_zeros(path))
    speed = assumed = Speed(flops=SOME_FLOPS, read=SOME_BYTES, write=SOME_BYTES)
    if gigaflops is None and not zeros:
        speed = _measured(prepared, given)
    sources = {
        name: ASSUMED if getattr(speed, name) == getattr(assumed, name) else MEASURED
        for name in ("flops", "read", "write")
    }
    known = {} if gigaflops is None else {"flops": gigaflops * 1e9}
    known |= {} if disk is None else {"read": disk * 1e6, "write": disk * 1e6}
    speed = dataclasses.replace(speed, **known)
    planned = planned_units(prepared, speed)
    written = prepared.plan.bytes_to_write + prepared.plan.bytes_beside
    return _Estimated(
        prepared=prepared,
        planned=planned,
        written=written,
        times=[schedule(planned, count, written, speed) for count in counts],
        speed=speed,
        sources=sources | dict.fromkeys(known, GIVEN),
        zeros=zeros,
    )


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
    figures, last = ("units", "operations", "moved", "memory", "seconds"), "first tensor"
    lines = table(*figures, last, folded=[last], title=title)
    for (name, *_), units in list(folded.items())[:SHOWN]:
        one = units[0]
        several = f" (of {one.rows})" if one.rows > 1 else ""
        lines.add_row(
            f"× {len(units)}" if len(units) > 1 else "",
            f"{one.flops / 1e9:,.1f} G",
            human_bytes(one.bytes),
            human_bytes(one.memory),
            f"{one.seconds:.3g}",
            shown(f"{name if len(units) > 1 else one.name}{several}"),
        )
    console.print(lines)
    if len(folded) > SHOWN:
        console.print(f"… and {len(folded) - SHOWN} more lines; --json writes every unit.")


def _print(found: _Estimated, folder: Path, device: torch.device, terminal: Terminal) -> None:
    """Work, memory, disk and GPU; the speed, and the time by number of workers."""
    console, plan, speed, of = terminal.results, found.prepared.plan, found.speed, found.sources
    flops = sum(unit.flops for unit in found.planned)
    moved = human_bytes(sum(unit.bytes for unit in found.planned))
    disk = f"{human_bytes(found.written)} for the output; {human_bytes(free_bytes(folder))} free"
    lines = [
        f"Work: {flops / 1e12:,.2f} T operations; {moved} read and written.",
        f"Memory: about {human_bytes(plan.peak_bytes)} of {human_bytes(plan.free_memory)} free.",
        f"Disk: {disk} at {folder}.",
        _gpu_sentence(plan.gpu_bytes, memory_of(device), str(device)),
        f"Speed of a worker: {speed.flops / 1e9:,.1f} G operations a second ({of['flops']}); "
        f"reading {human_bytes(int(speed.read))} a second ({of['read']}); "
        f"writing {human_bytes(int(speed.write))} a second ({of['write']}).",
    ]
    if speed.tried:
        kinds = counted(len(speed.tried), "kind", "kinds")
        lines.append(f"Times of units: trials of {kinds} of tensor, {MEASURED}.")
    if speed.scan:
        lines.append(f"Surveying the whole model first takes one worker {speed.scan:.3g} s.")
    if speed.start:
        lines.append(f"Starting the workers takes {speed.start:.1f} s, which the times include.")
    console.print()
    for line in lines:
        console.print(shown(line), soft_wrap=True)
    times = table("workers", "time", "at work", "limited by", left=["limited by"])
    for each in found.times:
        busy = f"{each.busy:.0%}"
        times.add_row(str(each.workers), duration(each.seconds), busy, each.bottleneck)
    console.print("", times)
    if found.zeros:
        more = f" and {len(found.zeros) - 1} more" if len(found.zeros) > 1 else ""
        print_warnings([f"{found.zeros[0]}{more} {ZEROS}."], terminal.notes)


def _gpu_sentence(needed: int, memory: int, device: str) -> str:
    if not memory:
        return "GPU: none is used; the times are for the processor."
    fits = "" if memory >= needed else ", so larger matrices stay on the processor"
    return (
        f"GPU: {device} has {human_bytes(memory)}, the largest matrix needs {human_bytes(needed)}"
        f"{fits}. The times are for the processor alone."
    )
