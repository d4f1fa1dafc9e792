"""The health of a merged tensor: a verdict and sentences from its figures.

Plain arithmetic on the engine's reports, so that the window can do it itself::

    health = layer_health(statistics, report, plan.parameters)
    health.verdict            Verdict.OK, NOTE or WARNING
    health.findings           a title, a verdict and a sentence each, worst first
    summary = model_health([health, …])
    summary.sentence, summary.counts, summary.worst

Either of ``statistics`` and ``report`` may be None, as there is no report before a merge. The
limits are derived from ACE's equations (Xu et al., arXiv:2603.02945v2).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ace_gui.ace_variants import LARGEST_RIDGE_MASS
from ace_gui.engine.contract.findings import LayerReport, LayerStatistics, Regime
from ace_gui.engine.contract.plan import WORST_FIRST, Check, CheckVerdict
from ace_gui.formatting import counted
from ace_gui.linalg.heterogeneity import (
    by_scale_message,
    by_scale_or_usual_tau,
    heterogeneous_by_scale,
)
from ace_gui.recipe.values import Cap, ParameterValue

NOTED_RIDGE_MASS: Final = 0.1
NOTED_NOISE: Final = 0.01
"""Share of quantisation noise in the experts' changes from which a tensor has a note."""
"""Ridge mass from which the refinement shows it."""

SMALL_ENERGY: Final = 0.1
"""Mean energy Ē below which the prior takes nearly all of each row's mean."""

LARGEST_REFINEMENT: Final = 10.0
"""Norm of the refinement relative to the solution.

Above this it is the result, not a correction.
"""

LARGEST_NORM: Final = 10.0
SMALLEST_NORM: Final = 0.05
"""Limits of ‖ΔW‖ of the merge relative to the experts' mean.

T unrelated experts of one norm add up to √T, so the upper limit is the first times √T; the second
is the lower limit.
"""

FAR_ABOVE_CAP: Final = 4.0
"""A merged change longer than the cap by this factor goes beyond what its experts support."""

WORST_SHOWN: Final = 10


@dataclass(frozen=True, kw_only=True)
class LayerHealth:
    """The health of one tensor."""

    name: str
    """The row's name in the plan."""
    statistics: LayerStatistics | None
    """Of the experts; None if unknown."""
    report: LayerReport | None
    """What the merge did; None before it."""
    findings: tuple[Check, ...]
    """Worst first."""
    norm_ratio: float | None
    """‖ΔW‖_F of the merge divided by the experts' mean ‖ΔW_t‖_F; None if unknown."""
    misbehaves: bool
    """Whether the published variant of ACE moved the matrix far more than the cap of the automatic
    variant allows, or refined it against the experts.
    """

    @property
    def verdict(self) -> CheckVerdict:
        """The worst verdict of the findings."""
        return min(
            (f.verdict for f in self.findings), key=WORST_FIRST.index, default=CheckVerdict.OK
        )

    @property
    def tooltip(self) -> str:
        """The sentences of all findings, one per line."""
        return "\n".join(finding.sentence for finding in self.findings)


@dataclass(frozen=True, kw_only=True)
class ModelHealth:
    """The health of all tensors together."""

    verdict: CheckVerdict
    """The worst of all tensors."""
    sentence: str
    """A summary."""
    counts: Mapping[CheckVerdict, int]
    """Number of tensors by verdict."""
    titles: Mapping[str, int]
    """Number of tensors by title of a finding, most frequent first."""
    worst: tuple[LayerHealth, ...]
    """The tensors with the worst findings, at most ``WORST_SHOWN``."""
    misbehaving: tuple[str, ...] = ()
    """Tensors for which the automatic variant of ACE is worth trying."""


def layer_health(
    statistics: LayerStatistics | None,
    report: LayerReport | None,
    parameters: Mapping[str, ParameterValue],
) -> LayerHealth:
    """The health of one tensor; at least one of ``statistics`` and ``report`` is given.

    ``parameters``: the plan's, all resolved. Raises ValueError if nothing is known.
    """
    figures = report or statistics
    if figures is None:
        raise ValueError("Neither statistics nor a report is given.")
    if statistics is None:
        findings = []
    else:
        findings = list(_before(statistics, report, parameters))
    if report is None:
        ratio = None
    else:
        ratio = norm_ratio(report)
    if report is not None:
        findings += _after(report, ratio)
    share = cap_ratio(statistics, report)
    published = report is not None and report.regime is not None
    if published and share is not None and share > FAR_ABOVE_CAP:
        sentence = (
            f"The norm of the merged change is {share:.3g} times the limit of the automatic "
            "variant's cap. Try the automatic variant, or a cap, for this tensor."
        )
        findings.append(_warning("Above the cap", sentence))
    findings.sort(key=lambda finding: WORST_FIRST.index(finding.verdict))
    return LayerHealth(
        name=figures.name,
        statistics=statistics,
        report=report,
        findings=tuple(findings),
        norm_ratio=ratio,
        misbehaves=published and _misbehaves(report, share),
    )


def by_scale_alone(statistics: LayerStatistics, tau: float) -> bool:
    """Whether ``heterogeneous_by_scale`` holds for a layer; False if its γ is unknown."""
    if statistics.gamma is None or statistics.mean_log_energy is None:
        return False
    return bool(heterogeneous_by_scale(statistics.gamma, statistics.mean_log_energy, tau))


BY_SCALE: Final = "heterogeneous by scale alone"
"""Name of the regime of layers for which ``by_scale_alone`` holds."""

UNRELIABLE: Final = "γ is unreliable here"


def gamma_unreliable(statistics: LayerStatistics, tau: float | None) -> bool:
    """Whether γ depends more on the units of the weights than on the experts (``by_scale_alone``).

    ``tau``: the threshold; if None or infinite, the published one is used.
    """
    if statistics.gamma is None or statistics.mean_log_energy is None:
        return False
    return bool(by_scale_or_usual_tau(statistics.gamma, statistics.mean_log_energy, tau))


def norm_ratio(report: LayerReport) -> float | None:
    """‖ΔW‖_F of the merge divided by the experts' mean ‖ΔW_t‖_F; None if unknown or 0/0."""
    if report.delta_norm is None or not report.energies:
        return None
    mean = math.fsum(map(math.sqrt, report.energies.values())) / len(report.energies)
    if mean:
        return report.delta_norm / mean
    return None


def cap_ratio(statistics: LayerStatistics | None, report: LayerReport | None) -> float | None:
    """‖ΔW‖_F of the merge divided by what the cap allows; None if unknown.

    Computed from the experts' energies, which are a little smaller than their unreported traces.
    """
    if statistics is None or report is None or report.delta_norm is None:
        return None
    allowed = allowed_change(statistics, Cap().delta)
    if allowed is None:
        return None
    return report.delta_norm / allowed


def allowed_change(statistics: LayerStatistics, delta: float) -> float | None:
    """‖ΔW‖_F allowed by a cap of δ, from the experts' energies; None if it does not apply."""
    energies = [e for name, e in statistics.energies.items() if name not in statistics.left_out]
    if statistics.base_energy is None or len(energies) < 2 or not any(energies):
        return None
    rms = math.sqrt(math.fsum(energies) / len(energies))
    return max(rms, min(math.sqrt(len(energies)) * rms, delta * math.sqrt(statistics.base_energy)))


def _misbehaves(report: LayerReport | None, share: float | None) -> bool:
    if report is None:
        return False
    cosine = report.refinement_cosine
    mass = report.ridge_mass
    refined_against = cosine is not None and cosine < 0 and bool(report.refinement_ratio)
    heavy = report.regime is Regime.HETEROGENEOUS and (mass or 0.0) > LARGEST_RIDGE_MASS
    return refined_against or heavy or (share or 0.0) > FAR_ABOVE_CAP


def model_health(layers: Iterable[LayerHealth]) -> ModelHealth:
    """The health of all tensors; equally bad ones stay in the given order."""
    layers = list(layers)
    counts = Counter(layer.verdict for layer in layers)
    titles: Counter[str] = Counter()
    for layer in layers:
        titles.update({finding.title for finding in layer.findings})
    worrying = [layer for layer in layers if layer.verdict != CheckVerdict.OK]
    worrying.sort(key=lambda layer: (WORST_FIRST.index(layer.verdict), -len(layer.findings)))
    return ModelHealth(
        verdict=min(counts, key=WORST_FIRST.index, default=CheckVerdict.OK),
        sentence=_summary(counts),
        counts=counts,
        titles=dict(titles.most_common()),
        worst=tuple(worrying[:WORST_SHOWN]),
        misbehaving=tuple(layer.name for layer in layers if layer.misbehaves),
    )


def _before(
    layer: LayerStatistics, report: LayerReport | None, parameters: Mapping[str, ParameterValue]
) -> Iterator[Check]:
    """Findings that need only the experts; warnings of the report are not repeated."""
    tau = _number(parameters, "tau")
    epsilon = _number(parameters, "epsilon")
    energies = [value for name, value in layer.energies.items() if name not in layer.left_out]
    if report is None and layer.left_out:
        yield _note("Expert left out", _left_out_sentence(layer))
    if layer.gamma is None or tau is None or not layer.gamma > tau:
        return
    if report is None and by_scale_alone(layer, tau):
        sentence = by_scale_message(layer.gamma, layer.mean_log_energy or 0.0)
        yield _warning("By scale alone", f"{sentence} Raise τ to treat it as homogeneous.")
    mean_energy = math.fsum(energies) / len(energies)
    if mean_energy < SMALL_ENERGY:
        sentence = (
            f"The mean energy is {mean_energy:.2g}. ACE divides its prior by it, which takes up to "
            f"{1 / (1 + mean_energy):.0%} of each row's mean over the inputs (½ in the homogeneous "
            "regime). Raise τ if this tensor should keep more of it."
        )
        yield _note("Strong prior", sentence)
    if report is None and epsilon is not None:
        least = math.fsum(epsilon / value for value in energies)
        if least > LARGEST_RIDGE_MASS:
            yield _warning(
                "Ridge mass",
                f"The ridge mass Σ εₜ will be {least:.2g} or more, so the refinement may work "
                "against the experts. Lower ε.",
            )


def _after(report: LayerReport, ratio: float | None) -> Iterator[Check]:
    """Findings on the merge itself, and unusual figures."""
    for sentence in report.warnings:
        yield _warning("Method", sentence)
    for sentence in report.notes:
        yield _note("Departure", sentence)
    noise = report.quantisation_noise
    if noise is not None and noise >= NOTED_NOISE:
        yield _note(
            "Quantisation",
            f"About {noise:.0%} of the experts' changes here is rounding of quantised weights, by "
            "the size of their steps. Merge the original weights if they can be had.",
        )
    mass = report.ridge_mass
    refined = report.regime is Regime.HETEROGENEOUS
    if refined and mass is not None and NOTED_RIDGE_MASS < mass <= LARGEST_RIDGE_MASS:
        yield _note(
            "Ridge mass",
            f"The ridge mass Σ εₜ is {mass:.2g}: the nearer it is to 1, the more the "
            "refinement works against the experts. A lower ε leaves more room.",
        )
    refinement = report.refinement_ratio
    if refinement is not None and refinement > LARGEST_REFINEMENT:
        yield _warning(
            "Refinement",
            f"The refinement is {refinement:.3g} times as large as the solution it refines. "
            "Lower ε, lower the refined fraction, or raise τ.",
        )
    if ratio is not None and ratio > LARGEST_NORM * math.sqrt(len(report.energies or ())):
        yield _warning(
            "Norm",
            f"The merged change is {ratio:.3g} times as large as the experts' on average. Lower "
            "the scaling, or check this tensor's ε.",
        )
    if ratio is not None and ratio < SMALLEST_NORM:
        yield _note(
            "Norm",
            f"The merged change has {ratio:.2%} of the experts' mean norm: most of what they "
            "learned here is lost. Compare another method for this tensor.",
        )


def _left_out_sentence(statistics: LayerStatistics) -> str:
    names = ", ".join(statistics.left_out[:3])
    if len(statistics.left_out) > 3:
        names = f"{names} and {len(statistics.left_out) - 3} more"
    remaining = len(statistics.energies) - len(statistics.left_out)
    then = {
        0: "the tensor stays as in the base",
        1: "the task vector of the one remaining expert is used unchanged",
    }.get(remaining, f"γ and the merge are those of the other {remaining}")
    return f"Numerically unchanged by {names}: {then}."


def _summary(counts: Mapping[CheckVerdict, int]) -> str:
    total = sum(counts.values())
    noted = counts.get(CheckVerdict.NOTE, 0)
    warned = counts.get(CheckVerdict.WARNING, 0)
    of = counted(total, "tensor", "tensors")
    numbers = {"a warning": warned, "a note": noted}
    parts = [f"{n} {'has' if n == 1 else 'have'} {what}" for what, n in numbers.items() if n]
    if parts:
        return f"Of {of}, {' and '.join(parts)}."
    return f"Nothing out of the ordinary in {of}."


def _number(parameters: Mapping[str, ParameterValue], name: str) -> float | None:
    value = parameters.get(name)
    if isinstance(value, int | float):
        return float(value)
    return None


def _note(title: str, sentence: str) -> Check:
    return Check(title, sentence, CheckVerdict.NOTE)


def _warning(title: str, sentence: str) -> Check:
    return Check(title, sentence, CheckVerdict.WARNING)
