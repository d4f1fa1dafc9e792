"""The commands' output: the engine's events as text, tables, JSON and CSV."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ace_gui.checkpoints import staging_folder
from ace_gui.cli.showing_covariances import compared, covariance_tables
from ace_gui.engine.capabilities import method_info
from ace_gui.engine.contract.after_fields import AFTER_FIELDS, CAP_FIELD
from ace_gui.engine.contract.checks import RECIPE, Check, Verdict
from ace_gui.engine.contract.events import (
    Event,
    Exported,
    JobProgress,
    LearningProgress,
    MergeFinished,
    MergeStarted,
    PassProgress,
    PlanReady,
    Reported,
    TensorFinished,
)
from ace_gui.engine.contract.figures.findings import Regime
from ace_gui.engine.contract.figures.health import BY_SCALE, UNRELIABLE, WHY_BY_SCALE
from ace_gui.engine.contract.layers import Layer
from ace_gui.engine.contract.plan import Plan
from ace_gui.engine.devices import available_devices, devices_not_used, resolve_device
from ace_gui.engine.merging.merge import input_paths, models_of
from ace_gui.engine.workflow import Options, expected_of, inspect, report_to_file
from ace_gui.engine.workflow import merge_to_folder as merging
from ace_gui.errors import Cancelled, PickleConsentError
from ace_gui.field_info import FieldInfo
from ace_gui.formatting import csv_text, human_bytes, printable, value_text
from ace_gui.methods import PROBLEMS, families, get_method
from ace_gui.output_files import check_file, write_file
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.rules import describe

STANDARD_OUTPUT: Final = Path("-")
# First bytes of the files that the commands write. Such files may be replaced.
JSON_MARK: Final = b'{\n "layers": ['
CSV_MARK: Final = b"name,role,shape,disposition,reason,gamma,regime"
CSV_MORE: Final = ("log_variance", "gamma_unreliable")
UNSURE: Final = "?"


@dataclasses.dataclass(frozen=True)
class Outputs:
    """The files that a command writes besides its model. They must not replace ``inputs``.

    ``overwrite``: replace any other file.
    ``-`` is the standard output. It then holds that text alone, and tables go to standard error.
    """

    taken: ClassVar[TextIO | None] = None
    inputs: tuple[Path, ...]
    overwrite: bool

    def check(self, marks: Mapping[Path | None, bytes]) -> None:
        """Raise OutputError, before any work is done, if a file cannot be written."""
        for path, mark in marks.items():
            if path not in (None, STANDARD_OUTPUT):
                check_file(path, self.inputs, mark=mark, overwrite=self.overwrite)

    def write(self, path: Path, text: str, mark: bytes) -> None:
        """Write a text file atomically. Raises OutputError or ResourceError."""
        if path == STANDARD_OUTPUT:
            sys.stdout.write(text)
            Outputs.taken = sys.stdout
            return
        data = text.encode("utf-8", "backslashreplace")
        write_file(path, data, self.inputs, mark=mark, overwrite=self.overwrite)


def merge_to_folder(recipe: Recipe, out: Path, options: Options) -> None:
    """``ace-gui merge``: print the plan's warnings, merge with a progress bar, write the folder."""
    merged_with_progress(merging(recipe, out, options), out, options, Console(stderr=True))


def merged_with_progress(
    events: Iterator[Event], out: Path, options: Options, console: Console
) -> None:
    """Run a merge into the folder ``out``, whose first event is its plan; print how it goes."""
    with said_to_convert(options.convert):
        plan = _planned(next(events))
    print_warnings(plan.warnings, console)
    print_parameter_notes(plan, console)
    print_checks(_without_errors(plan.checks), console)  # errors are raised
    finished, result = _merged(events, staging_folder(out), console)
    _print_merged(len(plan.experts), finished, result)


def _planned(event: Event) -> Plan:
    assert isinstance(event, PlanReady)
    return event.plan


@contextlib.contextmanager
def said_to_convert(convert: bool) -> Iterator[None]:
    """Add the option for consent to an error about a pickle."""
    try:
        yield
    except PickleConsentError as error:
        if error.path is not None and not convert:
            error.sentence += " Add --convert to convert it."
        raise


def inspect_recipe(
    recipe_file: Path,
    *,
    json_file: Path | None,
    csv_file: Path | None,
    convert: bool,
    covariances: bool = False,
    overwrite: bool = False,
) -> None:
    """``ace-gui inspect``: the plan and the statistics of every tensor.

    ``covariances``: also compare ACE's covariances with those of the experts' inputs.
    """
    recipe = load_recipe(recipe_file)
    outputs = Outputs((recipe_file, *models_of(recipe)), overwrite=overwrite)
    outputs.check({json_file: JSON_MARK, csv_file: CSV_MARK})
    with said_to_convert(convert):
        found = inspect(recipe, convert=convert)
    plan = found.prepared.plan
    outputs = Outputs((recipe_file, *input_paths(found.prepared)), overwrite=overwrite)
    matches = compared(recipe) if covariances else ()
    if json_file is not None:
        records = [dataclasses.asdict(layer) for layer in found.layers]
        scales = [{"name": record["name"]} | _taken(record, CSV_MORE) for record in records]
        content = {
            "layers": records,  # only the fields that other programs rely on
            "scales": [scale for scale in scales if scale["log_variance"] is not None],
            "checks": [dataclasses.asdict(check) for check in found.checks],
            "parameters": dict(plan.parameters),
        }
        if covariances:
            content["covariances"] = [dataclasses.asdict(match) for match in matches]
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        outputs.write(json_file, text + "\n", JSON_MARK)
    if csv_file is not None:
        outputs.write(csv_file, _csv(found.layers, plan), CSV_MARK)
    print_layers(plan, found.layers)
    print_parameter_notes(plan, wide_console())
    if covariances:
        for table in covariance_tables(matches):
            wide_console().print("", table)
    expected = expected_of(found)
    if expected is not None:
        wide_console().print(f"\n{expected.sentence}")
    print_checks(found.checks, wide_console(), notes=True)


def _taken(record: dict[str, object], keys: Sequence[str]) -> dict[str, object]:
    """Remove and return the entries of these keys."""
    return {key: record.pop(key) for key in keys}


def report_recipe(
    recipe_file: Path, out: Path, options: Options, *, overwrite: bool = False
) -> None:
    """``ace-gui report``: describe the merge, tensor by tensor, in one HTML file."""
    console = Console(stderr=True)
    events = report_to_file(
        load_recipe(recipe_file), out, options, inputs=(recipe_file,), overwrite=overwrite
    )
    with said_to_convert(options.convert):
        plan = _planned(next(events))
    print_checks(_without_errors(plan.checks), console)
    events = itertools.chain([next(events)], events)  # raises the errors that stop the report
    print_checks([check for check in plan.checks if check.verdict is Verdict.ERROR], console)
    with Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), console=console, transient=True
    ) as progress:
        task = progress.add_task("", total=None)
        for event in events:
            match event:
                case JobProgress():
                    progress.update(
                        task, description=event.title, total=event.total, completed=event.done
                    )
                case Reported():
                    Console().print(shown(f"The report is in {event.file}."))


def show_devices() -> None:
    """``ace-gui devices``: one line per device, and why others are not used."""
    automatic = str(resolve_device("auto"))
    for device in available_devices():
        memory = f", {human_bytes(device.memory_bytes)}" if device.memory_bytes else ""
        chosen = "  (automatic)" if device.name == automatic else ""
        Console().print(shown(f"{device.name}  {device.title}{memory}{chosen}"))
    for sentence in devices_not_used():
        Console().print(shown(sentence))


def show_methods() -> None:
    """``ace-gui methods``: one line per method."""
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
    method = get_method(name)
    info, by_base = method_info(method.name), method.defaults({}) if method.defaults else {}
    console = Console()
    console.print(Text(f"{info.title} ({info.name})", style="bold"))
    said = " ".join(filter(None, (info.needs, info.leaves)))
    console.print(Text("\n".join(("", info.summary, said, "", info.formula, ""))))
    table = Table(box=None, pad_edge=False)
    for heading in ("parameter", "default", "range", "meaning"):
        table.add_column(heading, overflow="fold")
    for item in info.fields:
        only = ""
        if item.applies_when is not None:
            other, *values = item.applies_when
            only = f"Only with {other}: {' or '.join(values)}. "
        default = "by the base model" if item.name in by_base else value_text(item.default)
        own = item.help.removesuffix(item.differs).rstrip()
        table.add_row(item.name, default, value_range(item), only + own)
    for item in (*AFTER_FIELDS, CAP_FIELD):
        table.add_row(
            item.name,
            "none" if item is CAP_FIELD else str(item.default),
            value_range(item),
            item.help,
        )
    console.print(table)
    others = [item for item in info.fields if item.differs]
    if others:
        console.print(Text("\nOther defaults than in the sources", style="bold"))
    for item in others:
        console.print(Text(f"{item.name} = {value_text(item.default)}: {item.differs}"))
    console.print(Text(f"\n{info.citation}"))


def value_range(item: FieldInfo) -> str:
    """The allowed values of a parameter, in words."""
    if item.choices:
        return ", ".join(item.choices)
    if item.kind == "bool":
        return "true or false"
    low = "-∞" if item.low is None else f"{item.low:g}"
    high = "∞" if item.high is None else f"{item.high:g}"
    return f"{'over ' if item.low_open else ''}{low} to {high}"


def wide_console() -> Console:
    """A console that does not cut lines when its output goes to a file or a pipe."""
    if Outputs.taken is sys.stdout:
        return Console(stderr=True, width=None if sys.stderr.isatty() else 240)
    return Console() if sys.stdout.isatty() else Console(width=240)


def _merged(
    events: Iterator[Event], store: Path, console: Console
) -> tuple[MergeFinished, Exported]:
    """Run a merge to its end. If it is stopped, print how to continue it."""
    try:
        return _drive(events, console)
    except (KeyboardInterrupt, Cancelled):
        if store.exists():
            console.print(shown(f"Stopped; --resume continues from {store}."))
        raise


def _drive(events: Iterator[Event], console: Console) -> tuple[MergeFinished, Exported]:
    """Run a merge to its end, with a progress bar on a terminal."""
    columns = (
        TextColumn("{task.completed}/{task.total} {task.fields[unit]}"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    merged = None
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None, unit="tensors")
        for event in events:
            match event:
                case MergeStarted():
                    progress.update(task, total=event.total, completed=event.done, unit="tensors")
                case LearningProgress():
                    progress.update(
                        task,
                        total=event.total,
                        completed=event.done,
                        description=printable(f"{event.title}{_last_loss(event)}"),
                        unit="steps",
                    )
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
                    merged = event
                case Exported() if merged is not None:
                    return merged, event
    raise Cancelled


def _last_loss(event: LearningProgress) -> str:
    last = [own[-1] for own in event.losses.values() if own]
    return f": mean loss {sum(last) / len(last):.4f}" if last else ""


def _print_merged(experts: int, finished: MergeFinished, result: Exported) -> None:
    console, seconds = Console(), finished.seconds
    size = f"{human_bytes(result.bytes)} in {result.folder}"
    console.print(shown(f"Merged {experts} experts in {seconds:.1f} s; {size}:"))
    for name in result.files:
        console.print(shown(f"  {name}"))
    for note in finished.notes:
        console.print(shown(note))
    if finished.gpu_peak is not None:
        allocated, reserved = finished.gpu_peak.allocated / 1e9, finished.gpu_peak.reserved / 1e9
        console.print(
            shown(f"Peak GPU memory: {allocated:.2f} GB allocated, {reserved:.2f} GB reserved.")
        )


def print_layers(plan: Plan, layers: Sequence[Layer]) -> None:
    """Print one line per tensor, then the number of heterogeneous ones."""
    console = wide_console()
    table = Table(box=None, pad_edge=False)
    table.add_column("γ", justify="right")
    for heading in ("regime", "disposition", "role"):
        table.add_column(heading, no_wrap=True)
    table.add_column("shape", no_wrap=True, justify="right")
    table.add_column("Var ln E", justify="right", no_wrap=True)
    table.add_column("tensor", overflow="fold")
    for layer in layers:
        table.add_row(
            _gamma_text(layer),
            _regime_text(layer),
            layer.disposition,
            layer.role,
            "×".join(map(str, layer.shape)),
            "" if layer.log_variance is None else f"{layer.log_variance:.4f}",
            shown(layer.name),
        )
    console.print(table)
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
    print_warnings(plan.warnings, console)


def _regime_text(layer: Layer) -> str:
    by_scale = layer.gamma_unreliable and layer.regime == Regime.HETEROGENEOUS.value
    return BY_SCALE if by_scale else layer.regime or ""


def _gamma_text(layer: Layer) -> str:
    if layer.gamma is None:
        return ""
    return f"{layer.gamma:.4f}" + (UNSURE if layer.gamma_unreliable else "")


def print_warnings(warnings: Sequence[str], console: Console) -> None:
    """Print warnings about a merge as a whole, one per line."""
    for warning in warnings:
        console.print(shown(f"Warning: {warning}", style="yellow"), soft_wrap=True)


def print_parameter_notes(plan: Plan, console: Console) -> None:
    """Print the value and the reason for each parameter that the recipe leaves open."""
    for name, note in plan.parameter_notes.items():
        value = value_text(plan.parameters[name])
        console.print(shown(f"Note: {name} = {value}. {note}", style="dim"), soft_wrap=True)


def _print_overrides(plan: Plan, console: Console) -> None:
    for index, rule in enumerate(plan.recipe.overrides):
        ruled = [row for row in plan.rows if row.override and index in row.override.rules]
        if ruled:
            reasons = Counter(row.reason for row in ruled)
            console.print(shown(f"Override for {describe(rule)}: {len(ruled)} tensors"))
            for reason, count in reasons.items():
                console.print(shown(f"  {count} {reason}"))


def shown(text: str, style: str = "") -> Text:
    """Text that may contain names from files, safe for a terminal: no markup, no control
    characters.
    """
    return Text(printable(text), style=style)


def _without_errors(checks: Sequence[Check]) -> list[Check]:
    return [check for check in checks if check.verdict is not Verdict.ERROR]


def print_checks(checks: Sequence[Check], console: Console, *, notes: bool = False) -> None:
    """Print the warnings and errors among the checks, one per line. ``notes``: print notes too."""
    styles = {Verdict.ERROR: "red", Verdict.WARNING: "yellow"}
    if notes:
        styles[Verdict.NOTE] = "dim"
    for check in checks:
        if check.verdict in styles or check.title == RECIPE:
            line = f"{check.verdict.value.title()}: {check.line}"
            console.print(shown(line, style=styles.get(check.verdict, "dim")), soft_wrap=True)


def _csv(layers: Sequence[Layer], plan: Plan) -> str:
    experts = [expert.name for expert in plan.experts]
    fixed = CSV_MARK.decode().split(",")
    lines: list[list[object]] = [[*fixed, *(f"energy {name}" for name in experts), *CSV_MORE]]
    for layer in layers:
        line = {**dataclasses.asdict(layer), "shape": "x".join(map(str, layer.shape))}
        energies = [layer.energies.get(name) for name in experts]
        lines.append([line[key] for key in fixed] + energies + [line[key] for key in CSV_MORE])
    return csv_text(lines)
