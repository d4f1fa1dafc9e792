"""A recipe as YAML, in mergekit's vocabulary, read strictly and written so that it runs again."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ace_gui.errors import RecipeError
from ace_gui.formatting import shown
from ace_gui.recipe.mergekit.reading import from_mergekit
from ace_gui.recipe.mergekit.schema import Document as MergekitDocument
from ace_gui.recipe.mergekit.schema import is_mergekit
from ace_gui.recipe.overrides import LARGEST_CAP, Fate, check_blocks
from ace_gui.recipe.places import Places
from ace_gui.recipe.values import (
    Cap,
    Heads,
    ModelEntry,
    NonFinite,
    Override,
    ParameterValue,
    Recipe,
    Vocabulary,
    hub_name,
    model_name,
)

RECIPE_BYTES = 1_000_000
"""No recipe is larger; a larger file is something else."""

MOST_VALUES: Final = 20_000
DEEPEST: Final = 50
LONGEST_TEXT: Final = 1000
LARGEST_BITS: Final = 1100
"""About as many bits as the largest number that a float can hold has."""


class _ModelParameters(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    weight: Annotated[float, Field(allow_inf_nan=False)] = 1.0


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    model: Annotated[str, Field(min_length=1)]
    name: Annotated[str, Field(min_length=1)] | None = None
    parameters: _ModelParameters = _ModelParameters()


def _one_block(value: object) -> object:
    """A single block may be written as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class _Cap(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    delta: Annotated[float, Field(ge=0, le=LARGEST_CAP, allow_inf_nan=False)] = Cap.delta


class _Override(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    role: Annotated[str, Field(min_length=1)] | None = None
    blocks: Annotated[str, AfterValidator(check_blocks), BeforeValidator(_one_block)] | None = None
    pattern: Annotated[str, Field(min_length=1)] | None = None
    tensors: list[str] = []
    disposition: Fate | None = None
    merge_method: str | None = None
    parameters: dict[str, ParameterValue] = {}
    weights: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = {}
    experts: dict[str, dict[str, ParameterValue]] = {}
    cap: _Cap | Literal[False] | None = None


def _known_schema(schema: int) -> int:
    if schema != 1:
        raise ValueError("must be 1; another version of this application may know that one")
    return schema


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    schema_: Annotated[int, AfterValidator(_known_schema), Field(alias="schema")] = 1
    merge_method: str = "ace"
    base_model: Annotated[str, Field(min_length=1)]
    models: Annotated[list[_Model], Field(min_length=1)]
    parameters: dict[str, bool | int | float | str] = {}
    scope: str = "default"
    split_fused: bool = False
    vocabulary: Literal["position", "tokens", "union", "base"] = "position"
    heads: Literal["auto", "merge", "keep"] = "auto"
    out_dtype: Literal["float32", "float16", "bfloat16", "float64"] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    non_finite: Literal["stop", "keep_base", "skip_expert"] = "stop"
    cap: _Cap | None = None
    overrides: list[_Override] = []


class _Loader(yaml.SafeLoader):
    """Safe YAML that reads ``1e-5`` as a number, refuses repeated keys and needs no aliases.

    It ends soon: what is deeper, longer or larger than any recipe is refused.
    """

    values = depth = 0

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        if isinstance(node.value, str) and len(node.value) > LONGEST_TEXT:
            raise yaml.constructor.ConstructorError(
                None, None, f"a text has more than {LONGEST_TEXT} characters", node.start_mark
            )
        return super().construct_scalar(node)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        found: int = super().construct_yaml_int(node)
        if found.bit_length() > LARGEST_BITS:
            raise yaml.constructor.ConstructorError(
                None, None, "a number is too large", node.start_mark
            )
        return found

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is not a name", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, "aliases are not allowed", event.start_mark
            )
        self.values += 1
        self.depth += 1
        if self.values > MOST_VALUES or self.depth > DEEPEST:
            what = "too deeply nested" if self.depth > DEEPEST else "more than a recipe can say"
            raise yaml.composer.ComposerError(
                None,
                None,
                what,
                self.peek_event().start_mark,  # type: ignore[no-untyped-call]
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)

# YAML 1.1 takes 1e-5 for text because it has no dot; nobody who writes it means text.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*)(\.[\d_]*)?[eE][-+]?\d+$"),
    list("-+0123456789"),
)


def load_recipe(path: Path) -> Recipe:
    """Read a recipe, or mergekit's as one; relative paths in it are taken from its folder.

    Raises RecipeError with the file, and the key where one is at fault.
    """
    return _recipe(_parse(path, _read(path)), path)


def recipe_from(given: Path | str | Mapping[str, object] | Recipe) -> Recipe:
    """A recipe from its file, from what such a file says, or as it is.

    Relative paths in a mapping are taken from the working directory. Raises RecipeError.
    """
    if isinstance(given, Recipe):
        return given
    if isinstance(given, str | Path):
        return load_recipe(Path(given))
    return _recipe(_plain_paths(given), Path("recipe"))


def _plain_paths(value: object) -> Any:
    """The same with each path as its text, and tuples as lists: as YAML would have it."""
    if isinstance(value, Mapping):
        return {key: _plain_paths(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_paths(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def _recipe(content: Any, path: Path) -> Recipe:
    place = Places(folder=path.parent)
    if is_mergekit(content, _KNOWN[()]):
        foreign = _validated(path, content, MergekitDocument)
        return replace(from_mergekit(foreign, path, place), unfound=place.unfound)
    document = _validated(path, content, _Document)
    return Recipe(
        base_model=place(document.base_model),
        models=tuple(
            ModelEntry(
                model=place(entry.model),
                name=entry.name,
                weight=entry.parameters.weight,
            )
            for entry in document.models
        ),
        merge_method=document.merge_method,
        parameters=document.parameters,
        scope=document.scope,
        split_fused=document.split_fused,
        vocabulary=Vocabulary(document.vocabulary),
        heads=Heads(document.heads),
        out_dtype=document.out_dtype,
        seed=document.seed,
        non_finite=NonFinite(document.non_finite),
        cap=None if document.cap is None else Cap(delta=document.cap.delta),
        overrides=tuple(
            _override(path, number, rule) for number, rule in enumerate(document.overrides)
        ),
        unfound=place.unfound,
    )


def _override(path: Path, number: int, written: _Override) -> Override:
    given = written.model_dump(exclude={"tensors", "cap"})
    cap = Cap(delta=written.cap.delta) if isinstance(written.cap, _Cap) else written.cap
    rule = Override(**given, tensors=tuple(written.tensors), cap=cap)
    if rule.selects and rule.changes:
        return rule
    lacking = (
        "does not say what is different; add disposition, merge_method, parameters, weights, "
        "experts or cap"
        if rule.selects
        else "does not say for which tensors it is; add role, blocks, pattern or tensors"
    )
    key = f"overrides[{number}]"
    raise RecipeError(f"{path}: {key} {lacking}.", path=path, key=key)


def dump_recipe(recipe: Recipe, folder: Path | None) -> str:
    """The recipe as YAML text; model paths relative to ``folder``, or bare names without one."""

    models: list[dict[str, object]] = []
    for entry, name in zip(recipe.models, recipe.expert_names, strict=True):
        model: dict[str, object] = {"model": placed(entry.model, folder)}
        if name != model_name(entry.model):
            model["name"] = name
        if entry.weight != 1.0:
            model["parameters"] = {"weight": entry.weight}
        models.append(model)
    document: dict[str, object] = {
        "schema": 1,
        "merge_method": recipe.merge_method,
        "base_model": placed(recipe.base_model, folder),
        "models": models,
    }
    if recipe.parameters:
        document["parameters"] = dict(recipe.parameters)
    if recipe.scope != "default":
        document["scope"] = recipe.scope
    if recipe.split_fused:
        document["split_fused"] = True
    if recipe.vocabulary is not Vocabulary.POSITION:
        document["vocabulary"] = recipe.vocabulary.value
    if recipe.heads is not Heads.AUTO:
        document["heads"] = recipe.heads.value
    if recipe.out_dtype is not None:
        document["out_dtype"] = recipe.out_dtype
    if recipe.seed:
        document["seed"] = recipe.seed
    if recipe.non_finite is not NonFinite.STOP:
        document["non_finite"] = recipe.non_finite.value
    if recipe.cap is not None:
        document["cap"] = vars(recipe.cap)
    if recipe.overrides:
        document["overrides"] = [_written(rule) for rule in recipe.overrides]
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def placed(path: Path, folder: Path | None) -> str:
    """A path as a file in ``folder`` names it; without one the name on the hub, or the bare one."""
    if folder is None:
        return hub_name(path) or path.name
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return str(path)


def _written(rule: Override) -> dict[str, object]:
    """Only what the rule says."""
    everything: dict[str, Any] = {
        **vars(rule),
        "tensors": list(rule.tensors),
        "parameters": dict(rule.parameters),
        "weights": dict(rule.weights),
        "experts": {name: dict(own) for name, own in rule.experts.items()},
        "cap": vars(rule.cap) if isinstance(rule.cap, Cap) else rule.cap,
    }
    return {key: each for key, each in everything.items() if each or (key, each) == ("cap", False)}


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            raise RecipeError(f"{path} is not a file; name a recipe in YAML.", path=path)
        if path.stat().st_size > RECIPE_BYTES:
            raise RecipeError(f"{path} is too large to be a recipe; name a YAML file.", path=path)
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise RecipeError(f"{path} is not text; name a recipe in YAML.", path=path) from None
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}.", path=path) from error


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        content = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise RecipeError(
            f"{path} is not valid YAML: {_one_line(error)}.", path=path, details=str(error)
        ) from error
    if not isinstance(content, dict):
        raise RecipeError(
            f"{path} is not a recipe: expected keys such as base_model and models.", path=path
        )
    return content


Schema = TypeVar("Schema", bound=BaseModel)


def _validated(path: Path, content: dict[str, Any], schema: type[Schema]) -> Schema:
    try:
        return schema.model_validate(content)
    except ValidationError as error:
        raise _explain(path, error) from None


def _one_line(error: Exception) -> str:
    problem = getattr(error, "problem", None) or str(error).split("\n")[0] or "too deeply nested"
    mark = getattr(error, "problem_mark", None)
    return f"{problem} (line {mark.line + 1})" if mark is not None else str(problem)


_KNOWN = {
    (): tuple(field.alias or name for name, field in _Document.model_fields.items()),
    ("models",): tuple(_Model.model_fields),
    ("models", "parameters"): tuple(_ModelParameters.model_fields),
    ("cap",): tuple(_Cap.model_fields),
    ("overrides",): tuple(_Override.model_fields),
    ("overrides", "cap", "_Cap"): tuple(_Cap.model_fields),
}


def _explain(path: Path, error: ValidationError) -> RecipeError:
    """The first complaint of pydantic as one sentence; all of them as details."""
    first = error.errors()[0]
    place = first["loc"]
    key = _key(place)
    if first["type"] == "extra_forbidden":
        known = _KNOWN.get(tuple(part for part in place[:-1] if isinstance(part, str)), ())
        close = difflib.get_close_matches(str(place[-1]), known, n=1)
        hint = f"; did you mean {close[0]!r}" if close else ""
        listed = f" Known here: {', '.join(known)}." if known else ""
        sentence = f"{path}: unknown key {shown(key)}{hint}.{listed}"
    elif first["type"] == "missing":
        sentence = f"{path}: the key {key!r} is missing; add it."
    else:
        given = first["input"]
        told = shown(given) if isinstance(given, str | int | float | bool) else type(given).__name__
        sentence = f"{path}: {shown(key)} is {told}, but {_wanted(dict(first))}."
    return RecipeError(sentence, path=path, key=key, details=str(error))


def _wanted(complaint: dict[str, Any]) -> str:
    if complaint["type"] == "literal_error":
        return f"must be one of {complaint['ctx']['expected']}"
    if complaint["type"] == "model_type":
        return "must be keys with values"
    if complaint["type"] == "too_short":
        return "at least one entry is needed"
    if complaint["type"] == "value_error":
        return str(complaint["ctx"]["error"])
    return str(complaint["msg"]).replace("Input should", "should")


_MEMBERS: Final = {"bool", "int", "float", "str", "_Cap", "literal[False]"}
"""What pydantic calls the members of a union."""


def _key(place: tuple[int | str, ...]) -> str:
    """``models[2].parameters.weight`` from pydantic's location."""
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part not in _MEMBERS:
            text += f".{part}" if text else part
    return text
