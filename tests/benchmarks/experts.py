"""Task vectors that resemble those of fine-tuning: a few strong directions over dense noise."""

from __future__ import annotations

import torch
from torch import Tensor

NOISE = 0.1
"""Norm of the dense part as a share of the whole."""


def task_vector(outputs: int, inputs: int, norm: float, generator: torch.Generator) -> Tensor:
    """A float32 matrix of that Frobenius norm.

    A twentieth of its directions hold 99 % of its energy, with singular values that fall by two
    orders of magnitude; the rest is Gaussian.
    """
    rank = max(1, min(outputs, inputs) // 20)
    left_factor = torch.randn(outputs, rank, generator=generator) * torch.logspace(0, -2, rank)
    strong = left_factor @ torch.randn(rank, inputs, generator=generator)
    noise = torch.randn(outputs, inputs, generator=generator)
    noise.mul_(NOISE / torch.linalg.vector_norm(noise))
    noise.add_(strong, alpha=(1 - NOISE**2) ** 0.5 / float(torch.linalg.vector_norm(strong)))
    return noise.mul_(norm)


def norms(experts: int, largest: float, ratio: float) -> list[float]:
    """One norm an expert, from ``largest`` down to ``largest`` / ``ratio`` in equal ratios."""
    steps = max(1, experts - 1)
    return [largest * ratio ** (-t / steps) for t in range(experts)]
