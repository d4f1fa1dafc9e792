"""Traits of a tensor in its model. Plain values, no heavy imports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """The role of a tensor in its model. The value is shown to users."""

    QUERY = "query"
    KEY = "key"
    VALUE = "value"
    QKV = "query+key+value"
    ATTENTION_OUTPUT = "attention output"
    MLP_UP = "MLP up"
    MLP_GATE = "MLP gate"
    MLP_GATE_UP = "MLP gate+up"
    MLP_DOWN = "MLP down"
    EMBEDDING = "embedding"
    POSITION = "position embedding"
    NORM = "norm"
    BIAS = "bias"
    CONVOLUTION = "convolution"
    HEAD = "head"
    VOCABULARY_HEAD = "vocabulary head"
    BUFFER = "buffer"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Fusion:
    """How several matrices with common inputs are stored in one.

    ``shares``: the role of each and its number of consecutive outputs, in order. This pattern
    repeats until the last output. Query, key and value one after the other are three shares of a
    third each; GPT-NeoX has them head by head, in shares of one head's size.
    """

    shares: tuple[tuple[Role, int], ...]

    @property
    def period(self) -> int:
        """Number of outputs after which the shares repeat."""
        return sum(outputs for _, outputs in self.shares)


@dataclass(frozen=True, kw_only=True)
class TensorTraits:
    """Traits of one tensor beyond its header."""

    role: Role
    """What the tensor does in the model."""
    matrix: bool
    """Whether it is the weight of a Linear-like module, which maps inputs to outputs."""
    transposed: bool = False
    """Whether it is stored inputs × outputs, as in GPT-2's Conv1D."""
    stack: bool = False
    """Whether it holds several such matrices along the first axis, one for each expert of a Mixture
    of Experts.
    """
    fusion: Fusion | None = None
    """How a matrix splits into several; None if it does not, or if that is not known."""
    block: int | None = None
    """Index of its transformer block; None outside blocks."""
    tied_to: str | None = None
    """Name of the tensor whose storage it shares in the model; None if it has its own."""
    before_head: bool = False
    """Whether its module's output goes only to the model's task heads (BERT's pooler)."""
    takes_lora: bool = True
    """Whether it is the weight of a module of torch's or transformers' own classes (linear,
    embedding, convolution), to which PEFT adds factors.
    """
    inputs_first: bool = False
    """Whether the module of a stack says so (``is_transposed``), which PEFT goes by."""


@dataclass(frozen=True, kw_only=True)
class ModuleRows:
    """Rows ``start`` to ``start + rows`` of a tensor of the model, called ``module`` there."""

    module: str
    start: int
    rows: int


_WRITERS: Final = ("ForCausalLM", "LMHeadModel", "WithLMHead", "ForConditionalGeneration")


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The traits of every tensor of one checkpoint, by the name used in its files."""

    family: str | None
    """The config's ``model_type`` ("gpt2", "roberta"); None without a config."""
    model_class: str | None
    """The transformers class that gave the traits; None if only names did."""
    traits: Mapping[str, TensorTraits] = field(default_factory=dict)
    """By the name in the files."""
    note: str = ""
    """One sentence if something had to be guessed, else empty."""
    modules: Mapping[str, tuple[ModuleRows, ...]] = field(default_factory=dict)
    """For a tensor that the model has under another name, or in pieces: the rows of the model that
    make it up.
    """
    absent: Mapping[str, str] = field(default_factory=dict)
    """For a tensor of the model that is in no file: the stored tensor it is tied to."""
    stacked: Mapping[str, ModuleRows] = field(default_factory=dict)
    """For a tensor in the files that is a matrix, or rows of one, in a stack of the model: its rows
    there, if the rows of all matrices are counted through.
    """
    apart: Mapping[str, str] = field(default_factory=dict)
    """For a tensor in the files that differs from the one that the config ties it to: that one. The
    two are not tied.
    """

    @property
    def writes_text(self) -> bool:
        """Whether the class is one of a language model, whose head may be tied and in no file."""
        return self.model_class is not None and self.model_class.endswith(_WRITERS)

    def module_name(self, name: str) -> str:
        """What the model calls a tensor of the files; the same name if it has it in pieces."""
        rows = self.modules.get(name, ())
        if len(rows) == 1:
            return rows[0].module
        return name


def joined(parts: Mapping[str, Architecture]) -> Architecture:
    """The architecture of a model with several parts, whose tensors are called ``PART/TENSOR``.

    Family and class are those of the part in the main folder, or of the only part that has any.
    """
    if len(parts) == 1 and "" in parts:
        return parts[""]
    recognised = [architecture for architecture in parts.values() if architecture.family]
    unknown = Architecture(family=None, model_class=None)
    main = parts.get("") or (recognised[0] if len(recognised) == 1 else unknown)
    traits = {}
    absent = {}
    for part, architecture in parts.items():
        if part:
            start = f"{part}/"
        else:
            start = ""
        for name, trait in architecture.traits.items():
            tied_to = trait.tied_to and start + trait.tied_to
            traits[start + name] = replace(trait, tied_to=tied_to)
        for name, source in architecture.absent.items():
            absent[start + name] = start + source
    notes: dict[str, list[str]] = {}
    for part, architecture in parts.items():
        if architecture.note:
            notes.setdefault(architecture.note, []).append(part or "the main model")
    note = " ".join(f"{', '.join(tensors)}: {what}" for what, tensors in notes.items())
    return replace(main, traits=traits, note=note, absent=absent)
