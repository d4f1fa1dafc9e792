"""The report's figures: panels of ``figures`` as SVG, in colours of the page's style sheet."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from markupsafe import Markup

from ace_gui.engine.contract.figure_content import FigureContent
from ace_gui.engine.contract.figure_panels import change_panel, panel_of, title_of
from ace_gui.engine.contract.findings import LayerSpectrum, ModelDiff
from ace_gui.errors import RecipeError
from ace_gui.figures.charts import PanelKind
from ace_gui.figures.page_picture import page_picture
from ace_gui.figures.sheet import Colours, Sheet

_SHEET: Final = Sheet(width=220.0, height=74.0, colours=Colours.WINDOW)
"""About as wide as the page, with letters of the size of its tables."""

_ROLE: Final = 6.0
"""Height in mm of a role's strip."""

_AROUND: Final = 30.0
"""Height in mm of axis and legend below the strips."""


def panel_picture(kind: PanelKind, content: FigureContent) -> Markup | None:
    """A panel about the whole model; None if there is nothing that it could show."""
    sheet = _SHEET
    if kind is PanelKind.ROLES:
        roles = {row.role for row, _ in content.rows_with_gamma()}
        sheet = replace(sheet, height=_AROUND + _ROLE * len(roles))
    try:
        panel = panel_of(kind, content, sheet)
    except RecipeError:
        return None
    title = title_of(kind)
    return Markup(page_picture(panel, sheet, title[:1].upper() + title[1:], colours=_names()))


def spectrum_picture(content: FigureContent, spectrum: LayerSpectrum) -> Markup:
    """The singular values of one matrix."""
    panel = panel_of(PanelKind.SPECTRA, replace(content, spectra=(spectrum,)), _SHEET)
    title = f"Singular values of {spectrum.name}"
    return Markup(page_picture(panel, _SHEET, title, colours=_names()))


def change_picture(diff: ModelDiff) -> str:
    """How far each tensor of a model is from another's, as a file of its own."""
    return page_picture(change_panel(diff), _SHEET, "Change from one model to another")


@cache
def _names() -> dict[str, str]:
    """What the style sheet calls the colours of a light page."""
    sheet = (Path(__file__).parent / "report.css").read_text("utf-8")
    light = sheet.partition("@media")[0]
    return {colour: f"var(--{name})" for name, colour in re.findall(r"--(\w+): (#\w+);", light)}
