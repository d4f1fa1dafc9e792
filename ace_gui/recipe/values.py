"""The recipe and its tasks as values. Imports are light, because the window uses them too."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from ace_gui.method_names import method_id
from ace_gui.recipe.distillation import Distillation as Distillation
from ace_gui.recipe.distillation import as_distillation
from ace_gui.recipe.mergekit.key_fates import KeyFate
from ace_gui.recipe.output_forms import Output as Output
from ace_gui.recipe.overrides import After as After
from ace_gui.recipe.overrides import Cap as Cap
from ace_gui.recipe.overrides import Override as Override
from ace_gui.recipe.overrides import ParameterValue as ParameterValue
from ace_gui.recipe.overrides import about, traits_of
from ace_gui.recipe.task_kinds import Metric as Metric
from ace_gui.recipe.task_kinds import TaskKind as TaskKind

UNNAMED_LABEL: Final = re.compile(r"LABEL_\d+")
"""The names that transformers gives to labels without a name."""


def unnamed_label(index: int) -> str:
    """The name of a label that has none."""
    return f"LABEL_{index}"


class Chat(StrEnum):
    """Whether a language model gets prompts in its chat template. The value is written in recipes.

    ``AUTO``: if the model has one. ``ON``: always; a model without a template cannot be scored.
    """

    AUTO = "auto"
    ON = "on"
    OFF = "off"


def _as_chat(value: object) -> object:
    """True and false mean the same as on and off."""
    if isinstance(value, bool):
        return {True: Chat.ON.value, False: Chat.OFF.value}[value]
    return value


class SanityCheck(StrEnum):
    """Whether a merged language model is tried on usual text. The value is written in recipes.

    ``AUTO``: if that is quick. ``ON``: always. It never changes the merge.
    """

    AUTO = "auto"
    ON = "on"
    OFF = "off"


def _as_check(value: object) -> object:
    """True and false mean the same as on and off."""
    if isinstance(value, bool):
        if value:
            return SanityCheck.ON.value
        return SanityCheck.OFF.value
    return value


def _pattern(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"is not a regular expression ({error})") from None
    if not groups:
        raise ValueError("needs a group in parentheses, which is the answer")
    return pattern


_FILLED: Final = about(limits={"min_length": 1})


@dataclass(frozen=True, kw_only=True)
class Task:
    """Data and what to do with it."""

    name: str | None = field(default=None, metadata=_FILLED)
    """None: the file's."""
    expert: str | None = field(default=None, metadata=_FILLED)
    """The name of the task's expert; None: the expert with the task's name, if there is one."""
    kind: TaskKind | None = None
    """None: guessed from the model and the data."""
    data: Path
    """The file or folder."""
    columns: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Role → column, several for the choices of a question; roles that are left out are guessed."""
    labels: tuple[str, ...] = ()
    """The head's labels that can be answers; or, if there are as many as in the head, their names
    in the data, in order. Empty: all of the head.
    """
    prompt: str | None = field(default=None, metadata=_FILLED)
    """The text for the model. For clip-zero-shot {} is the label; for language models {text} is the
    text and {choices} the lettered choices. None: the kind's default.
    """
    system: str | None = field(default=None, metadata=_FILLED)
    """The system message; None: none."""
    chat: Chat = field(default=Chat.AUTO, metadata=about(tidied=_as_chat))
    """Whether prompts are in the chat template, see ``Chat``."""
    max_new_tokens: int | None = field(default=None, metadata=about(limits={"ge": 1}))
    """Limit of a generated answer, in tokens; None: 256 in a chat, otherwise 8 more than the
    longest right answer.
    """
    stop: tuple[str, ...] = ()
    """Texts that end an answer."""
    metric: Metric | None = None
    """None: the kind's first."""
    pattern: str | None = field(default=None, metadata=about(checked=_pattern))
    """The regular expression of the metric regex."""
    limit: int | None = field(default=None, metadata=about(limits={"ge": 1}))
    """Maximum number of examples, drawn at random; None: all."""
    calibration: Path | None = None
    """Inputs without labels, for methods that need them; None: none."""

    def absolute(self) -> Self:
        """The same with absolute paths, for a process with another working directory."""
        calibration = self.calibration and self.calibration.absolute()
        return replace(self, data=self.data.absolute(), calibration=calibration)

    @property
    def title(self) -> str:
        """The name of the task, or that of its data."""
        return self.name or self.data.stem or self.data.name or "task"


def limited(tasks: Iterable[Task], limit: int | None) -> tuple[Task, ...]:
    """The tasks with at most ``limit`` examples each, besides their own limits; None: unchanged."""
    if limit is None:
        return tuple(tasks)
    return tuple(replace(task, limit=min(limit, task.limit or limit)) for task in tasks)


class NonFinite(StrEnum):
    """How a tensor with NaN or Inf in an expert is merged. The value is written in recipes.

    ``STOP``: nothing is merged. ``KEEP_BASE``: the merged model has the base's tensor.
    ``SKIP_EXPERT``: that expert is left out of that tensor. NaN or Inf in the base always stops a
    merge.
    """

    STOP = "stop"
    KEEP_BASE = "keep_base"
    SKIP_EXPERT = "skip_expert"


class Vocabulary(StrEnum):
    """How the rows of a vocabulary, one per token, are merged. The value is written in recipes.

    ``POSITION``: row by row; the sizes must agree. ``TOKENS``: matched by token, using the
    tokenizers. An expert that lacks a token of the base counts as unchanged there. Tokens that the
    base lacks and all experts have are added. Those of only some experts are left out. ``UNION``:
    as ``TOKENS``, with the tokens of every expert. ``BASE_TOKENS``: as ``TOKENS``, with only the
    base's tokens. ``BASE``: embedding and vocabulary head are the base's.
    """

    POSITION = "position"
    TOKENS = "tokens"
    UNION = "union"
    BASE_TOKENS = "base_tokens"
    BASE = "base"


BY_TOKEN: Final = frozenset({Vocabulary.TOKENS, Vocabulary.UNION, Vocabulary.BASE_TOKENS})
"""The choices that match rows by token."""


class Heads(StrEnum):
    """How task heads are merged. The value is written in recipes.

    ``AUTO``: merged if all experts have the same task, by the shapes of their heads and the names
    of their labels; else each is kept for its expert, in ``heads/``. ``MERGE``: merged; refused if
    shapes or labels differ. ``KEEP``: kept for each expert. Merged heads are treated like biases:
    averaged under methods for matrices, and merged by elementwise methods. A head that the base
    lacks, or has in another shape, is the weighted mean of the experts'.
    """

    AUTO = "auto"
    MERGE = "merge"
    KEEP = "keep"


class Poolers(StrEnum):
    """How modules of the body that feed only task heads are merged. The value is written in
    recipes.

    BERT's pooler is one. ``MERGE``: like the rest of the body. ``KEEP``: if heads are kept for each
    expert, so are these, in the same file of ``heads/``; the model itself has the base's. A scope
    other than the default has its own rule.
    """

    MERGE = "merge"
    KEEP = "keep"


OutputDtype = Literal["float32", "float16", "bfloat16", "float64"]

_UNWRITTEN: Final = about(written=False)


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """One expert: its path, name and weight.

    ``on``: the model on which an adapter is merged; None: the recipe's base.
    """

    model: Path
    on: Path | None = None
    name: str | None = field(default=None, metadata=_FILLED)
    weight: float = field(default=1.0, metadata=about(under="parameters"))


def _blocks(layers: tuple[int, int]) -> tuple[int, int]:
    """The layers, if they are a range of blocks. Raises ValueError."""
    if len(layers) != 2 or not 0 <= layers[0] < layers[1]:
        raise ValueError("must be the first block and the one after the last, such as [0, 8]")
    return layers


@dataclass(frozen=True, kw_only=True)
class Source:
    """Consecutive blocks of one of the recipe's models.

    ``adapter``: one on the model. ``layers``: first block and the one after the last; None: all.
    """

    model: Path
    adapter: Path | None = None
    layers: tuple[int, int] | None = field(default=None, metadata=about(checked=_blocks))


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Consecutive blocks of the output, which are merged from those of ``sources``.

    The first source is the base of these blocks, the others are experts. ``overrides``: rules for
    this slice only; blocks have the numbers of the output.
    """

    sources: tuple[Source, ...] = field(metadata=_FILLED)
    overrides: tuple[Override, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TokenSource:
    """The row of a token for models that lack it. ``model``: take it from "base" or an expert.

    ``token`` or ``token_id``: take the row of another token there. ``zero``: a row of zeros.
    ``force``: use it also for models that have the token.
    """

    model: str = ""
    token: str = ""
    token_id: int | None = field(default=None, metadata=about(limits={"ge": 0}))
    zero: bool = False
    force: bool = False


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The settings of a merge besides the models and the method.

    A new setting needs only a field here: the recipe file, the window's inputs, the comparison of
    merges and resuming follow from it.
    """

    scope: str = field(default="default", metadata=about(task_vectors=False))
    """The tensors that are merged."""
    split_fused: bool = False
    """Merge the matrices of a fused projection (query, key and value; gate and up) one by one."""
    vocabulary: Vocabulary = Vocabulary.POSITION
    """How embeddings and vocabulary heads are combined."""
    heads: Heads = Heads.AUTO
    """Whether task heads are merged."""
    poolers: Poolers = Poolers.MERGE
    """Whether modules that feed only heads are kept with them."""
    adapter: Path | None = None
    """The base is the base model with this adapter on it; None: the base model alone."""
    slices: tuple[Slice, ...] = ()
    """The blocks that make the output; empty: all blocks of the models."""
    tokenizer: str = ""
    """The expert with the output's tokens, in their order; empty: as ``vocabulary`` says."""
    tokens: Mapping[str, TokenSource] = field(default_factory=dict, hash=False)
    """Rows of single tokens, which are added if they are new."""
    pad_to_multiple_of: int | None = field(default=None, metadata=about(limits={"ge": 1}))
    """Of the number of rows; None: no padding."""
    chat_template: str = field(default="", metadata=about(task_vectors=False))
    """base, an expert, a file, auto, a well-known format or Jinja; empty: that of the tokenizer."""
    out_dtype: OutputDtype | None = field(default=None, metadata=about(task_vectors=False))
    """None: as the base."""
    seed: int = field(default=0, metadata=about(limits={"ge": 0, "lt": 2**63}, task_vectors=False))
    """For methods that draw random numbers."""
    non_finite: NonFinite = NonFinite.STOP
    """How tensors with NaN or Inf are merged."""
    after: After = field(default=After(), metadata=about(task_vectors=False))
    """Changes to the merged change of each matrix."""
    distil: Distillation | Literal[False] = field(
        default=False, metadata=about(tidied=as_distillation, task_vectors=False)
    )
    """Aligns the merge with the answers of its experts."""
    check: SanityCheck = field(
        default=SanityCheck.AUTO, metadata=about(tidied=_as_check, task_vectors=False)
    )
    """Whether a merged language model is tried on usual text."""
    output: Output = field(default=Output.MODEL, metadata=about(task_vectors=False))
    """A whole model, or an adapter."""
    rank: int | None = field(default=None, metadata=about(limits={"ge": 1}, task_vectors=False))
    """Of the adapter; None: as ``energy`` says."""
    energy: float | None = field(
        default=None, metadata=about(limits={"gt": 0, "le": 1}, task_vectors=False)
    )
    """The adapter's ranks keep this share of each change; None: as ``rank`` says."""
    overrides: tuple[Override, ...] = field(default=(), metadata=about(task_vectors=False))
    """Other settings for some tensors; later ones take precedence."""
    tasks: tuple[Task, ...] = field(default=(), compare=False, metadata=about(task_vectors=False))
    """For scores; they do not affect the merge."""

    @property
    def matching(self) -> Vocabulary:
        """How rows are matched; always by token if one model's tokenizer is chosen."""
        if self.tokenizer:
            return Vocabulary.TOKENS
        return self.vocabulary

    def choices(self) -> dict[str, Any]:
        """The fields of ``Choices``, by name."""
        return {field.name: getattr(self, field.name) for field in fields(Choices)}

    def of_task_vectors(self) -> tuple[object, ...]:
        """The settings on which the task vectors depend, as hashable values."""
        rules = tuple(rule for rule in self.overrides if rule.weights)
        names = [field.name for field in fields(Choices) if traits_of(field).task_vectors]
        values = [getattr(self, name) for name in names]
        return (*(tuple(v.items()) if isinstance(v, Mapping) else v for v in values), rules)


@dataclass(frozen=True, kw_only=True)
class Recipe(Choices):
    """Everything that determines a merge. Equal recipes give equal merges of the same files."""

    merge_method: str = field(default="ace", metadata=about(always=True))
    """The method's id."""
    base_model: Path
    """Its folder or file."""
    models: tuple[ModelEntry, ...]
    """The experts."""
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict, hash=False)
    """Only explicit values. The rest are the method's defaults, which for ACE's epsilon depend on
    the model family.
    """
    notes: tuple[str, ...] = field(default=(), compare=False, repr=False, metadata=_UNWRITTEN)
    """What was lost in the conversion of another program's recipe; they do not affect the merge."""
    from_mergekit: bool = field(default=False, compare=False, repr=False, metadata=_UNWRITTEN)
    """Whether it was read from mergekit's file."""
    defaults_note: str = field(default="", compare=False, repr=False, metadata=_UNWRITTEN)
    """mergekit's defaults, if the file could also be a recipe of this application."""
    key_fates: tuple[KeyFate, ...] = field(
        default=(), compare=False, repr=False, metadata=_UNWRITTEN
    )
    """What became of each key of mergekit's file; empty for a recipe of this application."""
    unfound: Mapping[Path, str] = field(
        default_factory=dict, compare=False, repr=False, metadata=_UNWRITTEN
    )
    """Models that were missing when the file was read, with a message for each."""
    stages: Mapping[Path, Recipe] = field(
        default_factory=dict, compare=False, repr=False, metadata=_UNWRITTEN
    )
    """Merges that are done before, in order, by the folders of their results."""
    stage_name: str = field(default="", compare=False, repr=False, metadata=_UNWRITTEN)
    """The name of this merge in a file of several."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "merge_method", method_id(self.merge_method))

    if TYPE_CHECKING:  # ``ace_gui.recipe`` attaches them, as they need the modules of files

        @classmethod
        def load(cls, path: str | os.PathLike[str]) -> Recipe:
            """See ``ace_gui.recipe.load``."""

        def save(self, path: str | os.PathLike[str]) -> None:
            """See ``ace_gui.recipe.save``."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The recipe's method, and the methods of overrides."""
        named = [rule.merge_method for rule in self.overrides if rule.merge_method is not None]
        return (self.merge_method, *named)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every model and adapter, the base model first."""
        paths = [self.base_model, self.adapter]
        for entry in self.models:
            paths += [entry.model, entry.on]
        return tuple(path for path in paths if path)

    @property
    def expert_names(self) -> tuple[str, ...]:
        """A distinct name for each expert: the given one, else the folder's or file's."""
        proposed = [entry.name or model_name(entry.model) or "expert" for entry in self.models]
        counts = Counter(name.casefold() for name in proposed)  # some disks ignore case
        taken = {name for name, count in counts.items() if count == 1}
        numbers = {name: itertools.count(1) for name, count in counts.items() if count > 1}
        names = []
        for name in proposed:
            key = name.casefold()
            if key in numbers:
                numbered = (f"{name}-{number}" for number in numbers[key])
                name = next(free for free in numbered if free.casefold() not in taken)
                taken.add(name.casefold())
            names.append(name)
        return tuple(names)

    @property
    def without_calibration(self) -> tuple[str, ...]:
        """The experts that have no task with calibration inputs."""
        having = {task.expert or task.title for task in self.tasks if task.calibration is not None}
        return tuple(name for name in self.expert_names if name not in having)

    def absolute(self) -> Self:
        """The same with absolute paths, for a process with another working directory."""
        values = {field.name: _absolute(getattr(self, field.name)) for field in fields(Recipe)}
        return replace(self, **values)

    @property
    def keep_base_rows(self) -> str:
        """How to keep the base's tokens, in the language of the recipe's file."""
        if self.from_mergekit:
            key = "tokenizer_source: base"
        else:
            key = "vocabulary: base"
        return f"keep the base's rows ({key})"

    @property
    def weights(self) -> tuple[float, ...]:
        """One weight per expert, in the order of ``models``."""
        return tuple(entry.weight for entry in self.models)


def _absolute(value: Any) -> Any:
    """A value of a recipe with absolute paths."""
    match value:
        case Path() | Task():
            return value.absolute()
        case tuple():
            return tuple(map(_absolute, value))
        case Source() | Slice() | ModelEntry():
            values = {field.name: _absolute(getattr(value, field.name)) for field in fields(value)}
            return replace(value, **values)
    return value


def model_name(path: Path) -> str:
    """The name of a model: its folder or file, or its name on the hub if cached."""
    name = path.name.removesuffix(".safetensors").removesuffix(".gguf")
    return hub_name(path).rpartition("/")[2] or name


def public_name(path: Path, config: Mapping[str, object]) -> str:
    """The hub name of an opened model; empty if it is not certain.

    It comes from its path in the cache, or from its config if that matches its folder's name.
    """
    named = config.get("_name_or_path")
    is_id = isinstance(named, str) and named.count("/") == 1 and named.endswith(f"/{path.name}")
    is_path = path.absolute().as_posix().endswith(f"/{named}")
    return hub_name(path) or (str(named) if is_id and not is_path else "")


def hub_name(path: Path) -> str:
    """``ORGANISATION/NAME`` of a model in the Hugging Face cache, empty for any other.

    There it is ``models--ORGANISATION--NAME/snapshots/COMMIT``.
    """
    repository = path.parent.parent.name
    if path.parent.name == "snapshots" and repository.startswith("models--"):
        return "/".join(repository.split("--")[1:])
    return ""
