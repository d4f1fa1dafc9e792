"""Task arithmetic: the sum of the task vectors, scaled."""

from __future__ import annotations

from dataclasses import dataclass

from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import Context, Experts, Merged, on_experts
from ace_gui.methods.shared.kit import per_entry, scaling_parameter
from ace_gui.methods.shared.sparse import SumParameters, divisor


@dataclass(frozen=True, kw_only=True)
class TaskArithmeticParameters(SumParameters):
    """Parameters of task arithmetic; a negative ``scaling`` removes abilities.

    Without ``normalize``, weights (1, 1) and λ = 1/2 give the mean.
    """

    scaling: float = scaling_parameter(
        0.3,
        symbol="λ",
        help="Factor on the sum of the task vectors. 1/T for T experts gives their mean.",
        presets=(("usual without validation", 0.3), ("plain sum", 1.0)),
    )


@on_experts
def task_arithmetic(experts: Experts, parameters: TaskArithmeticParameters, _: Context) -> Merged:
    """λ Σ_t w_t ΔW_t, elementwise, float32, for tensors of any shape.

    Raises MethodError if a task vector is not finite.
    """
    factor = parameters.scaling / divisor(experts.weights, parameters.normalize)
    return Merged(delta=experts.sum_in_float32().mul_(factor))


TASK_ARITHMETIC = MergeMethod(
    name="task_arithmetic",
    title="Task arithmetic",
    summary="Adds up the experts' task vectors and scales the sum.",
    formula="W = W₀ + λ Σₜ wₜ ΔWₜ,  ΔWₜ = Wₜ − W₀",
    citation=(
        "G. Ilharco, M. T. Ribeiro, M. Wortsman, L. Schmidt, H. Hajishirzi, A. Farhadi, Editing "
        "models with task arithmetic, ICLR 2023, arXiv:2212.04089"
    ),
    parameters=TaskArithmeticParameters,
    merge=task_arithmetic,
    kind=Kind.ENTRY,
    working_memory=per_entry(1.5),
    sums=True,
)
