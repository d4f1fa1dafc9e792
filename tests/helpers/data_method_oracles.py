"""The methods that want data as their papers write them: slowly, in float64.

T experts, O outputs, I inputs. Sources: RegMean arXiv:2212.09849, Fisher averaging
arXiv:2111.09832, UBGM arXiv:2310.12808, ESM arXiv:2602.20208.
"""

from __future__ import annotations

import numpy as np

from tests.helpers.method_cases import Array, gram_of, information_of


def regmean(
    deltas: Array, alpha: float, ridge: float = 1e-6, weights: Array | None = None
) -> Array:
    """Whole weights are not needed: W0 drops out, as the Gram matrices are divided by their sum."""
    counts = np.ones(len(deltas)) if weights is None else weights
    grams = [gram_of(delta) for delta in deltas]
    level = ridge * np.mean([np.trace(gram) / len(gram) for gram in grams])
    scaled = [
        alpha * gram + (1 - alpha) * np.diag(np.diag(gram)) + level * np.eye(len(gram))
        for gram in grams
    ]
    above = sum(w * delta @ gram for w, delta, gram in zip(counts, deltas, scaled, strict=True))
    below = sum(w * gram for w, gram in zip(counts, scaled, strict=True))
    return np.asarray(above @ np.linalg.inv(below))


def fisher(deltas: Array, floor: float, weights: Array | None = None) -> Array:
    counts = np.ones(len(deltas)) if weights is None else weights
    shares = np.array(
        [w * (information_of(delta) + floor) for w, delta in zip(counts, deltas, strict=True)]
    )
    return np.asarray((shares * deltas).sum(axis=0) / shares.sum(axis=0))


def ubgm(deltas: Array, prior: float, weights: Array | None = None) -> Array:
    counts = np.ones(len(deltas)) if weights is None else weights
    information = np.array([information_of(delta) for delta in deltas])
    below = prior + np.tensordot(counts, information, 1)
    above = [
        w * (prior + values) * d for w, values, d in zip(counts, information, deltas, strict=True)
    ]
    return np.asarray(sum(above) / below)


def scaled_polar(matrix: Array) -> Array:
    u, s, vh = np.linalg.svd(matrix, full_matrices=False)
    directions = s > 1e-6 * s[0]
    return np.asarray(np.mean(s[directions]) * u[:, directions] @ vh[directions])


def esm(
    deltas: Array, power: float = 2.0, eigenvalue_power: float = 0.15, beta: float = 1.0
) -> Array:
    changes = [delta for delta in deltas if delta.any()]
    if not changes:
        return np.zeros_like(deltas[0])
    count = max(1, len(changes[0]) // len(changes))
    bases = []
    coordinates = []
    sizes = []
    for delta in changes:
        roots = np.linalg.cholesky(gram_of(delta))  # X with XᵀX = G; the shift is X ΔWᵀ
        _, s, vh = np.linalg.svd(roots.T @ delta.T)
        values = s[:count] ** 2
        basis = vh[:count].T[:, : len(s[:count])]
        clear = values > 1e-6 * values[0]
        values = values[clear]
        basis = basis[:, clear]
        projection = basis.T @ delta
        sizes.append(np.linalg.norm(projection))
        share = (values / values.mean()) ** eigenvalue_power
        bases.append(basis * share)
        coordinates.append(projection * share[:, None])
    scaled = [
        part * (size / np.mean(sizes)) ** power
        for part, size in zip(coordinates, sizes, strict=True)
    ]
    rows = np.concatenate(scaled)
    norms = np.linalg.norm(rows, axis=0)
    rows = rows * (norms / norms.mean()) ** power
    return beta * scaled_polar(np.concatenate(bases, axis=1)) @ scaled_polar(rows)


def leading(deltas: Array, ratio: float) -> Array:
    """0.3 times the sum of the leading singular directions of each expert."""
    total = np.zeros_like(deltas[0])
    for delta in deltas:
        u, s, vt = np.linalg.svd(delta, full_matrices=False)
        count = int(np.ceil(ratio * len(s) - 1e-9))
        total = total + 0.3 * (u[:, :count] * s[:count]) @ vt[:count]
    return total
