"""The report's plots."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from ace_gui.engine.contract.figures.findings import LayerSpectrum
from ace_gui.engine.contract.figures.model_changes import ModelDiff
from ace_gui.engine.contract.figures.spectral_figures import numerical_rank
from ace_gui.engine.contract.plan import ROLE_FAMILIES, role_family
from ace_gui.engine.report.content import Content, number
from ace_gui.engine.report.svg import STYLE, SYMBOLS, TOP, WIDTH, Axis, Frame, line, symbol, tag
from ace_gui.formatting import value_text

HUES = 5  # of experts, as in the window
MOST_POINTS = 400
"""Most points of one line: more cannot be seen."""


def gamma_plot(content: Content) -> Markup | None:
    """γ along the model by role, τ as a line; None if the method has none."""
    rows = [row for row in content.merged_rows if content.gamma(row) is not None]
    gammas = [content.gamma(row) or 0.0 for row in rows]
    if not rows:
        return None
    tau = content.plan.parameters.get("tau")
    limit = float(tau) if isinstance(tau, int | float) else None
    spread = _spread([*gammas, *([limit] if limit else [])])
    frame = Frame(
        x=Axis(title="merged tensor, in the model's order", low=0, high=len(rows) + 1),
        y=Axis.over("heterogeneity γ", [*gammas, limit or 0.0], log=spread),
        right=14.0 if limit is None else 70.0,
    )
    marks = [
        _mark(frame, row.role, index, gamma, f"{row.name}: γ = {number(gamma)} ({row.role})")
        for index, (row, gamma) in enumerate(zip(rows, gammas, strict=True), start=1)
    ]
    above = sum(gamma > limit for gamma in gammas) if limit is not None else 0
    caption = f"{len(rows)} tensors, γ {_range(gammas)}"
    caption += "" if limit is None else f"; {above} above τ = {value_text(limit)}"
    return frame.picture(
        "Heterogeneity γ along the model", caption, [*_limit(frame, limit), *marks]
    )


def role_plot(content: Content) -> Markup | None:
    """γ of every role as a strip of marks, with its median; None without γ."""
    by_role = gammas_by_role(content)
    if not by_role:
        return None
    roles = list(by_role)
    every = [gamma for gammas in by_role.values() for gamma in gammas]
    frame = Frame(
        x=Axis.over("heterogeneity γ", every, log=_spread(every)),
        y=Axis(title="", low=len(roles) - 0.4, high=-0.6),
        height=70.0 + 26 * len(roles),
        rows=roles,
    )
    marks = []
    for index, (role, gammas) in enumerate(by_role.items()):
        marks += [_mark(frame, role, g, index, f"{role}: {number(g)}") for g in gammas]
        x, y = frame.point(statistics.median(gammas), index)
        marks.append(tag("line", class_="median", x1=x, x2=x, y1=y - 10, y2=y + 10))
    caption = f"γ of {len(every)} tensors in {len(roles)} roles; a bar marks each median"
    return frame.picture("Heterogeneity γ by role", caption, marks)


def gammas_by_role(content: Content) -> Mapping[str, list[float]]:
    """γ of the merged tensors, in the order in which roles first occur."""
    found = defaultdict(list)
    for row in content.merged_rows:
        gamma = content.gamma(row)
        if gamma is not None:
            found[row.role].append(gamma)
    return dict(found)


def energy_plot(content: Content) -> Markup | None:
    """‖ΔW_t‖²_F of every merged tensor, one line per expert; None if nothing is merged."""
    names = content.plan.recipe.expert_names
    layers = [content.statistics[row.name] for row in content.merged_rows]
    every = [value for layer in layers for value in layer.energies.values() if value > 0]
    if not every:
        return None
    frame = Frame(
        x=Axis(title="merged tensor, in the model's order", low=0, high=len(layers) + 1),
        y=Axis.over("energy ‖ΔW‖²", every, log=True),
    )
    marks = []
    for index, name in enumerate(names):
        points = [
            frame.point(position, layer.energies[name])
            for position, layer in enumerate(layers, start=1)
            if layer.energies.get(name, 0) > 0
        ]
        marks.append(line(points, expert_class(index)))
    caption = f"{len(names)} experts, {len(layers)} tensors, {_range(every)}"
    return frame.picture("Energies of the task vectors", caption, marks)


def spectrum_plot(content: Content, found: LayerSpectrum) -> Markup:
    """Singular values of the experts, of the preliminary solution and of the merge."""
    lines: list[tuple[NDArray[np.float64], str]] = [
        (found.experts[name], expert_class(index))
        for index, name in enumerate(content.plan.recipe.expert_names)
        if name in found.experts
    ]
    lines += [(sigma, name) for _, name, sigma in merge_curves(found)]
    largest = max(float(sigma[0]) for sigma, _ in lines)
    lines = [(sigma[: numerical_rank(sigma)], class_) for sigma, class_ in lines]
    every = [float(value) for sigma, _ in lines for value in sigma]
    frame = Frame(
        x=Axis(title="index i", low=0, high=len(found.merged) + 1),
        y=Axis.over("singular value σᵢ", every, log=True),
    )
    marks = [line(_points(frame, sigma), class_) for sigma, class_ in lines if len(sigma)]
    caption = f"Of {len(found.experts)} experts and of the merge; the largest is {number(largest)}"
    return frame.picture(f"Singular values of {found.name}", caption, marks)


def change_plot(found: ModelDiff) -> Markup:
    """‖B − A‖ / ‖A‖ of every tensor of two models by role, as a picture with colours of its own."""
    known = [(i, each) for i, each in enumerate(found.tensors, start=1) if each.change > 0]
    marks = [(i, each, each.relative) for i, each in known if each.relative is not None]
    values = [value for _, _, value in marks]
    frame = Frame(
        x=Axis(title="tensor, in the model's order", low=0, high=len(found.tensors) + 1),
        y=Axis.over("change ‖B − A‖ / ‖A‖", values, log=bool(values) and _spread(values)),
        right=110.0,
    )
    drawn = [_mark(frame, each.role, i, v, f"{each.name}: {number(v)}") for i, each, v in marks]
    families = {role_family(each.role) for each in found.tensors}
    for place, family in enumerate(each for each in ROLE_FAMILIES if each in families):
        index, (x, y) = ROLE_FAMILIES.index(family), (WIDTH - 92, TOP + 12 + 20 * place)
        drawn.append(symbol(SYMBOLS[index], x, y, f"r{index}", family, size=4.5))
        drawn.append(tag("text", family, x=x + 12, y=y + 4))
    caption = f"{len(marks)} of {len(found.tensors)} tensors differ, in all by a share of "
    caption += number(found.total.relative)
    return frame.picture("Change from one model to another", caption, drawn, STYLE)


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


def _points(frame: Frame, sigma: NDArray[np.float64]) -> Iterator[tuple[float, float]]:
    last, count = len(sigma) - 1, min(len(sigma), MOST_POINTS)
    for index in np.unique(np.linspace(0, last, count).round().astype(int)):
        yield frame.point(float(index) + 1, float(sigma[index]))


def _limit(frame: Frame, limit: float | None) -> Iterable[Markup]:
    if limit is None or (frame.y.log and limit <= 0):
        return
    left, y = frame.point(frame.x.low, limit)
    right, _ = frame.point(frame.x.high, limit)
    yield tag("line", class_="limit", x1=left, x2=right, y1=y, y2=y)
    yield tag("text", f"τ = {value_text(limit)}", class_="limit", x=right + 6, y=y + 4)


def _range(values: Sequence[float]) -> str:
    return f"{number(min(values))} to {number(max(values))}"


def _mark(frame: Frame, role: str, x: float, y: float, tooltip: str) -> Markup:
    """The symbol of a role's family at a point."""
    family = ROLE_FAMILIES.index(role_family(role))
    return symbol(SYMBOLS[family], *frame.point(x, y), f"r{family}", tooltip)


def _spread(values: Sequence[float]) -> bool:
    """Whether positive values have such a range that only a logarithmic axis shows them all."""
    return min(values) > 0 and max(values) > 50 * min(values)
