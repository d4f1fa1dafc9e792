"""Every form of a merge on disk, without writing one: its name, its words, its options.

The recipe, the command line, the window and the engine ask a form for these. The class that writes
it is in ``engine/output/exporters.py``. Imports are light.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final, Self

from ace_gui.field_info import Option

_OPTION: Final = "option"
_GIGABYTE: Final = 1_000_000_000


def option(default: Any, declared: Option) -> Any:
    """A field of a form's options, with what the window shows of it."""
    if not declared.values:
        declared = replace(declared, default=default)
    return field(default=default, metadata={_OPTION: declared})


def _number_format() -> Any:
    formats = {name: name for name in ("float32", "bfloat16", "float16")}
    declared = Option(
        label="Number format",
        help="Format of the weights; 16-bit formats are rounded once, from full precision",
        values={"as in the recipe": None} | formats,
    )
    return option(None, declared)


@dataclass(frozen=True, kw_only=True)
class ModelExport:
    """How a merge is written as a whole model."""

    dtype: str | None = _number_format()
    """Number format of the weights; None: the recipe's, else the base's."""

    gigabytes: float = option(
        5.0,
        Option(
            kind="float",
            label="Largest file, GB",
            help="Larger models are split into several files with an index",
            logarithmic=True,
            low=0.1,
            high=100,
        ),
    )
    """The largest size of one file, in 10⁹ bytes."""

    complete_heads: bool = option(
        False,
        Option(
            label="Heads",
            help="A whole model loads without the others, and is as large as the merged model",
            values={"in separate files": False, "a whole model for each": True},
        ),
    )
    """Whether there is also a whole model for each expert with a head of its own."""

    @property
    def shard_bytes(self) -> int:
        """The largest size of one file."""
        return round(self.gigabytes * _GIGABYTE)


_BY_RANK: Final = "rank"
_BY_ENERGY: Final = "share of energy"


@dataclass(frozen=True, kw_only=True)
class AdapterExport:
    """How a merge is written as an adapter: with one rank, or keeping a share of the energy."""

    by_energy: bool = option(
        False,
        Option(
            label="Size by",
            help="One rank for all matrices, or for each matrix the smallest rank that keeps this "
            "share of its change's squared norm",
            values={_BY_RANK: False, _BY_ENERGY: True},
        ),
    )
    """Whether ``energy`` counts instead of ``rank``."""

    rank: int = option(
        32,
        Option(kind="int", label="Rank", low=1, high=65536, applies_when=("by_energy", _BY_RANK)),
    )
    """The rank of every matrix."""

    energy: float = option(
        0.95,
        Option(
            kind="float",
            label="Share of energy",
            low=0.01,
            high=1,
            applies_when=("by_energy", _BY_ENERGY),
        ),
    )
    """The share of each change's squared norm that is kept."""

    dtype: str | None = _number_format()
    """Number format of the factors; None: the recipe's, else float32."""


@dataclass(frozen=True, kw_only=True)
class TaskModelsExport:
    """How a merge with modules is written as a whole model for each expert."""

    dtype: str | None = _number_format()
    """Number format of the weights; None: the recipe's, else the base's."""


@dataclass(frozen=True, kw_only=True)
class OutputTraits:
    """What is known of a form without its class; by default, of a whole model."""

    noun: str = "a model"
    """Its name in sentences, with an article."""

    title: str = "the full model"
    """Its name where the window asks for the form."""

    export: type[Any] = ModelExport
    """The frozen dataclass of its options. Each is a field that is an ``option``."""

    models_beside: int = 0
    """Whole models that are on the disk beside the first one while it is written."""

    models_per_expert: int = 0
    """As ``models_beside``, for each expert."""

    through_model: bool = True
    """Whether a whole model is made first. It can be aligned, and merged by a cluster."""

    has_scores: bool = True
    """Whether scores of the merged model can stand in it, on its card."""

    files: str = ""
    """The names of its files; empty: those of a whole model."""


class Output(StrEnum):
    """The form of a merge on disk. The value is written in recipes."""

    traits: OutputTraits

    def __new__(cls, value: str, traits: OutputTraits = OutputTraits()) -> Self:
        """A form of this name in recipes."""
        form = str.__new__(cls, value)
        form._value_ = value
        form.traits = traits
        return form

    MODEL = "model"
    ADAPTER = (
        "adapter",
        OutputTraits(
            noun="an adapter",
            title="an adapter (PEFT)",
            export=AdapterExport,
            through_model=False,
            has_scores=False,
            files="adapter_model.safetensors, adapter_config.json, README.md, merge_recipe.yaml",
        ),
    )

    TASK_MODELS = (
        "task-models",
        OutputTraits(
            noun="a model for each expert",
            title="a model for each expert",
            export=TaskModelsExport,
            models_per_expert=1,
            has_scores=False,
            files="A folder for each expert with its model, as ace-gui task makes it",
        ),
    )

    @property
    def options(self) -> tuple[Option, ...]:
        """What can be chosen of this form, in the order of the window's form."""
        return tuple(
            replace(item.metadata[_OPTION], name=item.name) for item in fields(self.traits.export)
        )

    def has(self, name: str) -> bool:
        """Whether the form has an option of this name."""
        return any(declared.name == name for declared in self.options)
