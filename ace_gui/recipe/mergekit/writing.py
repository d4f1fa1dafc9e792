"""A recipe as a mergekit YAML file for the same merge, if mergekit has the method.

Remaining differences are listed in the file's head. Settings that cannot be expressed are refused
by name. The definitions are those of mergekit 0.1.5.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from ace_gui.errors import RecipeError
from ace_gui.formatting import plain
from ace_gui.recipe.file_schema import placed
from ace_gui.recipe.mergekit.methods import Foreign, Parameters, written
from ace_gui.recipe.mergekit.reading import base_config, block_count
from ace_gui.recipe.mergekit.settings_at_depth import interpolated
from ace_gui.recipe.overrides import After, Override, in_blocks
from ace_gui.recipe.values import (
    Choices,
    Heads,
    ModelEntry,
    Output,
    ParameterValue,
    Recipe,
    Slice,
    Source,
    TokenSource,
    Vocabulary,
)

_CONTAINS: Final = re.compile(r"\*([^*?\[\]]+|\?)\*")
_LABELLED: Final = re.compile(r"Classification|Segmentation|Detection|Tagg")
_UNNAMED: Final = re.compile(r"LABEL_\d+")

_EXPRESSED: Final = {
    *("adapter", "out_dtype", "overrides", "heads", "vocabulary", "seed", "non_finite", "tasks"),
    *("slices", "tokenizer", "tokens", "pad_to_multiple_of"),
}
"""Choices that mergekit makes the same way, or none at all."""

_NOT_AFTER: Final = "mergekit cannot change a merged result; remove `after`."
_HEADS: Final = (
    "mergekit averages task heads whatever their labels are; here heads of different tasks are "
    "kept for each expert (heads: auto)."
)

_TOKENS: Final = (
    "mergekit adds no tokens to the base's tokenizer: it stops at tokens that the base lacks."
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
    names = {
        path: each.stage_name or given.get(path, f"stage-{n}")
        for n, (path, each) in enumerate(recipe.stages.items(), start=1)
    }

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
    blocks = None if recipe.slices else block_count(recipe.base_model)
    rules = [
        _filter(rule, f"overrides[{n}]", recipe, values, None if blocks is None else range(blocks))
        for n, rule in enumerate(recipe.overrides)
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
        rule.put(shared, entries, document["merge_method"], shared)
    if shared:
        document["parameters"] = shared
    document["dtype"] = "float32"  # to compute in, as here
    out_dtype = recipe.out_dtype or _dtype_of(recipe.base_model)
    if out_dtype is not None:
        document["out_dtype"] = out_dtype
    tokenizer = _tokenizer(recipe, {**models, "base": base})
    document |= tokenizer
    notes = (_HEADS,) * _may_keep_heads(recipe)
    if recipe.tokens and tokenizer["tokenizer"].get("source") == "base":
        notes += (_TOKENS,)
    return _finished(document), foreign.notes + notes


def _tokenizer(recipe: Recipe, models: Mapping[str, str]) -> dict[str, Any]:
    """The tokenizer's key of the file. ``models``: how it names the base and the experts."""
    source = models[recipe.tokenizer] if recipe.tokenizer else None
    if source is None and recipe.vocabulary is not Vocabulary.POSITION:
        source = "union" if recipe.vocabulary is Vocabulary.UNION else "base"
    if not recipe.tokens and recipe.pad_to_multiple_of is None:
        return {} if source is None else {"tokenizer_source": source}
    made: dict[str, Any] = {} if source is None else {"source": source}
    if recipe.tokens:
        made["tokens"] = {token: _row(token, of, models) for token, of in recipe.tokens.items()}
    if recipe.pad_to_multiple_of is not None:
        made["pad_to_multiple_of"] = recipe.pad_to_multiple_of
    return {"tokenizer": made}


def _row(token: str, of: TokenSource, models: Mapping[str, str]) -> dict[str, Any]:
    """Where the row of a token comes from. Raises RecipeError."""
    if not of.zero and (not of.model or of.model not in models):
        sentence = f"mergekit needs a model for the token {plain(token)!r}; name one."
        raise RecipeError(sentence, key=f"tokens.{token}")
    source: Any = {"kind": "zero"}
    if not of.zero:
        source = models[of.model]
        other = {"token": of.token} if of.token else {"token_id": of.token_id}
        if of.token or of.token_id is not None:
            source = {"kind": "model_token", "model": source, **other}
    return {"source": source, **({"force": True} if of.force else {})}


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
        made, start = [], 0
        for number, part in enumerate(self._recipe.slices):
            first, end = self._layers(part.sources[0], number)
            made.append(self._slice(part, number, range(start, start + end - first)))
            start += end - first
        return made

    def _slice(self, part: Slice, number: int, blocks: range) -> dict[str, Any]:
        """A slice. ``blocks``: their numbers in the output."""
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
            found = _filter(rule, key, self._recipe, self._values, blocks)
            found.put(shared, of_slice, self.method, self.shared)
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


@dataclass(frozen=True)
class _Gradient:
    """A setting outside of blocks, then in each block. ``key``: of the rule, for errors."""

    values: tuple[ParameterValue, ...]
    key: str

    def written(self) -> ParameterValue | list[float]:
        """One value, or the shortest list that mergekit interpolates to these. Raises RecipeError.

        mergekit interpolates at k/(n − 1) in block k of n, at 1 if it is the only one, and gives
        tensors outside of blocks the first value.
        """
        if len(set(self.values)) == 1:
            return self.values[0]
        numbers = [v for v in self.values if isinstance(v, int | float) and not isinstance(v, bool)]
        outside, own = numbers[0], numbers[1:]
        if len(numbers) < len(self.values) or (len(own) > 1 and outside != own[0]):
            raise RecipeError(
                f"{self.key}: a gradient of mergekit's has numbers, and tensors outside of blocks "
                "have that of the first block; give the first block the value of all tensors.",
                key=self.key,
            )
        if len(own) == 1:
            return numbers
        last = len(own) - 1
        steps = (step for step in range(last, 0, -1) if last % step == 0)
        short = (own[::step] for step in steps)
        return next(s for s in short if s == own or _near(s, own))


def _near(points: Sequence[float], values: Sequence[float]) -> bool:
    last = len(values) - 1
    found = [interpolated(points, k / last) for k in range(len(values))]
    return all(math.isclose(a, b, abs_tol=1e-12) for a, b in zip(found, values, strict=True))


def _finished(value: Any) -> Any:
    """A part of the document with its gradients as lists."""
    if isinstance(value, dict):
        return {key: _finished(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finished(each) for each in value]
    return value.written() if isinstance(value, _Gradient) else value


@dataclass(frozen=True, kw_only=True)
class _Filter:
    """A rule: the text that names contain, and what is set there.

    ``within``: for each block whether the rule is for it; None: for all tensors. ``base``: the
    base's weight, which is ``base_before`` without the rule.
    """

    key: str
    text: str
    within: tuple[bool, ...] | None
    parameters: dict[str, ParameterValue]
    weights: dict[str, float]
    experts: Mapping[str, Mapping[str, ParameterValue]]
    base: float | None
    base_before: float

    def put(
        self,
        shared: dict[str, Any],
        entries: Mapping[str, list[dict[str, Any]]],
        method: str,
        usual: Mapping[str, Any],
    ) -> None:
        """Set it in front of the values that it replaces; in mergekit the first counts.

        ``usual``: what holds where ``shared`` has no value.
        """
        usual = dict(usual)
        for name, value in self.parameters.items():
            self._set(shared, name, value, usual.get(name))
        own = {name: {"weight": weight} for name, weight in self.weights.items()}
        of_base = "scale" if method == "passthrough" else "weight"
        own |= {} if self.base is None else {_BASE: {of_base: self.base}}
        for expert, settings in (*own.items(), *self.experts.items()):
            for entry in entries.get(expert, ()):
                of_one = entry.setdefault("parameters", {})
                for name, value in settings.items():
                    if name not in of_one and name in shared:
                        of_one[name] = shared[name]
                    before = self.base_before if expert == _BASE else usual.get(name)
                    self._set(of_one, name, value, before)

    def _set(self, settings: dict[str, Any], name: str, value: ParameterValue, usual: Any) -> None:
        known = settings.get(name)
        rest = known if isinstance(known, list) else [] if known is None else [{"value": known}]
        every = self.text == "*"
        if self.within is None:
            settings[name] = value if every else [{"filter": self.text, "value": value}, *rest]
            return
        if not rest or "filter" in rest[-1]:
            rest = [*rest, {"value": usual}]
        first = rest[0].get("filter")
        if rest[-1]["value"] is None or (not every and first not in (None, self.text)):
            sentence = f"{self.key}: mergekit cannot express {name} for these blocks; remove it."
            raise RecipeError(sentence, key=self.key)
        if every:
            found = [{**each, "value": self._along(each["value"], value)} for each in rest]
            settings[name] = found if first else found[0]["value"]
        else:
            own = {"filter": self.text, "value": self._along(rest[0]["value"], value)}
            settings[name] = [own, *rest[bool(first) :]]

    def _along(self, before: Any, value: ParameterValue) -> _Gradient:
        within = self.within or ()
        values = before.values if isinstance(before, _Gradient) else (before,) * (1 + len(within))
        inside = [value if here else old for here, old in zip(within, values[1:], strict=True)]
        return _Gradient((values[0], *inside), self.key)


def _filter(
    rule: Override, key: str, recipe: Recipe, values: Parameters, blocks: range | None
) -> _Filter:
    """A rule as mergekit has it; ``blocks``: those of the models. Raises RecipeError."""
    if rule.pattern in (None, "*"):
        text: str | None = "*"
    else:
        found = _CONTAINS.fullmatch(rule.pattern or "")
        text = found and found[1]
    if text is None or rule.role or rule.tensors or (rule.blocks and blocks is None):
        raise RecipeError(
            f"{key} is for tensors that a mergekit file cannot name; it can only ask for a text "
            "within their names, as pattern *text* does, and for blocks whose number is known.",
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
    within = tuple(in_blocks(n, rule.blocks) for n in blocks or ()) if rule.blocks else None
    return _Filter(
        key=key,
        text=text,
        within=within,
        parameters=own,
        weights=dict(rule.weights),
        experts=rule.experts,
        base=(changed.base_weight or 0.0) if moved else None,
        base_before=foreign.base_weight or 0.0,
    )


def _dtype_of(base: Path) -> str | None:
    """The number format in the base's config."""
    config = base_config(base)
    found = config.get("dtype") or config.get("torch_dtype")
    return found if isinstance(found, str) else None
