"""``ace-gui inspect`` and ``diff``: the tensors of a merge, and the changes between two models."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

from ace_gui.cli.console import (
    Outputs,
    Terminal,
    print_checks,
    print_parameter_notes,
    print_warnings,
    safe_text,
    table,
)
from ace_gui.engine.contract.declared_figures import GAMMA, Place, figures_in
from ace_gui.engine.contract.events import CovariancesCompared
from ace_gui.engine.contract.findings import (
    CovarianceMatch,
    GroupChange,
    ModelDiff,
    Regime,
    TensorChange,
    by_role,
    mean_match,
)
from ace_gui.engine.contract.health import BY_SCALE, UNRELIABLE
from ace_gui.engine.contract.jobs import CovariancesJob
from ace_gui.engine.contract.plan import WORST_FIRST, Plan
from ace_gui.engine.inspecting.model_diff import diff_models as differences
from ace_gui.engine.inspecting.statistics import Layer
from ace_gui.engine.merging.merge import input_paths
from ace_gui.engine.report.report_figures import change_picture
from ace_gui.engine.service import run
from ace_gui.engine.workflow import expected_of, inspect
from ace_gui.formatting import counted, csv_text, printable, shape_text
from ace_gui.linalg.heterogeneity import WHY_BY_SCALE
from ace_gui.recipe.overrides import describe
from ace_gui.recipe.recipe_file import load_recipe

if TYPE_CHECKING:
    from ace_gui.cli.commands import Diff, Inspect


CSV_MARK: Final = b"name,role,shape,disposition,reason,gamma,regime"
RELIED_ON: Final = (*CSV_MARK.decode().split(","), "energies")
"""The fields of a layer that other programs rely on: JSON has only these under ``layers``."""
UNSURE: Final = "?"


def inspect_recipe(command: Inspect) -> None:
    """Print the plan with γ, energies and regimes, and write the files that were named."""
    recipe = load_recipe(command.recipe)
    terminal = Terminal.of(command)
    outputs = Outputs.of(command, (command.recipe, *recipe.paths), "layers", csv=CSV_MARK)
    inspected = inspect(recipe, convert=command.convert, threads=command.threads)
    plan = inspected.prepared.plan
    outputs = replace(outputs, inputs=(command.recipe, *input_paths(inspected.prepared)))
    matches: list[CovarianceMatch] = []
    if command.covariances:
        job = CovariancesJob(recipe=recipe, device=command.device)
        for event in terminal.progressed(run(job)):
            if isinstance(event, CovariancesCompared) and event.layer is not None:
                matches += event.layer.matches
    content = {
        "layers": [_relied_on(layer) for layer in inspected.layers],
        "scales": _scales(inspected.layers),
        "checks": [asdict(check) for check in inspected.checks],
        "parameters": dict(plan.parameters),
    }
    if command.covariances:
        content["covariances"] = [asdict(match) for match in matches]
    expected = expected_of(inspected)  # takes seconds: a cancelled command leaves no file
    outputs.write_json(command.json, content)
    outputs.write(command.csv, _csv(inspected.layers, plan))
    console = terminal.results
    print_layers(plan, inspected.layers, console)
    if not command.quiet:
        print_warnings(plan.warnings, console)
        print_parameter_notes(plan, console)
    if command.covariances:
        for lines in covariance_tables(matches):
            console.print("", lines)
    if expected is not None:
        console.print(f"\n{expected.sentence}")
    if not command.quiet:
        print_checks(inspected.checks, console, WORST_FIRST[:-1])


def _relied_on(layer: Layer) -> dict[str, Any]:
    record = layer.record()
    return {key: record[key] for key in RELIED_ON}


def _scales(layers: Sequence[Layer]) -> list[dict[str, Any]]:
    """The further figures of every layer that has some, and whether its γ is unreliable."""
    scales = []
    for layer in layers:
        record = _finite(layer.record())
        if any(record[name] is not None for name in layer.figures):
            more = {key: value for key, value in record.items() if key not in RELIED_ON}
            scales.append({"name": layer.name} | more)
    return scales


def print_layers(plan: Plan, layers: Sequence[Layer], console: Console) -> None:
    """Print one line per tensor, then the number of heterogeneous ones."""
    names = ("regime", "disposition", "role")
    figures = figures_in(Place.INSPECT)
    titles = [figure.title for figure in figures]
    lines = table(
        GAMMA.title, *names, "shape", *titles, "tensor", left_aligned=names, folded=["tensor"]
    )
    for layer in layers:
        lines.add_row(
            _gamma_text(layer),
            _regime_text(layer),
            layer.disposition,
            layer.role,
            "×".join(map(str, layer.shape)),
            *(figure.terminal_text(layer.figures[figure.name]) for figure in figures),
            safe_text(layer.name),
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
        if unsure:
            scale = f", {unsure} of them by scale alone"
        else:
            scale = ""
        console.print(f"\n{over} of {len(regimes)} matrices are heterogeneous (γ > {tau}){scale}.")
    _print_overrides(plan, console)


def _regime_text(layer: Layer) -> str:
    by_scale = layer.gamma_unreliable and layer.regime == Regime.HETEROGENEOUS.value
    if by_scale:
        return BY_SCALE
    return layer.regime or ""


def _gamma_text(layer: Layer) -> str:
    return GAMMA.terminal_text(layer.gamma) + (UNSURE if layer.gamma_unreliable else "")


def _print_overrides(plan: Plan, console: Console) -> None:
    for index, rule in enumerate(plan.recipe.overrides):
        ruled = [row for row in plan.rows if row.override and index in row.override.rules]
        if ruled:
            reasons = Counter(row.reason for row in ruled)
            console.print(safe_text(f"Override for {describe(rule)}: {len(ruled)} tensors"))
            for reason, count in reasons.items():
                console.print(safe_text(f"  {count} {reason}"))


def _csv(layers: Sequence[Layer], plan: Plan) -> str:
    rows: list[dict[str, object]] = []
    for layer in layers:
        row = layer.record() | {"shape": "x".join(map(str, layer.shape))}
        fixed = {key: row.pop(key) for key in RELIED_ON if key != "energies"}
        del row["energies"]
        energies = {
            f"energy {expert.name}": layer.energies.get(expert.name) for expert in plan.experts
        }
        rows.append(fixed | energies | row)
    return csv_text([list(rows[0]), *(row.values() for row in rows)])


def covariance_tables(matches: Sequence[CovarianceMatch]) -> tuple[Table, Table]:
    """Two tables, with one line per matrix (the mean over the experts) and one per role."""
    lines = []
    for (name, role), group in groupby(matches, key=lambda match: (match.name, match.role)):
        lines.append(mean_match(tuple(group), name, role))
    return _table(lines, "tensor"), _table(by_role(matches), "")


def _table(matches: Sequence[CovarianceMatch], heading: str) -> Table:
    figures = ("cosine", "centred", "other experts", "overlap", "chance")
    lines = table(*figures, "role", heading, left_aligned=["role"], folded=[heading])
    for match in matches:
        values = (match.cosine, match.centred, match.others, match.overlap, match.chance)
        cells = ["" if value is None else f"{value:.3f}" for value in values]
        lines.add_row(*cells, match.role, printable(match.name))
    return lines


PICTURE_MARK: Final = b"<svg"
WIDE: Final = 120
"""Columns of a terminal that has room for all figures."""


def diff_models(command: Diff) -> None:
    """Print and write the changes. Raises the errors of reading the models."""
    terminal = Terminal.of(command)
    models = (Path(command.first), Path(command.second))
    outputs = Outputs.of(command, models, "tensors", picture=PICTURE_MARK)
    events = differences(command.first, command.second, convert=command.convert)
    changes = terminal.result(events, ModelDiff)
    content = {
        "tensors": [_record(change) for change in changes.tensors],
        "blocks": [_record(group) for group in changes.by_block],
        "roles": [_record(group) for group in changes.by_role],
        "missing": changes.missing,
        "extra": changes.extra,
        "other_shape": changes.other_shape,
    }
    outputs.write_json(command.json, content)
    outputs.write(command.picture, change_picture(changes) + "\n")
    _print(changes, terminal)


def _record(change: TensorChange | GroupChange) -> dict[str, Any]:
    return _finite(asdict(change) | {"relative": change.relative})


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values for JSON, which has no number for NaN and infinity."""
    finite_values = dict(values)
    for key, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            finite_values[key] = None
    return finite_values


def _print(changes: ModelDiff, terminal: Terminal) -> None:
    console = terminal.results
    wide_only = ("change", "shape") if console.width >= WIDE else ()
    lines = table(
        "relative", *wide_only, "role", "tensor", left_aligned=["role"], folded=["tensor"]
    )
    for change in changes.tensors:
        if change.dtype == change.second_dtype:
            formats = ""
        else:
            formats = f" ({change.dtype}, {change.second_dtype})"
        label = safe_text(f"{change.name}{formats}")
        figures = (_number(change.change), shape_text(change.shape)) if wide_only else ()
        lines.add_row(_ratio_text(change), *figures, change.role, label)
    console.print(lines)
    for heading, groups in (("block", changes.by_block), ("role", changes.by_role)):
        console.print("", _groups(heading, groups))
    total = changes.total
    same = sum(not change.change for change in changes.tensors)
    console.print(
        f"\nThe whole change is {_ratio_text(total)} of the first model's norm; "
        f"{counted(same, 'tensor is', 'tensors are')} equal."
    )
    for other_name, first, second in changes.other_shape:
        line = f"Other shape: {other_name}: {shape_text(first)} and {shape_text(second)}"
        console.print(safe_text(line, style="yellow"), soft_wrap=True)
    for title, names in (("first", changes.missing), ("second", changes.extra)):
        for name in names:
            console.print(safe_text(f"Only in the {title}: {name}", style="yellow"), soft_wrap=True)


def _groups(heading: str, groups: Sequence[GroupChange]) -> Table:
    lines = table("relative", "change", "tensors", heading, left_aligned=[heading])
    for group in groups:
        lines.add_row(_ratio_text(group), _number(group.change), str(group.tensors), group.name)
    return lines


def _ratio_text(change: TensorChange | GroupChange) -> str:
    if change.relative is None:
        return "–"
    return f"{change.relative:.3g}"


def _number(value: float) -> str:
    if math.isnan(value):
        return "not finite"
    return f"{value:.4g}"
