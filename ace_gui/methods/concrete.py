"""Concrete subspace learning: one mask for all experts, learned from inputs.

T experts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

import torch

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import Deltas
from ace_gui.methods.shared.kit import parameter, per_entry, scaling_parameter, steps_parameter
from ace_gui.methods.shared.learned import LearningParameters, merge_of_learned
from ace_gui.methods.shared.learning import Gates, Learning, Values
from ace_gui.methods.shared.measured import Need
from ace_gui.methods.shared.survey import Findings

TASK_ARITHMETIC = "task-arithmetic"
ADAMERGING = "adamerging"
_LEAST: Final = 1e-6
"""Lower bound of uniform numbers, so that their logits are finite, and of a mask's mean."""


@dataclass(frozen=True, kw_only=True)
class ConcreteParameters(LearningParameters):
    """``variant``: whether coefficients are learned too. ``temperature``: of the random masks."""

    steps: int = steps_parameter(
        2000,
        help="Number of training steps. 0 keeps the initial mask, which gives task arithmetic.",
        presets=(("paper, task arithmetic", 2000), ("paper, AdaMerging", 1000)),
    )
    variant: str = parameter(
        TASK_ARITHMETIC,
        label="Variant",
        help=(
            "task-arithmetic: learns the mask alone. adamerging: also learns one coefficient "
            "per expert and tensor."
        ),
        choices=(TASK_ARITHMETIC, ADAMERGING),
    )
    scaling: float = scaling_parameter(
        0.3,
        symbol="λ",
        help="Value of every coefficient. In the variant adamerging it is the initial value.",
    )
    temperature: float = parameter(
        0.5,
        label="Temperature",
        help=(
            "Temperature of the random masks in each step. Near 0, their entries are almost 0 or 1."
        ),
        differs=(
            "As published, except that the result uses each entry's probability. The published "
            "code draws one last random mask, so its result depends on chance."
        ),
        low=0.0,
        high=100.0,
        low_open=True,
        logarithmic=True,
    )


def _start(deltas: Deltas, parameters: ConcreteParameters, _findings: Findings | None) -> Values:
    return {
        "logits": torch.zeros_like(deltas[0])[None],
        "coefficient": torch.full((len(deltas),), parameters.scaling),
    }


def _gates(
    values: Values, parameters: ConcreteParameters, generator: torch.Generator | None
) -> Gates:
    """λ_t, and m / mean(m) over the tensor.

    While learning, m = σ((x + ln u − ln(1 − u)) / temperature) with random uniform u. The exported
    mask is the probability σ(x), so that the result does not depend on chance.
    """
    logits = values["logits"][0]
    coefficient_T = values["coefficient"]
    if generator is None:
        mask = torch.sigmoid(logits)
    else:
        drawn = torch.rand(logits.shape, generator=generator).clamp_(_LEAST, 1 - _LEAST)
        mask = torch.sigmoid((logits + torch.logit(drawn).to(logits)) / parameters.temperature)
    if mask.numel():
        level = mask.mean()
    else:
        level = mask.sum()
    return {
        "mask": mask / level.clamp(min=_LEAST),
        "coefficient": (
            coefficient_T if parameters.variant == ADAMERGING else coefficient_T.detach()
        ),
        "level": level.detach(),
    }


LEARNING = Learning[ConcreteParameters](
    start=_start,
    gates=_gates,
    figures=lambda gates: gates["level"].expand_as(gates["coefficient"]),
    curve="mean of the mask",
    numbers=lambda shape, experts: prod(shape) + experts,
)


CONCRETE = MergeMethod(
    name="concrete",
    title="Concrete",
    summary=(
        "Learns one mask shared by the changes of all experts that reduces their "
        "interference, by minimising the entropy of the merged model's answers. Needs no labels."
    ),
    formula=(
        "merged matrix: W = W₀ + m / mean(m) ⊙ Σₜ λₜ wₜ ΔWₜ,  entry by entry, mean over each "
        "tensor\n"
        "mask: m = 1 / (1 + exp(−x)),  x minimises the entropy of answers under masks drawn from it"
    ),
    citation=(
        "A. Tang, L. Shen, Y. Luo, L. Ding, H. Hu, B. Du, D. Tao, Concrete Subspace Learning based "
        "Interference Elimination for Multi-task Model Fusion, 2023, arXiv:2312.06173"
    ),
    parameters=ConcreteParameters,
    merge=merge_of_learned(LEARNING),
    kind=Kind.TENSOR,
    least=2,
    needs=lambda _: Need.ENTROPY,
    learning=LEARNING,
    working_memory=per_entry(7),
)
