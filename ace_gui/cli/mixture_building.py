"""``ace-gui merge`` with a file that describes a mixture of experts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ace_gui.cli.console import Outputs, Terminal, print_warnings, print_written, safe_text
from ace_gui.cli.gguf_files import job_after_merge, make, require_llama_cpp
from ace_gui.cli.options import recipe_given
from ace_gui.engine.contract.events import Exported
from ace_gui.engine.mixture_workflow import mixture_to_folder, plan_mixture
from ace_gui.engine.mixtures.building import bytes_of, refuse_options
from ace_gui.engine.workflow import Options
from ace_gui.errors import Cancelled
from ace_gui.formatting import counted, human_bytes
from ace_gui.recipe.mixture_file import mixture_from
from ace_gui.recipe.mixtures import MixtureRecipe
from ace_gui.recipe.output_forms import Output

if TYPE_CHECKING:
    from ace_gui.cli.commands import Merge

_WITHOUT_EFFECT: Final = ("complete_heads", "evaluate", "distil", "rank", "energy")
"""Options that do nothing for a mixture, by the field of the command."""
_OF_MERGING: Final = ("cluster", "memory")
"""Options that do nothing for a mixture unless it has a merge of its own."""


def mixture_given(command: Merge) -> MixtureRecipe | None:
    """The mixture that the command's only file describes; None if it is another merge.

    Raises RecipeError for a file that cannot be read, and for options that do not go with it.
    """
    if len(command.models) != 1:
        return None
    file = recipe_given(command.models[0])
    if not file.is_file():
        return None
    recipe = mixture_from(file)
    if recipe is None:
        return None
    names = list(_WITHOUT_EFFECT)
    if recipe.attention is None:
        names += _OF_MERGING
    options: dict[str, object] = {
        f"--{name.replace('_', '-')}": getattr(command, name) for name in names
    }
    options["--check"] = command.sanity
    options["--as"] = command.kind not in (None, Output.MODEL)
    refuse_options(options)
    return recipe


def build_mixture(command: Merge, recipe: MixtureRecipe, options: Options) -> None:
    """Build the mixture; with --dry-run only print what would be written."""
    terminal = Terminal.of(command)
    outputs = Outputs.of(command, (Path(command.models[0]), *recipe.paths), "files")
    if command.dry_run:
        prepared = plan_mixture(recipe)
        print_warnings(prepared.notes, terminal.notes)
        name = prepared.plan.layout.model_class
        bytes_to_write = bytes_of(prepared)
        content = {
            "files": [],
            "class": name,
            "bytes": bytes_to_write,
            "notes": list(prepared.notes),
        }
        outputs.write_json(command.json, content)
        size = human_bytes(bytes_to_write)
        terminal.results.print(safe_text(f"Would write a {name} of about {size}."))
        return
    assert command.out is not None
    if command.gguf is not None:
        require_llama_cpp(command.out, command.gguf, command.llama_cpp)
    begin = time.perf_counter()
    try:
        result = terminal.result(mixture_to_folder(recipe, command.out, options), Exported)
    except (KeyboardInterrupt, Cancelled):
        terminal.notes.print("Stopped; --resume continues.")
        raise
    _print_built(command, recipe, result, time.perf_counter() - begin, outputs)
    if command.gguf is not None:
        make(job_after_merge(command.out, command.gguf, command.llama_cpp), terminal)


def _print_built(
    command: Merge, recipe: MixtureRecipe, result: Exported, seconds: float, outputs: Outputs
) -> None:
    terminal = Terminal.of(command)
    print_warnings(result.notes, terminal.notes)
    content = {
        "files": list(result.files),
        "folder": str(result.folder),
        "bytes": result.bytes,
        "seconds": seconds,
        "notes": list(result.notes),
    }
    outputs.write_json(command.json, content)
    experts = counted(len(recipe.experts), "expert", "experts")
    print_written(f"Built a mixture of {experts}", seconds, result, terminal.results)
