"""What turns texts and pictures into a model's inputs: tokenizer and image processor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ace_gui.architecture import transformers_library
from ace_gui.errors import CheckpointError
from ace_gui.formatting import path_text

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
