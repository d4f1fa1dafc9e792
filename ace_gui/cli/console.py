"""What the commands print: the engine's events as text, tables, JSON and CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ace_gui.checkpoints import claimed_output, convert_pickle, staging_folder
from ace_gui.engine.capabilities import method_info
from ace_gui.engine.contract.checks import Check, Verdict, worst_first
from ace_gui.engine.contract.events import (
    Event,
    Exported,
    FieldInfo,
    MergeFinished,
    MergeStarted,
    PassProgress,
    Reported,
    ReportProgress,
    TensorFinished,
)
from ace_gui.engine.contract.expert_distance import equally_weighted, fit_checks
from ace_gui.engine.contract.findings import LayerStatistics, Regime
from ace_gui.engine.contract.plan import Plan, PlanRow
from ace_gui.engine.devices import resolve_device, use_threads
from ace_gui.engine.inspecting.inspection_cache import InspectionCache, cache_folder
from ace_gui.engine.inspecting.statistics import analyse
from ace_gui.engine.inspecting.unrelated import unrelated_checks
from ace_gui.engine.merging.merge import input_folders, input_paths, merge
from ace_gui.engine.output.exporting import publish
from ace_gui.engine.planning.models import conversions_folder
from ace_gui.engine.planning.preflight import output_checks
from ace_gui.engine.planning.prepare import Prepared, prepare
from ace_gui.errors import Cancelled, PickleConsentError, ResourceError
from ace_gui.formatting import printable
from ace_gui.methods import PROBLEMS, families, get_method
from ace_gui.output_files import check_file, write_file
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.rules import describe

# How the files begin that the commands write: one that begins so may be written again.
JSON_MARK: Final = b'{\n "layers": ['
CSV_MARK: Final = b"name,role,shape,disposition,reason,gamma,regime"
PAGE_MARK: Final = b'<meta name="generator" content="ACE workbench">'


@dataclasses.dataclass(frozen=True)
class Outputs:
    """The files that a command writes beside its ``inputs``; ``overwrite`` is the person's word."""

    inputs: tuple[Path, ...]
    overwrite: bool

    def check(self, marks: Mapping[Path | None, bytes]) -> None:
        """Raise OutputError, before any work is done, where a file cannot be written."""
        for path, mark in marks.items():
            if path is not None:
                check_file(path, self.inputs, mark=mark, overwrite=self.overwrite)

    def write(self, path: Path, text: str, mark: bytes) -> None:
        """Write a text file, whole or not at all. Raises OutputError or ResourceError."""
        data = text.encode("utf-8", "backslashreplace")
        write_file(path, data, self.inputs, mark=mark, overwrite=self.overwrite)


def merge_to_folder(
    recipe_file: Path,
    out: Path,
    *,
    device: str,
    threads: int | None,
    memory_bytes: int | None,
    resume: bool,
    convert: bool,
    complete_heads: bool,
) -> None:
    """``ace-gui merge``: merge and publish; the target appears only when all of it is there."""
    use_threads(threads)
    recipe = load_recipe(recipe_file)
    resolve_device(device)
    prepared = prepared_with_consent(recipe, convert=convert)
    with claimed_output(out, input_folders(prepared)) as target:
        store = staging_folder(target)
        console = Console(stderr=True)
        print_warnings(prepared.plan.warnings, console)
        print_parameter_notes(prepared.plan, console)
        checks = output_checks(
            prepared.plan,
            target,
            memory_bytes=memory_bytes,
            complete_heads=complete_heads,
            resumes=resume and store.exists(),
        )
        print_checks(checks, console)
        refuse_errors(checks)
        print_checks(unrelated_checks(prepared), console)
        events = merge(
            prepared, store, device=device, resume=resume, as_output=True, memory_bytes=memory_bytes
        )
        finished = _merged(events, store, console)
        result = publish(store, target, complete_heads=complete_heads)
        _print_merged(len(prepared.experts), finished.seconds, result)


def prepared_with_consent(recipe: Recipe, *, convert: bool) -> Prepared:
    """The prepared recipe; pickles among its models are converted only if that was asked for."""
    while True:
        try:
            return prepare(recipe)
        except PickleConsentError as error:
            if error.path is None:
                raise
            if not convert:
                error.sentence += " Add --convert to have it converted."
                raise
            convert_pickle(error.path, conversions_folder())


def inspect_recipe(
    recipe_file: Path,
    *,
    json_file: Path | None,
    csv_file: Path | None,
    convert: bool,
    overwrite: bool = False,
) -> None:
    """``ace-gui inspect``: the plan and the statistics of every tensor."""
    use_threads(None)
    prepared = prepared_with_consent(load_recipe(recipe_file), convert=convert)
    outputs = Outputs((recipe_file, *input_paths(prepared)), overwrite=overwrite)
    outputs.check({json_file: JSON_MARK, csv_file: CSV_MARK})
    statistics = {item.statistics.name: item.statistics for item in analyse(prepared)}
    records = inspect_records(prepared, statistics)
    recipe = prepared.plan.recipe
    weights = dict(zip(recipe.expert_names, recipe.weights, strict=True))
    alike = equally_weighted(statistics, prepared.plan.rows, recipe.weights)
    checks = worst_first((*prepared.plan.checks, *fit_checks(alike, weights)))
    if json_file is not None:
        content = {"layers": records, "checks": [dataclasses.asdict(check) for check in checks]}
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        outputs.write(json_file, text + "\n", JSON_MARK)
    if csv_file is not None:
        outputs.write(csv_file, _csv(records, prepared.plan), CSV_MARK)
    print_layers(prepared.plan, records)
    print_checks(checks, wide_console(), notes=True)


def report_recipe(
    recipe_file: Path,
    out: Path,
    *,
    device: str,
    threads: int | None,
    convert: bool,
    overwrite: bool = False,
) -> None:
    """``ace-gui report``: what the merge does, tensor by tensor, as one HTML file."""
    from ace_gui.engine.report.gather import report

    use_threads(threads)
    where = resolve_device(device)
    prepared = prepared_with_consent(load_recipe(recipe_file), convert=convert)
    outputs = Outputs((recipe_file, *input_paths(prepared)), overwrite=overwrite)
    outputs.check({out: PAGE_MARK})
    cache, console = InspectionCache(cache_folder()), Console(stderr=True)
    print_checks(unrelated_checks(prepared), console)
    with Progress(BarColumn(), TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=None)
        for event in report(prepared, out, where, cache):
            match event:
                case ReportProgress():
                    progress.update(task, total=event.total, completed=event.done)
                case Reported():
                    Console().print(shown(f"The report is in {event.file}."))


def inspect_records(
    prepared: Prepared, statistics: dict[str, LayerStatistics]
) -> list[dict[str, object]]:
    """One record a tensor, as ``inspect --json`` has them."""
    plan = prepared.plan
    return [_record(row, statistics.get(row.name), plan.tau_of(row)) for row in plan.rows]


def _record(row: PlanRow, found: LayerStatistics | None, tau: float | None) -> dict[str, object]:
    gamma = None if found is None else found.gamma
    regime = None
    if gamma is not None and tau is not None:
        regime = (Regime.HETEROGENEOUS if gamma > tau else Regime.HOMOGENEOUS).value
    return {
        "name": row.name,
        "role": row.role,
        "shape": list(row.shape),
        "disposition": row.disposition.value,
        "reason": row.reason,
        "gamma": gamma,
        "regime": regime,
        "energies": {} if found is None else dict(found.energies),
    }


def show_methods() -> None:
    """``ace-gui methods``: one line a method."""
    table = Table(box=None, pad_edge=False)
    for heading in ("method", "title", "what it does"):
        table.add_column(heading, overflow="fold")
    for family, methods in families().items():
        table.add_row(Text(f"\n{family}", style="italic"))
        for method in methods:
            table.add_row(Text(method.name, style="bold"), method.title, method.summary)
    Console().print(table)
    for problem in PROBLEMS:
        Console(stderr=True).print(Text(f"Warning: {problem}", style="yellow"))


def show_method(name: str) -> None:
    """``ace-gui methods NAME``: formula, parameters, citation."""
    info = method_info(get_method(name).name)
    console = Console()
    console.print(Text(f"{info.title} ({info.name})", style="bold"))
    console.print(Text(f"\n{info.summary}\n\n{info.formula}\n"))
    table = Table(box=None, pad_edge=False)
    for heading in ("parameter", "default", "range", "meaning"):
        table.add_column(heading, overflow="fold")
    for item in info.fields:
        table.add_row(item.name, str(item.default), value_range(item), item.help)
    if info.fields:
        console.print(table)
    console.print(Text(f"\n{info.citation}"))


def value_range(item: FieldInfo) -> str:
    """The values a parameter may have, in words."""
    if item.choices:
        return ", ".join(item.choices)
    if item.kind == "bool":
        return "true or false"
    low = "-∞" if item.low is None else f"{item.low:g}"
    high = "∞" if item.high is None else f"{item.high:g}"
    return f"{'over ' if item.low_open else ''}{low} to {high}"


def wide_console() -> Console:
    """A console that cuts no line short when its output goes to a file or a pipe."""
    return Console() if sys.stdout.isatty() else Console(width=240)


def _merged(events: Iterator[Event], store: Path, console: Console) -> MergeFinished:
    """Run a merge to its end; one that is stopped says how to go on with it."""
    try:
        return _drive(events, console)
    except (KeyboardInterrupt, Cancelled):
        if store.exists():
            console.print(shown(f"Stopped; --resume continues from {store}."))
        raise


def _drive(events: Iterator[Event], console: Console) -> MergeFinished:
    """Run a merge to its end with a progress bar where there is a terminal."""
    columns = (
        TextColumn("{task.completed}/{task.total} tensors"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)
        for event in events:
            match event:
                case MergeStarted():
                    progress.update(task, total=event.total, completed=event.done)
                case PassProgress():
                    progress.update(
                        task,
                        total=event.total,
                        completed=event.done,
                        description=printable(event.title),
                    )
                case TensorFinished():
                    progress.update(
                        task, completed=event.done, description=printable(event.report.name)
                    )
                case MergeFinished():
                    return event
    raise Cancelled


def _print_merged(experts: int, seconds: float, result: Exported) -> None:
    console = Console()
    size = f"{result.bytes / 1e6:.1f} MB in {result.folder}"
    console.print(shown(f"Merged {experts} experts in {seconds:.1f} s; {size}:"))
    for name in result.files:
        console.print(shown(f"  {name}"))


def print_layers(plan: Plan, records: list[dict[str, object]]) -> None:
    """Print one line a tensor, then how many are heterogeneous."""
    console = wide_console()
    table = Table(box=None, pad_edge=False)
    table.add_column("γ", justify="right")
    for heading in ("regime", "disposition", "role"):
        table.add_column(heading, no_wrap=True)
    table.add_column("shape", no_wrap=True, justify="right")
    table.add_column("tensor", overflow="fold")
    for record in records:
        gamma = record["gamma"]
        shape = record["shape"]
        table.add_row(
            f"{gamma:.4f}" if isinstance(gamma, float) else "",
            str(record["regime"] or ""),
            str(record["disposition"]),
            str(record["role"]),
            "×".join(map(str, shape)) if isinstance(shape, list) else "",
            shown(str(record["name"])),
        )
    console.print(table)
    regimes = [record["regime"] for record in records if record["regime"] is not None]
    if regimes:
        over = regimes.count(Regime.HETEROGENEOUS.value)
        tau = plan.parameters.get("tau", "τ")
        if any("tau" in rule.parameters for rule in plan.recipe.overrides):
            tau = f"{tau}, or the threshold of an override"
        console.print(f"\n{over} of {len(regimes)} matrices are heterogeneous (γ > {tau}).")
    _print_overrides(plan, console)
    print_warnings(plan.warnings, console)


def print_warnings(warnings: Sequence[str], console: Console) -> None:
    """Print warnings about a merge as a whole, a line each."""
    for warning in warnings:
        console.print(shown(f"Warning: {warning}", style="yellow"), soft_wrap=True)


def print_parameter_notes(plan: Plan, console: Console) -> None:
    """Print what was chosen for a parameter that the recipe leaves open, and why."""
    for name, note in plan.parameter_notes.items():
        value = plan.parameters.get(name)
        console.print(shown(f"Note: {name} = {value}, {note}.", style="dim"), soft_wrap=True)


def _print_overrides(plan: Plan, console: Console) -> None:
    for place, rule in enumerate(plan.recipe.overrides):
        ruled = [row for row in plan.rows if row.override and place in row.override.rules]
        if ruled:
            reasons = Counter(row.reason for row in ruled)
            console.print(shown(f"Override for {describe(rule)}: {len(ruled)} tensors"))
            for reason, count in reasons.items():
                console.print(shown(f"  {count} {reason}"))


def shown(text: str, style: str = "") -> Text:
    """Text with names out of files in it, fit for a terminal: no markup, no control characters."""
    return Text(printable(text), style=style)


def refuse_errors(checks: Sequence[Check]) -> None:
    """Raise ResourceError for what the checks say a merge would fail at."""
    errors = [check for check in checks if check.verdict is Verdict.ERROR]
    if errors:
        raise ResourceError(f"{errors[0].line} Nothing was written.")


def print_checks(checks: Sequence[Check], console: Console, *, notes: bool = False) -> None:
    """Print the warnings and errors among the checks, if wished the notes too, a line each."""
    styles = {Verdict.ERROR: "red", Verdict.WARNING: "yellow"}
    if notes:
        styles[Verdict.NOTE] = "dim"
    for check in checks:
        if check.verdict in styles:
            line = f"{check.verdict.value.title()}: {check.line}"
            console.print(shown(line, style=styles[check.verdict]), soft_wrap=True)


def _csv(records: list[dict[str, object]], plan: Plan) -> str:
    experts = [expert.name for expert in plan.experts]
    fixed = CSV_MARK.decode().split(",")
    lines: list[list[object]] = [[*fixed, *(f"energy {name}" for name in experts)]]
    for record in records:
        shape, energies = record["shape"], record["energies"]
        assert isinstance(shape, list)
        assert isinstance(energies, dict)
        line = {**record, "shape": "x".join(map(str, shape))}
        lines.append([line[key] for key in fixed] + [energies.get(name) for name in experts])
    text = io.StringIO(newline="")
    csv.writer(text).writerows(lines)
    return text.getvalue()
