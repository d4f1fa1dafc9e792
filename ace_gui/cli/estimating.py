"""``ace-gui estimate``: the work, memory, disk space and time of a merge.

``merge --dry-run`` prints it, too.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil
import torch
from rich.console import Console

from ace_gui.cli.console import Outputs, Terminal, print_checks, print_warnings, safe_text, table
from ace_gui.cli.options import counts_given
from ace_gui.cli.streams import say
from ace_gui.engine.capabilities import memory_of, resolve_device, use_threads
from ace_gui.engine.cluster.estimates import PlannedUnit, Schedule, Speed, planned_units, schedule
from ace_gui.engine.cluster.ray_cluster import Address
from ace_gui.engine.cluster.ray_workers import workers_at
from ace_gui.engine.cluster.trials import measured_speed
from ace_gui.engine.contract.plan import Check, CheckVerdict
from ace_gui.engine.merging.merge import input_paths
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import free_bytes, output_checks
from ace_gui.engine.planning.row_work import ASSUMED_BYTES, ASSUMED_FLOPS
from ace_gui.engine.workflow import Options, prepared_with_consent, refuse_merge
from ace_gui.formatting import counted, duration, human_bytes
from ace_gui.recipe import Recipe
from ace_gui.recipe.mergekit.key_fates import reasons_of
from ace_gui.recipe.recipe_file import load_recipe

if TYPE_CHECKING:
    from ace_gui.cli.commands import Estimate, Merge


SHOWN: Final = 12
"""Lines of the table. The JSON has every unit."""

SPEED_FIELDS: Final = ("flops", "read", "write", "scan", "start")
"""The fields of the speed in the JSON."""

SAMPLES: Final = 64
SAMPLE_BYTES: Final = 4096

ASSUMED = "assumed"
GIVEN = "given"
MEASURED = "measured on this machine"
ZEROS: Final = "held only zeros, so no speed was measured; the time is that of an assumed machine"


@dataclass(frozen=True, kw_only=True)
class _Estimated:
    """What a merge will take."""

    prepared: Prepared
    """The plan, and the opened models."""
    planned: Sequence[PlannedUnit]
    """Its units, largest first."""
    written: int
    """Bytes of the output."""
    times: Sequence[Schedule]
    """The time for different numbers of workers."""
    speed: Speed
    """Of one worker, and of the process that writes."""
    sources: Mapping[str, str]
    """By name, where each figure of the speed comes from."""
    zeros: tuple[Path, ...]
    """Files that hold only zeros; no speed can be measured with them."""


def estimate_recipe(command: Estimate) -> None:
    """Print the units of work, the totals and the times, and where the speed comes from.

    If no speed is given, some matrices are merged to measure it, on the cluster if one is named.
    The start-up time of the cluster is then measured, too. Otherwise only headers are read.
    """
    address = Address.of(command.cluster) if command.cluster else None
    device = resolve_device(command.device)
    prepared = prepared_with_consent(load_recipe(command.recipe), convert=command.convert)
    outputs = Outputs.of(command, (command.recipe, *input_paths(prepared)), "units")
    default = address.workers if address and address.workers else 1
    estimated = _estimated(prepared, command, counts_given(command.workers) or (default,))
    terminal = Terminal.of(command)
    checks = output_checks(prepared.plan, Path.cwd(), gpu_memory=memory_of(device))
    outputs.write_json(command.json, _record(estimated, Path.cwd(), checks))
    print_checks(checks, terminal.notes, [CheckVerdict.ERROR])
    _print_units(estimated.planned, terminal.results)
    _print(estimated, Path.cwd(), device, terminal)


def _record(estimated: _Estimated, folder: Path, checks: Sequence[Check]) -> dict[str, object]:
    return {
        "units": [asdict(unit) for unit in estimated.planned],
        "speed": {name: getattr(estimated.speed, name) for name in SPEED_FIELDS},
        "speed_from": dict(estimated.sources),
        "only_zeros": [str(path) for path in estimated.zeros],
        "bytes": {"output": estimated.written, "free_disk": free_bytes(folder)},
        "schedules": [asdict(method_time) for method_time in estimated.times],
        "checks": [asdict(check) for check in checks],
        "mergekit_keys": [asdict(row) for row in estimated.prepared.recipe.key_fates],
    }


def under_old_name(command: Estimate) -> None:
    """``ace-gui plan``, the old name of estimate until the next release."""
    say("Note: ace-gui plan is now called ace-gui estimate; the next release removes the old name.")
    estimate_recipe(command)


def print_dry_run(recipe: Recipe, command: Merge, options: Options, outputs: Outputs) -> None:
    """Print what a merge would do with the tensors, its memory, disk space and time.

    Its JSON is that of ``estimate``. Nothing is written to the output folder, which need not be
    named. Raises the errors of ``prepare`` and, after the estimate, the error with which the merge
    would be refused.
    """
    device = resolve_device("cpu" if command.cluster else command.device)
    prepared = prepared_with_consent(recipe, convert=False)
    plan = prepared.plan
    terminal = Terminal.of(command)
    counts = Counter((row.disposition.value, row.reason) for row in plan.rows)
    for (disposition, reason), count in counts.most_common():
        tensors = counted(count, "tensor", "tensors")
        why = reason.removesuffix(f": {disposition}")  # some reasons say what follows from them
        terminal.results.print(safe_text(f"{tensors} {disposition}: {why}"), soft_wrap=True)
    folder = command.out or Path.cwd()
    checks = output_checks(
        plan,
        folder,
        memory_bytes=options.memory_bytes,
        gpu_memory=memory_of(device),
        complete_heads=options.complete_heads,
    )
    print_warnings(plan.warnings, terminal.notes)
    print_checks(checks, terminal.notes, [CheckVerdict.WARNING])
    for line in reasons_of(recipe.key_fates):
        terminal.notes.print(safe_text(f"  {line}", style="dim"), soft_wrap=True)
    estimated = _estimated(prepared, command, (1,))
    outputs.write_json(command.json, _record(estimated, folder, checks))
    _print(estimated, folder, device, terminal)
    refuse_merge(prepared, command.out, options, checks)
    terminal.results.print("Nothing was written.")


def _estimated(prepared: Prepared, command: Estimate | Merge, counts: Sequence[int]) -> _Estimated:
    """The times with these numbers of workers.

    The speed of a worker is given, measured, or assumed where nothing could be measured.
    """
    gigaflops = getattr(command, "speed", None)
    disk = getattr(command, "disk", None)
    paths = [file.path for file in prepared.files if file.path.suffix == ".safetensors"]
    zeros = tuple(path for path in dict.fromkeys(paths) if _holds_only_zeros(path))
    speed = assumed = Speed(flops=ASSUMED_FLOPS, read=ASSUMED_BYTES, write=ASSUMED_BYTES)
    if gigaflops is None and not zeros:
        speed = _measured(prepared, command)
    sources = {}
    for name in ("flops", "read", "write"):
        if getattr(speed, name) == getattr(assumed, name):
            sources[name] = ASSUMED
        else:
            sources[name] = MEASURED
    stated = {} if gigaflops is None else {"flops": gigaflops * 1e9}
    stated |= {} if disk is None else {"read": disk * 1e6, "write": disk * 1e6}
    speed = replace(speed, **stated)
    planned = planned_units(prepared, speed)
    written = prepared.plan.all_bytes_to_write
    return _Estimated(
        prepared=prepared,
        planned=planned,
        written=written,
        times=[schedule(planned, count, written, speed) for count in counts],
        speed=speed,
        sources=sources | dict.fromkeys(stated, GIVEN),
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


def _measured(prepared: Prepared, command: Estimate | Merge) -> Speed:
    own_start = time.time() - psutil.Process().create_time()  # that of the merge is as long
    started = time.monotonic()
    start = own_start
    if not command.cluster:
        use_threads(command.threads)
    with workers_at(command.cluster, "cpu", command.threads) as workers:
        if workers is not None:
            use_threads(workers.threads)
            workers.begin(prepared)
            for _ in workers.ready():
                pass
            for _ in workers.map_unordered(
                os.getpid, [()] * workers.count, ["a worker"] * workers.count
            ):
                start = own_start + time.monotonic() - started
        return replace(measured_speed(prepared, workers), start=start)


def _print_units(planned: Sequence[PlannedUnit], console: Console) -> None:
    """Print one line for all units of the same size whose names differ only in numbers."""
    folded: dict[tuple[object, ...], list[PlannedUnit]] = {}
    for unit in planned:
        key = re.sub(r"\d+", "*", unit.name), unit.rows, unit.flops, unit.bytes, unit.memory
        folded.setdefault(key, []).append(unit)
    title = f"{counted(len(planned), 'unit', 'units')} of work, the largest first"
    figures = ("units", "operations", "moved", "memory", "seconds")
    last = "first tensor"
    lines = table(*figures, last, folded=[last], title=title)
    for (name, *_), units in list(folded.items())[:SHOWN]:
        first_unit = units[0]
        several = f" (of {first_unit.rows})" if first_unit.rows > 1 else ""
        lines.add_row(
            f"× {len(units)}" if len(units) > 1 else "",
            f"{first_unit.flops / 1e9:,.1f} G",
            human_bytes(first_unit.bytes),
            human_bytes(first_unit.memory),
            f"{first_unit.seconds:.3g}",
            safe_text(f"{name if len(units) > 1 else first_unit.name}{several}"),
        )
    console.print(lines)
    if len(folded) > SHOWN:
        console.print(f"… and {len(folded) - SHOWN} more lines; --json writes every unit.")


def _print(estimate: _Estimated, folder: Path, device: torch.device, terminal: Terminal) -> None:
    """Print work, memory, disk, GPU and speed, and the time by number of workers."""
    console = terminal.results
    plan = estimate.prepared.plan
    speed = estimate.speed
    source = estimate.sources
    flops = sum(unit.flops for unit in estimate.planned)
    moved = human_bytes(sum(unit.bytes for unit in estimate.planned))
    disk = f"{human_bytes(estimate.written)} for the output; {human_bytes(free_bytes(folder))} free"
    lines = [
        f"Work: {flops / 1e12:,.2f} T operations; {moved} read and written.",
        f"Memory: about {human_bytes(plan.peak_bytes)} of {human_bytes(plan.free_memory)} free.",
        f"Disk: {disk} at {folder}.",
        _gpu_sentence(plan.gpu_bytes, memory_of(device), str(device)),
        f"Speed of a worker: {speed.flops / 1e9:,.1f} G operations a second ({source['flops']}); "
        f"reading {human_bytes(int(speed.read))} a second ({source['read']}); "
        f"writing {human_bytes(int(speed.write))} a second ({source['write']}).",
    ]
    if speed.seconds_by_kind:
        kinds = counted(len(speed.seconds_by_kind), "kind", "kinds")
        lines.append(f"Times of units: trials of {kinds} of tensor, {MEASURED}.")
    if speed.scan:
        lines.append(f"Surveying the whole model first takes one worker {speed.scan:.3g} s.")
    if speed.start:
        checking = estimate.written * speed.check_seconds_per_byte
        lines.append(
            f"The times include {speed.start:.1f} s until the merge begins, and {checking:.1f} s "
            "to read the output back."
        )
    console.print()
    for line in lines:
        console.print(safe_text(line), soft_wrap=True)
    times = table("workers", "time", "at work", "limited by", left_aligned=["limited by"])
    for method_time in estimate.times:
        busy = f"{method_time.busy:.0%}"
        times.add_row(
            str(method_time.workers), duration(method_time.seconds), busy, method_time.bottleneck
        )
    console.print("", times)
    if estimate.zeros:
        further = f" and {len(estimate.zeros) - 1} more" if len(estimate.zeros) > 1 else ""
        print_warnings([f"{estimate.zeros[0]}{further} {ZEROS}."], terminal.notes)


def _gpu_sentence(needed: int, memory: int, device: str) -> str:
    if not memory:
        return "GPU: none is used; the times are for the processor."
    fits = "" if memory >= needed else ", so larger matrices stay on the processor"
    return (
        f"GPU: {device} has {human_bytes(memory)}, the largest matrix needs {human_bytes(needed)}"
        f"{fits}. The times are for the processor alone."
    )
