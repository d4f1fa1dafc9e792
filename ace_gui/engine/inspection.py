"""A close look at one matrix: the spectra of the experts and of the merge, before and after."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter
from torch import Tensor

from ace_gui.engine.events import LayerReport, LayerSpectrum
from ace_gui.engine.inspection_cache import Arrays, InspectionCache, text_array, text_of
from ace_gui.engine.look import Look, finite_only, require_matrix, side_by_side
from ace_gui.engine.plan import PlanRow
from ace_gui.engine.planning import Prepared
from ace_gui.engine.tensor_merge import report_of
from ace_gui.linalg.spectra import singular_values

_REPORT: Final = TypeAdapter(LayerReport)


def spectrum(
    prepared: Prepared, row: PlanRow, device: torch.device, cache: InspectionCache
) -> Iterator[LayerSpectrum | None]:
    """Singular values of every expert's task vector, of W_pre and of the merged delta.

    Those of an expert are kept apart from those of the merge, so that another recipe only computes
    the latter. Raises MethodError for a tensor that is no matrix or that no expert has,
    NonFiniteError where a merge would stop.
    """
    require_matrix(row)
    return finite_only(
        prepared, row, lambda finite: _spectrum(Look(prepared, finite, device, cache))
    )


def _spectrum(look: Look) -> Iterator[LayerSpectrum | None]:
    def expert(t: int) -> Arrays:
        key = look.key("spectrum", t)
        return look.remembered(key, lambda: {"sigma": _values(look.deltas[t])})

    experts = yield from side_by_side(expert, range(len(look.names)), look.device)
    yield from look.surveyed()
    merged = look.remembered(look.merge_key("spectrum"), lambda: _of_merge(look))
    yield LayerSpectrum(
        name=look.row.name,
        experts={name: found["sigma"] for name, found in zip(look.names, experts, strict=True)},
        preliminary=merged.get("preliminary"),
        merged=merged["merged"],
        report=_REPORT.validate_python(json.loads(text_of(merged["report"]))),
    )


def _of_merge(look: Look) -> Arrays:
    merged = look.merged()
    norm = float(torch.linalg.vector_norm(merged.delta, dtype=torch.float64))
    report = report_of(look.row, look.names, merged.diagnostics, norm)
    found: dict[str, NDArray[Any]] = {
        "merged": _values(merged.delta),
        "report": text_array(json.dumps(asdict(report))),
    }
    if merged.preliminary is not None:
        same = torch.equal(merged.preliminary, merged.delta)  # nothing was refined
        found["preliminary"] = found["merged"] if same else _values(merged.preliminary)
    return found


def _values(matrix: Tensor) -> NDArray[np.float64]:
    return singular_values(matrix).cpu().numpy()
