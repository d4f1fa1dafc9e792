"""Load a model folder with transformers, to check an export and to evaluate it."""

from __future__ import annotations

import json
from collections.abc import Mapping
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

    @property
    def clean(self) -> bool:
        """Whether every tensor was assigned."""
        return not (self.missing or self.unexpected or self.mismatched)


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
