"""All model classes of transformers: what the program says of each parameter, counted anew.

The count shares no rule with the program: it goes by types of torch's modules, by the source of
``forward`` where a class multiplies by a parameter of its own, by tensors as wide as an odd number
of labels, by matrices as wide as a vocabulary, and by parameters that are one object.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Final

from ace_gui.architecture import blueprint, transformers_library
from ace_gui.architecture.describe import with_layouts
from ace_gui.architecture.traits import Role, TensorTraits
from tests.architecture.layout_of_forward import layouts
from tests.architecture.model_classes import LABELS, built, model_classes
from tests.helpers.time_limits import OutOfTime, time_limit

_HEADS: Final = (Role.HEAD, Role.VOCABULARY_HEAD)
_TASKS: Final = re.compile(
    r"Classif|QuestionAnswering|MultipleChoice|NextSentence|Segmentation|ObjectDetection|XVector"
    r"|Regression|DoubleHeads|Recognition|PoseEstimation|PreTraining|RegionToPhrase|Reasoning"
    r"|DensePrediction|ReadingOrder"
)
_NUMBERED: Final = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.\d+\.")
# Fixed frequencies of coordinates; a stack that is a head, and never merged as matrices.
_NO_MATRICES: Final = frozenset(
    (
        ("SamPositionalEmbedding", "positional_embedding"),
        ("SamHQPositionalEmbedding", "positional_embedding"),
        ("CsmCodebooksHead", "weight"),
    )
)
# What it makes of the vocabulary goes back into the encoder: a part of the body.
_FED_BACK: Final = re.compile(r"^(?:encoder\.)?out\.weight$")
_SECONDS: Final = 120
_BYTES: Final = 16 << 30


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """``wrong``: a sentence a tensor. ``refused``: why the class cannot be built, or empty."""

    name: str
    tensors: int = 0
    wrong: tuple[str, ...] = ()
    refused: str = ""


def sweep(workers: int | None = None) -> list[Verdict]:
    """The verdict on every class, in a few processes with limits on time and memory."""
    names = [model_class.__name__ for model_class in model_classes()]
    return verdicts(names, workers or os.cpu_count() or 1)


def verdicts(names: Sequence[str], workers: int) -> list[Verdict]:
    """The verdict on each of these classes, in as many processes."""
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_limited) as pool:
        return list(pool.map(verdict, names, chunksize=8))


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))


def verdict(name: str) -> Verdict:
    """Build the class and count."""
    model_class = getattr(transformers_library.transformers(), name)
    try:
        with time_limit(_SECONDS):
            model = built(model_class)
    except (Exception, OutOfTime) as error:
        return Verdict(name=name, refused=_reason(error))
    tensors = blueprint.read(model)
    shapes = {key: tensor.shape for key, tensor in tensors.items()}
    traits = {key: tensor.traits for key, tensor in tensors.items()}
    traits = with_layouts(traits, shapes, model.config)
    wrong = tuple(_wrong(model, traits))
    return Verdict(name=name, tensors=len(traits), wrong=wrong)


def _reason(error: BaseException) -> str:
    package = re.search(r"requires the (\S+) library", str(error))
    if package:
        return f"needs the package {package.group(1)}"
    return f"its config: {type(error).__name__}: {str(error).strip().splitlines()[0][:90]}"


def _wrong(model: Any, all_traits: Mapping[str, TensorTraits]) -> Iterator[str]:
    words = _vocabulary_sizes(model.config)
    task = bool(_TASKS.search(type(model).__name__)) or _has_task_inside(model)
    owners: dict[int, list[str]] = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        for leaf, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            name = f"{prefix}.{leaf}".lstrip(".")
            shape = tuple(parameter.shape)
            owners.setdefault(id(parameter), []).append(name)
            traits = all_traits[name]
            layout = _layout(module, leaf, shape)
            for problem in (
                _layout_problem(traits, layout),
                _head_problem(name, module, leaf, shape, traits.role, words, task),
                _kind_problem(module, leaf, shape, traits.role, layout),
            ):
                if problem:
                    kind = type(module).__name__
                    yield f"{type(model).__name__}: {name} ({kind}, {shape}): {problem}"
    yield from _tie_problems(model, owners, all_traits)


def _layout(module: Any, leaf: str, shape: tuple[int, ...]) -> str:
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    if isinstance(module, nn.Linear):
        return "M" if leaf == "weight" else ""
    if isinstance(module, Conv1D):
        return "MT" if leaf == "weight" else ""
    if isinstance(module, nn.MultiheadAttention | nn.RNNBase):
        return "M" if len(shape) == 2 and "weight" in leaf else ""
    if type(module).__module__.startswith("torch.") or len(shape) not in (2, 3):
        return ""
    if isinstance(module, nn.Embedding | nn.modules.conv._ConvNd):
        return ""
    if (type(module).__name__, leaf) in _NO_MATRICES:
        return ""
    used = layouts(type(module)).get(leaf, "")
    return f"E×{used}" if used and len(shape) == 3 else used


def _layout_problem(traits: TensorTraits, expected: str) -> str:
    layout = ("MT" if traits.transposed else "M") if traits.matrix else ""
    layout = f"E×{layout}" if traits.stack else layout
    return "" if layout == expected else f"laid out {layout or '-'}, expected {expected or '-'}"


def _head_problem(
    name: str,
    module: Any,
    leaf: str,
    shape: tuple[int, ...],
    role: Role,
    words: frozenset[int],
    task: bool,
) -> str:
    from torch import nn

    labels = any(size in (LABELS, LABELS + 1) for size in shape)
    if labels and role is not Role.HEAD:
        return f"as wide as the labels, but {role}"
    if role is Role.HEAD and not labels and not task:
        return "a head in a class without a task"
    wide = isinstance(module, nn.Linear) and leaf == "weight" and shape[0] in words
    inside = _NUMBERED.search(name) or _FED_BACK.search(name)
    if wide and not inside and role not in _HEADS:
        return f"as wide as the vocabulary, but {role}"
    if role is Role.VOCABULARY_HEAD and (
        _NUMBERED.search(name) or isinstance(module, nn.Embedding)
    ):
        return "a part of the body, but in the vocabulary head"
    return ""


def _kind_problem(module: Any, leaf: str, shape: tuple[int, ...], role: Role, layout: str) -> str:
    from torch import nn

    if role in _HEADS:
        return ""
    torch_norms = nn.LayerNorm | nn.GroupNorm | nn.RMSNorm | nn.modules.batchnorm._NormBase
    if isinstance(module, torch_norms):
        expected = {Role.NORM}
    elif isinstance(module, nn.Embedding):
        expected = {Role.EMBEDDING, Role.POSITION}
    elif isinstance(module, nn.modules.conv._ConvNd) and leaf == "weight":
        expected = {Role.CONVOLUTION}
    elif isinstance(module, nn.Linear | nn.modules.conv._ConvNd) and leaf == "bias":
        expected = {Role.BIAS}
    elif layout:
        expected = set(Role) - {Role.NORM, Role.BIAS, Role.EMBEDDING, Role.POSITION, *_HEADS}
        expected -= {Role.CONVOLUTION, Role.BUFFER}
    elif len(shape) > 1:
        expected = set(Role) - {Role.NORM}
    else:
        return ""
    return "" if role in expected else f"{role}, expected {' or '.join(sorted(expected))}"


def _tie_problems(
    model: Any, owners: Mapping[int, list[str]], all_traits: Mapping[str, TensorTraits]
) -> Iterator[str]:
    for names in owners.values():
        sources = [name for name in names if all_traits[name].tied_to is None]
        strays = [name for name in names if all_traits[name].tied_to not in (None, *sources)]
        if len(sources) != 1 or strays:
            yield f"{type(model).__name__}: {names}: tied otherwise than stored"


def _vocabulary_sizes(config: Any) -> frozenset[int]:
    """Numbers that only vocabularies have in this config."""
    words: set[int] = set()
    sizes: set[int] = set()
    for key, value in _numbers(config.to_dict()):
        (words if key == "vocab_size" else sizes).add(value)
    return frozenset(words - sizes)


def _numbers(value: object, key: str = "") -> Iterator[tuple[str, int]]:
    if isinstance(value, Mapping):
        for inner, element in value.items():
            yield from _numbers(element, str(inner))
    elif isinstance(value, list | tuple):
        for element in value:
            yield from _numbers(element, key)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield key, value


def _has_task_inside(model: Any) -> bool:
    return any(_TASKS.search(type(module).__name__) for module in model.modules())
