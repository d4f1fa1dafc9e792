"""A recipe as a mergekit YAML file for the same merge, if mergekit has the method.

Remaining differences are listed in the file's head. Settings that cannot be expressed are refused
by name. The definitions are those of mergekit 0.1.5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from ace_gui.errors import RecipeError
from ace_gui.recipe.file_schema import placed
from ace_gui.recipe.mergekit.methods import Foreign, Parameters, written
from ace_gui.recipe.mergekit.reading import base_config, block_count
from ace_gui.recipe.overrides import After, Override
from ace_gui.recipe.values import (
    Choices,
    Heads,
    ModelEntry,
    Output,
    ParameterValue,
    Recipe,
    Slice,
    Source,
    Vocabulary,
)

_CONTAINS: Final = re.compile(r"\*([^*?\[\]]+|\?)\*")
_LABELLED: Final = re.compile(r"Classification|Segmentation|Detection|Tagg")
_UNNAMED: Final = re.compile(r"LABEL_\d+")

_EXPRESSED: Final = {
    *("adapter", "out_dtype", "overrides", "heads", "vocabulary", "seed", "non_finite", "tasks"),
    *("slices", "tokenizer"),
}
"""Choices that mergekit makes the same way, or none at all."""

_NOT_AFTER: Final = "mergekit cannot change a merged result; remove `after`."
_HEADS: Final = (
    "mergekit averages task heads whatever their labels are; here heads of different tasks are "
    "kept for each expert (heads: auto)."
)

_BASE: Final = ""
"""The base among the models, by name."""

Index = Callable[[Path], str]
"""How a file names a model."""


def dump_mergekit(
    recipe: Recipe,
    values: Parameters,
    folder: Path,
    values_of: Callable[[Recipe], Parameters] | None = None,
) -> str:
    """The recipe as mergekit's YAML, model paths relative to ``folder``.

    ``values``: every parameter of the method; ``values_of``: those of an earlier stage, each of
    which is a document of its own. Raises RecipeError for a method that mergekit has not, and for
    what it cannot express.
    """
    given = {entry.model: entry.name for entry in recipe.models if entry.name}
    names = {path: given.get(path, f"stage-{n}") for n, path in enumerate(recipe.stages, start=1)}

    def index(path: Path) -> str:
        return names.get(path) or placed(path, folder)

    documents: list[dict[str, Any]] = []
    notes: list[str] = []
    for path, each in (*recipe.stages.items(), (None, recipe)):
        if path is not None and values_of is None:
            raise RecipeError("Only `ace-gui mergekit` can write a recipe of several stages.")
        own = values if path is None or values_of is None else values_of(each)
        document, differences = _document(each, own, index)
        documents.append(document if path is None else {"name": names[path], **document})
        notes += differences
    head = "".join(f"# {note}\n" for note in dict.fromkeys(notes))
    return head + yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)


def _document(
    recipe: Recipe, values: Parameters, index: Index
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """One merge, and what mergekit does otherwise, a sentence each."""
    foreign = written(recipe.merge_method, values, recipe.weights)
    _refuse_others(recipe)
    base = _pair(recipe.base_model, recipe.adapter, index)
    document: dict[str, Any] = {"merge_method": foreign.method}
    if foreign.with_base:
        document["base_model"] = base
    shared: dict[str, Any] = dict(foreign.parameters)
    models = dict(
        zip(
            recipe.expert_names,
            (_reference(entry, recipe, index) for entry in recipe.models),
            strict=True,
        )
    )
    weights = dict(zip(models, foreign.weights or (), strict=False))
    rules = [
        _filter(rule, f"overrides[{n}]", recipe, values) for n, rule in enumerate(recipe.overrides)
    ]
    if recipe.slices:
        made = _Slices(recipe, values, foreign, base, models, weights, index)
        document["merge_method"], shared, document["slices"] = made.method, made.shared, made.all()
        entries = made.entries
    else:
        if foreign.base_weight is not None or any(each.base is not None for each in rules):
            models = {_BASE: base, **models}
            weights[_BASE] = foreign.base_weight or 0.0
        entries = {name: [_entry(model, weights.get(name))] for name, model in models.items()}
        document["models"] = [entry for (entry,) in entries.values()]
    for rule in rules:
        rule.put(
            shared, entries, "scale" if document["merge_method"] == "passthrough" else "weight"
        )
    if shared:
        document["parameters"] = shared
    document["dtype"] = "float32"  # to compute in, as here
    out_dtype = recipe.out_dtype or _dtype_of(recipe.base_model)
    if out_dtype is not None:
        document["out_dtype"] = out_dtype
    if recipe.tokenizer:
        document["tokenizer_source"] = models[recipe.tokenizer]
    elif recipe.vocabulary is not Vocabulary.POSITION:
        document["tokenizer_source"] = "union" if recipe.vocabulary is Vocabulary.UNION else "base"
    return document, foreign.notes + ((_HEADS,) if _may_keep_heads(recipe) else ())


def _entry(model: str, weight: float | None, layers: Sequence[int] = ()) -> dict[str, Any]:
    entry: dict[str, Any] = {"model": model}
    if layers:
        entry["layer_range"] = list(layers)
    if weight is not None:
        entry["parameters"] = {"weight": weight}
    return entry


def _pair(model: Path, adapter: Path | None, index: Index) -> str:
    return index(model) if adapter is None else f"{index(model)}+{index(adapter)}"


class _Slices:
    """The slices of a file. One model a slice is mergekit's ``passthrough``."""

    def __init__(
        self,
        recipe: Recipe,
        values: Parameters,
        foreign: Foreign,
        base: str,
        models: Mapping[str, str],
        weights: Mapping[str, float],
        index: Index,
    ) -> None:
        self._recipe, self._values, self._foreign, self._index = recipe, values, foreign, index
        self._base, self._weights = base, weights
        self._names = {model: name for name, model in models.items()}
        copied = all(len(each.sources) == 1 for each in recipe.slices)
        self._scaled = copied and not values.get("normalize")
        copies = recipe.merge_method == "linear" and copied
        self.method = "passthrough" if copies else foreign.method
        self.shared: dict[str, Any] = {} if copies else dict(foreign.parameters)
        self.entries: dict[str, list[dict[str, Any]]] = {}

    def all(self) -> list[dict[str, Any]]:
        """Every slice, with its own settings."""
        return [self._slice(part, n) for n, part in enumerate(self._recipe.slices)]

    def _slice(self, part: Slice, number: int) -> dict[str, Any]:
        of_slice: dict[str, list[dict[str, Any]]] = {}
        sources = []
        for position, source in enumerate(part.sources):
            on = source.model if source.adapter else None
            source_entry = ModelEntry(model=source.adapter or source.model, on=on)
            model = _reference(source_entry, self._recipe, self._index)
            name = _BASE if position == 0 else self._names[model]
            entry = _entry(model, self._weight(name), self._layers(source, number))
            of_slice[name] = [entry]
            self.entries.setdefault(name, []).append(entry)
            sources.append(entry)
        made: dict[str, Any] = {"sources": sources}
        if self._foreign.with_base and sources[0]["model"] != self._base:
            made["base_model"] = sources[0]["model"]
        shared: dict[str, Any] = {}
        for n, rule in enumerate(part.overrides):
            key = f"slices[{number}].overrides[{n}]"
            found = _filter(rule, key, self._recipe, self._values)
            found.put(shared, of_slice, "scale" if self.method == "passthrough" else "weight")
        if self.method == "passthrough" and self._scaled and self._values["base_weight"] != 1:
            own = sources[0].setdefault("parameters", {})
            own.setdefault("scale", self._values["base_weight"])
        return {**made, "parameters": shared} if shared else made

    def _weight(self, name: str) -> float | None:
        if name != _BASE:
            return self._weights.get(name)
        of_all = self._foreign.weights is not None and not self._foreign.with_base
        return (
            (self._foreign.base_weight or 0.0) if of_all and self.method != "passthrough" else None
        )

    def _layers(self, source: Source, number: int) -> tuple[int, int]:
        count = block_count(source.model) if source.layers is None else None
        if source.layers is None and count is None:
            raise RecipeError(
                f"slices[{number}]: the config of {source.model.name} does not have its number of "
                "blocks; write `layers`.",
                key="slices",
            )
        return source.layers or (0, count or 0)


def _may_keep_heads(recipe: Recipe) -> bool:
    """Whether the experts have task heads that are not known to be of one task."""
    if recipe.heads is not Heads.AUTO:
        return False
    tasks: set[tuple[str, ...]] = set()
    for entry in recipe.models:
        config = base_config(entry.model) or base_config(entry.on or recipe.base_model)
        labels = config.get("id2label")
        names = tuple(map(str, labels.values())) if isinstance(labels, dict) else ()
        if not _LABELLED.search(str(config.get("architectures"))):
            tasks.add(("no head",))
        elif config.get("problem_type") != "regression":
            tasks.add(() if any(map(_UNNAMED.fullmatch, names)) else names)
    return bool(tasks - {("no head",)}) and (len(tasks) > 1 or () in tasks)


def _reference(entry: ModelEntry, recipe: Recipe, index: Callable[[Path], str]) -> str:
    """A model, or the model that an adapter is on and the adapter."""
    on = entry.on
    if on is None and (entry.model / "adapter_config.json").is_file():
        if recipe.adapter is not None:
            raise RecipeError(
                f"mergekit cannot put the adapter {entry.model.name} on a base that has one.",
                key="adapter",
            )
        on = recipe.base_model
    return index(entry.model) if on is None else f"{index(on)}+{index(entry.model)}"


def _refuse_others(recipe: Recipe) -> None:
    if recipe.scope != "default":
        raise RecipeError(
            f"mergekit merges every tensor; it cannot express the scope {recipe.scope!r}.",
            key="scope",
        )
    if recipe.split_fused:
        raise RecipeError("mergekit cannot split fused matrices.", key="split_fused")
    if recipe.after != After():
        raise RecipeError(_NOT_AFTER, key="after")
    if recipe.output != Output.MODEL or recipe.rank is not None or recipe.energy is not None:
        sentence = "mergekit's files give whole models; remove `output`, `rank` and `energy`."
        raise RecipeError(sentence, key="output")
    if recipe.vocabulary in (Vocabulary.TOKENS, Vocabulary.BASE):
        raise RecipeError(
            f"mergekit cannot express vocabulary: {recipe.vocabulary.value}; choose base_tokens or "
            "union.",
            key="vocabulary",
        )
    if recipe.heads is Heads.KEEP:
        raise RecipeError("mergekit cannot keep task heads of the experts.", key="heads")
    for name, value in recipe.choices().items():
        if name not in _EXPRESSED and value != getattr(Choices(), name):
            shown = f"{name}: {value}" if isinstance(value, str) else f"the key {name}"
            raise RecipeError(f"mergekit's file cannot express {shown}; remove it.", key=name)


@dataclass(frozen=True, kw_only=True)
class _Filter:
    """A rule: the text that names contain, and what is set there; ``base``: the base's weight."""

    text: str
    parameters: dict[str, ParameterValue]
    weights: dict[str, float]
    experts: Mapping[str, Mapping[str, ParameterValue]]
    base: float | None

    def put(
        self, shared: dict[str, Any], entries: Mapping[str, list[dict[str, Any]]], of_base: str
    ) -> None:
        """Set it in front of the values that it replaces; in mergekit the first counts."""
        for name, value in self.parameters.items():
            self._prepend(shared, name, value)
        own = {name: {"weight": weight} for name, weight in self.weights.items()}
        own |= {} if self.base is None else {_BASE: {of_base: self.base}}
        for expert, settings in (*own.items(), *self.experts.items()):
            for entry in entries.get(expert, ()):
                of_one = entry.setdefault("parameters", {})
                for name, value in settings.items():
                    if name not in of_one and name in shared:
                        of_one[name] = shared[name]
                    self._prepend(of_one, name, value)

    def _prepend(self, settings: dict[str, Any], name: str, value: ParameterValue) -> None:
        known = settings.get(name)
        rest = known if isinstance(known, list) else [] if known is None else [{"value": known}]
        every = self.text == "*"
        settings[name] = value if every else [{"filter": self.text, "value": value}, *rest]


def _filter(rule: Override, key: str, recipe: Recipe, values: Parameters) -> _Filter:
    """A rule as mergekit has it. Raises RecipeError."""
    if rule.pattern == "*":
        text: str | None = "*"
    else:
        found = _CONTAINS.fullmatch(rule.pattern or "")
        text = found and found[1]
    if text is None or rule.role or rule.blocks or rule.tensors:
        raise RecipeError(
            f"{key} is for tensors that a mergekit filter cannot name; it can only ask for a text "
            "within their names, as pattern *text* does.",
            key=key,
        )
    if rule.merge_method not in (None, recipe.merge_method) or rule.disposition is not None:
        raise RecipeError(
            f"{key}: mergekit has one method for the whole model.", key=f"{key}.merge_method"
        )
    if rule.after != After():
        raise RecipeError(f"{key}: {_NOT_AFTER}", key=f"{key}.after")
    foreign = written(recipe.merge_method, values, recipe.weights)
    if rule.weights and foreign.weights != recipe.weights:
        raise RecipeError(
            f"{key}: mergekit's {foreign.method} has no such weights.", key=f"{key}.weights"
        )
    changed = written(recipe.merge_method, {**values, **rule.parameters}, recipe.weights)
    own = {n: v for n, v in changed.parameters.items() if v != foreign.parameters.get(n)}
    moved = changed.base_weight != foreign.base_weight
    return _Filter(
        text=text,
        parameters=own,
        weights=dict(rule.weights),
        experts=rule.experts,
        base=(changed.base_weight or 0.0) if moved else None,
    )


def _dtype_of(base: Path) -> str | None:
    """The number format in the base's config."""
    config = base_config(base)
    found = config.get("dtype") or config.get("torch_dtype")
    return found if isinstance(found, str) else None
