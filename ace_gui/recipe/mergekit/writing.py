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
from ace_gui.recipe.mergekit.counterparts import MergekitMethod, Parameters
from ace_gui.recipe.mergekit.methods import as_mergekit_method
from ace_gui.recipe.mergekit.rule_changes import RuleInMergekit, with_gradient_lists
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
"""A pattern for names that contain a text."""

_LABELLED: Final = re.compile(r"Classification|Segmentation|Detection|Tagg")
"""Is in the class name of a model whose head has labels."""

_EXPRESSED: Final = frozenset(
    {
        "adapter",
        "heads",
        "non_finite",
        "out_dtype",
        "overrides",
        "pad_to_multiple_of",
        "seed",
        "slices",
        "tasks",
        "tokenizer",
        "tokens",
        "vocabulary",
    }
)
"""Choices that a mergekit file can express, or need not."""

_NOT_AFTER: Final = "mergekit cannot change a merged result; remove `after`."
_HEADS: Final = (
    "mergekit averages task heads whatever their labels are; here heads of different tasks are "
    "kept for each expert (heads: auto)."
)
_TOKENS: Final = (
    "mergekit adds no tokens to the base's tokenizer: it stops at tokens that the base lacks."
)

_BASE_ENTRY: Final = ""
"""The key of the base's entry among those of the experts, whose keys are their names."""

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
    names = _stage_names(recipe)

    def name_of(path: Path) -> str:
        return names.get(path) or placed(path, folder)

    documents: list[dict[str, Any]] = []
    notes: list[str] = []
    if recipe.stages and values_of is None:
        raise RecipeError("Only `ace-gui mergekit` can write a recipe of several stages.")
    if values_of is not None:
        for path, stage in recipe.stages.items():
            stage_writer = _DocumentWriter(stage, values_of(stage), name_of)
            documents.append({"name": names[path], **stage_writer.content()})
            notes += stage_writer.notes
    writer = _DocumentWriter(recipe, values, name_of)
    documents.append(writer.content())
    notes += writer.notes
    head = "".join(f"# {note}\n" for note in dict.fromkeys(notes))
    return head + yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)


def _stage_names(recipe: Recipe) -> dict[Path, str]:
    """The names of earlier stages by the paths of their results."""
    expert_names = {entry.model: entry.name for entry in recipe.models if entry.name}
    names: dict[Path, str] = {}
    for number, (path, stage) in enumerate(recipe.stages.items(), start=1):
        if stage.stage_name:
            names[path] = stage.stage_name
        else:
            names[path] = expert_names.get(path, f"stage-{number}")
    return names


class _DocumentWriter:
    """One merge in mergekit's terms.

    A merge with one model per slice is mergekit's ``passthrough``.
    """

    def __init__(self, recipe: Recipe, values: Parameters, name_of: NameOf) -> None:
        self.recipe = recipe
        self.values = values
        self.name_of = name_of
        self.mergekit_method = self._method_with({})
        """The method in mergekit's terms."""
        _refuse_other_choices(recipe)
        self.notes = list(self.mergekit_method.notes)
        """A sentence for each thing that mergekit does differently."""
        if _may_keep_heads(recipe):
            self.notes.append(_HEADS)
        self.common: dict[str, Any] = {}
        """The settings of all models."""
        self.is_passthrough = recipe.merge_method == "linear" and _only_copies(recipe)
        """Whether the file has ``passthrough`` instead of ``mergekit_method``."""
        if not self.is_passthrough:
            self.common |= self.mergekit_method.parameters
        references = [self._reference(entry) for entry in recipe.models]
        self.models = dict(zip(recipe.expert_names, references, strict=True))
        """The experts' names in the file, by their names in the recipe."""
        self.weights: dict[str, float] = {}
        """By the experts' names in the recipe; empty if the method has no weights."""
        if self.mergekit_method.weights is not None:
            self.weights = dict(zip(self.models, self.mergekit_method.weights, strict=False))

    def content(self) -> dict[str, Any]:
        """The document. Raises RecipeError."""
        recipe = self.recipe
        base = _model_text(recipe.base_model, recipe.adapter, self.name_of)
        if self.is_passthrough:
            method = "passthrough"
        else:
            method = self.mergekit_method.method
        document: dict[str, Any] = {"merge_method": method}
        if self.mergekit_method.with_base:
            document["base_model"] = base
        blocks = None
        if not recipe.slices:
            count = block_count(recipe.base_model)
            if count is not None:
                blocks = range(count)
        rules = []
        for number, override in enumerate(recipe.overrides):
            rules.append(self._rule(override, f"overrides[{number}]", blocks))
        if recipe.slices:
            document["slices"], entries = self._slices(base)
        else:
            models = self.models
            weights = self.weights
            # A base with a weight of its own is one of the file's models, as is one that a rule
            # gives a weight.
            rules_change_base = any(_BASE_ENTRY in rule.of_models for rule in rules)
            if self.mergekit_method.base_weight is not None or rules_change_base:
                models = {_BASE_ENTRY: base, **models}
                weights = {_BASE_ENTRY: self.mergekit_method.base_weight or 0.0, **weights}
            entries = {name: [_entry(model, weights.get(name))] for name, model in models.items()}
            document["models"] = [entries_of_model[0] for entries_of_model in entries.values()]
        for rule in rules:
            self._put(rule, self.common, entries)
        if self.common:
            document["parameters"] = self.common
        document["dtype"] = "float32"  # to compute in, as here
        config = base_config(recipe.base_model)
        out_dtype = recipe.out_dtype or config.get("dtype") or config.get("torch_dtype")
        if isinstance(out_dtype, str):
            document["out_dtype"] = out_dtype
        document |= self._tokenizer(base)
        content: dict[str, Any] = with_gradient_lists(document)
        return content

    def _method_with(self, parameters: Mapping[str, ParameterValue]) -> MergekitMethod:
        """The method in mergekit's terms, with these parameters in place of the recipe's."""
        return as_mergekit_method(
            self.recipe.merge_method, {**self.values, **parameters}, self.recipe.weights
        )

    def _tokenizer(self, base: str) -> dict[str, Any]:
        """The key of the file for the tokenizer; empty if mergekit's default is meant."""
        recipe = self.recipe
        models = {**self.models, "base": base}
        source = None
        if recipe.tokenizer:
            source = models[recipe.tokenizer]
        elif recipe.vocabulary is Vocabulary.UNION:
            source = "union"
        elif recipe.vocabulary is Vocabulary.BASE_TOKENS:
            source = "base"
        if not recipe.tokens and recipe.pad_to_multiple_of is None:
            if source is None:
                return {}
            return {"tokenizer_source": source}
        choice: dict[str, Any] = {}
        if source is not None:
            choice["source"] = source
        if recipe.tokens:
            rows = {}
            for token, row in recipe.tokens.items():
                rows[token] = _token_row(token, row, models)
            choice["tokens"] = rows
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
            return _model_text(entry.model, None, self.name_of)
        return _model_text(on, entry.model, self.name_of)

    def _slices(self, base: str) -> tuple[list[dict[str, Any]], Entries]:
        """Every slice, with its own settings, and the entries of the models in all slices."""
        slices = []
        entries: Entries = {}
        start = 0
        for number, recipe_slice in enumerate(self.recipe.slices):
            first, end = _layers(recipe_slice.sources[0], number)
            blocks = range(start, start + end - first)
            file_slice, slice_entries = self._slice(recipe_slice, number, blocks, base)
            slices.append(file_slice)
            for name, entries_of_model in slice_entries.items():
                entries.setdefault(name, []).extend(entries_of_model)
            start = blocks.stop
        return slices, entries

    def _slice(
        self, recipe_slice: Slice, number: int, blocks: range, base: str
    ) -> tuple[dict[str, Any], Entries]:
        """A slice of the file, and the entries of its models.

        ``blocks``: the numbers of its blocks in the output.
        """
        expert_names = {reference: name for name, reference in self.models.items()}
        slice_entries: Entries = {}
        sources: list[dict[str, Any]] = []
        for position, source in enumerate(recipe_slice.sources):
            if source.adapter:
                model = self._reference(ModelEntry(model=source.adapter, on=source.model))
            else:
                model = self._reference(ModelEntry(model=source.model))
            if position == 0:  # the base of the slice
                name = _BASE_ENTRY
                weight = self._weight_of_first()
            else:
                name = expert_names[model]
                weight = self.weights.get(name)
            entry = _entry(model, weight, _layers(source, number))
            sources.append(entry)
            slice_entries.setdefault(name, []).append(entry)
        file_slice: dict[str, Any] = {"sources": sources}
        slice_base = sources[0]["model"]
        if self.mergekit_method.with_base and slice_base != base:
            file_slice["base_model"] = slice_base
        common: dict[str, Any] = {}
        for n, override in enumerate(recipe_slice.overrides):
            rule = self._rule(override, f"slices[{number}].overrides[{n}]", blocks)
            self._put(rule, common, slice_entries)
        # A sum of one model's weights times ``base_weight`` is mergekit's ``scale``. A rule of the
        # slice may have set it already, and then counts.
        has_scale = self.is_passthrough and not self.values.get("normalize")
        if has_scale and self.values["base_weight"] != 1:
            parameters = sources[0].setdefault("parameters", {})
            parameters.setdefault("scale", self.values["base_weight"])
        if common:
            file_slice["parameters"] = common
        return file_slice, slice_entries

    def _weight_of_first(self) -> float | None:
        """The weight of a slice's first model, which is its base; None if it has none."""
        method = self.mergekit_method
        if self.is_passthrough or method.weights is None or method.with_base:
            return None
        return method.base_weight or 0.0

    def _rule(self, override: Override, key: str, blocks: range | None) -> RuleInMergekit:
        """A rule in mergekit's terms; ``blocks``: the models' block numbers. Raises RecipeError."""
        text = _contained_text(override, key, blocks)
        if override.merge_method not in (None, self.recipe.merge_method) or override.disposition:
            raise RecipeError(
                f"{key}: mergekit has one method for the whole model.", key=f"{key}.merge_method"
            )
        if override.after != After():
            raise RecipeError(f"{key}: {_NOT_AFTER}", key=f"{key}.after")
        # A rule's weights are written as they are, which is possible if mergekit's method takes the
        # recipe's weights as they are. Some take none, and SLERP has two other ones.
        takes_weights = self.mergekit_method.weights == self.recipe.weights
        if override.weights and not takes_weights:
            raise RecipeError(
                f"{key}: mergekit's {self.mergekit_method.method} has no such weights.",
                key=f"{key}.weights",
            )
        changed = self._method_with(override.parameters)
        by_model: dict[str, dict[str, Any]] = {}
        for name, weight in override.weights.items():
            by_model[name] = {"weight": weight}
        if changed.base_weight != self.mergekit_method.base_weight:
            if self.is_passthrough:
                base_setting = "scale"
            else:
                base_setting = "weight"
            by_model[_BASE_ENTRY] = {base_setting: changed.base_weight or 0.0}
        for name, parameters in override.experts.items():
            by_model[name] = {**by_model.get(name, {}), **parameters}
        is_in_blocks = None
        if override.blocks and blocks is not None:
            is_in_blocks = tuple(in_blocks(number, override.blocks) for number in blocks)
        of_all = {}
        for name, value in changed.parameters.items():
            if value != self.mergekit_method.parameters.get(name):
                of_all[name] = value
        return RuleInMergekit(
            key=key, text=text, is_in_blocks=is_in_blocks, of_all=of_all, of_models=by_model
        )

    def _put(self, rule: RuleInMergekit, common: dict[str, Any], entries: Entries) -> None:
        """Put a rule's values before those that they replace; in mergekit the first counts.

        ``common``: settings of all models, of the file or of a slice. ``entries``: those models.
        """
        # A copy from before the rule, as ``common`` may be ``self.common``.
        file_values = dict(self.common)
        for name, value in rule.of_all.items():
            rule.put(common, name, value, file_values.get(name))
        for model, settings in rule.of_models.items():
            for entry in entries.get(model, ()):
                model_settings = entry.setdefault("parameters", {})
                for name, value in settings.items():
                    # A model's setting replaces the common one also for tensors that the rule is
                    # not for. They must keep the common value.
                    if name not in model_settings and name in common:
                        model_settings[name] = common[name]
                    default = file_values.get(name)
                    if model == _BASE_ENTRY:
                        default = self.mergekit_method.base_weight or 0.0
                    rule.put(model_settings, name, value, default)


def _contained_text(override: Override, key: str, blocks: range | None) -> str:
    """What the names of a rule's tensors contain; "*" for all names.

    Raises RecipeError if the rule is for tensors that a mergekit file cannot name.
    """
    text: str | None = "*"
    if override.pattern not in (None, "*"):
        contained = _CONTAINS.fullmatch(override.pattern or "")
        text = contained[1] if contained else None
    has_unknown_blocks = bool(override.blocks) and blocks is None
    is_by_role_or_list = bool(override.role or override.tensors)
    if text is None or is_by_role_or_list or has_unknown_blocks:
        raise RecipeError(
            f"{key} is for tensors that a mergekit file cannot name; it can only ask for a "
            "text within their names, as pattern *text* does, and for blocks whose number is "
            "known.",
            key=key,
        )
    return text


def _only_copies(recipe: Recipe) -> bool:
    """Whether each slice of the output is of a single model."""
    source_counts = {len(recipe_slice.sources) for recipe_slice in recipe.slices}
    return source_counts == {1}


def _entry(model: str, weight: float | None, layers: Sequence[int] = ()) -> dict[str, Any]:
    """A model's entry in the file."""
    entry: dict[str, Any] = {"model": model}
    if layers:
        entry["layer_range"] = list(layers)
    if weight is not None:
        entry["parameters"] = {"weight": weight}
    return entry


def _model_text(model: Path, adapter: Path | None, name_of: NameOf) -> str:
    """A model of the file, with the adapter on it: ``model+adapter``."""
    if adapter is None:
        return name_of(model)
    return f"{name_of(model)}+{name_of(adapter)}"


def _token_row(token: str, row: TokenSource, models: Mapping[str, str]) -> dict[str, Any]:
    """The source of a token's row. Raises RecipeError."""
    source: Any = {"kind": "zero"}
    if not row.zero:
        if not row.model or row.model not in models:
            sentence = f"mergekit needs a model for the token {plain(token)!r}; name one."
            raise RecipeError(sentence, key=f"tokens.{token}")
        model = models[row.model]
        if row.token:
            source = {"kind": "model_token", "model": model, "token": row.token}
        elif row.token_id is not None:
            source = {"kind": "model_token", "model": model, "token_id": row.token_id}
        else:
            source = model
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
"""In place of the labels of a task, for a model without a head."""

_UNNAMED: Final = ()
"""In place of the labels of a task, where they have no names."""


def _may_keep_heads(recipe: Recipe) -> bool:
    """Whether the experts have task heads that are not known to be of one task."""
    if recipe.heads is not Heads.AUTO:
        return False
    label_sets: set[tuple[str, ...]] = set()  # of the experts' tasks, or what stands for them
    for entry in recipe.models:
        config = base_config(entry.model)
        if not config:  # an adapter
            config = base_config(entry.on or recipe.base_model)
        labels = config.get("id2label")
        if isinstance(labels, dict):
            names = tuple(map(str, labels.values()))
        else:
            names = ()
        if not _LABELLED.search(str(config.get("architectures"))):
            label_sets.add(_NO_HEAD)
        elif config.get("problem_type") == "regression":  # has no labels that could differ
            continue
        elif any(map(UNNAMED_LABEL.fullmatch, names)):
            label_sets.add(_UNNAMED)
        else:
            label_sets.add(names)  # without labels the same as ``_UNNAMED``
    some_have_heads = bool(label_sets - {_NO_HEAD})
    may_differ = len(label_sets) > 1 or _UNNAMED in label_sets
    return some_have_heads and may_differ


def _refuse_other_choices(recipe: Recipe) -> None:
    """Raise RecipeError for a choice that mergekit does not have."""
    vocabulary = recipe.vocabulary
    if recipe.scope != "default":
        sentence = f"mergekit merges every tensor; it cannot express the scope {recipe.scope!r}."
        raise RecipeError(sentence, key="scope")
    if recipe.split_fused:
        raise RecipeError("mergekit cannot split fused matrices.", key="split_fused")
    if recipe.after != After():
        raise RecipeError(_NOT_AFTER, key="after")
    if (recipe.output, recipe.rank, recipe.energy) != (Output.MODEL, None, None):
        sentence = "mergekit's files give whole models; remove `output`, `rank` and `energy`."
        raise RecipeError(sentence, key="output")
    if vocabulary in (Vocabulary.TOKENS, Vocabulary.BASE):
        sentence = f"mergekit cannot express vocabulary: {vocabulary}; choose base_tokens or union."
        raise RecipeError(sentence, key="vocabulary")
    if recipe.heads is Heads.KEEP:
        raise RecipeError("mergekit cannot keep task heads of the experts.", key="heads")
    for name, value in recipe.choices().items():
        is_default = value == getattr(Choices(), name)
        if is_default or name in _EXPRESSED:
            continue
        text = f"the key {name}"
        if isinstance(value, str):
            text = f"{name}: {value}"
        raise RecipeError(f"mergekit's file cannot express {text}; remove it.", key=name)
