"""``ace-gui inspect``: the plan and the statistics of every tensor, as a table, JSON and CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from ace_gui.cli.console import (
    Outputs,
    Terminal,
    print_checks,
    print_parameter_notes,
    print_warnings,
    shown,
    table,
)
from ace_gui.engine.contract.events import CovariancesCompared
from ace_gui.engine.contract.findings import CovarianceMatch, Regime, by_role, mean_match
from ace_gui.engine.contract.health import BY_SCALE, UNRELIABLE
from ace_gui.engine.contract.plan import WORST_FIRST, Plan
from ace_gui.engine.inspecting.statistics import Layer
from ace_gui.engine.merging.merge import input_paths
from ace_gui.engine.workflow import covariances, expected_of, inspect
from ace_gui.formatting import csv_text, printable
from ace_gui.linalg.heterogeneity import WHY_BY_SCALE
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.rules import describe

if TYPE_CHECKING:
    from ace_gui.cli.commands import Inspect

CSV_MARK: Final = b"name,role,shape,disposition,reason,gamma,regime"
CSV_MORE: Final = ("log_variance", "gamma_unreliable")
UNSURE: Final = "?"


def inspect_recipe(given: Inspect) -> None:
    """Print, and write if asked to, the plan with γ, energies and regimes."""
    recipe, terminal = load_recipe(given.recipe), Terminal.of(given)
    outputs = Outputs.of(given, (given.recipe, *recipe.paths), "layers", csv=CSV_MARK)
    found = inspect(recipe, convert=given.convert, threads=given.threads)
    plan = found.prepared.plan
    outputs = replace(outputs, inputs=(given.recipe, *input_paths(found.prepared)))
    matches: list[CovarianceMatch] = []
    if given.covariances:
        for event in terminal.progressed(covariances(recipe, given.device)):
            if isinstance(event, CovariancesCompared) and event.layer is not None:
                matches += event.layer.matches
    records = [asdict(layer) for layer in found.layers]
    scales = [{"name": record["name"]} | _taken(record, CSV_MORE) for record in records]
    content = {
        "layers": records,  # only the fields that other programs rely on
        "scales": [scale for scale in scales if scale["log_variance"] is not None],
        "checks": [asdict(check) for check in found.checks],
        "parameters": dict(plan.parameters),
    }
    if given.covariances:
        content["covariances"] = [asdict(match) for match in matches]
    outputs.write_json(given.json, content)
    outputs.write(given.csv, _csv(found.layers, plan))
    console = terminal.results
    print_layers(plan, found.layers, console)
    if not given.quiet:
        print_warnings(plan.warnings, console)
        print_parameter_notes(plan, console)
    if given.covariances:
        for lines in covariance_tables(matches):
            console.print("", lines)
    expected = expected_of(found)
    if expected is not None:
        console.print(f"\n{expected.sentence}")
    if not given.quiet:
        print_checks(found.checks, console, WORST_FIRST[:-1])


def _taken(record: dict[str, object], keys: Sequence[str]) -> dict[str, object]:
    """Remove and return the entries of these keys."""
    return {key: record.pop(key) for key in keys}


def print_layers(plan: Plan, layers: Sequence[Layer], console: Console) -> None:
    """Print one line per tensor, then the number of heterogeneous ones."""
    names = ("regime", "disposition", "role")
    lines = table("γ", *names, "shape", "Var ln E", "tensor", left=names, folded=["tensor"])
    for layer in layers:
        lines.add_row(
            _gamma_text(layer),
            _regime_text(layer),
            layer.disposition,
            layer.role,
            "×".join(map(str, layer.shape)),
            "" if layer.log_variance is None else f"{layer.log_variance:.4f}",
            shown(layer.name),
        )
    console.print(lines)
    unsure = sum(layer.gamma_unreliable for layer in layers)
    if unsure:
        console.print(f"\n{UNSURE} {UNRELIABLE}: {WHY_BY_SCALE}. See Var ln E.")
    regimes = [layer.regime for layer in layers if layer.regime is not None]
    if regimes:
        over = regimes.count(Regime.HETEROGENEOUS.value)
        tau = plan.parameters.get("tau", "τ")
        if any("tau" in rule.parameters for rule in plan.recipe.overrides):
            tau = f"{tau}, or the threshold of an override"
        scale = f", {unsure} of them by scale alone" if unsure else ""
        console.print(f"\n{over} of {len(regimes)} matrices are heterogeneous (γ > {tau}){scale}.")
    _print_overrides(plan, console)


def _regime_text(layer: Layer) -> str:
    by_scale = layer.gamma_unreliable and layer.regime == Regime.HETEROGENEOUS.value
    return BY_SCALE if by_scale else layer.regime or ""


def _gamma_text(layer: Layer) -> str:
    if layer.gamma is None:
        return ""
    return f"{layer.gamma:.4f}" + (UNSURE if layer.gamma_unreliable else "")


def _print_overrides(plan: Plan, console: Console) -> None:
    for index, rule in enumerate(plan.recipe.overrides):
        ruled = [row for row in plan.rows if row.override and index in row.override.rules]
        if ruled:
            reasons = Counter(row.reason for row in ruled)
            console.print(shown(f"Override for {describe(rule)}: {len(ruled)} tensors"))
            for reason, count in reasons.items():
                console.print(shown(f"  {count} {reason}"))


def _csv(layers: Sequence[Layer], plan: Plan) -> str:
    experts = [expert.name for expert in plan.experts]
    fixed = CSV_MARK.decode().split(",")
    lines: list[list[object]] = [[*fixed, *(f"energy {name}" for name in experts), *CSV_MORE]]
    for layer in layers:
        line = {**asdict(layer), "shape": "x".join(map(str, layer.shape))}
        energies = [layer.energies.get(name) for name in experts]
        lines.append([line[key] for key in fixed] + energies + [line[key] for key in CSV_MORE])
    return csv_text(lines)


def covariance_tables(matches: Sequence[CovarianceMatch]) -> tuple[Table, Table]:
    """Two tables, with one line per matrix (the mean over the experts) and one per role."""
    lines = [
        mean_match(tuple(own), name, role)
        for (name, role), own in groupby(matches, key=lambda each: (each.name, each.role))
    ]
    return _table(lines, "tensor"), _table(by_role(matches), "")


def _table(matches: Sequence[CovarianceMatch], last: str) -> Table:
    figures = ("cosine", "centred", "other experts", "overlap", "chance")
    lines = table(*figures, "role", last, left=["role"], folded=[last])
    for each in matches:
        values = (each.cosine, each.centred, each.others, each.overlap, each.chance)
        cells = ["" if value is None else f"{value:.3f}" for value in values]
        lines.add_row(*cells, each.role, printable(each.name))
    return lines
