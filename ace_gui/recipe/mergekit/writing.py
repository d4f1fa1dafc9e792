"""A recipe as a mergekit YAML file for the same merge, if mergekit has the method.

Remaining differences are listed in the file's head. Settings that cannot be expressed are refused
by name. The definitions are those of mergekit 0.1.5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from ace_gui.errors import RecipeError
from ace_gui.formatting import plain
from ace_gui.recipe.file_schema import placed
from ace_gui.recipe.mergekit.methods import Foreign, Parameters, written
from ace_gui.recipe.mergekit.rule_changes import Changes, finished
from ace_gui.recipe.model_paths import base_config, block_count
from ace_gui.recipe.overrides import After, Override, in_blocks
from ace_gui.recipe.values import (
    UNNAMED_LABEL,
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

_EXPRESSED: Final = {
    *("adapter", "out_dtype", "overrides", "heads", "vocabulary", "seed", "non_finite", "tasks"),
    *("slices", "tokenizer", "tokens", "pad_to_multiple_of"),
}
"""Choices that a mergekit file can express, or need not."""

_NOT_AFTER: Final = "mergekit cannot change a merged result; remove `after`."
_HEADS: Final = (
    "mergekit averages task heads whatever their labels are; here heads of different tasks are "
    "kept for each expert (heads: auto)."
)
_TOKENS: Final = (
    "mergekit adds no tokens to the base's tokenizer: it stops at tokens that the base lacks."
)

_BASE: Final = ""
"""The name of the base among the models."""

NameOf = Callable[[Path], str]
"""Gives the name of a model in the file."""

Entries = dict[str, list[dict[str, Any]]]
"""The entries in the file by model: one, or one in each of its slices."""


def dump_mergekit(
    recipe: Recipe,
    values: Parameters,
    folder: Path,
    values_of: Callable[[Recipe], Parameters] | None = None,
) -> str:
    """The recipe as mergekit's YAML, model paths relative to ``folder``.

    ``values``: every parameter of the method; ``values_of``: those of an earlier stage, each of
    which is a separate document. Raises RecipeError for a method that mergekit lacks, and for
    settings that it cannot express.
    """
    expert_names = {entry.model: entry.name for entry in recipe.models if entry.name}
    names = {
        path: stage.stage_name or expert_names.get(path, f"stage-{n}")
        for n, (path, stage) in enumerate(recipe.stages.items(), start=1)
    }

    def name_of(path: Path) -> str:
        return names.get(path) or placed(path, folder)

    documents: list[dict[str, Any]] = []
    notes: list[str] = []
    if recipe.stages and values_of is None:
        raise RecipeError("Only `ace-gui mergekit` can write a recipe of several stages.")
    for path, stage in (*recipe.stages.items(), (None, recipe)):
        if path is None or values_of is None:
            stage_values = values
        else:
            stage_values = values_of(stage)
        document = _DocumentWriter(stage, stage_values, name_of)
        if path is None:
            documents.append(document.content())
        else:
            documents.append({"name": names[path], **document.content()})
        notes += document.notes
    head = "".join(f"# {note}\n" for note in dict.fromkeys(notes))
    return head + yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)


class _DocumentWriter:
    """One merge in mergekit's terms. ``notes``: a sentence for each thing that mergekit changes.

    A merge with one model per slice is mergekit's ``passthrough``.
    """

    def __init__(self, recipe: Recipe, values: Parameters, name_of: NameOf) -> None:
        self.recipe = recipe
        self.values = values
        self.name_of = name_of
        self.foreign = self._written({})
        _refuse_others(recipe)
        self.notes = list(self.foreign.notes)
        if _may_keep_heads(recipe):
            self.notes.append(_HEADS)
        copied = bool(recipe.slices) and all(len(part.sources) == 1 for part in recipe.slices)
        self.shared: dict[str, Any] = {}
        if recipe.merge_method == "linear" and copied:
            self.method = "passthrough"
        else:
            self.method = self.foreign.method
            self.shared |= self.foreign.parameters
        references = [self._reference(entry) for entry in recipe.models]
        self.models = dict(zip(recipe.expert_names, references, strict=True))
        self.weights = dict(zip(self.models, self.foreign.weights or (), strict=False))

    @property
    def _copies(self) -> bool:
        return self.method == "passthrough"

    def content(self) -> dict[str, Any]:
        """The document. Raises RecipeError."""
        recipe = self.recipe
        base = _pair(recipe.base_model, recipe.adapter, self.name_of)
        document: dict[str, Any] = {"merge_method": self.method}
        if self.foreign.with_base:
            document["base_model"] = base
        blocks = None
        if not recipe.slices:
            count = block_count(recipe.base_model)
            if count is not None:
                blocks = range(count)
        rules = {f"overrides[{n}]": rule for n, rule in enumerate(recipe.overrides)}
        checked = {key: self._changes(rule, key, blocks) for key, rule in rules.items()}
        if recipe.slices:
            entries: Entries = {}
            document["slices"] = self._slices(base, entries)
        else:
            models = self.models
            weights = self.weights
            moves = any(_BASE in changes.of_models for changes in checked.values())
            if self.foreign.base_weight is not None or moves:
                models = {_BASE: base, **models}
                weights = {_BASE: self.foreign.base_weight or 0.0, **weights}
            entries = {name: [_entry(model, weights.get(name))] for name, model in models.items()}
            document["models"] = [entry for (entry,) in entries.values()]
        for changes in checked.values():
            self._put(changes, self.shared, entries)
        if self.shared:
            document["parameters"] = self.shared
        document["dtype"] = "float32"  # to compute in, as here
        config = base_config(recipe.base_model)
        out_dtype = recipe.out_dtype or config.get("dtype") or config.get("torch_dtype")
        if isinstance(out_dtype, str):
            document["out_dtype"] = out_dtype
        content: dict[str, Any] = finished(document | self._tokenizer(base))
        return content

    def _written(self, parameters: Mapping[str, ParameterValue]) -> Foreign:
        """The method in mergekit's terms; ``parameters`` replace some of the recipe's."""
        return written(self.recipe.merge_method, {**self.values, **parameters}, self.recipe.weights)

    def _tokenizer(self, base: str) -> dict[str, Any]:
        """The key of the file for the tokenizer."""
        recipe = self.recipe
        models = {**self.models, "base": base}
        if recipe.tokenizer:
            source = models[recipe.tokenizer]
        else:
            source = None
        if source is None and recipe.vocabulary is not Vocabulary.POSITION:
            if recipe.vocabulary is Vocabulary.UNION:
                source = "union"
            else:
                source = "base"
        if not recipe.tokens and recipe.pad_to_multiple_of is None:
            if source is None:
                return {}
            return {"tokenizer_source": source}
        choice: dict[str, Any] = {}
        if source is not None:
            choice["source"] = source
        if recipe.tokens:
            choice["tokens"] = {t: _row(t, row, models) for t, row in recipe.tokens.items()}
            if source == "base":
                self.notes.append(_TOKENS)
        if recipe.pad_to_multiple_of is not None:
            choice["pad_to_multiple_of"] = recipe.pad_to_multiple_of
        return {"tokenizer": choice}

    def _reference(self, entry: ModelEntry) -> str:
        """The name of a model, or of an adapter with the model that it is on."""
        on = entry.on
        if on is None and (entry.model / "adapter_config.json").is_file():
            if self.recipe.adapter is not None:
                raise RecipeError(
                    f"mergekit cannot put the adapter {entry.model.name} on a base that has one.",
                    key="adapter",
                )
            on = self.recipe.base_model
        if on is None:
            return _pair(entry.model, None, self.name_of)
        return _pair(on, entry.model, self.name_of)

    def _slices(self, base: str, entries: Entries) -> list[dict[str, Any]]:
        """Every slice, with its own settings. Adds the entries of its models to ``entries``."""
        slices = []
        start = 0
        for number, part in enumerate(self.recipe.slices):
            first, end = _layers(part.sources[0], number)
            blocks = range(start, start + end - first)
            slices.append(self._slice(part, number, blocks, base, entries))
            start = blocks.stop
        return slices

    def _slice(
        self, part: Slice, number: int, blocks: range, base: str, entries: Entries
    ) -> dict[str, Any]:
        """A slice of the file. ``blocks``: the numbers of its blocks in the output."""
        names = {model: name for name, model in self.models.items()}
        of_slice: Entries = {}
        for position, source in enumerate(part.sources):
            if source.adapter:
                entry = ModelEntry(model=source.adapter, on=source.model)
            else:
                entry = ModelEntry(model=source.model)
            model = self._reference(entry)
            if position == 0:
                name = _BASE
                weight = self._weight_of_first()
            else:
                name = names[model]
                weight = self.weights.get(name)
            of_slice[name] = [_entry(model, weight, _layers(source, number))]
            entries.setdefault(name, []).extend(of_slice[name])
        sources = [entry for (entry,) in of_slice.values()]
        slice_: dict[str, Any] = {"sources": sources}
        if self.foreign.with_base and sources[0]["model"] != base:
            slice_["base_model"] = sources[0]["model"]
        shared: dict[str, Any] = {}
        for n, rule in enumerate(part.overrides):
            changes = self._changes(rule, f"slices[{number}].overrides[{n}]", blocks)
            self._put(changes, shared, of_slice)
        scaled = self._copies and not self.values.get("normalize")
        if scaled and self.values["base_weight"] != 1:
            parameters = sources[0].setdefault("parameters", {})
            parameters.setdefault("scale", self.values["base_weight"])
        if shared:
            return {**slice_, "parameters": shared}
        return slice_

    def _weight_of_first(self) -> float | None:
        """The weight of a slice's first model, which is its base; None if it has none."""
        if self._copies or self.foreign.weights is None or self.foreign.with_base:
            return None
        return self.foreign.base_weight or 0.0

    def _changes(self, rule: Override, key: str, blocks: range | None) -> Changes:
        """A rule in mergekit's terms; ``blocks``: the models' block numbers. Raises RecipeError."""
        every = rule.pattern in (None, "*")
        if every:
            named = None
        else:
            named = _CONTAINS.fullmatch(rule.pattern or "")
        by_name = every or named is not None
        known_blocks = not rule.blocks or blocks is not None
        if rule.role or rule.tensors or not by_name or not known_blocks:
            raise RecipeError(
                f"{key} is for tensors that a mergekit file cannot name; it can only ask for a "
                "text within their names, as pattern *text* does, and for blocks whose number is "
                "known.",
                key=key,
            )
        if rule.merge_method not in (None, self.recipe.merge_method) or rule.disposition:
            raise RecipeError(
                f"{key}: mergekit has one method for the whole model.", key=f"{key}.merge_method"
            )
        if rule.after != After():
            raise RecipeError(f"{key}: {_NOT_AFTER}", key=f"{key}.after")
        if rule.weights and self.foreign.weights != self.recipe.weights:
            raise RecipeError(
                f"{key}: mergekit's {self.foreign.method} has no such weights.",
                key=f"{key}.weights",
            )
        foreign = self.foreign
        changed = self._written(rule.parameters)
        by_model: dict[str, dict[str, Any]] = {n: {"weight": w} for n, w in rule.weights.items()}
        if changed.base_weight != foreign.base_weight:
            of_base = "scale" if self._copies else "weight"
            by_model[_BASE] = {of_base: changed.base_weight or 0.0}
        for name, parameters in rule.experts.items():
            by_model[name] = {**by_model.get(name, {}), **parameters}
        within = None
        if rule.blocks:
            within = tuple(in_blocks(n, rule.blocks) for n in blocks or ())
        return Changes(
            key=key,
            text=named[1] if named else "*",
            within=within,
            of_all={n: v for n, v in changed.parameters.items() if v != foreign.parameters.get(n)},
            of_models=by_model,
        )

    def _put(self, changes: Changes, shared: dict[str, Any], entries: Entries) -> None:
        """Put the changes before the values that they replace; in mergekit the first counts."""
        shared_values = dict(self.shared)
        for name, value in changes.of_all.items():
            changes.put(shared, name, value, shared_values.get(name))
        for model, settings in changes.of_models.items():
            for entry in entries.get(model, ()):
                model_settings = entry.setdefault("parameters", {})
                for name, value in settings.items():
                    if name not in model_settings and name in shared:
                        model_settings[name] = shared[name]
                    default: Any
                    if model == _BASE:
                        default = self.foreign.base_weight or 0.0
                    else:
                        default = shared_values.get(name)
                    changes.put(model_settings, name, value, default)


def _entry(model: str, weight: float | None, layers: Sequence[int] = ()) -> dict[str, Any]:
    entry: dict[str, Any] = {"model": model}
    if layers:
        entry["layer_range"] = list(layers)
    if weight is not None:
        entry["parameters"] = {"weight": weight}
    return entry


def _pair(model: Path, adapter: Path | None, name_of: NameOf) -> str:
    if adapter is None:
        return name_of(model)
    return f"{name_of(model)}+{name_of(adapter)}"


def _row(token: str, row: TokenSource, models: Mapping[str, str]) -> dict[str, Any]:
    """The source of a token's row. Raises RecipeError."""
    source: Any = {"kind": "zero"}
    if not row.zero:
        if not row.model or row.model not in models:
            sentence = f"mergekit needs a model for the token {plain(token)!r}; name one."
            raise RecipeError(sentence, key=f"tokens.{token}")
        source = models[row.model]
        if row.token or row.token_id is not None:
            token_key = {"token": row.token} if row.token else {"token_id": row.token_id}
            source = {"kind": "model_token", "model": source, **token_key}
    if row.force:
        return {"source": source, "force": True}
    return {"source": source}


def _layers(source: Source, number: int) -> tuple[int, int]:
    """The blocks of a source. Raises RecipeError."""
    if source.layers is not None:
        return source.layers
    count = block_count(source.model)
    if count is None:
        raise RecipeError(
            f"slices[{number}]: the config of {source.model.name} does not have its number of "
            "blocks; write `layers`.",
            key="slices",
        )
    return 0, count


_NO_HEAD: Final = ("no head",)
_UNNAMED: Final = ()
"""In place of the labels of a task: of a model without a head, and where labels have no names."""


def _may_keep_heads(recipe: Recipe) -> bool:
    """Whether the experts have task heads that are not known to be of one task."""
    if recipe.heads is not Heads.AUTO:
        return False
    tasks: set[tuple[str, ...]] = set()
    for entry in recipe.models:
        config = base_config(entry.model) or base_config(entry.on or recipe.base_model)
        labels = config.get("id2label")
        if isinstance(labels, dict):
            names = tuple(map(str, labels.values()))
        else:
            names = ()
        if not _LABELLED.search(str(config.get("architectures"))):
            tasks.add(_NO_HEAD)
        elif config.get("problem_type") == "regression":
            continue
        elif any(map(UNNAMED_LABEL.fullmatch, names)):
            tasks.add(_UNNAMED)
        else:
            tasks.add(names or _UNNAMED)
    some_have_heads = bool(tasks - {_NO_HEAD})
    return some_have_heads and (len(tasks) > 1 or _UNNAMED in tasks)


def _refuse_others(recipe: Recipe) -> None:
    """Raise RecipeError for a choice that mergekit does not have."""
    vocabulary = recipe.vocabulary
    refused = {
        "scope": recipe.scope != "default"
        and f"mergekit merges every tensor; it cannot express the scope {recipe.scope!r}.",
        "split_fused": recipe.split_fused and "mergekit cannot split fused matrices.",
        "after": recipe.after != After() and _NOT_AFTER,
        "output": (recipe.output, recipe.rank, recipe.energy) != (Output.MODEL, None, None)
        and "mergekit's files give whole models; remove `output`, `rank` and `energy`.",
        "vocabulary": vocabulary in (Vocabulary.TOKENS, Vocabulary.BASE)
        and f"mergekit cannot express vocabulary: {vocabulary}; choose base_tokens or union.",
        "heads": recipe.heads is Heads.KEEP and "mergekit cannot keep task heads of the experts.",
    }
    for name, value in recipe.choices().items():
        if name not in _EXPRESSED and value != getattr(Choices(), name):
            text = f"{name}: {value}" if isinstance(value, str) else f"the key {name}"
            refused.setdefault(name, f"mergekit's file cannot express {text}; remove it.")
    for key, sentence in refused.items():
        if sentence:
            raise RecipeError(sentence, key=key)
