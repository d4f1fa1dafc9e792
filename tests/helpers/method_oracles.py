"""Merge methods transcribed formula by formula, slowly, in float64: what the fast code is held to.

``deltas``: (T, ...), weights included. Full decompositions, full sorts, all experts at once; loops
over entries where that is the plainest. ``NOTHING``: singular values below this share of the
largest have no direction of their own. Uniform numbers are given, not drawn.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.float64]
NOTHING = 1e-6


def relative_error(value: Array, reference: Array) -> float:
    """‖value − reference‖ / ‖reference‖; the absolute error where the reference is zero."""
    return float(np.linalg.norm(value - reference) / (np.linalg.norm(reference) or 1.0))


def changed(deltas: Array) -> Array:
    """The experts whose energy exceeds 1e-10 of the median of the nonzero energies."""
    energies = np.array([np.sum(delta**2) for delta in deltas])
    if not energies.any():
        return deltas[:0]
    return deltas[energies > 1e-10 * np.median(energies[energies > 0])]


def largest(delta: Array, density: float) -> Array:
    """Zeros but for the floor(density · n) largest magnitudes (one at least) and their equals."""
    n = delta.size
    count = max(1, math.floor(density * n + 1e-9))
    threshold = np.sort(np.abs(delta), axis=None)[n - count]
    return np.where(np.abs(delta) >= threshold, delta, 0.0)


def elect(
    values: Array, combine: str = "mean", weights: Array | None = None, balanced: str = "majority"
) -> Array:
    """Steps 2 and 3 of TIES: elected sign, then the disjoint mean or sum. One entry at a time."""
    weights = np.ones(len(values)) if weights is None else np.abs(weights)
    flat = values.reshape(len(values), -1)
    totals = flat.sum(axis=0)
    majority = 1.0 if balanced == "positive" or np.sign(totals).sum() >= 0 else -1.0
    merged = np.zeros(flat.shape[1])
    for i, total in enumerate(totals):
        sign = np.sign(total) or majority
        agreeing = [t for t in range(len(flat)) if flat[t, i] * sign > 0]
        if agreeing:
            divisor = sum(weights[t] for t in agreeing) if combine == "mean" else 1.0
            merged[i] = sum(flat[t, i] for t in agreeing) / divisor
    return merged.reshape(values.shape[1:])


def ties(
    deltas: Array,
    density: float,
    combine: str = "mean",
    weights: Array | None = None,
    balanced: str = "majority",
) -> Array:
    trimmed = np.array([largest(delta, density) for delta in deltas])
    if weights is not None:
        trimmed = trimmed * weights.reshape(-1, *[1] * (deltas.ndim - 1))
    return elect(trimmed, combine, weights, balanced)


def dare(deltas: Array, uniforms: Array, density: float) -> Array:
    """mask ⊙ τ / (1 − p), one an expert."""
    return np.where(uniforms < np.float32(density), deltas / density, 0.0)


def della(deltas: Array, uniforms: Array, density: float, epsilon: float) -> Array:
    """Entries kept with chances that rise by rank within a row, each divided by its chance."""
    result = []
    for t, delta in enumerate(deltas):
        rows = delta.reshape(delta.shape[0] if delta.ndim > 1 else 1, -1)
        draws = uniforms[t].reshape(rows.shape)
        out = np.zeros_like(rows)
        for i, row in enumerate(rows):
            n = len(row)
            for rank, j in enumerate(np.argsort(np.abs(row), kind="stable")):
                chance = density
                if n > 1:
                    chance = density - epsilon + 2 * epsilon * rank / (n - 1)
                if draws[i, j] < np.float32(chance):
                    out[i, j] = row[j] / chance
        result.append(out.reshape(delta.shape))
    return np.array(result)


def breadcrumbs(deltas: Array, density: float, gamma: float) -> Array:
    return sum(crumbs(deltas, density, gamma))


def crumbs(deltas: Array, density: float, gamma: float) -> Array:
    """τ without the floor(γ n) largest and then without the smallest beyond density · n."""
    filtered = []
    for delta in deltas:
        n = delta.size
        ordered = np.sort(np.abs(delta), axis=None)
        count = max(1, math.floor(density * n + 1e-9))
        top = math.floor(gamma * n + 1e-9)
        high = ordered[n - min(top, n - count) - 1]
        low = ordered[max(0, n - count - top)]
        filtered.append(np.where((np.abs(delta) >= low) & (np.abs(delta) <= high), delta, 0.0))
    return np.array(filtered)


def ram(deltas: Array, epsilon: float) -> Array:
    """One entry at a time: the mean over those that changed it."""
    flat = deltas.reshape(len(deltas), -1)
    merged = [np.mean([v for v in column if abs(v) > epsilon] or [0.0]) for column in flat.T]
    return np.array(merged).reshape(deltas.shape[1:])


def ramplus_tl(deltas: Array, epsilon: float, r: float, alpha: float) -> Array:
    """As RAM, an expert's unique entries by 1 + r · min(α, shared / unique)."""
    changed_by = np.abs(deltas) > epsilon
    counts = changed_by.sum(axis=0)
    merged = ram(deltas, epsilon)
    for delta, mask in zip(deltas, changed_by, strict=True):
        unique = np.sum(mask & (counts == 1))
        shared = np.sum(mask & (counts > 1))
        ratio = shared / unique if unique else (alpha if shared else 0.0)
        merged = merged + np.where(mask & (counts == 1), r * min(ratio, alpha) * delta, 0.0)
    return merged


def nearswap(delta: Array, t: float) -> Array:
    entries = [v * min(1.0, t / max(abs(v), 1e-6)) for v in delta.ravel()]
    return np.array(entries).reshape(delta.shape)


def softmax(row: Array) -> Array:
    powers = np.exp(row - row.max())
    return powers / powers.sum() + 1e-8


def arcee_fusion(delta: Array, base: Array, spread: float) -> Array:
    """Row by row; a number alone is a row of one."""
    rows, old = (
        matrix.reshape(-1, matrix.shape[-1] if matrix.ndim else 1) for matrix in (delta, base)
    )
    importance = np.zeros_like(rows)
    for i, (row, before) in enumerate(zip(rows, old, strict=True)):
        p = softmax(before + row)
        q = softmax(before)
        importance[i] = np.abs(row) * np.sum(p * np.log(p / q))
    ordered = np.sort(importance, axis=None)
    first, median, third = (ordered[int(q * (len(ordered) - 1))] for q in (0.25, 0.5, 0.75))
    mask = importance >= median + spread * (third - first)
    return np.where(mask, rows, 0.0).reshape(delta.shape)


def linear(deltas: Array, base: Array, weights: Array, base_weight: float, mean: bool) -> Array:
    """Of whole weights, the base's among them."""
    points = [base, *(base + delta for delta in deltas)]
    every = np.array([base_weight, *weights])
    total = sum(w * point for w, point in zip(every, points, strict=True))
    return total / (every.sum() if mean else 1.0) - base


def consensus(deltas: Array, agreeing: int, threshold: float) -> Array:
    total = deltas.sum(axis=0)
    masks = np.array([np.abs(delta) > threshold * np.abs(total - delta) for delta in deltas])
    return np.where(masks.sum(axis=0) >= agreeing, total, 0.0)


def nan(deltas: Array) -> Array:
    experts = changed(deltas)
    if not len(experts):
        return np.zeros_like(deltas[0])
    inverse = 1 / np.array([np.linalg.norm(delta) for delta in experts])
    return len(experts) / 2 * np.tensordot(inverse / inverse.sum(), experts, axes=1)


def truncate(matrix: Array, k: int) -> Array:
    u, s, vh = np.linalg.svd(matrix, full_matrices=False)
    return u[:, :k] * s[:k] @ vh[:k]


def reshaped(matrix: Array, share: float, power: float, noise: float = 0.0) -> Array:
    """U f(S) Vᵀ, f(s) ∝ s^power for the leading floor(share · R); one singular value at a time.

    A power below 1 leaves out those that ``noise``, or the rounding of a Gram matrix, explains.
    """
    u, sigma, vh = np.linalg.svd(matrix, full_matrices=False)
    count = max(1, math.floor(share * len(sigma) + 1e-9))
    floor = max(noise * sum(1 / math.sqrt(size) for size in matrix.shape), 1e-7 * sigma[0])
    made = [
        s**power if i < count and (power >= 1 or s > floor) else 0.0 for i, s in enumerate(sigma)
    ]
    norm = np.linalg.norm(made)
    target = np.linalg.norm(sigma[:count])
    return np.asarray((u * np.array(made) * (target / norm if norm else 0.0)) @ vh)


def polar(columns: Array) -> Array:
    """U Vᵀ over the directions that have a singular value."""
    if not columns.shape[1]:
        return columns
    u, s, vh = np.linalg.svd(columns, full_matrices=False)
    directions = s > NOTHING * s[0]
    return u[:, directions] @ vh[directions]


def triplets(matrix: Array, k: int, scale: float = 0.0) -> tuple[Array, Array, Array]:
    u, s, vh = np.linalg.svd(matrix, full_matrices=False)
    count = int(np.sum(s[:k] > NOTHING * max(s[0], scale)))
    return u[:, :count], s[:count], vh[:count]


def tsv_m(deltas: Array) -> Array:
    experts = changed(deltas)
    if not len(experts):
        return np.zeros_like(deltas[0])
    if len(experts) == 1:
        return experts[0]
    k = max(1, min(deltas.shape[1:]) // len(experts))
    parts = [triplets(delta, k) for delta in experts]
    u = polar(np.concatenate([part[0] for part in parts], axis=1))
    s = np.concatenate([part[1] for part in parts])
    v = polar(np.concatenate([part[2].T for part in parts], axis=1))
    return u @ np.diag(s) @ v.T


def iso_c(deltas: Array) -> Array:
    total = deltas.sum(axis=0)
    u, s, vh = triplets(total, min(total.shape))
    return np.mean(s) * u @ vh if len(s) else np.zeros_like(total)


def iso_cts(deltas: Array, common: float) -> Array:
    experts = changed(deltas)
    rank = min(deltas.shape[1:])
    if not len(experts):
        return np.zeros_like(deltas[0])
    size = round((rank - math.floor(common * rank + 1e-9)) / len(experts))
    size = min(size, rank // len(experts))
    if size == 0:
        return iso_c(experts)
    us, ss, vhs = triplets(experts.sum(axis=0), rank - size * len(experts))
    parts = [(us, ss, vhs)]
    for delta in experts:
        outside = (np.eye(len(delta)) - us @ us.T) @ delta
        parts.append(triplets(outside, size, float(np.linalg.norm(delta))))
    u = polar(np.concatenate([part[0] for part in parts], axis=1))
    v = polar(np.concatenate([part[2].T for part in parts], axis=1))
    return np.mean(np.concatenate([part[1] for part in parts])) * u @ v.T


def cart(deltas: Array, share: float, scaling: float) -> Array:
    mean = deltas.mean(axis=0)
    k = 0 if share == 0 else max(1, math.floor(share * min(mean.shape) + 1e-9))
    return mean + scaling * sum(truncate(delta - mean, k) for delta in deltas)


def star(deltas: Array, eta: float) -> Array:
    result = np.zeros_like(deltas[0])
    for delta in deltas:
        s = np.linalg.svd(delta, compute_uv=False)
        if not s.any():
            continue
        k = next(k for k in range(1, len(s) + 1) if s[:k].sum() >= eta / 100 * s.sum() - 1e-12)
        result += truncate(delta, k) * (s.sum() / s[:k].sum())
    return result / len(deltas)


def wudi_loss(merged: torch.Tensor, deltas: torch.Tensor) -> torch.Tensor:
    return sum(
        ((merged - delta) @ delta.T).square().sum() / delta.square().sum() for delta in deltas
    )


def wudi_adam(deltas: Array, steps: int, learning_rate: float) -> Array:
    """The published optimisation with automatic differentiation."""
    experts = torch.from_numpy(changed(deltas))
    if not len(experts):
        return np.zeros_like(deltas[0])
    merged = experts.sum(dim=0).requires_grad_()
    optimiser = torch.optim.Adam([merged], lr=learning_rate)
    for _ in range(steps):
        optimiser.zero_grad()
        wudi_loss(merged, experts).backward()
        optimiser.step()
    return merged.detach().numpy()


def wudi_closed(deltas: Array) -> Array:
    """Least squares: M A_tᵀ = ΔW_t A_tᵀ for all t, A_t = ΔW_t / ‖ΔW_t‖, of least norm."""
    experts = changed(deltas)
    if not len(experts):
        return np.zeros_like(deltas[0])
    units = np.array([delta / np.linalg.norm(delta) for delta in experts])
    stacked = np.concatenate(list(units), axis=0)
    target = np.concatenate([d @ u.T for d, u in zip(experts, units, strict=True)], axis=1)
    return target @ np.linalg.pinv(stacked.T, rcond=1e-5)


def model_stock(deltas: Array) -> Array:
    experts = changed(deltas)
    if not len(experts):
        return np.zeros_like(deltas[0])
    if len(experts) == 1:
        return experts[0]
    N = len(experts)
    pairs = [(i, j) for i in range(N) for j in range(i)]
    c = max(0.0, np.mean([cosine(experts[i], experts[j]) for i, j in pairs]))
    return N * c / (1 + (N - 1) * c) * experts.mean(axis=0)


def cosine(first: Array, second: Array) -> float:
    return float(np.sum(first * second) / (np.linalg.norm(first) * np.linalg.norm(second)))


def slerp(first: Array, second: Array, t: float, straight: float = 0.9995) -> Array:
    """A vector of zeros is at a right angle to any other."""
    zero = not (first.any() and second.any())
    if not zero and abs(cosine(first, second)) > straight:
        return (1 - t) * first + t * second
    if not zero and 1 - cosine(first, second) ** 2 < 1e-15:
        return (1 - t) * first + t * second
    angle = math.pi / 2 if zero else math.acos(cosine(first, second))
    return (math.sin((1 - t) * angle) * first + math.sin(t * angle) * second) / math.sin(angle)


def multislerp(deltas: Array, weights: Array) -> Array:
    """As mergekit computes it, its step in the tangent space included; shares sum to 1."""
    if len(deltas) == 1 or not deltas.any():
        return deltas[0]
    shares = weights / weights.sum()
    norms = np.array([np.linalg.norm(delta) for delta in deltas])
    units = [delta / (norm + 1e-8) for delta, norm in zip(deltas, norms, strict=True)]
    mean = sum(a * u for a, u in zip(shares, units, strict=True))
    if np.linalg.norm(mean) < 1e-8:
        return sum(a * d for a, d in zip(shares, deltas, strict=True))
    mean /= np.linalg.norm(mean)
    step = sum(a * (u - np.sum(u * mean) * mean) for a, u in zip(shares, units, strict=True))
    turn = np.linalg.norm(step) + 1e-8
    point = math.cos(turn) * mean + math.sin(turn) / turn * step
    return float(shares @ norms) * point


def karcher(deltas: Array, weights: Array, iterations: int, tolerance: float = 1e-5) -> Array:
    """Steps on the sphere with whole vectors."""
    norms = np.array([np.linalg.norm(delta) for delta in deltas])
    if not norms.any():
        return np.zeros_like(deltas[0])
    used = norms > 0
    shares = weights[used] / weights[used].sum()
    units = [delta / norm for delta, norm in zip(deltas[used], norms[used], strict=True)]
    point = sum(a * u for a, u in zip(shares, units, strict=True))
    point /= np.linalg.norm(point)
    for _ in range(iterations):
        step = np.zeros_like(point)
        for a, u in zip(shares, units, strict=True):
            angle = math.acos(np.clip(np.sum(u * point), -1, 1))
            if angle > 1e-7:
                step += a * angle / math.sin(angle) * (u - math.cos(angle) * point)
        turn = np.linalg.norm(step)
        if turn <= tolerance:
            break
        point = math.cos(turn) * point + math.sin(turn) * step / turn
        point /= np.linalg.norm(point)
    return float(shares @ norms[used]) * point


def sce(deltas: Array, topk: float, alike_below: float = 1e-6) -> Array:
    """Select, calculate, erase, with mergekit's guards against small numbers."""
    if topk < 1:
        variance = deltas.var(axis=0)
        count = math.floor(topk * np.count_nonzero(variance) + 1e-9)
        if not count:
            return np.zeros_like(deltas[0])
        deltas = np.where(variance >= np.sort(variance, axis=None)[-count], deltas, 0.0)
    squares = np.array([np.mean(delta**2) for delta in deltas])
    alike = squares.sum() == 0 or squares.sum() < alike_below
    shares = np.full(len(squares), 1 / len(squares)) if alike else squares / squares.sum()
    sign = np.where(deltas.sum(axis=0) >= 0, 1.0, -1.0)
    agreeing = shares.reshape(-1, *[1] * (deltas.ndim - 1)) * (deltas * sign > 0)
    return (agreeing * deltas).sum(axis=0) / np.maximum(agreeing.sum(axis=0), 1e-6)


def high_pass(matrix: Array, cutoff: float) -> Array:
    """By explicit Fourier matrices."""
    m, n = matrix.shape
    forward_m = np.exp(-2j * np.pi * np.outer(np.arange(m), np.arange(m)) / m)
    forward_n = np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
    spectrum = forward_m @ matrix @ forward_n.T
    for i in range(m):
        for j in range(n):
            radius = math.hypot(min(i, m - i) / m, min(j, n - j) / n)
            if radius < cutoff * math.sqrt(0.5) * (1 - 1e-12):
                spectrum[i, j] = 0
    return (forward_m.conj() @ spectrum @ forward_n.conj().T).real / (m * n)


def fr_merging(deltas: Array, cutoff: float, equal: bool = False) -> Array:
    filtered = np.array([high_pass(delta, cutoff) for delta in changed(deltas)])
    if not len(filtered):
        return np.zeros_like(deltas[0])
    means = np.array([1.0 if equal else np.mean(np.abs(g)) for g in filtered])
    return np.tensordot(means if equal else means / means.sum(), filtered, axes=1)


def pcb(deltas: Array, density: float) -> Array:
    """The variant for vision models, all experts at once."""
    experts = changed(deltas)
    if not len(experts):
        return np.zeros_like(deltas[0])
    T = len(experts)
    n = experts[0].size
    cut = math.floor(0.01 * n)
    clamped = np.zeros_like(experts)
    units = np.zeros_like(experts)
    for t, delta in enumerate(experts):
        ordered = np.sort(np.abs(delta), axis=None)
        low = ordered[cut]
        high = ordered[n - 1 - cut]
        magnitude = np.clip(np.abs(delta), low, high)
        clamped[t] = np.sign(delta) * magnitude
        scaled = (magnitude - low) / (high - low) if high > low else np.ones_like(magnitude)
        units[t] = np.sign(delta) * scaled
    shares = np.zeros_like(experts)
    for t in range(T):
        score = np.exp(T * units[t] ** 2) * sum(np.tanh(units[t] * units[j]) for j in range(T))
        ordered = np.sort(score, axis=None)
        wins = max(1, math.floor(density * n + 1e-9))
        lost = ordered[max(0, n - wins - 1)]
        if ordered[-1] > lost:
            shares[t] = np.maximum(0, (score - lost) / (ordered[-1] - lost))
        else:
            shares[t] = score == ordered[-1]
    divisor = shares.sum(axis=0)
    return np.where(divisor > 0, (shares * clamped).sum(axis=0) / np.where(divisor, divisor, 1), 0)


def emr(deltas: Array) -> Array:
    """Elected signs, largest agreeing magnitudes; one entry at a time."""
    flat = deltas.reshape(len(deltas), -1)
    unified = np.zeros(flat.shape[1])
    for i in range(flat.shape[1]):
        sign = 1.0 if flat[:, i].sum() > 0 else -1.0
        unified[i] = sign * max([abs(value) for value in flat[:, i] if value * sign > 0] or [0.0])
    return unified.reshape(deltas.shape[1:])


def emr_expert(tensors: list[Array], t: int, rescaling: str) -> list[Array]:
    """λ_t M_t ⊙ τ for every tensor (T × ...) of a model."""
    unified = [emr(deltas) for deltas in tensors]
    masked = [
        np.where(deltas[t] * vector > 0, vector, 0.0)
        for deltas, vector in zip(tensors, unified, strict=True)
    ]
    task_vectors = [deltas[t] for deltas in tensors]
    if rescaling == "tensors":
        scale = sum(np.mean(np.abs(d)) for d in task_vectors) / sum(
            np.mean(np.abs(m)) for m in masked
        )
    elif rescaling == "entries":
        scale = sum(np.sum(np.abs(d)) for d in task_vectors) / sum(
            np.sum(np.abs(m)) for m in masked
        )
    else:
        x, y = (
            np.concatenate([tensor.ravel() for tensor in group]) for group in (masked, task_vectors)
        )
        scale = float(np.linalg.lstsq(x[:, None], y, rcond=None)[0][0])
    return [scale * tensor for tensor in masked]


def tall_mask(deltas: Array, t: int, threshold: float) -> Array:
    total = deltas.sum(axis=0)
    return np.abs(deltas[t]) > threshold * np.abs(total - deltas[t])


def localize_stitch(deltas: Array, density: float) -> Array:
    """Mean over the experts that keep an entry; ``deltas``: (T, entries of the whole model)."""
    sparse = np.array([largest(delta, density) for delta in deltas])
    counts = np.count_nonzero(sparse, axis=0)
    return sparse.sum(axis=0) / np.maximum(counts, 1)


def knots(deltas: Array) -> tuple[Array, Array]:
    """U and the blocks S V_tᵀ of [ΔW_1 … ΔW_T] = U S [V_1ᵀ … V_Tᵀ]."""
    u, s, vh = np.linalg.svd(np.concatenate(list(deltas), axis=1), full_matrices=False)
    directions = s > NOTHING * s[0]
    blocks = np.split(s[directions, None] * vh[directions], len(deltas), axis=1)
    return u[:, directions], np.array(blocks)


def knots_ties(deltas: Array, density: float) -> Array:
    experts = changed(deltas)
    if not len(experts):
        return np.zeros_like(deltas[0])
    u, blocks = knots(experts)
    return u @ ties(blocks, density)
