"""A model on disk as its headers describe it: no tensor is read here."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR
from typing import Final

from ace_gui.checkpoints.dtypes import is_float
from ace_gui.checkpoints.files import FileStamp, read_json, refusal, status_of
from ace_gui.checkpoints.folder import SUFFIX, Weights, find_weights, refuse_other_file
from ace_gui.checkpoints.header import Header, TensorInfo, read_header
from ace_gui.checkpoints.labels import NAMES_SHOWN, listing, place, plain
from ace_gui.checkpoints.quantised import refuse_quantised_config, refuse_unmergeable
from ace_gui.checkpoints.shard_index import check_against_index, read_shard_index, shard_files
from ace_gui.checkpoints.side_files import SideFiles, find_side_files

CONFIG_LIMIT: Final = 10_000_000
"""Largest config.json in bytes."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One model: its tensors in the order of its files, and the files beside them.

    ``path`` is what was opened. ``folder`` is None for a bare file, which has neither config nor
    side files. ``config``: config.json as plain JSON, None without one. ``side_files`` by their
    place below the folder. ``code_files``: what may be code in it, never run and never copied.
    ``warnings``: a sentence each.
    """

    path: Path
    folder: Path | None
    tensors: Mapping[str, TensorInfo]
    files: tuple[FileStamp, ...]
    config: Mapping[str, object] | None = None
    side_files: Mapping[str, Path] = field(default_factory=dict)
    code_files: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    @property
    def dtype(self) -> str | None:
        """Tag of the float format that holds most bytes; None without float tensors."""
        held: Counter[str] = Counter()
        for tensor in self.tensors.values():
            if is_float(tensor.dtype):
                held[tensor.dtype] += tensor.nbytes
        return held.most_common(1)[0][0] if held else None

    @property
    def identity(self) -> frozenset[tuple[int, int]]:
        """Device and inode of every file of weights: equal for the same model by another path."""
        return frozenset((file.device, file.inode) for file in self.files)


def open_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Open a Hugging Face folder or a bare ``.safetensors`` file; reads headers only.

    A file that is the weights of the folder it lies in is opened as that folder. Raises
    CheckpointError with one sentence for everything that is not a model to merge.
    """
    path = Path(path)
    if S_ISDIR(status_of(path).st_mode):
        return _open_folder(path, path)
    if path.name == "model.safetensors" and (path.parent / "config.json").is_file():
        return _open_folder(path, path.parent)
    if not path.name.lower().endswith(SUFFIX):
        refuse_other_file(path)
    return _assembled(path, None, [read_header(path)], ())


def _open_folder(path: Path, folder: Path) -> Checkpoint:
    config_file = folder / "config.json"
    config = None
    if os.path.lexists(config_file):
        config = read_json(config_file, limit=CONFIG_LIMIT)
        refuse_quantised_config(folder, config)
    weights = find_weights(folder)
    headers, warnings = _headers(weights)
    side = find_side_files(folder)
    return _assembled(
        path,
        folder,
        headers,
        (*weights.warnings, *warnings, *_side_warnings(side, config or {})),
        config=config,
        side=side,
    )


def _headers(weights: Weights) -> tuple[list[Header], tuple[str, ...]]:
    """The headers of every file of weights, and warnings about their index."""
    if not weights.is_index:
        return [read_header(weights.path)], ()
    shards = read_shard_index(weights.path)
    headers = [read_header(file) for file in shard_files(weights.path, shards.values())]
    places = {name: tensor.file for name, tensor in _by_name(headers).items()}
    return headers, check_against_index(weights.path, shards, places)


def _by_name(headers: Iterable[Header]) -> dict[str, TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    for header in headers:
        for tensor in header.tensors:
            first = tensors.setdefault(tensor.name, tensor)
            if first is not tensor:
                where = f"in {plain(first.file.name)} and in {plain(tensor.file.name)}"
                sentence = f"Tensor `{plain(tensor.name)}` is defined twice, {where}."
                raise refusal(tensor.file.parent, sentence, tensor=tensor.name)
    return tensors


def _side_warnings(side: SideFiles, config: Mapping[str, object]) -> tuple[str, ...]:
    warnings = []
    if side.code:
        names = listing([file.name for file in side.code])
        warnings.append(f"Code of the model is neither run nor copied: {names}.")
    if "auto_map" in config:
        warnings.append(
            "config.json points to code (`auto_map`), which is neither run nor copied. A copy of "
            "this config still does: put that code beside it if you need and trust it."
        )
    if side.outside:
        names = listing([file.name for file in side.outside])
        warnings.append(f"Links that lead out of the model's folder are not copied: {names}.")
    return tuple(warnings)


def _tie_warnings(headers: Iterable[Header], tensors: Mapping[str, TensorInfo]) -> tuple[str, ...]:
    """Metadata as of safetensors' ``save_model``: the name left out → the name that is stored."""
    ties = [
        f"`{plain(name)}` as `{plain(kept)}`"
        for header in headers
        for name, kept in header.metadata.items()
        if name not in tensors and kept in tensors
    ]
    if not ties:
        return ()
    more = f" and {len(ties) - NAMES_SHOWN} more" if len(ties) > NAMES_SHOWN else ""
    return (f"Shared tensors are stored once: {', '.join(ties[:NAMES_SHOWN])}{more}.",)


def _assembled(
    path: Path,
    folder: Path | None,
    headers: list[Header],
    warnings: tuple[str, ...],
    *,
    config: Mapping[str, object] | None = None,
    side: SideFiles | None = None,
) -> Checkpoint:
    """The checkpoint of these headers, unless its tensors cannot be merged."""
    tensors = _by_name(headers)
    if not tensors:
        raise refusal(path, "Holds no tensors. Download it again.")
    refuse_unmergeable(path, tensors)
    warnings = (*warnings, *_tie_warnings(headers, tensors))
    side = side or SideFiles()
    return Checkpoint(
        path=path,
        folder=folder,
        tensors=tensors,
        files=tuple(header.stamp for header in headers),
        config=config,
        side_files=side.files,
        code_files=side.code,
        warnings=tuple(f"{place(path)}: {warning}" for warning in warnings),
    )
