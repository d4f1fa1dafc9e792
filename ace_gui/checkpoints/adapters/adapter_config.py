"""``adapter_config.json`` of a PEFT adapter, read as plain JSON; nothing in it is executed.

Its regular expressions are matched by pydantic, in linear time. Python's own matcher can run for
ever with a hostile expression, but not with plain names.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import SchemaError

from ace_gui.checkpoints.input_files import CONFIG_LIMIT, read_json, refusal
from ace_gui.formatting import plain

Value = TypeVar("Value", int, float)

MERGE_FIRST: Final = (
    "Merge it into its base with PEFT's `merge_and_unload`, and open the model you get."
)

_PROMPTS: Final = frozenset(
    {
        *("PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING"),
        *("ADAPTION_PROMPT", "CPT", "CARTRIDGE"),
    }
)
_BY_INPUT: Final = frozenset({"LILY", "POLY", "SHADOW", "XLORA"})
"""Kinds whose change of a layer depends on the input."""

_NOT_MERGED: Final = "No merge of its weights can do that, PEFT's neither."

_KINDS: Final = ("LORA", "LOHA", "LOKR", "TRAINABLE_TOKENS")

# Settings that make an adapter another kind of change than those read here, and what to do then.
_UNSUPPORTED: Final = {
    "use_qalora": ("uses QALoRA", MERGE_FIRST),
    "layer_replication": (
        "repeats layers of its base",
        "PEFT's `merge_and_unload` gives a model of another depth, which can only be merged with "
        "models of that depth.",
    ),
    "use_bdlora": ("has factors in blocks", MERGE_FIRST),
    "kasa_config": ("changes its base before training", MERGE_FIRST),
    "alora_invocation_tokens": ("applies only after certain tokens", _NOT_MERGED),
    "arrow_config": ("routes among several adapters", _NOT_MERGED),
}

# The others (PiSSA, OLoRA, CorDA, LoftQ) change the base's weights before training, so that B·A is
# relative to a base that is not on disk.
_PLAIN_STARTS: Final = (True, False, None, "gaussian", "eva", "orthogonal")

_REMOTE: Final = re.compile(r"\s*(?:[\\/]{2}|[A-Za-z][A-Za-z0-9+.-]+:)")


_Rank = Annotated[int, Field(gt=0, lt=2**31)]
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Filled = BeforeValidator(lambda value: value or {})
_Switch = Annotated[bool, BeforeValidator(lambda value: value is True)]


def _without_repetition(rows: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(rows)) < len(rows):
        raise ValueError("a row is trained twice")
    return rows


_Rows = Annotated[
    tuple[Annotated[int, Field(ge=0)], ...],
    Field(strict=False),
    AfterValidator(_without_repetition),
]


class AdapterSettings(BaseModel):
    """The settings that determine the scale of B·A, under PEFT's names as aliases.

    ``alpha_pattern`` and ``rank_pattern``: module name or its end, or an expression for these → the
    value that replaces ``alpha`` or ``rank``. ``fan_in_fan_out``: its matrices are stored inputs ×
    outputs. ``named_base``: the adapter's name for the base, for display only; empty if it is a
    network address. ``keeps_ties``: tensors tied in the base stay tied.
    ``parameters``: those that are targeted directly, by name or its end. ``tokens``: the trained
    rows, by the end of the embedding's name, or by "" for any embedding.
    """

    model_config = ConfigDict(strict=True, frozen=True, validate_by_name=True)

    rank: Annotated[_Rank, Field(alias="r")] = 8
    alpha: _Number = 8
    rank_pattern: Annotated[dict[str, _Rank], _Filled] = {}
    alpha_pattern: Annotated[dict[str, _Number], _Filled] = {}
    use_rslora: _Switch = False
    fan_in_fan_out: _Switch = False
    named_base: str = ""
    keeps_ties: Annotated[_Switch, Field(alias="ensure_weight_tying")] = False
    warnings: tuple[str, ...] = ()
    parameters: Annotated[
        list[str], Field(alias="target_parameters"), BeforeValidator(lambda names: names or [])
    ] = []
    tokens: dict[str, _Rows] = {}

    def rank_of(self, module: str) -> int:
        """Rank of the factors of ``module``."""
        return self._ranks.value(module, self.rank)

    def scale_of(self, module: str) -> float:
        """α/r, or α/√r with rank-stabilised LoRA (Kalajdzievski 2023, equation 7)."""
        rank = self.rank_of(module)
        alpha = self._alphas.value(module, self.alpha)
        return alpha / (math.sqrt(rank) if self.use_rslora else rank)

    @cached_property
    def _ranks(self) -> _Patterns[int]:
        return _Patterns(self.rank_pattern)

    @cached_property
    def _alphas(self) -> _Patterns[float]:
        return _Patterns(self.alpha_pattern)

    def tokens_of(self, module: str) -> tuple[int, ...]:
        """The trained rows of an embedding."""
        ends = (rows for end, rows in self.tokens.items() if f".{module}".endswith(f".{end}"))
        return next(ends, self.tokens.get("", ()))


def read_adapter_config(path: Path) -> AdapterSettings:
    """Read ``adapter_config.json``. Raises CheckpointError for kinds that are not read."""
    return adapter_settings(path, read_json(path, limit=CONFIG_LIMIT))


def adapter_settings(path: Path, config: Mapping[str, object]) -> AdapterSettings:
    """The settings in a PEFT config; ``path`` is named in errors. Raises CheckpointError."""
    _refuse_other_kinds(path, config)
    if str(config.get("peft_type")).upper() == "LORA":
        alpha = "lora_alpha"
    else:
        alpha = "alpha"
    if config.get("trainable_token_indices"):
        tokens = "trainable_token_indices"
    else:
        tokens = "token_indices"
    rows = config.get(tokens) or {}
    named_base = str(config.get("base_model_name_or_path") or "")
    values: dict[str, Any] = {
        "alpha": config.get(alpha, 8),
        "tokens": rows if isinstance(rows, dict) else {"": rows},
        "named_base": plain(named_base),
        "warnings": (),
    }
    if is_remote(named_base):
        sentence = "Names a network location as its base. Not contacted; choose the base yourself."
        values |= {"named_base": "", "warnings": (sentence,)}
    try:
        read = AdapterSettings.model_validate({**config, **values}, by_alias=True, by_name=False)
    except ValidationError as error:
        first = error.errors()[0]
        key = {"alpha": alpha, "tokens": tokens}.get(str(first["loc"][0]), first["loc"][0])
        value = plain(json.dumps(first["input"]))
        sentence = f"`{key}` is {value}, which is not a valid value."
        raise refusal(path, sentence) from None
    for key in ("rank_pattern", "alpha_pattern"):
        expressions = [module for module in getattr(read, key) if not is_plain(module)]
        unusable = [module for module in expressions if matcher(module) is None]
        if unusable:
            what = f"`{key}` has `{plain(unusable[0])}`, which cannot be matched"
            raise refusal(path, f"{what}. {MERGE_FIRST}")
        if len(expressions) > _MOST_EXPRESSIONS:
            what = f"`{key}` has {len(expressions)} expressions, more than {_MOST_EXPRESSIONS}"
            raise refusal(path, f"{what}. {MERGE_FIRST}")
    return read


def is_remote(name: str) -> bool:
    """Whether a path or address is on a network: ``\\\\host``, ``//host``, ``http:``.

    Only the text is examined. A drive letter is not remote, every longer scheme is.
    """
    return _REMOTE.match(name) is not None


def _refuse_other_kinds(path: Path, config: Mapping[str, object]) -> None:
    kind = config.get("peft_type")
    if str(kind).upper() in _PROMPTS:
        text = plain(str(kind))
        sentence = f"This adapter is of type {text}: it changes inputs, not weights, so "
        raise refusal(path, f"{sentence}there is nothing to merge.")
    if str(kind).upper() not in _KINDS:
        text = plain(str(kind))
        if str(kind).upper() in _BY_INPUT:
            advice = _NOT_MERGED
        else:
            advice = MERGE_FIRST
        sentence = f"This adapter is of type {text}; LoRA, LoHa and LoKr are added. {advice}"
        raise refusal(path, sentence)
    for key, (what, advice) in _UNSUPPORTED.items():
        if config.get(key):
            raise refusal(path, f"This adapter {what} (`{key}`). {advice}")
    start = config.get("init_lora_weights", True)
    if start not in _PLAIN_STARTS:
        text = plain(str(start))
        raise refusal(
            path,
            f"This adapter began from a changed base (`init_lora_weights`: {text}). {MERGE_FIRST}",
        )


class _Patterns(Generic[Value]):
    """A table of PEFT: module name or its end after a dot, or an expression for these → a value.

    The first key that matches counts. A dot in a plain name matches any character, as in PEFT, so
    names with dots at the same places are looked up together.
    """

    def __init__(self, table: Mapping[str, Value]) -> None:
        self._values: tuple[Value, ...] = tuple(table.values())
        self._expressions: list[tuple[int, str]] = []
        self._names: dict[int, dict[tuple[int, ...], dict[str, int]]] = {}
        for order, key in enumerate(table):
            if is_plain(key):
                dots = tuple(place for place, letter in enumerate(key) if letter == ".")
                self._names.setdefault(len(key), {}).setdefault(dots, {})[key] = order
            else:
                self._expressions.append((order, key))

    def value(self, module: str, default: Value) -> Value:
        """The value for a module."""
        if len(module) <= _LONGEST:
            orders = self._plain_orders(module)
        else:
            orders = []
        orders += [order for order, key in self._expressions if matches(key, module)][:1]
        if orders:
            return self._values[min(orders)]
        return default

    def _plain_orders(self, module: str) -> list[int]:
        orders = []
        starts = (0, *(place + 1 for place, letter in enumerate(module) if letter == "."))
        for end in (module[start:] for start in starts):
            for dots, names in self._names.get(len(end), {}).items():
                letters = list(end)
                for place in dots:
                    letters[place] = "."
                order = names.get("".join(letters))
                if order is not None:
                    orders.append(order)
        return orders


_MOST_EXPRESSIONS: Final = 1000
"""Each is compared with every module."""

_LONGEST: Final = 250
"""Largest length of an expression and of a module's name; nothing matches a longer name."""

_OTHERWISE: Final = re.compile(r"\\[<>]|\\[bB]\{|[*+?}]\+")
"""Syntax that pydantic's matcher reads differently from Python's."""


_NAME: Final = re.compile(r"[\w.]+")
"""A plain module name. No part repeats, so that Python's faster matcher ends in linear time."""


def is_plain(pattern: str) -> bool:
    """Whether an expression is a module's name, whose dots are its only syntax."""
    return len(pattern) <= _LONGEST and _NAME.fullmatch(pattern) is not None


def matches(pattern: str, module: str) -> bool:
    """Whether ``pattern`` is ``module`` or its end after a dot, as in PEFT.

    Nothing matches an expression that cannot be used.
    """
    accepts = matcher(pattern)
    try:
        return accepts is not None and len(module) <= _LONGEST and accepts(module) is not None
    except ValidationError:
        return False


@lru_cache(maxsize=1 << 12)  # some adapters have a rank for each module, and every one is asked for
def matcher(pattern: str) -> Callable[[str], object] | None:
    """A function that accepts the names PEFT's expression matches; None if it cannot be used.

    The function returns None or raises ValidationError for other names.
    """
    if len(pattern) > _LONGEST or _OTHERWISE.search(pattern):
        return None
    expression = rf"(.*\.)?({pattern})$"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # about sets, which the two read differently
            compiled = re.compile(expression)
        if _NAME.fullmatch(pattern):
            return compiled.match
        constraint = StringConstraints(pattern=f"^(?:{expression})")
        return TypeAdapter(Annotated[str, constraint]).validate_python
    except (re.error, SchemaError, Warning, OverflowError, RecursionError):
        return None
