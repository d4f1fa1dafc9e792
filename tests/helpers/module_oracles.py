"""What modules do, written slowly from the papers in float64. T experts, O outputs, I inputs."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def byom(deltas: dict[str, Array], t: int, scaling: float, density: float) -> dict[str, Array]:
    """The task vectors of BYOM's model of expert t: α Σ τ + the largest of τ_t − α Σ τ."""
    shared = {name: scaling * delta.sum(axis=0) for name, delta in deltas.items()}
    lost = {name: delta[t] - shared[name] for name, delta in deltas.items()}
    sizes = np.sort(np.concatenate([np.abs(tensor).reshape(-1) for tensor in lost.values()]))
    least = sizes[-max(1, int(density * len(sizes)))]
    return {
        name: shared[name] + np.where(np.abs(tensor) >= least * (1 - 1e-7), tensor, 0)
        for name, tensor in lost.items()
    }


def triplets(matrix: Array, rank: int) -> tuple[Array, Array, Array]:
    """The leading triplets of a matrix."""
    u, s, vh = np.linalg.svd(matrix, full_matrices=False)
    return u[:, :rank], s[:rank], vh[:rank]


def softmax(values: Array) -> Array:
    raised = np.exp(values - values.max())
    return raised / raised.sum()


def smile(
    deltas: Array, biases: Array, inputs: Array, rank: int, gate: int, top: int
) -> tuple[Array, Array]:
    """Σ λ_t (U_t S_t V_tᵀ x + b_t) for every input, and λ."""
    changes = []
    shares = []
    for x in inputs:
        logits = []
        outputs = []
        for delta, bias in zip(deltas, biases, strict=True):
            u, s, vh = triplets(delta, rank)
            logits.append(np.linalg.norm(vh[:gate] @ x))
            outputs.append(u @ (s * (vh @ x)) + bias)
        share = softmax(np.array(logits))
        least = np.sort(share)[-min(top, len(share))]
        share = np.where(share >= least, share, 0)
        shares.append(share / share.sum())
        changes.append(shares[-1] @ np.array(outputs))
    return np.array(changes), np.array(shares)


def block_shares(
    inputs: Array, hidden: Array, hidden_bias: Array, out: Array, out_bias: Array
) -> Array:
    """The mean over the tokens of A₂ max(0, A₁ x + b₁) + b₂."""
    return np.mean(
        [out @ np.maximum(hidden @ x + hidden_bias, 0) + out_bias for x in inputs], axis=0
    )
