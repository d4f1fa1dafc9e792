"""Steps on the merged change of a matrix after any method: ``after`` in a recipe.

O outputs, I inputs.

The order is: fewer singular directions, powers of the singular values, a factor, a cap. The cap
lets the merged change of T experts be as large as one expert's, or up to √T times that if it is
small compared with the base.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.linalg.heterogeneity import heterogeneity
from ace_gui.linalg.passes import centre_, energy
from ace_gui.linalg.root_spectrum import SMALLEST_LIMIT, RootSpectrum, root_spectrum
from ace_gui.linalg.singular import ShapedSpectrum, noise_floor, shape_spectrum_
from ace_gui.methods.shared.experts import ChangedSpectrum, Deltas, Merged, Weights
from ace_gui.methods.shared.tolerance import EXACT, STRICT, Tolerance

ROOT: Final = 0.5
"""The power of the singular values for which there is a way in float32."""

SHARE_BEFORE: Final = 0.8
"""Share of the allowed error that the method may make before its singular values are changed."""

SHARE_AFTER: Final = 0.6
"""Share of the allowed error that changing the values may make: 0.8² + 0.6² = 1."""

TOO_FEW_TO_CAP: Final = "The cap does not apply here: fewer than two experts changed this matrix."
NO_SCALE_TO_CAP: Final = (
    "The cap does not apply here: the experts move all outputs alike, so it has no scale."
)


def largest_change(traces: Sequence[float], base_norm: float | None, cap_share: float) -> float:
    """max(rms, min(√T · rms, δ‖W₀‖_F)), where rms² is the mean of the experts' traces.

    ``traces``: Tr of each expert's Gram matrix, centred over outputs. ``cap_share``: δ, a share of
    the base's norm. Raises MethodError if ``base_norm`` is None.
    """
    if base_norm is None:
        raise MethodError("The cap on the change needs the norm of the base's matrix.")
    rms = math.sqrt(statistics.fmean(traces))
    return max(rms, min(math.sqrt(len(traces)) * rms, cap_share * base_norm))


def cap_(change: Tensor, largest: float, norm: float) -> float:
    """Scale a change of this norm down to ``largest`` if it is larger; returns the factor."""
    if norm <= largest:
        return 1.0
    change.mul_(largest / norm)
    return largest / norm


def capped(
    merged: Merged, deltas: Deltas, weights: Weights, base_OI: Tensor, cap_share: float
) -> Merged:
    """The merge of a matrix with its change capped, and the factor of the cap.

    ``cap_share``: δ of ``largest_change``. The experts' weights do not matter, so that a cap means
    the same for methods that add task vectors and for those that average them. Experts of weight 0
    or without a change are ignored. Reads every expert once more if the method did not report its
    traces. Overwrites ``merged.delta``.
    """
    traces = _traces(merged, deltas, weights)
    if len(traces) < 2:
        return _with_note(merged, TOO_FEW_TO_CAP)
    if not any(traces):
        return _with_note(merged, NO_SCALE_TO_CAP)
    largest = largest_change(traces, math.sqrt(energy(base_OI)), cap_share)
    factor = cap_(merged.delta, largest, math.sqrt(energy(merged.delta)))
    diagnostics = merged.diagnostics
    if diagnostics.cap_factor is not None:  # the method has capped its change, too
        factor *= diagnostics.cap_factor
    return replace(merged, diagnostics=replace(diagnostics, cap_factor=factor))


def _with_note(merged: Merged, note: str) -> Merged:
    diagnostics = merged.diagnostics
    return replace(merged, diagnostics=replace(diagnostics, notes=(*diagnostics.notes, note)))


def changed_after(
    merged: Merged,
    deltas: Deltas,
    weights: Weights,
    base_OI: Tensor,
    *,
    rank: float = 1.0,
    spectrum: float = 1.0,
    scale: float = 1.0,
    cap: float | None = None,
    tolerance: Tolerance = STRICT,
    subtracted: bool = True,
) -> Merged:
    """The merge of a matrix by any method, after the steps on its change.

    The first four have the names of the recipe. ``rank``: which share of the singular directions is
    kept; ``spectrum``: power of the singular values; ``scale``: factor; ``cap``: δ, a share of the
    base's norm, or None for no cap. ``tolerance``: the accuracy that the result
    needs; float32 is used where it is exact enough. ``subtracted``: whether the task vectors are
    differences of weights, and have the rounding of these. Overwrites ``merged.delta``. The
    defaults change nothing.
    """
    if rank != 1 or spectrum != 1:
        rounding = _rounding_of_base(merged, base_OI) if subtracted else 0.0
        merged = _reshaped(merged, rounding, rank, spectrum, tolerance)
    if scale != 1:
        merged.delta.mul_(scale)
    if cap is None:
        return merged
    return capped(merged, deltas, weights, base_OI, cap)


def _reshaped(
    merged: Merged, rounding: float, rank: float, spectrum: float, tolerance: Tolerance
) -> Merged:
    """The merge with new singular values; the diagnostics have those before and after.

    ``rounding``: Frobenius norm of the task vectors' own rounding.
    """
    # The change may be wrong by the rounding of the task vectors and by that of the computation.
    noise = EXACT * math.sqrt(energy(merged.delta)) + rounding
    reshaped: RootSpectrum | ShapedSpectrum | None = None
    if rank == 1 and spectrum == ROOT:
        reshaped = _rooted(merged.delta, noise, tolerance)
    if reshaped is None:
        reshaped = shape_spectrum_(merged.delta, share=rank, power=spectrum, noise=noise)
    # Both functions may work in the memory of ``merged.delta``; then there is nothing to copy.
    if reshaped.matrix_OI.data_ptr() != merged.delta.data_ptr():
        merged.delta.copy_(reshaped.matrix_OI)
    spectrum_change = ChangedSpectrum(
        before=reshaped.before_R.tolist(), after=reshaped.after_R.tolist()
    )
    return replace(merged, diagnostics=replace(merged.diagnostics, reshaped=spectrum_change))


def _rounding_of_base(merged: Merged, base_OI: Tensor) -> float:
    """Frobenius norm of the rounding of weights in float32; 0 in float64."""
    if torch.float32 not in (merged.delta.dtype, base_OI.dtype):
        return 0.0
    return torch.finfo(torch.float32).eps * math.sqrt(energy(base_OI))


def _rooted(delta_OI: Tensor, noise: float, tolerance: Tolerance) -> RootSpectrum | None:
    """The roots of the singular values in float32; None if that is not exact enough."""
    norm = math.sqrt(energy(delta_OI))
    if delta_OI.dtype != torch.float32 or not norm:
        return None
    limit = SHARE_AFTER * tolerance.relative(norm)
    # False also for NaN, which the decomposition in float64 reports.
    if not limit >= SMALLEST_LIMIT:
        return None
    outputs, inputs = delta_OI.shape
    return root_spectrum(delta_OI, noise_floor(noise, (outputs, inputs)), limit)


def _traces(merged: Merged, deltas: Deltas, weights: Weights) -> list[float]:
    """Trace of the unweighted, centred Gram matrix of each expert that counts."""
    counted = [t for t, weight in enumerate(weights) if weight != 0]
    reported = merged.diagnostics
    if reported.traces:
        # They are of weighted task vectors.
        changing = [t for t in counted if t not in reported.left_out]
        return [reported.traces[t] / weights[t] ** 2 for t in changing]
    energies = []
    traces = []
    for t in counted:
        delta_OI = deltas[t].to(torch.float64, copy=True)
        energies.append(energy(delta_OI))
        centre_(delta_OI)
        traces.append(energy(delta_OI))
    return [traces[index] for index in heterogeneity(energies).counted]
