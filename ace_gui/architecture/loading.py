"""Models, tokenizers and image processors from folders, by transformers; no code is run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ace_gui.architecture import transformers_library
from ace_gui.errors import CheckpointError
from ace_gui.formatting import path_text

GENERATION: Final = "generation_config.json"


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """Names that the model misses, names that it does not know, and names of another shape."""

    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    mismatched: tuple[str, ...] = ()


def load_pretrained(
    folder: Path,
    config: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Any] | None = None,
) -> tuple[Any, LoadReport]:
    """The model in ``folder``, in evaluation mode on the CPU, and what did not fit.

    ``config``: another config.json than the folder's; ``tensors``: others, by their names in files,
    than the folder's. The class is that of the config's
    ``architectures``; weights come from safetensors files only,
    nothing from the network, and no code of the folder is run. CheckpointError where the folder
    has no usable config or weights, ArchitectureError where transformers has no such model.
    """
    given = read_config(folder) if config is None else config
    model_class, built = transformers_library.model_and_config(given)
    # Each model class fails in its own way, with errors of any type.
    try:
        with transformers_library.quiet():
            model, info = model_class.from_pretrained(
                None if tensors is not None else folder,
                config=built,
                state_dict=None if tensors is None else dict(tensors),
                local_files_only=True,
                use_safetensors=True,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
            if tensors is not None and (folder / GENERATION).is_file():
                ends = transformers_library.transformers().GenerationConfig
                model.generation_config = ends.from_pretrained(folder, local_files_only=True)
    except Exception as error:
        name = model_class.__name__
        sentence = f"{path_text(folder)} cannot be loaded as {name}; check the folder's files."
        raise CheckpointError(
            transformers_library.failure(error, name, sentence),
            path=folder,
            details=f"{type(error).__name__}: {error}",
        ) from error
    return model, LoadReport(
        missing=tuple(sorted(info["missing_keys"])),
        unexpected=tuple(sorted(info["unexpected_keys"])),
        mismatched=tuple(sorted(key[0] for key in info["mismatched_keys"])),
    )


def read_config(folder: Path) -> dict[str, Any]:
    """What config.json of a folder holds. Raises CheckpointError."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} cannot be read; a model folder needs a config.json.",
            path=path,
            details=str(error),
        ) from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{path} is not a JSON object; download it again.", path=path)
    return config


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
    folder = next((f for f in folders if any((f / name).is_file() for name in files)), None)
    if folder is None:
        raise CheckpointError(
            f"{path_text(folders[0])} has no {what}; copy {files[0]} of its base model into it.",
            path=folders[0],
        )
    # Each class fails in its own way, with errors of any type.
    try:
        with transformers_library.quiet():
            return getattr(transformers_library.transformers(), loader).from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:
        raise CheckpointError(
            transformers_library.failure(
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
    limits = [tokenizer.model_max_length] if tokenizer.model_max_length < 1_000_000 else []
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
