"""A model folder's files other than weights: tokenizer, templates, processors, licence.

This includes sub-folders: the parts that the model lists (``parts``), and folders of tokenizers,
processors and templates.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ace_gui.checkpoints.folder import MODULES, listed_folders
from ace_gui.checkpoints.input_files import (
    JSON_LIMIT,
    FileStamp,
    changed,
    open_regular,
    read_blocks,
    read_config,
    read_json,
    refusal,
    unreadable,
)
from ace_gui.checkpoints.quantised import without_quantisation
from ace_gui.output_files import output_error

# Configs, tokenizers, processors and templates, in formats that are data and nothing else.
_BELONG: Final = (
    *("*.json", "*.jinja", "*.txt", "*.model", "*.spm", "*.tiktoken", "*.bpe", "*.vocab"),
    *("vocab", "vocab.tsv", "entity_vocab.tsv", "bpe.codes", "prophetnet.tokenizer"),
)

_LICENCES: Final = ("license*", "licence*", "copying*", "notice*", "use_policy*")
_LICENCE_SUFFIX: Final = re.compile(r"(\.(md|rst|pdf|\d+))?")
"""Suffixes of a licence that is text; ``LICENSE-2.0`` ends in ``.0``."""

_CODE: Final = (
    *("*.py", "*.py[a-z]", "*.ipynb", "*.so", "*.so.*", "*.dll", "*.dylib", "*.exe", "*.jar"),
    *("*.sh", "*.bash", "*.bat", "*.cmd", "*.ps1", "*.js", "*.mjs", "*.wasm", "*.lua", "*.pl"),
    *("*.c", "*.cpp", "*.cc", "*.h", "*.cu", "*.cuh", "*.rs"),
)

# Files of the weights, of a training run or of an adapter: they do not match merged weights.
_WEIGHTS: Final = (
    *("*.safetensors*", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.gguf", "*.onnx", "*.h5"),
    *("*.msgpack", "*.npz", "*.index.json"),
)
_OF_QUANTISATION: Final = ("quantize_config.json", "quant_config.json", "hf_quant_config.json")
"""What tools of quantisation write beside the weights; merged weights are not quantised."""
_FOREIGN: Final = (
    *(*_WEIGHTS, *_OF_QUANTISATION),
    *("trainer_state.json", "*_results.json", "adapter_*"),
)

# A sub-folder with one of these belongs to a tokenizer, a processor or a scheduler.
_OF_SUB_FOLDERS: Final = (
    *("tokenizer_config.json", "tokenizer.json", "preprocessor_config.json"),
    *("processor_config.json", "scheduler_config.json", "*.jinja"),
)

_MODULES: Final = "modules.safetensors"


@dataclass(frozen=True, kw_only=True)
class SideFiles:
    """``files`` are copied with the weights; each has its path below the folder, as
    ``1_Pooling/x``.

    ``code``: never run and never copied. It also holds files that are named like a vocabulary or a
    licence and are not known to be data. ``outside``: links to files that are not the model's own,
    which are not copied either.
    """

    files: Mapping[str, Path] = field(default_factory=dict)
    code: tuple[Path, ...] = ()
    outside: tuple[Path, ...] = ()


def find_side_files(folder: Path) -> SideFiles:
    """Sort a model folder's files, by name. Raises CheckpointError if it cannot be listed."""
    try:
        names = list(_files(folder))
    except OSError as error:
        raise unreadable(folder, error) from None
    chosen = [name for name in names if belongs(name)]
    if _MODULES in names:  # then the list describes modules of a merge
        chosen = [name for name in chosen if name != MODULES]
    files = {name: folder / name for name in chosen if own_file(folder / name, name)}
    return SideFiles(
        files=files,
        code=tuple(folder / name for name in names if _is_code(name)),
        outside=tuple(folder / name for name in chosen if name not in files),
    )


def belongs(where: str) -> bool:
    """Whether a file is copied with merged weights: an allow-list, by purpose and format.

    ``where``: its name, or its path below the model's folder. Files that are not known to be data
    are not copied, whatever their name is.
    """
    lower = _name(where)
    return (
        not lower.startswith(".")
        and lower != "readme.md"
        and (_matches(lower, _BELONG) or _is_licence(lower))
        and not _matches(lower, (*_FOREIGN, *_CODE))
    )


def copy_side_files(files: Mapping[str, Path], folder: Path) -> None:
    """Copy byte for byte to the same paths below ``folder``, where no such file may exist.

    Raises CheckpointError for a file that cannot be read, is not a regular one or has become a link
    to another folder, OutputError or ResourceError if it cannot be written.
    """
    for name, path in files.items():
        target = folder / name
        with _opened(path, name) as (descriptor, stamp):
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as copy:
                    for block in _blocks(descriptor, stamp):
                        copy.write(block)
            except OSError as error:
                raise output_error(target, error) from None


@contextmanager
def _opened(path: Path, where: str) -> Iterator[tuple[int, FileStamp]]:
    """The model's own file, opened once, without following a link that replaced it."""
    real = own_file(path, where)
    if real is None:
        raise refusal(path, "This link leads out of the model's folder. Put the file itself there.")
    with open_regular(real, follow=False) as (descriptor, stamp):
        if own_file(path, where) != real or not os.path.samestat(
            os.fstat(descriptor), real.lstat()
        ):
            raise changed(path)
        yield descriptor, stamp


def _files(folder: Path) -> Iterator[str]:
    """The names of the folder's files, then those of its sub-folders, ``FOLDER/NAME``."""
    inner = []
    for entry in sorted(folder.iterdir()):
        if entry.is_file():
            yield entry.name
        elif entry.is_dir():
            inner.append(entry.name)
    listed = listed_folders(folder)
    unlisted = [name for name in inner if name not in listed and _is_side_folder(folder / name)]
    for name in (*listed, *unlisted):
        yield from (f"{name}/{file}" for file in _file_names(folder / name))


def _is_side_folder(folder: Path) -> bool:
    """Whether a folder that the model does not list belongs to it, and is no model of its own."""
    if folder.name.startswith(".") or folder.is_symlink() or not os.access(folder, os.R_OK):
        return False
    names = [name.lower() for name in _file_names(folder)]
    return any(_matches(name, _OF_SUB_FOLDERS) for name in names) and not any(
        _matches(name, _WEIGHTS) for name in names
    )


def _file_names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.is_file())


def _blocks(descriptor: int, stamp: FileStamp) -> Iterator[memoryview]:
    try:
        yield from read_blocks(descriptor, stamp.path, 0, stamp.size)
    except OSError as error:
        raise unreadable(stamp.path, error) from None


def _matches(lower: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(lower, pattern) for pattern in patterns)


def _is_licence(lower: str) -> bool:
    suffix = Path(lower).suffix
    return _matches(lower, _LICENCES) and _LICENCE_SUFFIX.fullmatch(suffix) is not None


def _is_code(where: str) -> bool:
    """Whether a file is code, by its suffix, or because only its name is like a side file's."""
    lower = _name(where)
    like_data = _matches(lower, ("vocab.*", *_LICENCES)) and not _matches(lower, _FOREIGN)
    hidden = lower.startswith(".")
    return not hidden and (_matches(lower, _CODE) or (like_data and not belongs(lower)))


def _name(where: str) -> str:
    """The name of the file at a path below the folder, in lower case."""
    return where.rpartition("/")[2].lower()


def own_file(entry: Path, where: str) -> Path | None:
    """The file that ``entry``, at ``where`` below a model's folder, points to, if it is the model's
    own.

    It is in the folder itself, or in the blobs of the Hugging Face cache that the folder is a view
    of. There a model is ``REPOSITORY/snapshots/REVISION/`` with links into ``REPOSITORY/blobs/``.
    """
    depth = where.count("/")
    home = Path(os.path.realpath(entry.parents[depth]))
    real = Path(os.path.realpath(entry))
    if real.parent == (home / where).parent:
        if real.name == entry.name or belongs(real.name):
            return real
        return None
    is_blob = home.parent.name == "snapshots" and real.parent == home.parent.parent / "blobs"
    if is_blob:
        return real
    return None


def set_config_dtype(config: Path, dtype: str | None) -> None:
    """Set the dtype in the config, if the tensors no longer have the base's.

    transformers casts to the dtype of the config on loading, which would undo the user's choice.
    """
    if dtype is None or not config.exists():
        return
    content = read_config(config)
    if not ("model_type" in content or "architectures" in content):  # of another library
        return
    present = [key for key in ("dtype", "torch_dtype") if key in content] or ["dtype"]
    change_json(config, dict.fromkeys(present, dtype))


def without_quantisation_settings(config: Path) -> None:
    """Remove the quantisation settings of a config, as merged weights are not quantised."""
    if not config.exists():
        return
    content = read_config(config)
    if (cleaned := without_quantisation(content)) != content:
        _write_json(config, cleaned)


def change_json(file: Path, changes: Mapping[str, object]) -> None:
    """Set keys of a JSON side file; it is not written if they have these values already."""
    if not changes:
        return
    if file.exists():
        content = read_json(file, limit=JSON_LIMIT)
    else:
        content = {}
    changed = {**content, **changes}
    if changed != content:
        _write_json(file, changed)


def _write_json(file: Path, content: Mapping[str, object]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    # Characters that JSON can only write as an escape stay escaped.
    file.write_bytes(f"{text}\n".encode("utf-8", "backslashreplace"))
