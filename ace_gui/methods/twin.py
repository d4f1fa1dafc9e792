"""Twin-Merging: shared knowledge, compressed exclusive knowledge, and a router between them."""

from __future__ import annotations

from dataclasses import dataclass

from ace_gui.methods.byom import ENTRIES, LOW_RANK, ByomParameters, differences, stored_part
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.expert_modules import Differences, ModuleKind
from ace_gui.methods.shared.kit import parameter, per_entry
from ace_gui.methods.shared.sparse import scaled_sum


@dataclass(frozen=True, kw_only=True)
class TwinParameters(ByomParameters):
    """``keep``, ``density``, ``rank``: how differences are compressed; ``scaling``: λ."""

    keep: str = parameter(
        LOW_RANK,
        label="Keep",
        help=(
            "How each expert's difference from the merged model is compressed. low rank: the "
            "leading singular triplets of every matrix, and other tensors in full. entries: "
            "the largest entries of the whole model."
        ),
        choices=(LOW_RANK, ENTRIES),
    )


TWIN_MERGING = MergeMethod(
    name="twin_merging",
    title="Twin-Merging",
    summary=(
        "Task arithmetic plus the experts' compressed differences from it. A router mixes "
        "these for each example, based on the merged model's features."
    ),
    formula=(
        "merged matrix: W = W₀ + λ Σₜ wₜ ΔWₜ\n"
        "for x: W + Σₜ rₜ(x) C(Wₜ − W),  r = softmax(A h(x) + b),  h the mean last hidden state"
    ),
    citation=(
        "Z. Lu, C. Fan, W. Wei, X. Qu, D. Chen, Y. Cheng, Twin-Merging: Dynamic Integration of "
        "Modular Expertise in Model Merging, NeurIPS 2024, arXiv:2406.15479"
    ),
    parameters=TwinParameters,
    merge=scaled_sum,
    kind=Kind.ENTRY,
    working_memory=per_entry(1.5),
    least=2,
    modules=Differences(
        differences_of=differences, stored_part=stored_part, kind=ModuleKind.MIXTURE
    ),
)
