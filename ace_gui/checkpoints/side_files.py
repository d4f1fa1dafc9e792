"""The files of a model folder beside its weights: tokenizer, templates, processors, licence."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace_gui.checkpoints.files import FileStamp, changed, open_regular, read_at, unreadable
from ace_gui.checkpoints.output import output_error

_BELONG: Final = (
    *("*.json", "*.jinja", "*.model", "*.spm", "*.tiktoken", "*.bpe", "*.txt", "vocab.*"),
    *("license*", "licence*", "copying*", "notice*", "use_policy*"),
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
    """``files`` belong beside the weights. ``code``: Python files, never run and never copied.

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
    wanted = [entry for entry in entries if _belongs(entry.name)]
    return SideFiles(
        files=tuple(entry for entry in wanted if _is_own(entry, folder)),
        code=tuple(entry for entry in entries if entry.suffix == ".py"),
        outside=tuple(entry for entry in wanted if not _is_own(entry, folder)),
    )


def copy_side_files(paths: Sequence[Path], folder: Path) -> None:
    """Copy byte for byte into ``folder``, where no file of that name may be.

    Raises CheckpointError for a file that cannot be read or is not a regular one, OutputError or
    ResourceError where it cannot be written.
    """
    for path in paths:
        target = folder / path.name
        with open_regular(path) as (descriptor, stamp):
            try:
                with target.open("xb") as copy:
                    for block in _blocks(descriptor, stamp):
                        copy.write(block)
            except OSError as error:
                raise output_error(target, error) from None


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


def _belongs(name: str) -> bool:
    lower = name.lower()
    return (
        not name.startswith(".")
        and lower != "readme.md"
        and any(fnmatch.fnmatchcase(lower, pattern) for pattern in _BELONG)
        and not any(fnmatch.fnmatchcase(lower, pattern) for pattern in _FOREIGN)
    )


def _is_own(entry: Path, folder: Path) -> bool:
    """In the folder itself, or in the blobs of the Hugging Face cache the folder is a view of.

    There a model is ``REPOSITORY/snapshots/REVISION/`` with links into ``REPOSITORY/blobs/``.
    """
    home = folder.resolve()
    homes = [home, home.parent.parent / "blobs"] if home.parent.name == "snapshots" else [home]
    return entry.resolve().parent in homes
