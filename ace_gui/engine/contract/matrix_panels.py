"""The panels of a figure about single matrices: energies, spectra and directions.

Equation numbers are those of the ACE paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ace_gui.engine.contract.figure_content import FigureContent, merged_text, nothing_to_show
from ace_gui.engine.contract.findings import (
    LayerSpectrum,
    LayerSubspaces,
)
from ace_gui.engine.contract.matrix_figures import look_equal, numerical_rank
from ace_gui.engine.contract.plan import Plan
from ace_gui.figures.charts import (
    Axis,
    Cells,
    Chart,
    Curve,
    Ink,
    Panel,
    Point,
    axis_of_counts,
)
from ace_gui.figures.sheet import Sheet

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MOST_POINTS: Final = 400
"""Most points of a curve: more cannot be seen."""

MOST_MATRICES: Final = 6
"""Most matrices of a panel with a chart for each."""


SAME: Final = 1e-4
"""Largest difference of a cosine from 1 that cannot be seen."""


def energies_panel(content: FigureContent, _sheet: Sheet) -> Panel:
    """‖ΔW_t‖²_F of each merged tensor, one curve for each expert."""
    rows = [row for row in content.merged_rows() if row.name in content.statistics]
    curves = []
    for index, name in enumerate(content.experts):
        points = []
        for place, row in enumerate(rows, start=1):
            energy = content.statistics[row.name].energies.get(name, 0.0)
            if energy > 0:
                points.append((float(place), energy))
        if points:
            curves.append(Curve(name=name, points=points, ink=index))
    if not curves:
        raise nothing_to_show("No expert changed a merged tensor; choose other panels.")
    chart = Chart(
        title="",
        x=axis_of_counts("merged tensor, in the model's order", len(rows)),
        y=Axis(title="energy ‖ΔW‖²", log=True),
        curves=curves,
    )
    return Panel(
        charts=[chart],
        caption=f"energies ‖ΔW‖² of the task vectors of {merged_text(content, len(rows))}",
        width=120.0,
    )


def spectra_panel(content: FigureContent, sheet: Sheet) -> Panel:
    """Singular values of the chosen matrices: of the experts and of the merge."""
    if not content.spectra:
        raise nothing_to_show("Choose matrices for the panel of spectra.")
    charts = [_spectrum_chart(content, spectrum, sheet) for spectrum in content.spectra]
    names = _all_of([chart.title for chart in charts])
    before = any(curve.dashed for chart in charts for curve in chart.curves)
    return Panel(
        charts=charts,
        caption=f"singular values of the experts' changes and of the merge of {names}"
        + (", before refinement (Eq. 14) dashed" if before else ""),
        width=60.0 * len(charts),
    )


def _spectrum_chart(content: FigureContent, spectrum: LayerSpectrum, sheet: Sheet) -> Chart:
    curves = []
    for index, name in enumerate(content.experts):
        if name in spectrum.experts:
            points = _spectrum_points(spectrum.experts[name])
            curves.append(Curve(name=name, points=points, ink=index))
    for name, ink, sigma in merge_curves(spectrum):
        dashed = ink is Ink.BEFORE
        if sheet.before or not dashed:
            points = _spectrum_points(sigma)
            curves.append(Curve(name=name, points=points, ink=ink, dashed=dashed))
    curves = [curve for curve in curves if curve.points]
    longest = max((len(curve.points) and curve.points[-1][0] for curve in curves), default=1.0)
    return Chart(
        title=short_name(content.plan, spectrum.name),
        x=axis_of_counts("index i", longest),
        y=Axis(title="singular value σᵢ", log=True),
        curves=curves,
    )


def merge_curves(spectrum: LayerSpectrum) -> Iterator[tuple[str, Ink, NDArray[np.float64]]]:
    """Name, colour and singular values of each stage of a merge, the last one last.

    No curve is given twice.
    """

    stages = (
        ("before refinement", Ink.BEFORE, spectrum.preliminary),
        ("method alone", Ink.ALONE, spectrum.unshaped),
        ("merged", Ink.MERGED, spectrum.merged),
    )
    present = [(name, ink, sigma) for name, ink, sigma in stages if sigma is not None]
    for index, (name, ink, sigma) in enumerate(present):
        later = [following for _, _, following in present[index + 1 :]]
        if not any(look_equal(sigma, later_sigma) for later_sigma in later):
            yield name, ink, sigma


def _spectrum_points(sigma: NDArray[np.float64]) -> list[Point]:
    """Index from 1 and value, up to the numerical rank, at most ``MOST_POINTS``."""
    import numpy as np

    rank = numerical_rank(sigma)
    places = np.linspace(0, max(rank - 1, 0), min(rank, MOST_POINTS)).round().astype(int)
    return [(float(place) + 1, float(sigma[place])) for place in np.unique(places)]


def subspaces_panel(content: FigureContent, _sheet: Sheet) -> Panel:
    """How far refinement turned the directions of the chosen matrices, or how experts overlap."""
    if not content.subspaces:
        raise nothing_to_show("Choose matrices for the panel of subspaces.")
    charts = []
    for layer in content.subspaces:
        title = short_name(content.plan, layer.name)
        if is_turned(layer):
            charts.append(_alignment_chart(title, layer))
        else:
            charts.append(_overlap_chart(title, layer))
    names = _all_of([chart.title for chart in charts])
    what = "overlap of the experts' leading directions"
    if all(map(is_turned, content.subspaces)):
        what = "cosine of singular vectors before (Eq. 14) and after refinement"
    elif any(map(is_turned, content.subspaces)):
        what = "cosine of singular vectors before and after refinement, or overlap of experts,"
    return Panel(
        charts=charts,
        caption=f"{what} in {names}",
        width=60.0 * len(charts),
    )


def is_turned(layer: LayerSubspaces) -> bool:
    """Whether a refinement turned the directions; otherwise only experts can be compared."""
    cosines = (layer.alignment, layer.alignment_right)
    return any(
        cosine is not None and len(cosine) and float(cosine.min()) < 1 - SAME for cosine in cosines
    )


def _alignment_chart(title: str, layer: LayerSubspaces) -> Chart:
    curves = []
    sides = (("left", Ink.MERGED, layer.alignment), ("right", Ink.BEFORE, layer.alignment_right))
    for name, ink, cosines in sides:
        if cosines is not None:
            points = [(float(i), float(value)) for i, value in enumerate(cosines, start=1)]
            curves.append(Curve(name=f"{name} singular vectors", points=points, ink=ink))
    longest = max((len(curve.points) for curve in curves), default=1)
    return Chart(
        title=title,
        x=axis_of_counts("index i", longest),
        y=Axis(title="|cosine|", low=0.0, high=1.0),
        curves=curves,
    )


def _overlap_chart(title: str, layer: LayerSubspaces) -> Chart:
    return Chart(
        title=title,
        x=Axis(title="", names=[str(index) for index in range(1, len(layer.experts) + 1)]),
        y=Axis(title="", names=list(layer.experts)),
        cells=Cells(
            title=f"overlap of {layer.rank} directions",
            values=layer.overlap.tolist(),
            ends=(0.0, 1.0),
        ),
    )


def short_name(plan: Plan, name: str) -> str:
    """Block and role of a tensor, such as ``block 6, MLP down``; its name if others share them."""
    row = next((row for row in plan.rows if row.name == name), None)
    if row is None or row.block is None:
        return name
    places = [(plan_row.block, plan_row.role) for plan_row in plan.rows]
    if places.count((row.block, row.role)) == 1:
        return f"block {row.block}, {row.role}"
    return name


def _all_of(names: Sequence[str]) -> str:
    """The names in a sentence; those with commas are told apart by `and`."""
    return " and ".join(names)
