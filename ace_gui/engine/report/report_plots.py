"""The report's plots."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ace_gui.engine.contract.findings import LayerSpectrum, ModelDiff
from ace_gui.engine.contract.matrix_figures import numerical_rank
from ace_gui.engine.contract.plan import ROLE_FAMILIES, role_family
from ace_gui.engine.report.content import Content, number
from ace_gui.engine.report.svg import Axis, Plot
from ace_gui.formatting import value_text

HUES = 5  # of experts, as in the window
MOST_POINTS = 400
"""Most points of one line: more cannot be seen."""


def gamma_plot(content: Content) -> Plot | None:
    """γ along the model by role, τ as a line; None if the method has none."""
    rows = [row for row in content.merged_rows if content.gamma(row) is not None]
    gammas = [content.gamma(row) or 0.0 for row in rows]
    if not rows:
        return None
    tau = content.plan.parameters.get("tau")
    limit = float(tau) if isinstance(tau, int | float) else None
    log = _spread([*gammas, *([limit] if limit else [])])
    above = sum(gamma > limit for gamma in gammas) if limit is not None else 0
    caption = f"{len(rows)} tensors, γ {_range(gammas)}"
    caption += "" if limit is None else f"; {above} above τ = {value_text(limit)}"
    drawn = limit is not None and (limit > 0 or not log)
    return Plot(
        title="Heterogeneity γ along the model",
        description=caption,
        x=Axis(title="merged tensor, in the model's order", low=0, high=len(rows) + 1),
        y=Axis.over("heterogeneity γ", [*gammas, limit or 0.0], log=log),
        right=14.0 if limit is None else 70.0,
        limit=(limit or 0.0, f"τ = {value_text(limit or 0.0)}") if drawn else None,
        marks=[
            (role_family(row.role), index, gamma, f"{row.name}: γ = {number(gamma)} ({row.role})")
            for index, (row, gamma) in enumerate(zip(rows, gammas, strict=True), start=1)
        ],
    )


def role_plot(content: Content) -> Plot:
    """γ of every role as a strip of marks, with its median, if the method has γ."""
    by_role = gammas_by_role(content)
    every = [gamma for gammas in by_role.values() for gamma in gammas]
    return Plot(
        title="Heterogeneity γ by role",
        description=f"γ of {len(every)} tensors in {len(by_role)} roles; a bar marks each median",
        x=Axis.over("heterogeneity γ", every, log=_spread(every)),
        y=Axis(title="", low=len(by_role) - 0.4, high=-0.6),
        height=70.0 + 26 * len(by_role),
        rows=list(by_role),
        marks=[
            (role_family(role), gamma, index, f"{role}: {number(gamma)}")
            for index, (role, gammas) in enumerate(by_role.items())
            for gamma in gammas
        ],
        medians=[(statistics.median(each), n) for n, each in enumerate(by_role.values())],
    )


def gammas_by_role(content: Content) -> Mapping[str, list[float]]:
    """γ of the merged tensors, in the order in which roles first occur."""
    found = defaultdict(list)
    for row in content.merged_rows:
        gamma = content.gamma(row)
        if gamma is not None:
            found[row.role].append(gamma)
    return dict(found)


def energy_plot(content: Content) -> Plot | None:
    """‖ΔW_t‖²_F of every merged tensor, one line per expert; None if nothing is merged."""
    names = content.plan.recipe.expert_names
    layers = [content.statistics[row.name].energies for row in content.merged_rows]
    every = [value for energies in layers for value in energies.values() if value > 0]
    if not every:
        return None
    return Plot(
        title="Energies of the task vectors",
        description=f"{len(names)} experts, {len(layers)} tensors, {_range(every)}",
        x=Axis(title="merged tensor, in the model's order", low=0, high=len(layers) + 1),
        y=Axis.over("energy ‖ΔW‖²", every, log=True),
        lines=[
            (expert_class(t), [(n, e[name]) for n, e in enumerate(layers, 1) if e.get(name, 0) > 0])
            for t, name in enumerate(names)
        ],
    )


def spectrum_plot(content: Content, found: LayerSpectrum) -> Plot:
    """Singular values of the experts, of the preliminary solution and of the merge."""
    spectra: list[tuple[str, NDArray[np.float64]]] = [
        (expert_class(index), found.experts[name])
        for index, name in enumerate(content.plan.recipe.expert_names)
        if name in found.experts
    ]
    spectra += [(name, sigma) for _, name, sigma in merge_curves(found)]
    largest = max(float(sigma[0]) for _, sigma in spectra)
    lines = [(name, _points(sigma[: numerical_rank(sigma)])) for name, sigma in spectra]
    return Plot(
        title=f"Singular values of {found.name}",
        description=f"Of {len(found.experts)} experts and of the merge; the largest is "
        + number(largest),
        x=Axis(title="index i", low=0, high=len(found.merged) + 1),
        y=Axis.over("singular value σᵢ", (y for _, points in lines for _, y in points), log=True),
        lines=[(name, points) for name, points in lines if points],
    )


def change_plot(found: ModelDiff) -> Plot:
    """‖B − A‖ / ‖A‖ of every tensor of two models by role, with a legend."""
    known = [(i, each) for i, each in enumerate(found.tensors, start=1) if each.change > 0]
    marks = [(i, each, each.relative) for i, each in known if each.relative is not None]
    values = [value for _, _, value in marks]
    families = {role_family(each.role) for each in found.tensors}
    caption = f"{len(marks)} of {len(found.tensors)} tensors differ, in all by a share of "
    return Plot(
        title="Change from one model to another",
        description=caption + number(found.total.relative),
        x=Axis(title="tensor, in the model's order", low=0, high=len(found.tensors) + 1),
        y=Axis.over("change ‖B − A‖ / ‖A‖", values, log=bool(values) and _spread(values)),
        right=110.0,
        marks=[(role_family(each.role), i, v, f"{each.name}: {number(v)}") for i, each, v in marks],
        families=[family for family in ROLE_FAMILIES if family in families],
    )


def merge_curves(found: LayerSpectrum) -> list[tuple[str, str, NDArray[np.float64]]]:
    """Title, class and singular values of each stage of a merge, the last one last."""
    made = found.merged if found.unshaped is None else found.unshaped
    refined = found.preliminary is not None and not np.array_equal(found.preliminary, made)
    stages = (
        ("before refinement", "preliminary", found.preliminary if refined else None),
        ("method alone", "unshaped", found.unshaped),
        ("merged", "merged", found.merged),
    )
    return [(title, name, sigma) for title, name, sigma in stages if sigma is not None]


def expert_class(index: int) -> str:
    """The CSS class of an expert's colour and, beyond the palette, of its dashes."""
    return f"e{index % HUES}" + (" dashed" if index >= HUES else "")


def _points(sigma: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Index from 1 and value, at most ``MOST_POINTS`` of them."""
    indices = np.linspace(0, len(sigma) - 1, min(len(sigma), MOST_POINTS)).round().astype(int)
    return [(float(index) + 1, float(sigma[index])) for index in np.unique(indices)]


def _range(values: Sequence[float]) -> str:
    return f"{number(min(values))} to {number(max(values))}"


def _spread(values: Sequence[float]) -> bool:
    """Whether positive values have such a range that only a logarithmic axis shows them all."""
    return min(values) > 0 and max(values) > 50 * min(values)
