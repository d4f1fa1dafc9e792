"""The report as one page of HTML, without scripts or external resources."""

from __future__ import annotations

from collections import Counter
from typing import Final

import jinja2
from markupsafe import Markup

from ace_gui.engine.contract.findings import Regime
from ace_gui.engine.contract.plan import ROLE_FAMILIES, Disposition, Verdict, role_family
from ace_gui.engine.report import report_plots as figures
from ace_gui.engine.report import report_tables as tables
from ace_gui.engine.report.content import Content
from ace_gui.engine.report.report_plots import STYLE, SYMBOLS, TOP, WIDTH, Plot, symbol
from ace_gui.formatting import human_bytes, printable

TEMPLATE: Final = "report.html.jinja"
PLOT: Final = "plot.svg.jinja"

MARK: Final = b'<meta name="generator" content="ACE workbench">'
"""Marker near the beginning of every report: a file with it may be overwritten."""


def page(content: Content) -> str:
    """The whole page. Every text is escaped, and invisible characters are spelled out."""
    present = {role_family(row.role) for row in content.merged_rows}
    template = _environment().get_template(TEMPLATE)
    return template.render(
        content=content,
        plan=content.plan,
        recipe=content.plan.recipe,
        method=content.method,
        health=content.model_health,
        verdicts=list(Verdict),
        counts=_counts(content),
        roles=[family for family in ROLE_FAMILIES if family in present],
        experts=[
            (name, figures.expert_class(index))
            for index, name in enumerate(content.plan.recipe.expert_names)
        ],
        figures=figures,
        tables=tables,
        bytes=human_bytes,
    )


def picture(plot: Plot) -> str:
    """A plot as a file of its own, with its style."""
    return str(_environment().get_template(PLOT).module.svg(plot, STYLE))  # type: ignore[attr-defined]


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ace_gui.engine.report", ""),
        autoescape=True,
        finalize=lambda value: visible(value) if isinstance(value, str) else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["short"] = lambda value: f"{value:.2f}".rstrip("0").rstrip(".")
    environment.globals |= {"width": int(WIDTH), "top": int(TOP), "path": symbol}
    environment.globals |= {"families": ROLE_FAMILIES, "symbols": SYMBOLS, "enumerate": enumerate}
    return environment


def visible(text: str) -> str:
    """``printable``, with line breaks as they are; elements are not changed."""
    return text if isinstance(text, Markup) else printable(text, keep="\n")


def _counts(content: Content) -> list[tuple[str, int]]:
    """Counts of tensors by disposition and by regime."""
    rows = [row for row in content.plan.rows if row.in_base]
    found = Counter(row.disposition for row in rows)
    counts = [(kind.value, found[kind]) for kind in Disposition if found[kind]]
    regimes = Counter(content.regime(row) for row in rows)
    return counts + [(kind.value, regimes[kind]) for kind in Regime if regimes[kind]]
