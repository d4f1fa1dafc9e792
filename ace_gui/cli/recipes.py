"""Make recipes from a base and experts, print them, or write them for mergekit."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import typer
import yaml

from ace_gui.checkpoints.adapters import is_adapter
from ace_gui.cli.console import Outputs, Terminal, safe_text, table
from ace_gui.cli.options import recipe_given
from ace_gui.errors import RecipeError
from ace_gui.methods import checked_parameters, get_method, parameter_fields
from ace_gui.methods.method import MergeMethod
from ace_gui.recipe import Recipe
from ace_gui.recipe.mergekit.writing import dump_mergekit
from ace_gui.recipe.mixture_file import explained_file
from ace_gui.recipe.new_recipes import recipe_keys
from ace_gui.recipe.recipe_file import load_recipe, recipe_from
from ace_gui.recipe.values import ParameterValue
from ace_gui.recipe.yaml_reader import plain_number

if TYPE_CHECKING:
    from ace_gui.cli.commands import Init, Mergekit


_WIDTH: Final = 96
_HEADER: Final = (
    "A recipe for `ace-gui merge FILE --out FOLDER`. Relative paths start from the folder of "
    "this file. The keys are on the help page on recipes; `ace-gui methods` lists the methods."
)
_ADAPTERS: Final = (
    "All experts are adapters. Which merge keeps most of adapters differs from one set to the next "
    "(help page Evidence): `ace-gui compare FILE --shelf` on your tasks shows which."
)
_COMMENTS: Final[Mapping[str, str]] = {
    "models": "The experts. Each may have a name and a weight: name: a, parameters: {weight: 1.0}",
    "parameters": "Parameters of the method. Commented lines have their default.",
    "after": (
        "Changes to each matrix's merged change: a spectrum below 1 makes its singular values more "
        "even. The cap limits its norm; one_head: the cap δ of language models, whose experts "
        "answer through one head."
    ),
    "poolers": (
        "If heads are kept for each expert, the modules that feed only heads are kept with them."
    ),
}


def init(command: Init) -> None:
    """Print the commented recipe."""
    typer.echo(init_recipe(command.models, command.method, command.settings or ()), nl=False)


def init_recipe(
    models: Sequence[str], method: str | None = None, settings: Sequence[str] = ()
) -> str:
    """The text of a commented recipe for the merge that ``merge`` does without a file.

    Raises RecipeError for a missing model, or an unknown method or setting.
    """
    base, *experts = models
    keys = recipe_keys(base, experts, method, settings)
    recipe = checked_recipe(keys)
    for path in (recipe.base_model, *(entry.model for entry in recipe.models)):
        if not path.exists():
            sentence = recipe.unfound.get(path, f"{path} does not exist; name a model.")
            raise RecipeError(sentence, path=path, key="model")
    adapters = method is None and all(is_adapter(entry.model) for entry in recipe.models)
    return "\n".join(_lines(keys, [_ADAPTERS] if adapters else [])) + "\n"


def recipe_of(
    models: Sequence[str], method: str | None = None, settings: Sequence[str] = ()
) -> Recipe:
    """The recipe of a single file, or of a base and experts. Raises RecipeError."""
    if len(models) == 1:
        file = recipe_given(models[0])
        if file.is_dir():
            raise RecipeError(f"{file} is a folder; name its experts too, or a recipe.", path=file)
        return load_recipe(file)
    recipes = [model for model in models if model.lower().endswith((".yaml", ".yml"))]
    if recipes:
        raise RecipeError(
            f"{recipes[0]} is a recipe and already names its models; give it alone.", key="model"
        )
    base, *experts = models
    return checked_recipe(recipe_keys(base, experts, method, settings))


def checked_recipe(keys: Mapping[str, Any]) -> Recipe:
    """The recipe with these keys and checked parameters. Raises RecipeError."""
    parameters = keys.get("parameters", {})
    if isinstance(parameters, Mapping):  # otherwise recipe_from reports the error
        values = {name: plain_number(value) for name, value in parameters.items()}
        checked_parameters(get_method(keys["merge_method"]), values)
    return recipe_from(keys)


def _lines(keys: Mapping[str, Any], notes: Sequence[str]) -> Iterator[str]:
    for text in (_HEADER, *notes):
        yield from _comment(text)
    method = get_method(keys["merge_method"])
    for key, value in keys.items():
        if key != "parameters":
            yield from _entry(key, value)
    yield from _parameters(method, keys.get("parameters", {}))


def _entry(key: str, value: object) -> Iterator[str]:
    if key in _COMMENTS:
        yield from _comment(_COMMENTS[key])
    dumped = yaml.safe_dump({key: value}, sort_keys=False, allow_unicode=True, width=10_000)
    yield from dumped.splitlines()


def _parameters(method: MergeMethod[Any], chosen: Mapping[str, Any]) -> Iterator[str]:
    """The given parameters, and the other applicable ones as comments."""
    fields = parameter_fields(method)
    values: dict[str, Any] = {field.name: field.default for field in fields}
    values |= chosen
    used = []
    for field in fields:
        if field.applies_when is None:
            used.append(field)
            continue
        name, *values_with_effect = field.applies_when
        if values[name] in values_with_effect:
            used.append(field)
    if not used:
        return
    yield from _comment(_COMMENTS["parameters"])
    yield "parameters:" if chosen else "# parameters:"
    for field in fields:
        if field in used or field.name in chosen:
            presets = "; ".join(f"{name}: {value:g}" for name, value in field.presets)
            help_text = field.help + (f" {presets}." if presets else "")
            yield from _comment(help_text, "  " if chosen else "#   ")
            start = "  " if field.name in chosen else "  # " if chosen else "#   "
            dumped = yaml.safe_dump({field.name: values[field.name]}, allow_unicode=True)
            yield start + dumped.strip()


def _comment(text: str, indent: str = "") -> list[str]:
    start = f"{indent}# "
    return textwrap.wrap(text, _WIDTH, initial_indent=start, subsequent_indent=start)


MERGEKIT_MARK: Final = b"# A recipe for mergekit, made by ACE workbench."


def write_mergekit(command: Mergekit) -> None:
    """Write a recipe as mergekit's YAML. Raises RecipeError or OutputError."""
    if command.explain:
        _explain(command)
        return
    assert command.out is not None
    recipe = load_recipe(command.recipe)
    outputs = Outputs.of(command, (command.recipe, *recipe.paths), out=MERGEKIT_MARK)
    folder = command.out.resolve().parent
    text = dump_mergekit(recipe, _every_parameter(recipe), folder, _every_parameter)
    outputs.write(command.out, f"{MERGEKIT_MARK.decode()}\n{text}")
    for line in text.splitlines():
        if line.startswith("# "):
            Terminal.of(command).notes.print(safe_text(f"Note: {line[2:]}", style="yellow"))


def _explain(command: Mergekit) -> None:
    """Print what becomes of each key of a mergekit file."""
    terminal = Terminal.of(command)
    for name, fates in explained_file(command.recipe).items():
        lines = table("", "key", "value", "why", left_aligned=["", "key"], folded=["value", "why"])
        for key_fate in fates:
            lines.add_row(
                key_fate.fate.value,
                safe_text(key_fate.key),
                safe_text(key_fate.value),
                safe_text(key_fate.why),
            )
        if name:
            terminal.results.print(safe_text(f"{name}:"))
        terminal.results.print(lines)


def _every_parameter(recipe: Recipe) -> dict[str, ParameterValue]:
    """The parameters of the recipe's method, including defaults."""
    method = get_method(recipe.merge_method)
    return asdict(checked_parameters(method, recipe.parameters))
