"""ACE-Merging, as a merge method: `algorithm` has the procedure, `parameters` what can be set."""

from ace_gui.methods.ace.algorithm import ace, ace_batch, flops, working_memory
from ace_gui.methods.ace.parameters import AceParameters, family_defaults, needs
from ace_gui.methods.method import Kind, MergeMethod

__all__ = ["ACE", "AceParameters", "ace", "ace_batch"]

ACE = MergeMethod(
    name="ace",
    title="ACE-Merging",
    summary=(
        "Estimates which inputs each expert relies on from the change of its weights, and "
        "solves for the one matrix that serves all experts. Needs no data."
    ),
    formula=(
        "merged matrix: W = W₀ + scaling · (W_pre + ΔW_refine)\n"
        "solution: W_pre = (Σₜ W̃ₜ Σ̂ₜ,reg) (Σₜ Σ̂ₜ,reg + 1cᵀ)⁻¹\n"
        "covariances: W̃ₜ = ΔWₜ − 1μₜᵀ,  Σ̂ₜ = W̃ₜᵀW̃ₜ,  Σ̂ₜ,reg = Σ̂ₜ + εI\n"
        "heterogeneity: γ = Var(ln ‖ΔWₜ‖²) / mean(ln ‖ΔWₜ‖²)²\n"
        "where γ > τ: Σ̂ₜ,reg = (Σ̂ₜ + εI) / Tr Σ̂ₜ,  ΔW_refine = σ_iso U_k V_kᵀ"
    ),
    citation=(
        "B. Xu, H. Wu, H. Lin, W. Huang, B. Zhu, Y. Shu, C. Qin, ACE-Merging: Data-Free Model "
        "Merging with Adaptive Covariance Estimation, CVPR 2026, arXiv:2603.02945"
    ),
    parameters=AceParameters,
    merge=ace,
    merge_batch=ace_batch,
    kind=Kind.MATRIX,
    heterogeneity=True,
    # Centring a single output leaves nothing, and with a single input a row is its own mean.
    narrowest=2,
    working_memory=working_memory,
    flops=flops,
    outputs_alike=True,
    needs=needs,
    defaults=family_defaults,
)
