"""The spectrum of a merge, computed from a finished merge of the same recipe.

O outputs, I inputs, R = min(O, I). A store holds W = W₀ + ΔW rounded to its dtype with unit
roundoff u. Rounding adds noise to ΔW of at most u·‖W‖_F/√(OI) per element. The spectral norm of
such noise would be N = u·‖W‖_F·(1/√O + 1/√I); in fact it is about a quarter. By Weyl's inequality
no singular value moves by more; most move by a hundredth of it.
"""

from __future__ import annotations

from functools import partial
from math import sqrt
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from ace_gui.checkpoints import TensorReader, open_checkpoint
from ace_gui.engine.contract.figures.findings import LayerReport
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.inspecting.layer_context import InspectionContext
from ace_gui.engine.merging.store import MODEL, InputFile, read_finished, reports
from ace_gui.engine.planning.matrix_parts import of_row
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.errors import WorkbenchError
from ace_gui.linalg.spectra import singular_values
from ace_gui.methods import added_sources
from ace_gui.versions import COMPUTING, code_digest, library_versions

CLEAR: Final = 8.0
"""Singular values above this multiple of N are accurate to 3 %, a pixel of a logarithmic plot."""

HIDDEN: Final = 0.5
"""Singular values up to this multiple of N may be nothing but rounding."""


def finished_spectrum(store: Path, context: InspectionContext) -> tuple[Tensor, LayerReport] | None:
    """Singular values (R,) of ΔW in a finished merge, largest first, float64, and its report.

    Directions that are empty except for rounding have 0. None if the merge had another recipe,
    other files or another version, if it refined the tensor, or if rounding may show.
    """
    row = context.row
    try:
        report = _report(store, context.prepared, row)
        if report is None or report.refinement_ratio is not None:
            return None
        weights = TensorReader(open_checkpoint(store / MODEL))
        merged_OI = of_row(row, None, partial(_read, weights, row.tensor))
        base_OI = of_row(row, None, partial(context.readers.base.read, row.tensor))
    except WorkbenchError:  # the store is being removed or damaged: merge instead
        return None
    wide_OI = merged_OI.to(context.device, torch.float64)
    noise = torch.finfo(merged_OI.dtype).eps / 2 * float(torch.linalg.matrix_norm(wide_OI))
    noise *= sum(1 / sqrt(size) for size in row.shape)
    sigma_R = singular_values(wide_OI.sub_(base_OI.to(context.device)))
    hidden_R = sigma_R <= HIDDEN * noise
    if bool(((sigma_R < CLEAR * noise) & ~hidden_R).any()) or bool(hidden_R.all()):
        return None
    return sigma_R.masked_fill(hidden_R, 0.0), report


def _report(store: Path, prepared: Prepared, row: PlanRow) -> LayerReport | None:
    """The report of the row in the store, None if the store belongs to another merge."""
    manifest = read_finished(store)
    same = (
        manifest.recipe == prepared.plan.recipe
        and manifest.inputs == tuple(map(InputFile.of, prepared.files))
        and manifest.code == code_digest(*COMPUTING)
        and manifest.added_methods == added_sources(manifest.recipe.methods)
        and manifest.libraries == library_versions()
        and row in manifest.rows
    )
    return reports(store).get(row.name) if same else None


def _read(reader: TensorReader, name: str, part: tuple[int, int] | None) -> Tensor:
    return reader.read(name) if part is None else reader.read_part(name, *part)
