"""A recipe as YAML with mergekit's keys, read strictly, and written so that it runs again."""

from __future__ import annotations

import codecs
import contextlib
import difflib
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeGuard, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from ace_gui.errors import RecipeError
from ace_gui.formatting import listing, quoted_value
from ace_gui.paths import merges_folder
from ace_gui.recipe.file_schema import (
    SCHEMA,
    Document,
    TasksDocument,
    in_file,
    known_keys,
    values_of,
)
from ace_gui.recipe.mergekit.explaining import explained
from ace_gui.recipe.mergekit.reading import from_mergekit
from ace_gui.recipe.mergekit.recognising import is_mergekit
from ace_gui.recipe.mergekit.schema import KNOWN_KEYS as MERGEKIT_KEYS
from ace_gui.recipe.mergekit.schema import Document as MergekitDocument
from ace_gui.recipe.mixtures import describes_mixture
from ace_gui.recipe.model_paths import ModelPaths
from ace_gui.recipe.task_kinds import every_role
from ace_gui.recipe.values import Recipe, Task, Vocabulary, model_name
from ace_gui.recipe.yaml_reader import LONGEST_TEXT, read_documents, read_value, text_of

RECIPE_BYTES = 1_000_000
"""Largest size of a recipe; a larger file is something else."""


def load_recipe(path: Path) -> Recipe:
    """Read a recipe of this application or mergekit. Relative paths in it start from its folder.

    Raises RecipeError with the file, and the key where one is at fault.
    """
    documents = documents_of(path)
    with naming(path):
        if len(documents) > 1:
            return _Stages([_mapping(document) for document in documents], path.parent).last()
        return _recipe(_mapping(documents[0]), path.parent)


def load_tasks(path: Path) -> tuple[Task, ...]:
    """The tasks of a recipe, or of a file with only tasks, under the key ``tasks`` or as a list.

    Relative paths start from its folder. Raises RecipeError.
    """
    content, *further = documents_of(path)
    with naming(path):
        if further:
            raise RecipeError("the file has several documents; keep one.")
        if isinstance(content, list):
            document = {"tasks": content}
        else:
            document = _mapping(content)
        return tasks_from(document, path.parent)


def tasks_from(content: Mapping[str, object], folder: Path = Path()) -> tuple[Task, ...]:
    """The tasks of a mapping that is like a file in ``folder``. Raises RecipeError."""
    only_tasks = plain_paths({"tasks": content.get("tasks") or []})
    tasks = values_of(validated(only_tasks, TasksDocument, ModelPaths(folder=folder)))["tasks"]
    if not tasks:
        raise RecipeError("there are no tasks; add them under the key tasks.")
    return tuple(tasks)


def recipe_from(source: Path | str | Mapping[str, object] | Recipe) -> Recipe:
    """A recipe from its file, from a mapping as in such a file, or unchanged.

    Relative paths in a mapping start from the working directory. Raises RecipeError.
    """
    if isinstance(source, Recipe):
        return source
    if isinstance(source, str | Path):
        return load_recipe(Path(source))
    with naming(Path("recipe")):
        return _recipe(_mapping(plain_paths(source)), Path())


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file to an error about its content."""
    try:
        yield
    except RecipeError as error:
        if error.path is not None:
            raise
        sentence = f"{path}: {error.sentence}"
        raise RecipeError(sentence, path=path, key=error.key, details=error.details) from None


def plain_paths(value: object) -> Any:
    """The value as YAML has it: paths as text, tuples as lists."""
    if isinstance(value, Mapping):
        return {key: plain_paths(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_paths(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return value


class _Stages:
    """The documents of a file with several. Each is a merge, which others may use by its name."""

    def __init__(self, documents: Sequence[Mapping[str, Any]], folder: Path) -> None:
        self._file_folder = folder
        names = [text_of(document.get("name", "")) for document in documents]
        texts = [name for name in names if isinstance(name, str)]
        if len(set(texts)) < len(documents):
            raise RecipeError(f"{SEVERAL}: give each its own name; at most one may have none.")
        self._documents = dict(zip(texts, map(dict, documents), strict=True))
        for document in self._documents.values():
            document.pop("name", None)
        self._made: dict[str, Recipe] = {}
        self._begun: list[str] = []
        self._used: set[str] = set()

    def last(self) -> Recipe:
        """The final merge: the one without a name, or else the only one that no other uses."""
        for name in self._documents:
            self._recipe(name)
        unused = [name for name in self._documents if name not in self._used]
        if "" in self._documents:
            unused = [name for name in unused if not name] or [""]
        if len(unused) != 1:
            raise RecipeError(
                f"{SEVERAL}: {listing(unused)} are used by no other; keep one of them."
            )
        return self._made[unused[0]]

    def _recipe(self, name: str) -> Recipe:
        if name in self._begun:
            circle = " needs ".join([*self._begun[self._begun.index(name) :], name])
            raise RecipeError(f"{SEVERAL}: {circle}; remove one of these uses.")
        if name not in self._made:
            self._begun.append(name)
            needed: dict[Path, Recipe] = {}
            named = [document for document in self._documents if document]
            stages = {document: partial(self._folder, document, needed) for document in named}
            recipe = _recipe(self._documents[name], self._file_folder, stages)
            missing = dict.fromkeys(needed, _NOT_MERGED)
            unfound = {**recipe.unfound, **missing}
            self._made[name] = replace(recipe, stages=needed, unfound=unfound, stage_name=name)
            self._begun.pop()
        return self._made[name]

    def _folder(self, name: str, needed: dict[Path, Recipe]) -> Path:
        """The folder for the result of a stage.

        ``engine.planning.stages`` compares the contents of the inputs before a result is used.
        """
        self._used.add(name)
        recipe = self._recipe(name)
        folder = stage_folder(recipe)
        needed |= {**recipe.stages, folder: recipe}
        return folder


def stage_folder(recipe: Recipe) -> Path:
    """The folder for the result of a merge that another one uses.

    It is named by a digest of the recipe and of the state of its inputs.
    """
    data = [task.calibration for task in recipe.tasks if task.calibration is not None]
    # A folder of a stage is named by its inputs; whether it is there yet must not matter.
    models = [path for path in recipe.paths if path not in recipe.stages]
    text = dump_recipe(recipe, Path("/")) + "".join(map(_state, [*models, *data]))
    return merges_folder() / f"stage-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


SEVERAL: Final = "the file has several documents"
_NOT_MERGED: Final = (
    "An earlier stage of this recipe has not been merged yet; `ace-gui merge` does so first."
)


def _state(model: Path) -> str:
    """The files of a model, with sizes and modification times, as text."""
    try:
        if model.is_dir():
            files = sorted(model.iterdir())
        else:
            files = [model]
        return repr([(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files])
    except OSError:
        return str(model)


def _recipe(
    content: Any, folder: Path, stages: Mapping[str, Callable[[], Path]] = MappingProxyType({})
) -> Recipe:
    paths = ModelPaths(folder=folder, stages=stages)
    as_written = content
    content = _with_tokenizer(with_after(content), folder)
    foreign = _foreign_keys(content)
    of_both = {key: value for key, value in content.items() if key not in foreign}
    if is_mergekit(of_both, known_keys[()]):
        document = validated(of_both, MergekitDocument, keys_of=MERGEKIT_KEYS)
        recipe = from_mergekit(document, paths)
        notes = []
        for key in foreign:
            notes.append(f"mergekit has no key {quoted_value(key)} and ignores it: left out.")
        recipe = replace(recipe, notes=(*notes, *recipe.notes), unfound=paths.unfound)
        return replace(recipe, key_fates=explained(as_written, recipe))
    values = values_of(validated(content, Document, paths))
    del values["schema_"]
    recipe = Recipe(**values, unfound=paths.unfound)
    models = []
    for entry, item in zip(recipe.models, content["models"], strict=True):
        is_stage = entry.name is None and item["model"] in stages
        models.append(replace(entry, name=item["model"]) if is_stage else entry)
    if not models and not recipe.slices:
        raise RecipeError("list at least one model under 'models'.", key="models")
    for number, rule in enumerate(recipe.overrides):
        key = f"overrides[{number}]"
        if not rule.selects:
            sentence = "selects no tensors; add role, blocks, pattern or tensors"
            raise RecipeError(f"{key} {sentence}.", key=key)
        if not rule.changes:
            settings = "disposition, merge_method, parameters, weights, experts or after"
            raise RecipeError(f"{key} changes nothing; add {settings}.", key=key)
    return replace(recipe, models=tuple(models))


def _foreign_keys(content: Mapping[str, Any]) -> list[str]:
    """Keys that neither mergekit nor this application has, such as a model card's name or licence.

    mergekit ignores them. A key that is like a known one is a typing error, and not among them.
    """
    names = {*MERGEKIT_KEYS[()], *known_keys[()]}
    return [key for key in content if key in _OF_CARDS or not difflib.get_close_matches(key, names)]


def with_after(content: Mapping[str, Any], key: str = "") -> dict[str, Any]:
    """Replace the older key ``cap`` by ``after.cap``, in the recipe and in each of its overrides.

    Raises RecipeError if both are given.
    """
    keys = dict(content)
    after = content.get("after", {})
    if "cap" in keys and isinstance(after, Mapping):
        if "cap" in after:
            raise RecipeError(
                f"{key}cap and {key}after.cap are the same setting; keep only {key}after.cap.",
                key=f"{key}after.cap",
            )
        keys["after"] = {**after, "cap": keys.pop("cap")}
    if isinstance(rules := keys.get("overrides"), list):
        keys["overrides"] = list(rules)
        for n, rule in enumerate(rules):
            if isinstance(rule, Mapping):
                keys["overrides"][n] = with_after(rule, f"overrides[{n}].")
    return keys


def _with_tokenizer(keys: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Replace ``tokenizer: base`` and ``union`` by the equivalent choice of ``vocabulary``.

    A chat template that is a file gets its path. Raises RecipeError if both keys are given.
    """
    file = keys.get("chat_template")
    tokenizer = keys.get("tokenizer")
    if isinstance(file, str) and "{" not in file and (folder / file[:LONGEST_TEXT]).is_file():
        keys["chat_template"] = str((folder / file).absolute())
    if not isinstance(tokenizer, str):
        return keys
    choice = {"base": Vocabulary.BASE_TOKENS, "union": Vocabulary.UNION}.get(tokenizer)
    if "vocabulary" in keys and keys["vocabulary"] != (choice or Vocabulary.POSITION):
        raise RecipeError(
            "'tokenizer' and 'vocabulary' contradict each other; keep one of them.", key="tokenizer"
        )
    if choice is not None:
        keys["vocabulary"] = choice.value
        del keys["tokenizer"]
    return keys


def dump_recipe(recipe: Recipe, folder: Path | None) -> str:
    """The recipe as YAML text, with paths relative to ``folder``; None: names instead of paths."""
    models = []
    for entry, name in zip(recipe.models, recipe.expert_names, strict=True):
        is_usual = name == model_name(entry.model)
        models.append(replace(entry, name=None if is_usual else name))
    document = {"schema": SCHEMA, **in_file(replace(recipe, models=tuple(models)), folder)}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            raise RecipeError(f"{path} is not a file; name a recipe in YAML.", path=path)
        if path.stat().st_size > RECIPE_BYTES:
            raise RecipeError(f"{path} is too large to be a recipe; name a YAML file.", path=path)
        content = path.read_bytes()
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise RecipeError(
                f"{path} is UTF-16, as some editors on Windows save it; save it as UTF-8.",
                path=path,
            )
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RecipeError(f"{path} is not text in UTF-8; save it as such.", path=path) from None
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}.", path=path) from error


def documents_of(path: Path) -> list[Any]:
    """The documents of a file. Raises RecipeError if it is not YAML."""
    text = _read(path)
    try:
        return read_documents(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise RecipeError(
            f"{path} is not valid YAML: {_one_line(error)}.", path=path, details=str(error)
        ) from error


def parsed_value(key: str, text: str) -> Any:
    """The value of this text if it follows a key in a recipe file. Raises RecipeError."""
    try:
        return read_value(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise RecipeError(
            f"{quoted_value(text)} is not a value for {quoted_value(key)}: {_one_line(error)}.",
            key=key,
            details=str(error),
        ) from None


def _mapping(content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise RecipeError("this is not a recipe: expected keys such as base_model and models.")
    if "genome" in content:
        raise RecipeError(
            "this configures mergekit-evolve, which searches for weights by many merges, and is no "
            "recipe; list the models of its genome under 'models', and search with `ace-gui tune`.",
            key="genome",
        )
    if describes_mixture(content):
        raise RecipeError(
            "this describes a mixture of experts, which `ace-gui merge`, `ace_gui.merge` and the "
            "window build; for anything else, name the finished folder.",
            key="experts",
        )
    return content


Schema = TypeVar("Schema", bound=BaseModel)


def validated(
    content: dict[str, Any],
    schema: type[Schema],
    paths: ModelPaths | None = None,
    *,
    keys_of: Mapping[tuple[str, ...], tuple[str, ...]] = known_keys,
) -> Schema:
    """A part of a file by its schema. ``keys_of``: what it may have, for errors.

    Raises RecipeError.
    """
    try:
        return schema.model_validate(content, context=paths)
    except ValidationError as error:
        raise _explain(error, keys_of) from None


def _one_line(error: Exception) -> str:
    problem = getattr(error, "problem", None) or str(error).split("\n")[0] or "too deeply nested"
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f"{problem} (line {mark.line + 1})"
    return str(problem)


_OF_CARDS: Final = frozenset(
    ("name", "description", "license", "tags", "author", "version", "language", "library_name")
)
"""Keys of model cards."""


def _explain(
    error: ValidationError, known_keys: Mapping[tuple[str, ...], tuple[str, ...]]
) -> RecipeError:
    """A RecipeError with pydantic's first error as one sentence, and all of them as details."""
    first = error.errors()[0]
    location = first["loc"]
    key = _key(location)
    if first["type"] == "extra_forbidden":
        names = known_keys.get(tuple(filter(_is_key, location[:-1])), ())
        close = difflib.get_close_matches(str(location[-1]), names, n=1)
        if close:
            hint = f"; did you mean {close[0]!r}"
        else:
            hint = ""
        if location[0] == "tasks" and location[-1] in every_role():
            hint = (
                f"; a column of the data is named under columns, as in columns: {{{location[-1]}: "
                "NAME}, and fixed answers such as yes and no stand in a column, too"
            )
        if names:
            listed = f" Known here: {', '.join(names)}."
        else:
            listed = ""
        sentence = f"unknown key {quoted_value(key)}{hint}.{listed}"
    elif first["type"] == "missing":
        sentence = f"the key {key!r} is missing; add it."
    elif first["type"] == "too_short":
        if key == "models":
            noun = "model"
        else:
            noun = "entry"
        sentence = f"list at least one {noun} under {key!r}."
    else:
        value = first["input"]
        if isinstance(value, str | int | float | bool):
            value_shown = quoted_value(value)
        else:
            value_shown = type(value).__name__
        sentence = f"{quoted_value(key)} is {value_shown}, but {_expectation(dict(first))}."
        if first["type"] in ("string_type", "literal_error") and not isinstance(value, str):
            sentence += " Put it in quotes if it is a text."
    return RecipeError(sentence, key=key, details=str(error))


def _expectation(complaint: dict[str, Any]) -> str:
    if complaint["type"] == "literal_error":
        return f"must be one of {complaint['ctx']['expected']}"
    if complaint["type"] == "model_type":
        return "must be keys with values"
    if complaint["type"] == "value_error":
        return str(complaint["ctx"]["error"])
    return str(complaint["msg"]).replace("Input should", "should")


_MEMBER: Final = re.compile(r"bool|int|float|str|(literal|function-\w+)\[.*\]")
"""Pydantic's names for the members of a union, which are no keys."""


def _is_key(part: int | str) -> TypeGuard[str]:
    return isinstance(part, str) and not _MEMBER.fullmatch(part)


def _key(location: tuple[int | str, ...]) -> str:
    """``models[2].parameters.weight`` from pydantic's location."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _is_key(part):
            text += f".{part}" if text else part
    return text
