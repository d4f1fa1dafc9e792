"""The files of a model folder beside its weights: tokenizer, templates, processors, licence."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace_gui.checkpoints.files import (
    FileStamp,
    changed,
    open_regular,
    read_at,
    refusal,
    unreadable,
)
from ace_gui.checkpoints.output import output_error

# Configs, tokenizers, processors and templates, in formats that are data and nothing else.
_BELONG: Final = (
    *("*.json", "*.jinja", "*.txt", "*.model", "*.spm", "*.tiktoken", "*.bpe", "*.vocab"),
    *("vocab", "vocab.tsv", "entity_vocab.tsv", "bpe.codes", "prophetnet.tokenizer"),
)

_LICENCES: Final = ("license*", "licence*", "copying*", "notice*", "use_policy*")
_LICENCE_SUFFIX: Final = re.compile(r"(\.(md|rst|pdf|\d+))?")
"""Of a licence that is text; ``LICENSE-2.0`` ends in ``.0``."""

_CODE: Final = (
    *("*.py", "*.py[a-z]", "*.ipynb", "*.so", "*.so.*", "*.dll", "*.dylib", "*.exe", "*.jar"),
    *("*.sh", "*.bash", "*.bat", "*.cmd", "*.ps1", "*.js", "*.mjs", "*.wasm", "*.lua", "*.pl"),
    *("*.c", "*.cpp", "*.cc", "*.h", "*.cu", "*.cuh", "*.rs"),
)

# Of the weights, of a training run or of an adapter: they would be wrong beside merged weights.
_FOREIGN: Final = (
    *("*.safetensors*", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.gguf", "*.onnx", "*.h5"),
    *("*.msgpack", "*.npz", "*.index.json", "trainer_state.json", "*_results.json", "adapter_*"),
)

_BLOCK: Final = 1 << 24
"""Bytes of a file in memory at a time while it is copied."""


@dataclass(frozen=True, kw_only=True)
class SideFiles:
    """``files`` belong beside the weights. ``code``: never run and never copied.

    ``code`` also holds what is named like a vocabulary or a licence and is not known to be data.
    ``outside``: links to files that are not the model's own, which are not copied either.
    """

    files: tuple[Path, ...] = ()
    code: tuple[Path, ...] = ()
    outside: tuple[Path, ...] = ()


def find_side_files(folder: Path) -> SideFiles:
    """Sort a model folder's files, by name. Raises CheckpointError if it cannot be listed."""
    try:
        entries = sorted(entry for entry in folder.iterdir() if entry.is_file())
    except OSError as error:
        raise unreadable(folder, error) from None
    wanted = [entry for entry in entries if belongs(entry.name)]
    return SideFiles(
        files=tuple(entry for entry in wanted if _own(entry, folder)),
        code=tuple(entry for entry in entries if _is_code(entry.name)),
        outside=tuple(entry for entry in wanted if not _own(entry, folder)),
    )


def belongs(name: str) -> bool:
    """Whether a file of this name goes with merged weights: an allow-list, by purpose and format.

    What is not known to be data is not copied, whatever it is named after.
    """
    lower = name.lower()
    return (
        not name.startswith(".")
        and lower != "readme.md"
        and (_matches(lower, _BELONG) or _is_licence(lower))
        and not _matches(lower, (*_FOREIGN, *_CODE))
    )


def copy_side_files(paths: Sequence[Path], folder: Path) -> None:
    """Copy byte for byte into ``folder``, where no file of that name may be.

    Raises CheckpointError for a file that cannot be read, is not a regular one or has become a
    link to another folder, OutputError or ResourceError where it cannot be written.
    """
    for path in paths:
        target = folder / path.name
        with _opened(path) as (descriptor, stamp):
            try:
                with target.open("xb") as copy:
                    for block in _blocks(descriptor, stamp):
                        copy.write(block)
            except OSError as error:
                raise output_error(target, error) from None


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, FileStamp]]:
    """The model's own file, opened once and without following a link that took its place."""
    real = _own(path, path.parent)
    if real is None:
        raise refusal(path, "This link leads out of the model's folder. Put the file itself there.")
    with open_regular(real, follow=False) as (descriptor, stamp):
        if _own(path, path.parent) != real or not os.path.samestat(
            os.fstat(descriptor), real.lstat()
        ):
            raise changed(path)
        yield descriptor, stamp


def _blocks(descriptor: int, stamp: FileStamp) -> Iterator[bytes]:
    for start in range(0, stamp.size, _BLOCK):
        block = bytearray(min(_BLOCK, stamp.size - start))
        try:
            count = read_at(descriptor, memoryview(block), start)
        except OSError as error:
            raise unreadable(stamp.path, error) from None
        if count < len(block):
            raise changed(stamp.path)
        yield bytes(block)


def _matches(lower: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(lower, pattern) for pattern in patterns)


def _is_licence(lower: str) -> bool:
    suffix = Path(lower).suffix
    return _matches(lower, _LICENCES) and _LICENCE_SUFFIX.fullmatch(suffix) is not None


def _is_code(name: str) -> bool:
    """By its suffix, or because it is named like a side file and is none."""
    lower = name.lower()
    named_so = _matches(lower, ("vocab.*", *_LICENCES)) and not _matches(lower, _FOREIGN)
    return not name.startswith(".") and (_matches(lower, _CODE) or (named_so and not belongs(name)))


def _own(entry: Path, folder: Path) -> Path | None:
    """The file that ``entry`` leads to, if it is the model's own; None for any other.

    It lies in the folder itself, or in the blobs of the Hugging Face cache the folder is a view
    of: there a model is ``REPOSITORY/snapshots/REVISION/`` with links into ``REPOSITORY/blobs/``.
    """
    home, real = Path(os.path.realpath(folder)), Path(os.path.realpath(entry))
    if real.parent == home:
        return real if real.name == entry.name or belongs(real.name) else None
    is_blob = home.parent.name == "snapshots" and real.parent == home.parent.parent / "blobs"
    return real if is_blob else None
