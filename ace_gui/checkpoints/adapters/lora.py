"""Adapters in PEFT's folders, and the changes that they make to a base."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace_gui.checkpoints.adapters.adapter_config import (
    MERGE_FIRST,
    AdapterSettings,
    read_adapter_config,
)
from ace_gui.checkpoints.adapters.weight_changes import (
    AddedVector,
    Hadamard,
    Kronecker,
    LowRank,
    TokenRows,
    WeightChange,
)
from ace_gui.checkpoints.folder import (
    ADAPTER_CONFIG,
    ADAPTER_FILE,
    ADAPTER_FILES,
    INDEX_SUFFIX,
    MODEL_FILES,
    PICKLED_ADAPTER,
    SUFFIX,
    adapter_and_model,
    consent_needed,
)
from ace_gui.checkpoints.header import Header, TensorInfo, read_header
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.input_files import FileStamp, open_regular, read_blocks, refusal, status_of
from ace_gui.checkpoints.quantised import refuse_quantised
from ace_gui.formatting import dimensions, listing, path_text, plain
from ace_gui.stored_formats import is_float

_PREFIX: Final = re.compile(r"^base_model\.model\.")
_PART: Final = re.compile(
    r"^(?P<module>.+?)\.(?:token_adapter\.)?"
    r"(?P<part>lora_(?:embedding_)?[AB]|lora_magnitude_vector|hada_(?:w[12]_[ab]|t[12])"
    r"|lokr_(?:w[12](?:_[ab])?|t2)|trainable_tokens_delta)"
    r"(?:\.(?P<adapter>(?!(?:weight|bias)$)[^.]+))?(?:\.(?P<leaf>weight|bias))?$"
)
_ANY_PART: Final = re.compile(r"\.(?:lora|hada|lokr|trainable_tokens|ia3|oft|vera)_")
# In the order in which transformers declares them; PEFT wraps them in that order.
_DECLARED: Final = (("gate_up_proj", "down_proj"), ("w1", "v1", "w2"))
STACKS: Final = frozenset(name for order in _DECLARED for name in order)
"""Parameters that hold the matrices of several experts."""

# PEFT's names of the copy of a module that it trains whole, and of a module that it wraps.
_WRAPPED: Final = re.compile(r"\.(?:modules_to_save(?:\.default)?|base_layer)(?=\.)")
_UNTRAINED: Final = ".original_module."


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """An adapter as described by its headers, under the names of its base model."""

    path: Path
    """Its folder."""
    deltas: Mapping[str, WeightChange]
    """By the name of a weight, its change."""
    full: Mapping[str, TensorInfo]
    """Tensors that replace the base's: ``modules_to_save``, trained biases."""
    files: tuple[FileStamp, ...]
    """Its weights and config."""
    named_base: str = ""
    """The base that its config names. For display only: nothing is looked up by it."""
    keeps_ties: bool = False
    """Whether tensors that are tied in the base stay tied."""
    warnings: tuple[str, ...] = ()
    """One sentence each."""

    tied_changes: tuple[str, ...] = ()
    """A sentence for each change of a tensor that is another one in the base, too."""

    of_images: bool = False
    """Whether its names are those of diffusers or kohya's trainer (``image_loras``)."""

    @property
    def folder(self) -> Path | None:
        """The adapter's folder; None for a single file."""
        if self.path.is_dir():
            return self.path
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """Every tensor that the adapter changes or brings."""
        return tuple(dict.fromkeys((*self.deltas, *self.full)))

    @property
    def stored(self) -> Checkpoint:
        """The tensors that are in its file: factors, and those that replace the base's."""
        factors = [factor for delta in self.deltas.values() for factor in delta.parts]
        return Checkpoint(
            path=self.path,
            folder=self.folder,
            tensors={info.name: info for info in (*factors, *self.full.values())},
            files=self.files,
        )


def is_peft_adapter(path: Path) -> bool:
    """Whether ``path`` is the folder of a PEFT adapter, and holds no whole model."""
    folder = Path(path)
    if not (folder / ADAPTER_CONFIG).is_file():
        return False
    holds_model = any((folder / f"model{end}").exists() for end in (SUFFIX, INDEX_SUFFIX))
    names = [name for name in (*MODEL_FILES, *ADAPTER_FILES) if (folder / name).exists()]
    return not holds_model and adapter_and_model((ADAPTER_CONFIG, *names)) is None


def open_peft_adapter(folder: Path) -> Adapter:
    """Open a folder with ``adapter_config.json`` and weights; reads headers only.

    Raises PickleConsentError if the weights are a pickle, CheckpointError for kinds that are not
    read and for factors that do not fit each other.
    """
    folder = Path(folder)
    settings = read_adapter_config(folder / ADAPTER_CONFIG)
    header = _header(folder)
    refuse_quantised({info.name: info for info in header.tensors})
    groups, full = _sorted_tensors(folder, header.tensors)
    parameters = _target_parameters(folder, groups, settings)
    deltas: dict[str, WeightChange] = {}
    for module, pieces in groups.items():
        for delta in changes(folder, module, pieces, settings, parameters.get(module)):
            # PEFT may also save the embedding that it changes, because this may be resized.
            beneath = full.get(delta.target)
            replaced = beneath is not None and ".base_layer." not in beneath.name
            if delta.target in deltas or replaced:
                sentence = (
                    f"`{plain(delta.target)}` is changed twice. Only one change can be added."
                )
                raise refusal(folder, sentence, tensor=delta.target)
            deltas[delta.target] = delta
    if not deltas:
        raise refusal(folder, "Holds no LoRA factors. Download it again.")
    config = folder / ADAPTER_CONFIG
    warnings = (*settings.warnings, *_other_files(folder))
    return Adapter(
        path=folder,
        deltas=deltas,
        full=full,
        files=(header.stamp, FileStamp.of(config, status_of(config))),
        named_base=settings.named_base,
        keeps_ties=settings.keeps_ties,
        warnings=tuple(f"{path_text(folder)}: {warning}" for warning in warnings),
    )


def _other_files(folder: Path) -> Iterator[str]:
    """A note about adapters in sub-folders, where PEFT saves all but the default one."""
    names = sorted(path.parent.name for path in folder.glob(f"*/{ADAPTER_CONFIG}"))
    if names:
        yield (
            "The adapter in the folder itself is read, not others in sub-folders: "
            f"{listing(names)}. Add a sub-folder to merge the adapter in it."
        )


def _header(folder: Path) -> Header:
    file = folder / ADAPTER_FILE
    if not os.path.lexists(file) and os.path.lexists(folder / PICKLED_ADAPTER):
        raise consent_needed(folder, f"Holds a PyTorch pickle (`{PICKLED_ADAPTER}`).")
    return read_header(file)


def _sorted_tensors(
    folder: Path, tensors: Iterable[TensorInfo]
) -> tuple[dict[str, dict[str, TensorInfo]], dict[str, TensorInfo]]:
    """The parts of each module's change, by their names, and the tensors that are whole.

    PEFT saves a table that may have been resized under up to three names: the untrained one, which
    is left out, the trained one, and a copy of it.
    """
    groups: dict[str, dict[str, TensorInfo]] = {}
    full: dict[str, TensorInfo] = {}
    adapters: dict[str, str] = {}
    for info in tensors:
        if _UNTRAINED in info.name:
            continue
        name = _PREFIX.sub("", info.name)
        match = _PART.match(name)
        if match is None and _ANY_PART.search(name):
            sentence = f"`{plain(info.name)}` is of a kind that is not read. {MERGE_FIRST}"
            raise refusal(folder, sentence, tensor=info.name)
        if match is None:
            name = _WRAPPED.sub("", name)
            full[name] = _one_copy(folder, full.get(name, info), info)
            continue
        adapters.setdefault(match["adapter"] or "", info.name)
        if len(adapters) > 1:
            sentence = f"{listing(adapters.values())} are of several adapters. Save one separately."
            raise refusal(folder, sentence, tensor=info.name)
        part = match["part"] + (".bias" if match["leaf"] == "bias" else "")
        pieces = groups.setdefault(match["module"], {})
        refuse_second(folder, pieces.get(part), info)
        pieces[part] = info
    return groups, full


def refuse_second(path: Path, first: TensorInfo | None, second: TensorInfo) -> None:
    """Raise CheckpointError if a part of a module's change is there under two names."""
    if first is not None:
        sentence = f"{listing([first.name, second.name])} are the same part of one change. "
        raise refusal(path, f"{sentence}Save the adapter again.", tensor=second.name)


def _target_parameters(
    folder: Path, groups: Collection[str], settings: AdapterSettings
) -> dict[str, str]:
    """The parameter of each group that targets one directly; PEFT does not store its name.

    Several in one module are wrapped in each other, the first declared innermost.
    """
    targets: dict[str, str] = {}
    levels: dict[str, list[str]] = {}
    for group in sorted(groups, key=lambda name: -name.count(".base_layer")):
        levels.setdefault(group.replace(".base_layer", ""), []).append(group)
    for module, members in levels.items():
        ends = (name.rpartition(".") for name in settings.parameters)
        named = {leaf for at, _, leaf in ends if f".{module}".endswith(f".{at}") or not at}
        if not named:
            continue
        order = declared_order(named)
        if len(members) != len(order):
            sentence = (
                f"`{plain(module)}` has {len(members)} changes of bare parameters, and its config "
                f"names {listing(sorted(named))}; which belongs to which is not known. "
                f"{MERGE_FIRST}"
            )
            raise refusal(folder, sentence)
        targets |= {group: f"{module}.{leaf}" for group, leaf in zip(members, order, strict=True)}
    return targets


def declared_order(parameters: Collection[str]) -> list[str]:
    """Several parameters of one module as it declares them, in which order PEFT wraps them.

    Empty if the order is not known.
    """
    if len(parameters) < 2:
        return list(parameters)
    orders = (order for order in _DECLARED if {*parameters} <= {*order})
    return [name for name in next(orders, ()) if name in parameters]


def _one_copy(folder: Path, first: TensorInfo, second: TensorInfo) -> TensorInfo:
    """One of two names of a tensor, preferably that of a trained or wrapped module."""
    if not same_bytes(first, second):
        sentence = f"{listing([first.name, second.name])} differ. Save the adapter again."
        raise refusal(folder, sentence, tensor=second.name)
    if _WRAPPED.search(second.name):
        return second
    return first


def _blocks(descriptor: int, info: TensorInfo) -> Iterator[memoryview]:
    return read_blocks(descriptor, info.file, info.start, info.start + info.nbytes)


def same_bytes(first: TensorInfo, second: TensorInfo) -> bool:
    """Whether two tensors of the files are equal, bit by bit. Raises CheckpointError."""
    if first is second:
        return True
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return False
    with open_regular(first.file) as (first_file, _), open_regular(second.file) as (second_file, _):
        first_blocks = _blocks(first_file, first)
        second_blocks = _blocks(second_file, second)
        for first_block, second_block in zip(first_blocks, second_blocks, strict=True):
            if first_block != second_block:
                return False
    return True


def changes(
    path: Path,
    module: str,
    pieces: Mapping[str, TensorInfo],
    settings: AdapterSettings,
    parameter: str | None = None,
) -> Iterator[WeightChange]:
    """The changes of one module. ``pieces``: its tensors, by PEFT's names for them.

    ``parameter``: the one that is changed, if it is not the module's weight. Raises CheckpointError
    if a piece is missing or does not fit the others.
    """
    for info in pieces.values():
        if not is_float(info.dtype):
            sentence = f"`{plain(info.name)}` is {info.dtype}, not floating point. Convert it."
            raise refusal(path, sentence, tensor=info.name)
    target = _target(module)
    if table := pieces.get("trainable_tokens_delta"):
        yield _token_rows(path, target, table, settings.tokens_of(module))
    kinds = {"hada": Hadamard, "lokr": Kronecker}
    for start, kind in kinds.items():
        factors = {n.removeprefix(f"{start}_"): i for n, i in pieces.items() if n.startswith(start)}
        if factors:
            _refuse_unfit(path, module, factors, start)
            yield kind(target=target, pieces=factors, scale=settings.scale_of(module))
    low_rank = {name: info for name, info in pieces.items() if name.startswith("lora")}
    if low_rank:
        yield from _low_rank(path, module, low_rank, settings, parameter)


def _target(module: str) -> str:
    return _WRAPPED.sub("", f"{module}.weight")


def _token_rows(path: Path, target: str, table: TensorInfo, indices: tuple[int, ...]) -> TokenRows:
    if not indices or len(table.shape) != 2 or table.shape[0] != len(indices):
        sentence = (
            f"`{plain(table.name)}` is {dimensions(table.shape)}, but the config names "
            f"{len(indices)} tokens. Download the adapter again."
        )
        raise refusal(path, sentence, tensor=table.name)
    return TokenRows(target=target, table=table, indices=indices)


_COMPLETE: Final = {
    "hada": [{"w1_a", "w1_b", "w2_a", "w2_b"}, {"w1_a", "w1_b", "w2_a", "w2_b", "t1", "t2"}],
    "lokr": [
        {"w1", "w2"},
        {"w1", "w2_a", "w2_b"},
        {"w1", "w2_a", "w2_b", "t2"},
        {"w1_a", "w1_b", "w2"},
        {"w1_a", "w1_b", "w2_a", "w2_b"},
        {"w1_a", "w1_b", "w2_a", "w2_b", "t2"},
    ],
}


def _refuse_unfit(path: Path, module: str, pieces: Mapping[str, TensorInfo], start: str) -> None:
    """Raise CheckpointError if factors of LoHa or LoKr are missing or cannot be multiplied."""
    shapes = {name: info.shape for name, info in pieces.items()}
    fits = set(shapes) in _COMPLETE[start] and all(map(_has_axes, shapes.items()))
    sides = []
    for number in "12" if fits else "":
        a, b = (shapes.get(f"w{number}_{letter}") for letter in "ab")
        middle = shapes.get(f"t{number}")
        if a and b:
            fits = fits and ((a[0], b[0]) == middle[:2] if middle else a[1] == b[0])
            sides.append((a[1] if middle else a[0], b[1], middle and middle[2:]))
    if not fits or (start == "hada" and sides[0] != sides[1]):
        sizes = ", ".join(f"{name} {dimensions(shape)}" for name, shape in shapes.items())
        sentence = f"`{plain(module)}` has {sizes}, which do not fit. Download the adapter again."
        raise refusal(path, sentence, tensor=next(iter(pieces.values())).name)


def _has_axes(factor: tuple[str, tuple[int, ...]]) -> bool:
    """Whether a factor of LoHa or LoKr has as many axes as its kind needs, and elements.

    Two; three or more with a kernel in the middle; w2 of LoKr may have a kernel if it is whole.
    """
    name, shape = factor
    if 0 in shape:
        return False
    if name.startswith("t"):
        return len(shape) > 2
    return len(shape) == 2 or (name == "w2" and len(shape) > 2)


def _low_rank(
    path: Path,
    module: str,
    pieces: Mapping[str, TensorInfo],
    settings: AdapterSettings,
    parameter: str | None,
) -> Iterator[WeightChange]:
    plain_name = plain(module)
    embedding = any("embedding" in name for name in pieces)
    if embedding:
        letters = ("lora_embedding_A", "lora_embedding_B")
    else:
        letters = ("lora_A", "lora_B")
    present = [letter for letter in letters if letter in pieces]
    if len(present) < 2:
        if present:
            letter = present[0][-1]
        else:
            letter = next(iter(pieces))
        missing = "A" if letter == "B" else "B"
        sentence = f"`{plain_name}` has {letter} but no {missing}. Download the adapter again."
        raise refusal(path, sentence, tensor=next(iter(pieces.values())).name)
    a, b = (pieces[letter] for letter in letters)
    target = parameter or _target(module)
    name = parameter or module
    rank = settings.rank_of(name)
    scale = settings.scale_of(name)
    bare = parameter is not None
    _check_factors(path, plain_name, a, b, rank, embedding=embedding, stacked=bare)
    _check_others(path, pieces, a, b)
    yield LowRank(
        target=target,
        a=a,
        b=b,
        scale=scale,
        turned=embedding or (settings.fan_in_fan_out and len(a.shape) == 2),
        embedding=embedding,
        bare=bare,
        experts=a.shape[0] // rank,
        middle=pieces.get("lora_mid"),
        magnitude=pieces.get("lora_magnitude_vector"),
    )
    if vector := pieces.get("lora_B.bias"):
        bias = target.removesuffix("weight") + "bias"
        yield AddedVector(target=bias, vector=vector, scale=scale)


def _check_factors(
    path: Path,
    plain_name: str,
    a: TensorInfo,
    b: TensorInfo,
    rank: int,
    *,
    embedding: bool,
    stacked: bool,
) -> None:
    sizes = f"`{plain_name}`: A is {dimensions(a.shape)}, B is {dimensions(b.shape)}"
    if 0 in (*a.shape, *b.shape):
        raise refusal(path, f"{sizes}; one is empty. Download the adapter again.", tensor=a.name)
    if min(len(a.shape), len(b.shape)) < 2 or a.shape[0] != b.shape[1]:
        raise refusal(path, f"{sizes}; ranks differ. Download the adapter again.", tensor=b.name)
    if len(a.shape) != len(b.shape) or set(b.shape[2:]) - {1} or (embedding and len(a.shape) > 2):
        raise refusal(path, f"{sizes}; they do not fit each other.", tensor=b.name)
    if a.shape[0] % rank if stacked else a.shape[0] != rank:
        raise refusal(path, f"{sizes}; the config gives rank {rank}.", tensor=a.name)


def _check_others(
    path: Path, pieces: Mapping[str, TensorInfo], a: TensorInfo, b: TensorInfo
) -> None:
    """Raise CheckpointError if DoRA's magnitudes, a bias or a middle factor do not fit A and B."""
    rank = b.shape[1]
    outputs = b.shape[0]
    expected = {"lora_magnitude_vector": f"{outputs} numbers", "lora_B.bias": f"{outputs} numbers"}
    expected["lora_mid"] = f"{rank} × {rank} and a kernel"
    kernel = {"lora_magnitude_vector": (1, outputs, *(1 for _ in a.shape[2:]))}
    for name, words in expected.items():
        info = pieces.get(name)
        if info is None:
            continue
        if name == "lora_mid":
            flat = math.prod(a.shape[2:]) == 1 and len(a.shape) > 2
            fits = info.shape[:2] == (rank, rank) and len(info.shape) == len(a.shape) and flat
            fits = fits and 0 not in info.shape
        else:
            fits = info.shape in ((outputs,), kernel.get(name))
        if not fits:
            raise refusal(
                path,
                f"`{plain(info.name)}` is {dimensions(info.shape)}, but A is {dimensions(a.shape)} "
                f"and B is {dimensions(b.shape)}, so it should be {words}. Download the adapter "
                "again.",
                tensor=info.name,
            )
