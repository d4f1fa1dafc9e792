"""The parameters of ACE-Merging, and the paper's ridge for each model family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ace_gui.ace_variants import AUTOMATIC, MEASURED, PUBLISHED
from ace_gui.field_info import ParameterValue
from ace_gui.methods.shared.kit import parameter, scaling_parameter, share_parameter
from ace_gui.methods.shared.measured import Need


@dataclass(frozen=True, kw_only=True)
class AceParameters:
    """Parameters of ACE-Merging.

    ``variant``: published, measured (with measured covariances) or automatic. The automatic variant
    scales the ridge to each layer, does not refine, and caps the change. For the published and the
    measured variant, ``epsilon``: ridge ε added to every expert's Gram matrix; absolute, so that
    task vectors s times as large need s² times as much; ``tau``: threshold τ on γ; ``k_frac``:
    share of singular directions that the refinement raises; ``refine``: whether to refine even
    against the experts' direction. For the automatic variant, ``alpha``: ridge as a share of each
    Gram matrix's mean eigenvalue; ``delta``: cap on the change as a share of ‖W₀‖. ``scaling``:
    factor on the merged task vector.
    """

    variant: str = parameter(
        PUBLISHED,
        label="Variant",
        help=(
            "Published: the paper's procedure, with an absolute ridge. Automatic: the ridge "
            "follows the scale of each layer, there is no refinement, and the change is capped. "
            "Measured: as published, with covariances measured on each expert's own data."
        ),
        choices=(PUBLISHED, AUTOMATIC, MEASURED),
    )
    epsilon: float = share_parameter(
        1e-5,
        label="Ridge ε",
        help=(
            "Stabilises the linear system. This is the most sensitive parameter. By default it "
            "follows from the base model, as in the paper: 4e-2 for GPT-2, 2e-4 for "
            "RoBERTa-base, 1e-5 for all others. The authors' script uses 1e-2."
        ),
        logarithmic=True,
        presets=(
            ("GPT-2", 4e-2),
            ("RoBERTa-base", 2e-4),
            ("other models", 1e-5),
            ("published script", 1e-2),
        ),
        applies_when=("variant", PUBLISHED, MEASURED),
    )
    tau: float = parameter(
        0.3,
        label="Threshold τ",
        help=(
            "Tensors with γ above this threshold count as heterogeneous. They are normalised "
            "and refined."
        ),
        low=0.0,
        high=100.0,
        applies_when=("variant", PUBLISHED, MEASURED),
    )
    k_frac: float = share_parameter(
        0.3,
        label="Refined fraction",
        help=(
            "Share of the singular directions that the refinement strengthens in heterogeneous "
            "tensors. 0 turns the refinement off."
        ),
        applies_when=("variant", PUBLISHED, MEASURED),
        above_zero=False,
    )
    refine: str = parameter(
        "always",
        label="Refine",
        help=(
            "Always: as published. Agreeing: skips a refinement that points against the sum of "
            "the task vectors."
        ),
        choices=("always", "agreeing"),
        applies_when=("variant", PUBLISHED, MEASURED),
    )
    alpha: float = parameter(
        0.3,
        label="Ridge share α",
        help=(
            "The ridge as a share of the mean eigenvalue of each expert's normalised Gram "
            "matrix. Results hardly differ between 0.3 and 1."
        ),
        low=0.0,
        high=100.0,
        low_open=True,
        logarithmic=True,
        applies_when=("variant", AUTOMATIC),
    )
    delta: float = parameter(
        0.12,
        label="Cap δ",
        help=(
            "Upper limit on the norm of a matrix's merged change, as a share of the base's "
            "norm. The experts' mean norm is always allowed, and never more than √T times that."
        ),
        low=0.0,
        high=10.0,
        applies_when=("variant", AUTOMATIC),
    )
    scaling: float = scaling_parameter(
        help="Factor on the merged task vector before it is added to the base."
    )


def needs(parameters: AceParameters) -> Need | None:
    """The measured variant needs the experts' inputs."""
    if parameters.variant == MEASURED:
        return Need.INPUTS
    return None


def family_defaults(config: Mapping[str, object]) -> Mapping[str, tuple[ParameterValue, str]]:
    """The paper's ε for the family of a ``config.json``, and where it comes from.

    RoBERTa-base has a hidden size of 768, RoBERTa-large of 1024.
    """
    family = config.get("model_type")
    if family == "gpt2":
        return {"epsilon": (4e-2, "The paper's value for GPT-2.")}
    if family == "roberta" and config.get("hidden_size") == 768:
        return {"epsilon": (2e-4, "The paper's value for RoBERTa-base.")}
    return {"epsilon": (1e-5, "The paper's value for models other than GPT-2 and RoBERTa-base.")}
