"""``adapter_config.json`` of a PEFT adapter, read as plain JSON; nothing in it is executed.

Its regular expressions are matched in bounded time. Python's own matcher tries alternatives one
after the other, so a hostile expression can run for ever. Here all positions in the text that a
part of the expression can reach are followed at once.
"""

from __future__ import annotations

import importlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import or_
from pathlib import Path
from typing import Any, Final, TypeVar

from ace_gui.checkpoints.input_files import read_json, refusal
from ace_gui.errors import CheckpointError
from ace_gui.formatting import plain

Value = TypeVar("Value", int, float)

CONFIG_LIMIT: Final = 10_000_000
"""Largest adapter_config.json in bytes."""

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
"""Whose change of a layer depends on the input."""

_NOT_MERGED: Final = "No merge of its weights can do that, PEFT's neither."

_KINDS: Final = ("LORA", "LOHA", "LOKR", "TRAINABLE_TOKENS")

# Each of them makes the adapter another change than those that are read; and what to do about it.
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


@dataclass(frozen=True, kw_only=True)
class AdapterSettings:
    """The settings that determine the scale of B·A.

    ``alpha_pattern`` and ``rank_pattern``: module name or its end, or an expression for these → the
    value that replaces ``alpha`` or ``rank``. ``fan_in_fan_out``: its matrices are stored inputs ×
    outputs. ``named_base``: the adapter's name for the base, for display only; empty if it is a
    network address. ``keeps_ties``: tensors tied in the base stay tied.
    ``parameters``: those that are targeted by themselves, by name or its end. ``tokens``: the
    trained rows, by the end of the embedding's name, or by "" of any.
    """

    rank: int
    alpha: float
    rank_pattern: Mapping[str, int] = field(default_factory=dict)
    alpha_pattern: Mapping[str, float] = field(default_factory=dict)
    use_rslora: bool = False
    fan_in_fan_out: bool = False
    named_base: str = ""
    keeps_ties: bool = False
    warnings: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    tokens: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def rank_of(self, module: str) -> int:
        """Rank of the factors of ``module``."""
        return _patterned(self.rank_pattern, module, self.rank)

    def scale_of(self, module: str) -> float:
        """α/r, or α/√r with rank-stabilised LoRA (Kalajdzievski 2023, equation 7)."""
        rank = self.rank_of(module)
        alpha = _patterned(self.alpha_pattern, module, self.alpha)
        return alpha / (math.sqrt(rank) if self.use_rslora else rank)

    def tokens_of(self, module: str) -> tuple[int, ...]:
        """The trained rows of an embedding."""
        ends = (own for end, own in self.tokens.items() if f".{module}".endswith(f".{end}"))
        return next(ends, self.tokens.get("", ()))


def read_adapter_config(path: Path) -> AdapterSettings:
    """Read ``adapter_config.json``. Raises CheckpointError for kinds that are not read."""
    return adapter_settings(path, read_json(path, limit=CONFIG_LIMIT))


def adapter_settings(path: Path, config: Mapping[str, object]) -> AdapterSettings:
    """The settings in a config of PEFT's; ``path`` is named in errors. Raises CheckpointError."""
    _refuse_other_kinds(path, config)
    alpha = "lora_alpha" if str(config.get("peft_type")).upper() == "LORA" else "alpha"
    named_base = config.get("base_model_name_or_path") or ""
    warnings: tuple[str, ...] = ()
    if is_remote(str(named_base)):
        named_base = ""
        warnings = (
            "Names a network location as its base. Not contacted; choose the base yourself.",
        )
    return AdapterSettings(
        rank=_rank(path, "r", config.get("r", 8)),
        alpha=_number(path, alpha, config.get(alpha, 8)),
        rank_pattern=_pattern(path, "rank_pattern", config, _rank),
        alpha_pattern=_pattern(path, "alpha_pattern", config, _number),
        use_rslora=config.get("use_rslora") is True,
        fan_in_fan_out=config.get("fan_in_fan_out") is True,
        named_base=plain(str(named_base)),
        keeps_ties=config.get("ensure_weight_tying") is True,
        warnings=warnings,
        parameters=_names(path, "target_parameters", config),
        tokens=_tokens(path, config),
    )


def is_remote(name: str) -> bool:
    """Whether a path or address is on a network: ``\\\\host``, ``//host``, ``http:``.

    Decided from the text alone. A drive letter is not remote, every longer scheme is.
    """
    return _REMOTE.match(name) is not None


def _refuse_other_kinds(path: Path, config: Mapping[str, object]) -> None:
    kind = config.get("peft_type")
    if str(kind).upper() in _PROMPTS:
        shown = plain(str(kind))
        sentence = f"This adapter is of type {shown}: it changes inputs, not weights, so "
        raise refusal(path, f"{sentence}there is nothing to merge.")
    if str(kind).upper() not in _KINDS:
        shown = plain(str(kind))
        advice = _NOT_MERGED if str(kind).upper() in _BY_INPUT else MERGE_FIRST
        sentence = f"This adapter is of type {shown}; LoRA, LoHa and LoKr are added. {advice}"
        raise refusal(path, sentence)
    for key, (what, advice) in _UNSUPPORTED.items():
        if config.get(key):
            raise refusal(path, f"This adapter {what} (`{key}`). {advice}")
    start = config.get("init_lora_weights", True)
    if start not in _PLAIN_STARTS:
        shown = plain(str(start))
        raise refusal(
            path,
            f"This adapter began from a changed base (`init_lora_weights`: {shown}). {MERGE_FIRST}",
        )


def _number(path: Path, key: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise _impossible(path, key, value)


def _rank(path: Path, key: str, value: object) -> int:
    if type(value) is int and 0 < value < 2**31:
        return value
    raise _impossible(path, key, value)


def _impossible(path: Path, key: str, value: object) -> CheckpointError:
    return refusal(path, f"`{key}` is {plain(json.dumps(value))}, which is not a valid value.")


def _pattern(
    path: Path,
    key: str,
    config: Mapping[str, object],
    checked: Callable[[Path, str, object], Value],
) -> dict[str, Value]:
    """Module name, its end, or a regular expression for them → value."""
    pattern = config.get(key) or {}
    if not isinstance(pattern, dict):
        raise refusal(path, f"`{key}` is not a table of modules. Download it again.")
    for module in pattern:
        try:
            matches(module, "module")
        except UnusableError:
            sentence = f"`{key}` has `{plain(module)}`, which cannot be matched. {MERGE_FIRST}"
            raise refusal(path, sentence) from None
    return {module: checked(path, key, value) for module, value in pattern.items()}


def _names(path: Path, key: str, config: Mapping[str, object]) -> tuple[str, ...]:
    found = config.get(key) or []
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise refusal(path, f"`{key}` is not a list of names. Download it again.")
    return tuple(found)


def _tokens(path: Path, config: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    """The rows of embeddings that are trained; PEFT has a key of its own for each kind."""
    key = "trainable_token_indices" if config.get("trainable_token_indices") else "token_indices"
    given = config.get(key) or {}
    tables: dict[str, Any] = given if isinstance(given, dict) else {"": given}
    for indices in tables.values():
        whole = isinstance(indices, list) and all(type(i) is int and i >= 0 for i in indices)
        if not whole or len(set(indices)) < len(indices):
            raise _impossible(path, key, given)
    return {name: tuple(indices) for name, indices in tables.items()}


def _patterned(pattern: Mapping[str, Value], module: str, default: Value) -> Value:
    """The value of the table's first key that is ``module`` or its end after a dot, as PEFT has it.

    Raises UnusableError.
    """
    found = (value for key, value in pattern.items() if matches(key, module))
    return next(found, default)


_LONGEST: Final = 250
"""Of an expression, and of a module's name; nothing matches a longer name."""
_DEEPEST: Final = 12
_MOST: Final = 200
"""Most repetitions that an expression may count."""

_parser: Final = importlib.import_module("re._parser")

_CATEGORIES: Final[dict[str, Callable[[str], bool]]] = {
    "CATEGORY_DIGIT": str.isdecimal,
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_WORD": lambda c: c.isalnum() or c == "_",
}
_REPEATS: Final = frozenset({"MAX_REPEAT", "MIN_REPEAT"})
_STARTS: Final = frozenset({"AT_BEGINNING", "AT_BEGINNING_STRING"})
_ENDS: Final = frozenset({"AT_END", "AT_END_STRING"})
_KNOWN: Final = _REPEATS.union(
    ("SUBPATTERN", "BRANCH", "AT", "IN", "RANGE", "CATEGORY", "ANY", "LITERAL", "NOT_LITERAL")
)


class UnusableError(Exception):
    """The text is no expression, or one with more than names of modules need."""


def matches(pattern: str, module: str) -> bool:
    """Whether ``pattern`` is ``module`` or its end after a dot, as PEFT has it.

    Raises UnusableError.
    """
    parts = _parsed(pattern)
    if len(module) > _LONGEST:
        return False
    starts = 1 | sum(1 << i + 1 for i, character in enumerate(module) if character == ".")
    return bool(_Text(module).reached(parts, starts) >> len(module) & 1)


@lru_cache(maxsize=256)
def _parsed(pattern: str) -> Any:
    if len(pattern) > _LONGEST:
        raise UnusableError
    try:
        parts = _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UnusableError from error
    if parts.state.flags & ~re.UNICODE:
        raise UnusableError
    _check(parts, 0)
    return parts


def _check(parts: Sequence[Any], depth: int) -> None:
    if depth > _DEEPEST:
        raise UnusableError
    for kind, value in parts:
        name = str(kind)
        inner: Sequence[Any] = ()
        if name in _REPEATS:
            inner = [value[2]]
        elif name == "SUBPATTERN":
            inner = [value[3]]
        elif name == "BRANCH":
            inner = value[1]
        unusable = (
            (name in _REPEATS and value[0] > _MOST)
            or (name == "SUBPATTERN" and (value[1] or value[2]))
            or (name == "AT" and str(value) not in _STARTS | _ENDS)
            or (name == "CATEGORY" and str(value).replace("_NOT_", "_") not in _CATEGORIES)
            or name not in _KNOWN
        )
        if unusable:
            raise UnusableError
        for way in inner:
            _check(way, depth + 1)
        if name == "IN":
            _check([part for part in value if str(part[0]) != "NEGATE"], depth + 1)


class _Text:
    """A text to match expressions in. A set of positions in it is the bits of a number."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._fitting: dict[tuple[str, str], int] = {}

    def reached(self, parts: Sequence[Any], indices: int) -> int:
        """The positions in the text that ``parts`` can reach from any of ``indices``."""
        for kind, value in parts:
            indices = self._after(str(kind), value, indices)
        return indices

    def _after(self, kind: str, value: Any, indices: int) -> int:
        if kind in _REPEATS:
            return self._repeated(value, indices)
        if kind == "SUBPATTERN":
            return self.reached(value[3], indices)
        if kind == "BRANCH":
            return reduce(or_, (self.reached(way, indices) for way in value[1]))
        if kind == "AT":
            return indices & (1 if str(value) in _STARTS else 1 << len(self._text))
        key = kind, str(value)
        if key not in self._fitting:
            fitting = (1 << i for i, c in enumerate(self._text) if _fits(kind, value, c))
            self._fitting[key] = sum(fitting)
        return (indices & self._fitting[key]) << 1

    def _repeated(self, value: Any, indices: int) -> int:
        least, most, parts = value
        for _ in range(least):
            indices = self.reached(parts, indices)
        found = fresh = indices
        for _ in range(min(int(most) - least, len(self._text) + 1)):
            fresh = self.reached(parts, fresh) & ~found
            if not fresh:
                break
            found |= fresh
        return found


def _fits(kind: str, value: Any, character: str) -> bool:
    if kind == "LITERAL":
        return ord(character) == int(value)
    if kind == "NOT_LITERAL":
        return ord(character) != int(value)
    if kind == "ANY":
        return character != "\n"
    if kind == "RANGE":
        return int(value[0]) <= ord(character) <= int(value[1])
    if kind == "CATEGORY":
        name = str(value)
        return _CATEGORIES[name.replace("_NOT_", "_")](character) != ("_NOT_" in name)
    negated = str(value[0][0]) == "NEGATE"
    return any(_fits(str(k), v, character) for k, v in value[int(negated) :]) != negated
