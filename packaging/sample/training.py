"""How the models of both samples are trained and stored, and how their recipes begin."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import nn

RECIPE_START = (
    "schema: 1",
    "merge_method: ace",
    "# These three keys make it the recommended merge; without them it is ACE as published.",
    "parameters: {variant: automatic}",
    "after: {spectrum: 0.5, scale: 1.3, cap: {delta: 0.12, one_head: 0}}",
    "poolers: keep",
    "base_model: base",
    "models:",
)


def learning_rates(steps: int, warm_up: int) -> Callable[[int], float]:
    """Return the factor of the learning rate by step: linear warm-up, then a half cosine."""
    return lambda step: (
        min(1, (step + 1) / warm_up) * (0.5 + 0.5 * math.cos(math.pi * step / steps))
    )


def train(
    model: nn.Module,
    losses: Iterator[torch.Tensor],
    *,
    steps: int,
    rate: float,
    decay: float,
    warm_up: int,
) -> None:
    """Take ``steps`` AdamW steps down the losses, on every parameter that is not frozen."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, learning_rates(steps, warm_up))
    model.train()
    for _ in range(steps):
        next(losses).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        optimiser.zero_grad()
        schedule.step()
    model.eval()


def round_to_half(model: nn.Module) -> None:
    """Round the weights to float16, which they are stored in; experts start from these."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half())
