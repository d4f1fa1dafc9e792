"""``ace-gui merge``, ``report``, ``task`` and ``devices``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from ace_gui.cli.console import (
    Outputs,
    Terminal,
    print_checks,
    print_parameter_notes,
    print_warnings,
    shown,
)
from ace_gui.cli.estimating import print_dry_run
from ace_gui.cli.from_models import recipe_of
from ace_gui.engine.contract.events import Event, Exported, MergeFinished, PlanReady, Reported
from ace_gui.engine.contract.plan import Plan, Verdict
from ace_gui.engine.devices import available_devices, devices_not_used, resolve_device
from ace_gui.engine.output.expert_models import write_task_model
from ace_gui.engine.workflow import Options, extract_adapter, merge_to_folder, report_to_file
from ace_gui.errors import Cancelled, RecipeError
from ace_gui.formatting import counted, human_bytes
from ace_gui.output_files import staging_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.new_recipes import recipe_for_extraction
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.tasks import limited
from ace_gui.recipe.values import Output

if TYPE_CHECKING:
    from ace_gui.cli.commands import Devices, Extract, Merge, RebuildTask, Report


def merge(given: Merge) -> None:
    """Merge a recipe, or a base and experts; with --dry-run only print what would be done."""
    recipe = recipe_of(given.models, given.method, given.settings or ())
    recipe = as_adapter(recipe, given.kind, given.rank, given.energy)
    recipe = replace(recipe, tasks=limited(recipe.tasks, given.limit))
    inputs = (*map(Path, given.models), *recipe.paths)
    outputs = Outputs.of(given, inputs, "units" if given.dry_run else "files")
    if given.dry_run:
        print_dry_run(recipe, given, _options(given), outputs)
        return
    assert given.out is not None
    events = merge_to_folder(recipe, given.out, _options(given))
    done = f"Merged {counted(len(recipe.models), 'expert', 'experts')}"
    _merge(given, given.out, events, outputs, done)


def _options(given: Merge | Extract | Report) -> Options:
    """The fields that a command has among its own options; ``--memory`` is in gigabytes."""
    names = [field.name for field in fields(Options) if hasattr(given, field.name)]
    memory = getattr(given, "memory", None)
    bytes_ = None if memory is None else int(memory * 1e9)
    return Options(memory_bytes=bytes_, **{name: getattr(given, name) for name in names})


def as_adapter(recipe: Recipe, kind: str | None, rank: int | None, energy: float | None) -> Recipe:
    """The recipe with what ``--as``, ``--rank`` and ``--energy`` ask for. Raises RecipeError."""
    if kind is not None and kind not in set(Output):
        raise RecipeError(f"A merge is written as a model or an adapter, not as {kind!r}.")
    output = recipe.output if kind is None else Output(kind)
    if output == Output.MODEL and (rank is not None or energy is not None):
        raise RecipeError("--rank and --energy go with --as adapter.")
    if rank is None and energy is None:
        return replace(recipe, output=output)
    return replace(recipe, output=output, rank=rank, energy=energy)


def _merge(
    given: Merge | Extract, out: Path, events: Iterator[Event], outputs: Outputs, done: str
) -> None:
    """Run a merge into the folder ``out``, whose first event is its plan; print how it goes.

    ``done``: what is said of it at the end ("Merged 2 experts").
    """
    terminal = Terminal.of(given)
    plan = _planned(next(events))
    print_warnings(plan.warnings, terminal.notes)
    print_parameter_notes(plan, terminal.notes)
    print_checks(plan.checks, terminal.notes, [Verdict.WARNING])  # errors are raised
    try:
        finished, result = _merged(terminal.progressed(events))
    except (KeyboardInterrupt, Cancelled):
        store = staging_folder(out)
        if store.exists():
            terminal.notes.print(shown(f"Stopped; --resume continues from {store}."))
        raise
    content = {
        "files": list(result.files),
        "folder": str(result.folder),
        "bytes": result.bytes,
        "seconds": finished.seconds,
        "peak_bytes": finished.peak_bytes,
        "gpu_peak": finished.gpu_peak and asdict(finished.gpu_peak),
        "warnings": list(finished.warnings),
        "notes": list(finished.notes),
        "checks": [asdict(check) for check in plan.checks],
    }
    outputs.write_json(given.json, content)
    _print_merged(done, finished, result, terminal.results)


def extract(given: Extract) -> None:
    """Write a model's change as an adapter."""
    recipe = recipe_for_extraction(given.base, given.model, given.rank, given.energy)
    outputs = Outputs.of(given, recipe.paths, "files")
    included, excluded = given.include or (), given.exclude or ()
    events = extract_adapter(recipe, given.out, _options(given), include=included, exclude=excluded)
    done = f"Extracted the change from {recipe.base_model.name} to {recipe.expert_names[0]}"
    _merge(given, given.out, events, outputs, done)


def _planned(event: Event) -> Plan:
    assert isinstance(event, PlanReady)
    return event.plan


def _merged(events: Iterable[Event]) -> tuple[MergeFinished, Exported]:
    merged = None
    for event in events:
        match event:
            case MergeFinished():
                merged = event
            case Exported() if merged is not None:
                return merged, event
    raise Cancelled


def _print_merged(done: str, finished: MergeFinished, result: Exported, console: Console) -> None:
    size = f"{human_bytes(result.bytes)} in {result.folder}"
    console.print(shown(f"{done} in {finished.seconds:.1f} s; {size}:"))
    for name in result.files:
        console.print(shown(f"  {name}"))
    for note in finished.notes:
        console.print(shown(note))
    if finished.gpu_peak is not None:
        allocated, reserved = finished.gpu_peak.allocated / 1e9, finished.gpu_peak.reserved / 1e9
        console.print(
            shown(f"Peak GPU memory: {allocated:.2f} GB allocated, {reserved:.2f} GB reserved.")
        )


def report(given: Report) -> None:
    """Describe the merge, tensor by tensor, in one HTML file."""
    terminal = Terminal.of(given)
    recipe = load_recipe(given.recipe)
    outputs = Outputs.of(given, (given.recipe, *recipe.paths), "files")
    events = report_to_file(
        replace(recipe, tasks=limited(recipe.tasks, given.limit)),
        given.out,
        _options(given),
        inputs=(given.recipe,),
        overwrite=given.overwrite,
    )
    plan = _planned(next(events))
    print_checks(plan.checks, terminal.notes, [Verdict.WARNING])
    events = itertools.chain([next(events)], events)  # raises the errors that stop the report
    print_checks(plan.checks, terminal.notes, [Verdict.ERROR])
    found = terminal.result(events, Reported)
    checks = [asdict(check) for check in plan.checks]
    content = {"files": [str(found.file)], "bytes": found.bytes, "checks": checks}
    outputs.write_json(given.json, content)
    terminal.results.print(shown(f"The report is in {found.file}."))


def task(given: RebuildTask) -> None:
    """Rebuild one expert's model."""
    folder = write_task_model(given.model, given.expert, given.out, base=given.base)
    Terminal.of(given).results.print(shown(f"Written to {folder}."), soft_wrap=True)


def devices(given: Devices) -> None:
    """Print one line per device, and why others are not used."""
    found, automatic = available_devices(), str(resolve_device("auto"))
    outputs, terminal = Outputs.of(given, (), "devices"), Terminal.of(given)
    content = {
        "devices": [asdict(each) for each in found],
        "automatic": automatic,
        "not_used": list(devices_not_used()),
    }
    outputs.write_json(given.json, content)
    for device in found:
        memory = f", {human_bytes(device.memory_bytes)}" if device.memory_bytes else ""
        chosen = "  (automatic)" if device.name == automatic else ""
        terminal.results.print(shown(f"{device.name}  {device.title}{memory}{chosen}"))
    for sentence in devices_not_used():
        terminal.results.print(shown(sentence))
