"""``ace-gui merge``, ``extract``, ``report``, ``task`` and ``devices``."""

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
    print_written,
    safe_text,
    table,
)
from ace_gui.cli.estimating import print_dry_run
from ace_gui.cli.gguf_files import job_after_merge, make, require_llama_cpp
from ace_gui.cli.mixture_building import build_mixture, mixture_given
from ace_gui.cli.recipes import recipe_of
from ace_gui.engine.capabilities import available_devices, devices_not_used, resolve_device
from ace_gui.engine.contract.distilled import Distilled
from ace_gui.engine.contract.events import Event, Exported, MergeFinished, PlanReady, Reported
from ace_gui.engine.contract.plan import CheckVerdict, Plan
from ace_gui.engine.output.models_of_experts import write_task_model
from ace_gui.engine.workflow import Options, extract_adapter, merge_to_folder, report_to_file
from ace_gui.errors import Cancelled, RecipeError
from ace_gui.formatting import alternatives, counted, human_bytes, number_text
from ace_gui.output_files import staging_folder
from ace_gui.recipe import Recipe
from ace_gui.recipe.distillation import Distillation, How
from ace_gui.recipe.new_recipes import recipe_for_extraction
from ace_gui.recipe.output_forms import Output
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.values import SanityCheck, limited

if TYPE_CHECKING:
    from ace_gui.cli.commands import Devices, Extract, Merge, RebuildTask, Report


def merge(command: Merge) -> None:
    """Merge a recipe, or a base and experts; with --dry-run only print what would be done.

    A file that describes a mixture of experts is built into one.
    """
    mixture = mixture_given(command)
    if mixture is not None:
        build_mixture(command, mixture, _options(command))
        return
    recipe = recipe_of(command.models, command.method, command.settings or ())
    recipe = in_form(recipe, command.kind, command.rank, command.energy)
    recipe = aligned(recipe, command.distil, command.limit, command.distil_how)
    if command.sanity is not None:
        recipe = replace(recipe, check=SanityCheck.ON if command.sanity else SanityCheck.OFF)
    recipe = replace(recipe, tasks=limited(recipe.tasks, command.limit))
    inputs = (*map(Path, command.models), *recipe.paths)
    outputs = Outputs.of(command, inputs, "units" if command.dry_run else "files")
    if command.dry_run:
        print_dry_run(recipe, command, _options(command), outputs)
        return
    assert command.out is not None
    if command.gguf is not None:
        require_llama_cpp(command.out, command.gguf, command.llama_cpp)
    events = merge_to_folder(recipe, command.out, _options(command))
    done = f"Merged {counted(len(recipe.models), 'expert', 'experts')}"
    _merge(command, command.out, events, outputs, done)
    if command.gguf is not None:
        job = job_after_merge(command.out, command.gguf, command.llama_cpp)
        make(job, Terminal.of(command))


def _options(command: Merge | Extract | Report) -> Options:
    """The engine's options among those of a command; ``--memory`` is in gigabytes."""
    names = [field.name for field in fields(Options) if hasattr(command, field.name)]
    memory = getattr(command, "memory", None)
    bytes_ = None if memory is None else int(memory * 1e9)
    return Options(memory_bytes=bytes_, **{name: getattr(command, name) for name in names})


def in_form(recipe: Recipe, kind: str | None, rank: int | None, energy: float | None) -> Recipe:
    """The recipe with what ``--as``, ``--rank`` and ``--energy`` ask for. Raises RecipeError."""
    if kind is not None and kind not in set(Output):
        nouns = alternatives([form.traits.noun for form in Output])
        raise RecipeError(f"A merge is written as {nouns}, not as {kind!r}.")
    output = recipe.output if kind is None else Output(kind)
    if rank is None and energy is None:
        return replace(recipe, output=output)
    if not output.has("rank"):
        forms = alternatives([f"--as {form}" for form in Output if form.has("rank")])
        raise RecipeError(f"--rank and --energy go with {forms}.")
    return replace(recipe, output=output, rank=rank, energy=energy)


def aligned(recipe: Recipe, requested: bool, inputs: int | None, how: How | None) -> Recipe:
    """The recipe with what ``--distil``, its ``--limit`` and ``--distil-how`` ask for."""
    if not requested:
        return recipe
    distil = recipe.distil or Distillation()
    if inputs is not None:
        distil = replace(distil, inputs=inputs)
    if how is not None:
        distil = replace(distil, how=how)
    return replace(recipe, distil=distil)


def _merge(
    command: Merge | Extract, out: Path, events: Iterator[Event], outputs: Outputs, done: str
) -> None:
    """Run a merge into the folder ``out``, and print its progress. Its first event is the plan.

    ``done``: begins the last message ("Merged 2 experts").
    """
    terminal = Terminal.of(command)
    plan = _planned(next(events))
    print_warnings(plan.warnings, terminal.notes)
    print_parameter_notes(plan, terminal.notes)
    print_checks(plan.checks, terminal.notes, [CheckVerdict.WARNING])  # errors are raised
    try:
        finished, result = _merged(terminal.progressed(events))
    except (KeyboardInterrupt, Cancelled):
        store = staging_folder(out)
        if store.exists():
            terminal.notes.print(safe_text(f"Stopped; --resume continues from {store}."))
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
        "distilled": finished.distilled and asdict(finished.distilled),
        "sanity": finished.sanity and finished.sanity.record(),
        "checks": [asdict(check) for check in plan.checks],
    }
    outputs.write_json(command.json, content)
    _print_merged(done, finished, result, terminal.results)


def extract(command: Extract) -> None:
    """Write a model's change as an adapter."""
    recipe = recipe_for_extraction(command.base, command.model, command.rank, command.energy)
    outputs = Outputs.of(command, recipe.paths, "files")
    included = command.include or ()
    excluded = command.exclude or ()
    events = extract_adapter(
        recipe, command.out, _options(command), include=included, exclude=excluded
    )
    done = f"Extracted the change from {recipe.base_model.name} to {recipe.expert_names[0]}"
    _merge(command, command.out, events, outputs, done)


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
    print_written(done, finished.seconds, result, console)
    for note in finished.notes:
        console.print(safe_text(note))
    if finished.distilled is not None:
        _print_distilled(finished.distilled, console)
    if finished.sanity is not None:
        style = "yellow" if finished.sanity.is_far else ""
        console.print(safe_text(finished.sanity.sentence, style=style), soft_wrap=True)
    if finished.gpu_peak is not None:
        allocated = finished.gpu_peak.allocated / 1e9
        reserved = finished.gpu_peak.reserved / 1e9
        console.print(
            safe_text(f"Peak GPU memory: {allocated:.2f} GB allocated, {reserved:.2f} GB reserved.")
        )


def _print_distilled(distilled: Distilled, console: Console) -> None:
    """The divergence of each task before and after, and what may be wrong."""
    console.print(safe_text(distilled.sentence))
    lines = table("task", "inputs", "kept back", "before", "after", left_aligned=("task",))
    for task in distilled.tasks:
        before = number_text(task.before, 3)
        after = number_text(task.after, 3)
        lines.add_row(safe_text(task.task), str(task.inputs), str(task.kept_back), before, after)
    console.print(lines)


def report(command: Report) -> None:
    """Write one HTML file that describes the merge of every tensor."""
    terminal = Terminal.of(command)
    recipe = load_recipe(command.recipe)
    outputs = Outputs.of(command, (command.recipe, *recipe.paths), "files")
    events = report_to_file(
        replace(recipe, tasks=limited(recipe.tasks, command.limit)),
        command.out,
        _options(command),
        inputs=(command.recipe,),
        overwrite=command.overwrite,
    )
    plan = _planned(next(events))
    print_checks(plan.checks, terminal.notes, [CheckVerdict.WARNING])
    events = itertools.chain([next(events)], events)  # raises the errors that stop the report
    print_checks(plan.checks, terminal.notes, [CheckVerdict.ERROR])
    written = terminal.result(events, Reported)
    checks = [asdict(check) for check in plan.checks]
    content = {"files": [str(written.file)], "bytes": written.bytes, "checks": checks}
    outputs.write_json(command.json, content)
    terminal.results.print(safe_text(f"The report is in {written.file}."))


def task(command: RebuildTask) -> None:
    """Rebuild one expert's model."""
    folder = write_task_model(command.model, command.expert, command.out, base=command.base)
    Terminal.of(command).results.print(safe_text(f"Written to {folder}."), soft_wrap=True)


def devices(command: Devices) -> None:
    """Print one line per device, and why others are not used."""
    available = available_devices()
    automatic = str(resolve_device("auto"))
    outputs = Outputs.of(command, (), "devices")
    terminal = Terminal.of(command)
    content = {
        "devices": [asdict(device) for device in available],
        "automatic": automatic,
        "not_used": list(devices_not_used()),
    }
    outputs.write_json(command.json, content)
    for device in available:
        memory = f", {human_bytes(device.memory_bytes)}" if device.memory_bytes else ""
        chosen = "  (automatic)" if device.name == automatic else ""
        terminal.results.print(safe_text(f"{device.name}  {device.title}{memory}{chosen}"))
    for sentence in devices_not_used():
        terminal.results.print(safe_text(sentence))
