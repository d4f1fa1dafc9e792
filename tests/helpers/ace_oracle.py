"""ACE-Merging transcribed equation by equation, slowly, in float64: what the fast code is held to.

Equation numbers are those of arXiv:2603.02945v2. T full Gram matrices, T residual products, an
explicit inverse of the non-symmetric system and a full singular value decomposition: nothing is
rearranged. The 1e-12 and the unbiased variance are the authors' code. deltas: (T, m, n).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
GUARD = 1e-12


def centred(delta: Array) -> tuple[Array, Array]:
    """Eq. 5: W̃_t and μ_t."""
    m = delta.shape[0]
    mean = delta.T @ np.ones(m) / m
    return delta - np.outer(np.ones(m), mean), mean


def proxy(delta: Array) -> Array:
    """Eq. 6: Σ̂_t."""
    tilde, _ = centred(delta)
    return tilde.T @ tilde


def energies(deltas: Array) -> Array:
    return np.array([np.trace(delta.T @ delta) for delta in deltas])


def gamma(deltas: Array) -> float:
    """Eq. 7."""
    logs = np.log(energies(deltas) + GUARD)
    return float(np.var(logs, ddof=1) / (np.mean(logs) ** 2 + GUARD))


def scaled_proxies(deltas: Array, heterogeneous: bool) -> list[Array]:
    """Σ̃_t of Eq. 15, by Eq. 8 in the heterogeneous regime."""
    proxies = [proxy(delta) for delta in deltas]
    return [p / (np.trace(p) + GUARD) if heterogeneous else p for p in proxies]


def ridges(deltas: Array, epsilon: float, heterogeneous: bool) -> list[float]:
    """ε_t of Eqs. 9 and 10."""
    traces = [np.trace(proxy(delta)) + GUARD for delta in deltas]
    return [epsilon / trace if heterogeneous else epsilon for trace in traces]


def regularised_proxies(deltas: Array, epsilon: float, heterogeneous: bool) -> list[Array]:
    """Σ̂_t,reg: Eq. 9 or Eq. 10."""
    eye = np.eye(deltas.shape[2])
    return [
        scaled + ridge * eye
        for scaled, ridge in zip(
            scaled_proxies(deltas, heterogeneous),
            ridges(deltas, epsilon, heterogeneous),
            strict=True,
        )
    ]


def prior(deltas: Array, heterogeneous: bool) -> Array:
    """C_agg: Eq. 11, divided by the mean energy of Eq. 12 as in Eq. 13."""
    n = deltas.shape[2]
    c = np.ones(n) @ sum(scaled_proxies(deltas, heterogeneous)) / n
    matrix = np.outer(np.ones(n), c)
    return matrix / (np.mean(energies(deltas)) + GUARD) if heterogeneous else matrix


def preliminary(deltas: Array, epsilon: float, heterogeneous: bool) -> Array:
    """W_pre: Eq. 14."""
    regularised = regularised_proxies(deltas, epsilon, heterogeneous)
    numerator = sum(centred(d)[0] @ reg for d, reg in zip(deltas, regularised, strict=True))
    return numerator @ np.linalg.inv(sum(regularised) + prior(deltas, heterogeneous))


def residual(deltas: Array, epsilon: float, heterogeneous: bool) -> Array:
    """Δ_res: Eqs. 16 and 17."""
    regularised = regularised_proxies(deltas, epsilon, heterogeneous)
    mean = sum(regularised) / len(deltas)
    scaled = scaled_proxies(deltas, heterogeneous)
    return sum(delta @ (s - mean) for delta, s in zip(deltas, scaled, strict=True))


def refinement(fused: Array, k: int, zero: float = 1e-11) -> Array:
    """ΔW_refine: Eq. 18. Directions with s_i ≤ zero·s_1 are not defined by it and left out."""
    u, s, vh = np.linalg.svd(fused, full_matrices=False)
    defined = [i for i in range(k) if s[i] > zero * s[0]]
    return np.mean(s[:k]) * (u[:, defined] @ vh[defined])


@dataclass(frozen=True)
class OracleResult:
    merged: Array
    preliminary: Array
    gamma: float
    heterogeneous: bool
    ridge_mass: float


def ace_oracle(
    deltas: Array, *, epsilon: float = 1e-5, tau: float = 0.3, k_frac: float = 0.3
) -> OracleResult:
    """Algorithm 1 for T ≥ 2 experts that all change the matrix."""
    heterogeneous = gamma(deltas) > tau
    pre = merged = preliminary(deltas, epsilon, heterogeneous)
    k = int(np.floor(k_frac * min(pre.shape) + 1e-9))
    if heterogeneous and k > 0:
        fused = pre + residual(deltas, epsilon, heterogeneous)
        merged = pre + refinement(fused, k)  # Eq. 19
    return OracleResult(
        merged=merged,
        preliminary=pre,
        gamma=gamma(deltas),
        heterogeneous=heterogeneous,
        ridge_mass=sum(ridges(deltas, epsilon, heterogeneous)),
    )


def automatic(deltas: Array, base: Array, *, alpha: float = 0.3, delta: float = 0.12) -> Array:
    """The automatic variant, step by step, for T ≥ 2 experts that all change the matrix W₀."""
    T, _, n = deltas.shape
    tilde = [centred(d)[0] for d in deltas]
    traces = [np.trace(w.T @ w) for w in tilde]
    scaled = [w.T @ w / trace for w, trace in zip(tilde, traces, strict=True)]
    regularised = [s + alpha / n * np.eye(n) for s in scaled]
    numerator = sum(w @ r for w, r in zip(tilde, regularised, strict=True))
    prior_row = np.ones(n) @ sum(scaled) / n
    merged = numerator @ np.linalg.inv(sum(regularised) + np.outer(np.ones(n), prior_row))
    rms = np.sqrt(np.mean(traces))
    cap = max(rms, min(np.sqrt(T) * rms, delta * np.linalg.norm(base)))
    return merged * min(1.0, cap / np.linalg.norm(merged))


def relative_error(value: Array, reference: Array) -> float:
    """‖value − reference‖_F / ‖reference‖_F."""
    return float(np.linalg.norm(value - reference) / np.linalg.norm(reference))
