"""Finds the files of weights in a model folder, and the parts of a model in several folders.

Diffusers pipelines and modules of sentence-transformers keep each part in a sub-folder, listed in a
file of the main folder. That file is untrusted: its names are joined to the folder only after a
check that they stay in it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from ace_gui.checkpoints.gguf import SUFFIX as GGUF_SUFFIX
from ace_gui.checkpoints.input_files import (
    read_json,
    read_json_value,
    refusal,
    status_of,
    unreadable,
)
from ace_gui.checkpoints.quantised import ADAPTER_SENTENCE
from ace_gui.errors import CheckpointError, PickleConsentError
from ace_gui.formatting import listing, path_text

SUFFIX: Final = ".safetensors"
INDEX_SUFFIX: Final = ".safetensors.index.json"

# In the order of preference: transformers, diffusers, open_clip.
STEMS: Final = ("model", "diffusion_pytorch_model", "open_clip_model")
_VARIANT: Final = re.compile(
    rf"(?P<stem>{'|'.join(STEMS)})"
    r"(?:\.(?P<single>(?!safetensors)\w+)\.safetensors|\.safetensors\.index\.\w+\.json)$"
)
_PICKLE_SUFFIXES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
# The names in safetensors of a pickle's files.
_PICKLE_STEMS: Final = {
    "pytorch_model": "model",
    "diffusion_pytorch_model": "diffusion_pytorch_model",
    "open_clip_pytorch_model": "open_clip_model",
}
_SHARD: Final = re.compile(r"-\d+-of-\d+\.\w+$")

_OTHER_FRAMEWORKS: Final = (".h5", ".msgpack", ".onnx", ".npz", ".keras", ".tflite")

# Files that trainers write into the same folder.
_OF_TRAINING: Final = re.compile(
    r"(training_args|optimizer|scheduler|scaler|rng_state|random_states|trainer_state)"
)

ADAPTER_CONFIG: Final = "adapter_config.json"
ADAPTER_FILE: Final = "adapter_model.safetensors"
PICKLED_ADAPTER: Final = "adapter_model.bin"
ADAPTER_FILES: Final = (ADAPTER_FILE, PICKLED_ADAPTER)

MODEL_FILES: Final = (
    *(stem + end for stem in STEMS for end in (SUFFIX, INDEX_SUFFIX)),
    *(stem + end for stem in _PICKLE_STEMS for end in (".bin", ".bin.index.json")),
)
"""The names of a whole model's weights, or of their index."""

PICKLE_SENTENCE: Final = (
    "It is not read unless you agree, because a pickle can run code. It can be converted to "
    "safetensors once, and nothing in it is run for that."
)


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A single file of weights, or the index of several.

    ``stem``: what a merged file is called without ``.safetensors``, so that the library which wrote
    this one finds it.
    """

    path: Path
    is_index: bool
    stem: str = "model"
    warnings: tuple[str, ...] = ()


def find_weights(folder: Path, chosen: str | None = None) -> Weights:
    """Choose as transformers does: a single file before an index.

    Raises CheckpointError, also for a whole model beside an adapter, unless the person opened the
    file ``chosen``: from the folder, transformers would load the adapter on its base.
    """
    names = _names(folder)
    if chosen:
        beside = None
    else:
        beside = adapter_and_model(names)
    if beside is not None:
        adapter, model = beside
        raise refusal(
            folder,
            f"Holds an adapter ({adapter}) and a whole model ({model}). To take the model, open "
            f"the file {model}; to take the adapter, name the model that it is on (`on: MODEL`), "
            "or move its two files into a folder of their own.",
        )
    singles = [name for name in names if name.endswith(SUFFIX)]
    indices = [name for name in names if name.endswith(INDEX_SUFFIX)]
    for stem in STEMS:
        single = stem + SUFFIX
        index = stem + INDEX_SUFFIX
        if single in names:
            warnings = _unread(single, index, names)
            return Weights(path=folder / single, is_index=False, stem=stem, warnings=warnings)
        if index in names:
            return Weights(path=folder / index, is_index=True, stem=stem)
    if variant := _only_variant(folder, names):
        return variant
    if ADAPTER_CONFIG in names:
        raise refusal(folder, ADAPTER_SENTENCE)
    if len(indices) == 1:
        return Weights(path=folder / indices[0], is_index=True)
    if len(singles) == 1 and not _SHARD.search(singles[0]):
        return Weights(path=folder / singles[0], is_index=False)
    raise _no_weights(folder, names, singles)


def adapter_and_model(names: Collection[str]) -> tuple[str, str] | None:
    """The files of an adapter and of a whole model in one folder; None if it has not both."""
    adapters = [name for name in ADAPTER_FILES if name in names]
    model_files = [name for name in MODEL_FILES if name in names]
    if ADAPTER_CONFIG in names and adapters and model_files:
        return adapters[0], model_files[0]
    return None


def _only_variant(folder: Path, names: Sequence[str]) -> Weights | None:
    """Weights of diffusers and transformers under a variant's name, if there is only one."""
    matches = [(name, match) for name in names if (match := _VARIANT.match(name))]
    if len(matches) != 1:
        return None
    name, match = matches[0]
    return Weights(
        path=folder / name,
        is_index=match["single"] is None,
        stem=match["stem"],
        warnings=(
            f"Only the variant {name} is here; a merged model has the usual name instead, without "
            "a variant.",
        ),
    )


def find_pickled_weights(folder: Path) -> Weights | None:
    """The pickles that hold a folder's weights, None if there are none.

    Known names come first, then a pickle that is the only one. Raises CheckpointError if there are
    several models, or shards without their index.
    """
    names = _names(folder)
    if ADAPTER_CONFIG in names and PICKLED_ADAPTER in names:
        return Weights(path=folder / PICKLED_ADAPTER, is_index=False)
    for pickled, stem in _PICKLE_STEMS.items():
        if (single := f"{pickled}.bin") in names:
            return Weights(path=folder / single, is_index=False, stem=stem)
        if (index := f"{pickled}.bin.index.json") in names:
            return Weights(path=folder / index, is_index=True, stem=stem)
    pickles = [name for name in names if is_pickle(name) and not _OF_TRAINING.match(name)]
    if len(pickles) == 1 and not _SHARD.search(pickles[0]):
        return Weights(path=folder / pickles[0], is_index=False)
    if pickles and all(_SHARD.search(name) for name in pickles):
        raise refusal(folder, "The shards' index is missing. Download it into the folder.")
    if pickles:
        raise refusal(folder, f"Holds several pickles: {listing(pickles)}. Open one of the files.")
    return None


def is_pickle(name: str) -> bool:
    """Whether a file of this name is a PyTorch pickle."""
    return name.lower().endswith(_PICKLE_SUFFIXES)


def nested_models(folder: Path) -> tuple[Path, ...]:
    """Subfolders that hold weights and that no list of parts names: ``vision_model/``.

    Each is a separate model, which is opened and merged by itself. Raises CheckpointError if the
    folder cannot be listed.
    """
    return tuple(folder / name for name in _names(folder) if holds_weights(folder / name))


def find_gguf(folder: Path) -> Path | None:
    """The only GGUF file of a folder that has no other weights. Raises CheckpointError."""
    names = _names(folder)
    files = [name for name in names if name.lower().endswith(GGUF_SUFFIX)]
    if len(files) != 1 or any(_is_weights(name) or is_pickle(name) for name in names):
        return None
    return folder / files[0]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from None


def _unread(single: str, index: str, names: Sequence[str]) -> tuple[str, ...]:
    """Warnings about other weight files in the folder of the file that is read."""
    if index in names:
        return (f"Holds both {single} and {index}; {single} is read, as transformers does.",)
    unread = [name for name in names if name.endswith(SUFFIX) and name != single]
    if unread:
        return (f"Only {single} is read, not {listing(unread)}.",)
    return ()


def _no_weights(folder: Path, names: Sequence[str], singles: Sequence[str]) -> CheckpointError:
    """The error for a folder without a safetensors model, which names what it holds instead."""
    if not names:
        return refusal(folder, "The folder is empty. Choose the folder of a model.")
    if singles and all(_SHARD.search(name) for name in singles):
        return refusal(
            folder, f"The shards' index is missing. Download `model{INDEX_SUFFIX}` into the folder."
        )
    if singles:
        return refusal(folder, f"Holds several models: {listing(singles)}. Open one of the files.")
    if pickled := find_pickled_weights(folder):
        return consent_needed(folder, f"Holds a PyTorch pickle ({listing([pickled.path.name])}).")
    if gguf := [name for name in names if name.lower().endswith(GGUF_SUFFIX)]:
        sentence = "Open one of them. Join the parts of one with `llama-gguf-split --merge`."
        return refusal(folder, f"Holds several GGUF files: {listing(gguf)}. {sentence}")
    if foreign := [name for name in names if name.lower().endswith(_OTHER_FRAMEWORKS)]:
        sentence = "of TensorFlow, Flax or ONNX. Merging needs the safetensors weights instead."
        return refusal(folder, f"Holds only weights ({listing(foreign)}) {sentence}")
    if inner := [path.name for path in nested_models(folder)]:
        return refusal(
            folder,
            f"No weights here, only in {listing(inner)}. Open one of these: each is a model.",
        )
    return refusal(
        folder, "No weights here. A model folder holds `model.safetensors`, or shards and an index."
    )


def holds_weights(path: Path) -> bool:
    """Whether ``path`` is a folder with files of weights in it, by their names."""
    try:
        return path.is_dir() and any(_is_weights(entry.name) for entry in path.iterdir())
    except OSError:
        return False


def _is_weights(name: str) -> bool:
    return name.endswith(SUFFIX) or (
        name.startswith(tuple(_PICKLE_STEMS)) and name.endswith(".bin")
    )


def consent_needed(path: Path, what: str) -> PickleConsentError:
    """The error for a pickle ``what``, with the possible ways forward."""
    return PickleConsentError(f"{path_text(path)}: {what} {PICKLE_SENTENCE}", path=path)


def refuse_other_file(path: Path) -> None:
    """Raise CheckpointError for a file that cannot be a model on its own, by its name."""
    status_of(path)
    name = path.name.lower()
    if is_pickle(name):
        raise consent_needed(path, "This is a PyTorch pickle.")
    if name.endswith(_OTHER_FRAMEWORKS):
        raise refusal(
            path,
            "This is a file of TensorFlow, Flax or ONNX. Merging needs the safetensors weights "
            "instead.",
        )
    if name.endswith(".json"):
        raise refusal(path, "This is not a file of weights. Open the folder it is in.")


PIPELINE: Final = "model_index.json"
"""Diffusers' list of parts: name → library and class, both null for a part left out."""

MODULES: Final = "modules.json"
"""Sentence-transformers' list of modules in order, each with its ``path``."""

ROUTER: Final = "router_config.json"
"""Sentence-transformers' file for a choice between modules: ``types`` by sub-folder."""

MAIN: Final = ""
"""The name of the part in the main folder. An ordinary model has only this one."""

_LIMIT: Final = 1_000_000
_DEEPEST: Final = 3


@dataclass(frozen=True, kw_only=True)
class ModelPart:
    """One of the models in a checkpoint.

    ``stem``: what its file of weights is called without ``.safetensors``. ``config``: its
    config.json as plain JSON, None without one.
    """

    stem: str = "model"
    config: Mapping[str, object] | None = None


def full_name(part: str, tensor: str) -> str:
    """The name of a part's tensor in the checkpoint: ``unet/conv_in.weight``."""
    if part:
        return f"{part}/{tensor}"
    return tensor


def part_of(name: str, parts: Collection[str]) -> str:
    """The part that a tensor of the checkpoint belongs to, by its name."""
    matches = [part for part in parts if part and name.startswith(f"{part}/")]
    return max(matches, key=len, default=MAIN)


def listed_folders(folder: Path) -> tuple[str, ...]:
    """The existing sub-folders in a model's lists, and folders in these: ``unet``, ``0_A/b``.

    Raises CheckpointError for a list that cannot be read, or a name that leads out of the folder.
    """
    folders: dict[str, None] = {}
    try:
        for name in (*_pipeline_parts(folder), *_modules(folder)):
            if (folder / name).is_dir():
                folders |= dict.fromkeys(_with_inner(folder, name))
    except OSError as error:
        raise unreadable(folder, error) from None
    return tuple(folders)


def holds_model(folder: Path) -> bool:
    """Whether a folder has weights by their names, in itself or in a part that it lists."""
    try:
        return holds_weights(folder) or any(
            holds_weights(folder / name) for name in listed_folders(folder)
        )
    except CheckpointError:
        return False


def _pipeline_parts(folder: Path) -> Iterator[str]:
    path = folder / PIPELINE
    if path.is_file():
        for name, kind in read_json(path, limit=_LIMIT).items():
            if isinstance(kind, list) and any(isinstance(item, str) for item in kind):
                yield _plain(path, name)


def _modules(folder: Path) -> Iterator[str]:
    path = folder / MODULES
    if path.is_file():
        content = read_json_value(path, limit=_LIMIT)
    else:
        content = None
    for module in content if isinstance(content, list) else ():
        if isinstance(module, dict):
            name = module.get("path")
        else:
            name = None
        if name == "":
            yield from _routes(folder)
        elif isinstance(name, str):
            yield _plain(path, name.rstrip("/"))


def _routes(folder: Path) -> Iterator[str]:
    path = folder / ROUTER
    if path.is_file():
        types = read_json(path, limit=_LIMIT).get("types")
    else:
        types = None
    for name in types if isinstance(types, dict) else ():
        yield _plain(path, name)


def _plain(path: Path, name: str) -> str:
    """``name`` from the list at ``path``. Raises CheckpointError if it may leave the folder."""
    parts = name.split("/")
    plain = name.isprintable()  # which also excludes lone surrogates
    for part in parts:
        if not part or part.startswith((".", "~")) or set(part) & set('\\:*?"<>|'):
            plain = False
    home = path.parent
    inside = plain and (home / name).resolve() == home.resolve() / name
    if not inside or len(parts) > _DEEPEST:
        raise refusal(
            path, "Names a folder outside the model's. Refused: the model may be malicious."
        )
    return name


def _with_inner(folder: Path, name: str) -> Iterator[str]:
    """A sub-folder and the folders in it, except links."""
    yield name
    if len(PurePosixPath(name).parts) < _DEEPEST:
        for inner in sorted((folder / name).iterdir()):
            if inner.is_dir() and not inner.is_symlink() and not inner.name.startswith("."):
                yield from _with_inner(folder, f"{name}/{inner.name}")
