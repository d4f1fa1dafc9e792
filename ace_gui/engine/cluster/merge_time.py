"""How long a merge takes in this process, by the same trials as ``ace-gui merge --dry-run``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import torch

from ace_gui.engine.cluster.estimates import Speed, planned_units, schedule
from ace_gui.engine.cluster.trials import measuring_speed
from ace_gui.engine.contract.events import MergeEstimated
from ace_gui.engine.kept_files import ArrayCache
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.versions import COMPUTING, code_digest, library_versions

MOST_SECONDS: Final = 8.0
"""Seconds for the trials of one merge. They run unasked, and the estimates for other methods wait
until they end.
"""

_ENTRY: Final = "seconds"


def merge_seconds(prepared: Prepared, speed: Speed) -> float:
    """Seconds of a merge by one process of this speed."""
    written = prepared.plan.all_bytes_to_write
    return schedule(planned_units(prepared, speed), 1, written, speed).seconds


def estimated(
    prepared: Prepared, device: torch.device, cache: ArrayCache
) -> Iterator[MergeEstimated | None]:
    """Estimate the seconds of a merge, and remember them; no MergeEstimated if trials say nothing.

    That is so for methods that need data or learn, which are not tried. Raises the errors of
    ``measuring_speed``.
    """
    if not _can_be_tried(prepared):
        return
    key = _key(prepared, device)
    remembered = cache.get(key)
    if remembered is None:
        speed = yield from measuring_speed(prepared, device=device, most_seconds=MOST_SECONDS)
        seconds = merge_seconds(prepared, speed)
        cache.put(key, {_ENTRY: np.array(seconds)})
    else:
        seconds = float(remembered[_ENTRY])
    yield MergeEstimated(seconds=seconds)


def _can_be_tried(prepared: Prepared) -> bool:
    if prepared.method.learning is not None or prepared.recipe.distil:
        return False
    rows = (row for row in prepared.plan.rows if row.in_base and row.is_merged)
    return all(prepared.need_of(row) is None for row in rows)


def _key(prepared: Prepared, device: torch.device) -> str:
    """The name of an entry, from everything that the time depends on."""
    files = [(str(stamp.path), stamp.size, stamp.mtime_ns) for stamp in prepared.files]
    recipe = repr(replace(prepared.recipe, tasks=()))
    versions = [code_digest(*COMPUTING), *library_versions().values()]
    terms = ["merge time", recipe, str(device), torch.get_num_threads(), versions, files]
    return hashlib.sha256(json.dumps(terms).encode("utf-8", "surrogatepass")).hexdigest()
