"""The only access to transformers: imported on first use, offline, quiet, its own classes only.

Models, tokenizers and image processors are loaded from folders; no code in these is run.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ace_gui.architecture.limited_process import last_line
from ace_gui.errors import ArchitectureError, CheckpointError
from ace_gui.formatting import path_text, plain
from ace_gui.processes import go_offline

# Keys that would load code or kernels that do not ship with transformers, or quantise modules. A
# description does not need them.
_NEVER_USED = frozenset(
    (
        *("auto_map", "attn_implementation", "_attn_implementation", "experts_implementation"),
        *("_experts_implementation", "quantization_config", "torch_dtype", "dtype"),
        *("name_or_path", "_name_or_path", "use_pretrained_backbone", "pretrained"),
        *("checkpoint_path",),
    )
)
TOO_DEEP = "The config is nested too deeply; check config.json."
_COUNT = re.compile(r"layer|depth|block|expert|stage|stack|head|label", re.IGNORECASE)
_NO_COUNT = re.compile(r"vocab|size|dim|length|positions|2id$|2label$", re.IGNORECASE)
_LARGEST_COUNT = 100_000  # ImageNet-21k has 21 841 labels, the deepest models some hundred layers
_LARGEST_DEPTH = 4096

# The only key of an object with which transformers writes a number that JSON lacks.
_FLOAT_KEY = "__float__"
_FLOATS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}

_OPTIONAL = ("torchvision", "torchaudio")
"""Libraries with compiled parts that must fit torch; transformers imports them if they exist."""

_log = logging.getLogger(__name__)

_REQUIRED = re.compile(r"requires the (\S+) library")


def transformers() -> ModuleType:
    """The library, set offline before it is first imported."""
    go_offline()
    if "transformers" not in sys.modules:
        for name in _OPTIONAL:
            _hide_if_broken(name)
    return importlib.import_module("transformers")


def _hide_if_broken(name: str) -> None:
    """Make an installed library that cannot be imported look like one that is not installed.

    A torchvision that was built for another torch would otherwise stop all of transformers.
    """
    if importlib.util.find_spec(name) is None:
        return
    try:
        importlib.import_module(name)
    except Exception as error:
        for part in [module for module in sys.modules if module.partition(".")[0] == name]:
            del sys.modules[part]
        sys.modules[name] = None  # type: ignore[assignment]
        _log.warning(
            "%s cannot be imported (%s), and is not used; install the build that fits torch.",
            name,
            last_line(error),
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the library's warnings and progress bars off stderr."""
    logging = transformers().utils.logging
    verbosity = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def model_and_config(config: Mapping[str, object]) -> tuple[type[Any], Any]:
    """The model class for a plain ``config.json``, and its config object.

    ``architectures[0]`` if it is a class of the library that fits the config, else the base model
    of its ``model_type``. Uses neither disk nor network and runs only the library's code. Raises
    ArchitectureError if the library has no such model or rejects the config.
    """
    try:
        check_counts(config)
        parts = _plain(config)
    except RecursionError as error:
        raise ArchitectureError(TOO_DEEP) from error
    named = _named_class(config)
    if named is not None and (part := _part_for(named, parts)) is not None:
        return named, _config_object(named.config_class, part)
    config_class = _config_class(config.get("model_type"))
    model_class = _base_class(config_class)
    return model_class, _config_object(config_class, parts)


def check_counts(config: object, key: str = "") -> None:
    """Raise ArchitectureError for counts that no model has; building one would not end."""
    if isinstance(config, Mapping):
        for name, value in config.items():
            if not _NO_COUNT.search(str(name)):
                check_counts(value, str(name))
    elif isinstance(config, list):
        for value in config:
            check_counts(value, key)
    elif isinstance(config, int) and _COUNT.search(key) and config > _largest(key):
        raise ArchitectureError(
            f"The config asks for {plain(key)} = {plain(str(config))}, more than any model has; "
            "check config.json.",
            key=key,
        )


def _largest(key: str) -> int:
    return _LARGEST_DEPTH if re.search(r"layers?$|blocks?$|depth", key) else _LARGEST_COUNT


def _plain(value: Any) -> Any:
    """A deep copy of plain JSON without the keys that are never used, infinities as numbers."""
    if isinstance(value, Mapping):
        if len(value) == 1:
            tag = value.get(_FLOAT_KEY)
        else:
            tag = None
        if isinstance(tag, str) and tag in _FLOATS:
            return _FLOATS[tag]
        return {k: _plain(v) for k, v in value.items() if k not in _NEVER_USED}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def failure(error: Exception, class_name: str, otherwise: str) -> str:
    """The sentence for an error of a class: the package it lacks, or else ``otherwise``."""
    if not isinstance(error, ImportError):
        return otherwise
    match = _REQUIRED.search(str(error))
    if match:
        package = match.group(1)
    else:
        package = error.name
    if package is None:
        return otherwise
    return f"{class_name} needs the Python package {package}, which is not installed here."


def _named_class(config: Mapping[str, object]) -> type[Any] | None:
    """``architectures[0]`` if it is a model that ships with the library."""
    names = config.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        return None
    library = transformers()
    try:
        model_class = getattr(library, names[0])
    except (AttributeError, ImportError, RuntimeError):
        return None
    is_model = isinstance(model_class, type) and issubclass(model_class, library.PreTrainedModel)
    return model_class if is_model and getattr(model_class, "config_class", None) else None


_HEADS_OF_TASKS: Final = {
    "SEQ_CLS": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING",
    "TOKEN_CLS": "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING",
}
"""By PEFT's ``task_type``: transformers' table of the classes with such a head."""


def class_with_head(model_type: object, task_type: object) -> str:
    """The class of a kind of model with the head of PEFT's ``task_type``; empty if unknown."""
    table = _HEADS_OF_TASKS.get(str(task_type))
    if table is None:
        return ""
    try:
        model_class = getattr(transformers(), table)[_config_class(model_type)]
    except (KeyError, ArchitectureError):
        return ""
    return str(model_class.__name__)


def _part_for(model_class: type[Any], config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The config, or the part of it, that is for this class; None if there is none.

    CLIPVisionModel, for example, is also found in the folder of a whole CLIP model.
    """
    model_type = model_class.config_class.model_type
    if "model_type" not in config:  # configs of 2019 name the class only
        return config
    parts = [config, *(part for part in config.values() if isinstance(part, Mapping))]
    return next((part for part in parts if part.get("model_type") == model_type), None) or next(
        (config[key] for key in [model_class.config_class.base_config_key] if key in config), None
    )


def _config_class(model_type: object) -> type[Any]:
    library = transformers()
    if not isinstance(model_type, str) or model_type not in library.CONFIG_MAPPING:
        raise ArchitectureError(
            f"transformers {library.__version__} has no model of type {plain(repr(model_type))}.",
            key="model_type",
        )
    config_class: type[Any] = library.CONFIG_MAPPING[model_type]
    return config_class


def _base_class(config_class: type[Any]) -> type[Any]:
    library = transformers()
    try:
        mapped: Any = library.MODEL_MAPPING[config_class]
    except KeyError as error:
        raise ArchitectureError(
            f"transformers {library.__version__} has no base model for "
            f"{config_class.__name__}; name the model class in the config's architectures.",
            key="architectures",
        ) from error
    base: type[Any] = mapped[0] if isinstance(mapped, tuple) else mapped
    return base


def _config_object(config_class: type[Any], config: Mapping[str, Any]) -> Any:
    # Each config class refuses bad values in its own way, with errors of any type.
    try:
        with quiet():
            return config_class.from_dict(dict(config))
    except Exception as error:
        name = config_class.__name__
        raise ArchitectureError(
            failure(error, name, f"{name} refuses the config; check the values in config.json."),
            details=f"{type(error).__name__}: {error}",
        ) from error


GENERATION: Final = "generation_config.json"


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """Names that the model misses, names that it does not know, and names of another shape."""

    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    mismatched: tuple[str, ...] = ()


def load_pretrained(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Any] | None = None
) -> tuple[Any, LoadReport]:
    """The model in ``folder``, in evaluation mode on the CPU, and what did not fit.

    ``config``: the folder's config.json, or another. ``tensors``: to use instead of the folder's,
    by their names in files. The class is that of the config's ``architectures``; weights come from
    safetensors files only, nothing from the network, and no code of the folder is run. Raises
    CheckpointError for unusable weights, ArchitectureError where transformers has no such model.
    """
    model_class, config_object = model_and_config(config)
    # Each model class fails in its own way, with errors of any type.
    try:
        with quiet():
            model, info = model_class.from_pretrained(
                None if tensors is not None else folder,
                config=config_object,
                state_dict=None if tensors is None else dict(tensors),
                local_files_only=True,
                use_safetensors=True,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
            if tensors is not None and (folder / GENERATION).is_file():
                generation = transformers().GenerationConfig
                model.generation_config = generation.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        name = model_class.__name__
        sentence = f"{path_text(folder)} cannot be loaded as {name}; check the folder's files."
        raise CheckpointError(
            failure(error, name, sentence), path=folder, details=f"{type(error).__name__}: {error}"
        ) from error
    return model, LoadReport(
        missing=tuple(sorted(info["missing_keys"])),
        unexpected=tuple(sorted(info["unexpected_keys"])),
        mismatched=tuple(sorted(key[0] for key in info["mismatched_keys"])),
    )


_TOKENIZERS: Final = (
    *("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "spiece.model"),
    *("tokenizer.model", "sentencepiece.bpe.model"),
)
_PROCESSORS: Final = ("preprocessor_config.json", "processor_config.json")


def load_tokenizer(folders: Sequence[Path]) -> Any:
    """The tokenizer of the first folder that has one. No code of the folder is run.

    Raises CheckpointError if there is none, or it cannot be read.
    """
    return _load("AutoTokenizer", "tokenizer", folders, _TOKENIZERS)


def has_chat_template(folders: Sequence[Path]) -> bool:
    """Whether the tokenizer of these folders has a chat template. Raises CheckpointError."""
    return bool(getattr(load_tokenizer(folders), "chat_template", None))


def load_image_processor(folders: Sequence[Path]) -> Any:
    """The image processor of the first folder that has one; else as ``load_tokenizer``."""
    return _load("AutoImageProcessor", "image processor", folders, _PROCESSORS)


def _load(loader: str, what: str, folders: Sequence[Path], files: Sequence[str]) -> Any:
    folder = None
    for candidate in folders:
        if any((candidate / name).is_file() for name in files):
            folder = candidate
            break
    if folder is None:
        raise CheckpointError(
            f"{path_text(folders[0])} has no {what}; copy {files[0]} of its base model into it.",
            path=folders[0],
        )
    # Each class fails in its own way, with errors of any type.
    try:
        with quiet():
            return getattr(transformers(), loader).from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:
        raise CheckpointError(
            failure(
                error,
                f"The {what}",
                f"The {what} in {path_text(folder)} cannot be read; copy it again.",
            ),
            path=folder,
            details=f"{type(error).__name__}: {error}",
        ) from error


def longest_input(tokenizer: Any, config: Any) -> int | None:
    """Maximum number of tokens per input, from tokenizer and config; None: unlimited.

    Positions of RoBERTa's family begin after its padding token.
    """
    if tokenizer.model_max_length < 1_000_000:
        limits = [tokenizer.model_max_length]
    else:
        limits = []
    config = getattr(config, "text_config", None) or config
    positions = getattr(config, "max_position_embeddings", None) or getattr(
        config, "n_positions", None
    )
    if isinstance(positions, int) and positions > 0:
        offset = _offset(config)
        limits.append(positions - offset)
    return min(limits, default=None)


_AFTER_PADDING: Final = frozenset(
    ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer", "ibert")
)


def _offset(config: Any) -> int:
    if config.model_type not in _AFTER_PADDING:
        return 0
    padding = getattr(config, "pad_token_id", None)
    return (padding if isinstance(padding, int) else 1) + 1
