"""``ace-gui plan``: the work of a merge, and its time on a given number of workers."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.table import Table

from ace_gui.cli.console import Outputs, said_to_convert, wide_console
from ace_gui.engine.cluster.address import Address
from ace_gui.engine.cluster.ray_cluster import workers_at
from ace_gui.engine.cluster.schedule import (
    PlannedUnit,
    Schedule,
    Speed,
    planned_units,
    schedule,
)
from ace_gui.engine.cluster.trials import measured
from ace_gui.engine.contract.plan import bytes_in_output
from ace_gui.engine.devices import use_threads
from ace_gui.engine.merging.merge import input_paths
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.engine.workflow import prepared_with_consent
from ace_gui.formatting import duration, human_bytes
from ace_gui.recipe.recipe_file import load_recipe

PLAN_MARK: Final = b'{\n "units": ['
SHOWN: Final = 12
"""Number of units in the table. The JSON has all of them."""

SPEED_FIELDS: Final = ("flops", "read", "write", "scan", "start")
"""The fields of the speed in the JSON."""

WRITE: Final = 5e8
"""Assumed write speed in bytes per second, if none is given or measured."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Given:
    """Options about the workers. None means measured or default.

    ``gigaflops``: speed of one worker in 10⁹ operations per second. ``disk``: read and write speed
    in megabytes per second. ``workers``: numbers of workers to estimate the time for.
    """

    workers: tuple[int, ...]
    gigaflops: float | None
    disk: float | None
    threads: int | None


def plan_recipe(
    recipe_file: Path,
    given: Given,
    *,
    cluster: str,
    json_file: Path | None,
    convert: bool,
    overwrite: bool,
) -> None:
    """Print the units of work, the totals and the times.

    If no speed is given, some matrices are merged to measure it, on the cluster if one is named.
    The start-up time of the cluster is then measured, too. Otherwise only headers are read.
    """
    address = Address.of(cluster) if cluster else None
    use_threads(given.threads)
    with said_to_convert(convert):
        prepared = prepared_with_consent(load_recipe(recipe_file), convert=convert)
    outputs = Outputs((recipe_file, *input_paths(prepared)), overwrite=overwrite)
    outputs.check({json_file: PLAN_MARK})
    speed = _speed(prepared, given, cluster)
    planned = planned_units(prepared, speed)
    written = bytes_in_output(prepared.plan.rows, prepared.plan.recipe.out_dtype)
    counts = given.workers or (address.workers if address and address.workers else 1,)
    times = [schedule(planned, count, written, speed) for count in counts]
    if json_file is not None:
        content = {
            "units": [dataclasses.asdict(unit) for unit in planned],
            "speed": {name: getattr(speed, name) for name in SPEED_FIELDS},
            "schedules": [dataclasses.asdict(each) for each in times],
        }
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        outputs.write(json_file, text + "\n", PLAN_MARK)
    _print_units(planned)
    _print_times(planned, times, speed, written)


def _speed(prepared: Prepared, given: Given, cluster: str) -> Speed:
    disk = None if given.disk is None else given.disk * 1e6
    if given.gigaflops is not None:
        return Speed(flops=given.gigaflops * 1e9, read=disk or WRITE, write=disk or WRITE)
    started = time.monotonic()
    with workers_at(cluster, "cpu", given.threads) as workers:
        start = 0.0
        if workers is not None:
            use_threads(workers.threads)
            workers.begin(prepared)
            for _ in workers.ready():
                pass
            for _ in workers.map_unordered(
                os.getpid, [()] * workers.count, ["a worker"] * workers.count
            ):
                start = time.monotonic() - started
        found = measured(prepared, workers)
    write = disk or found.write
    return dataclasses.replace(found, start=start, read=disk or found.read, write=write)


def _print_units(planned: Sequence[PlannedUnit]) -> None:
    table = Table(title=f"{len(planned)} units of work, the largest first", title_justify="left")
    for title in ("unit", "tensors", "operations", "read and written", "memory", "seconds"):
        table.add_column(title, justify="left" if title == "unit" else "right")
    for unit in planned[:SHOWN]:
        table.add_row(
            unit.name,
            str(unit.rows),
            f"{unit.flops / 1e9:,.1f} G",
            human_bytes(unit.bytes),
            human_bytes(unit.memory),
            f"{unit.seconds:.3g}",
        )
    console = wide_console()
    console.print(table)
    if len(planned) > SHOWN:
        console.print(f"… and {len(planned) - SHOWN} more; --json writes all of them.")


def _print_times(
    planned: Sequence[PlannedUnit], times: Sequence[Schedule], speed: Speed, written: int
) -> None:
    console = wide_console()
    flops, moved = sum(unit.flops for unit in planned), sum(unit.bytes for unit in planned)
    console.print(
        f"\nIn all {flops / 1e12:,.2f} T operations, {human_bytes(moved)} read and written, of "
        f"which {human_bytes(written)} are the output. A worker needs up to "
        f"{human_bytes(max((unit.memory for unit in planned), default=0))} of memory. "
        f"One worker does {speed.flops / 1e9:,.1f} G operations and reads "
        f"{human_bytes(int(speed.read))} a second; the output is written with "
        f"{human_bytes(int(speed.write))} a second."
    )
    if speed.scan:
        console.print(f"Looking at the whole model first takes one worker {speed.scan:.3g} s.")
    if speed.start:
        console.print(f"Starting the workers takes {speed.start:.1f} s, which the times include.")
    table = Table()
    for title in ("workers", "time", "at work", "limited by"):
        table.add_column(title, justify="left" if title == "limited by" else "right")
    for each in times:
        table.add_row(
            str(each.workers), duration(each.seconds), f"{each.busy:.0%}", each.bottleneck
        )
    console.print(table)
