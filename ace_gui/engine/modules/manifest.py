"""``modules.json``: describes the modules of a merged folder; it is checked before use.

::

    schema      1
    kind        how a model uses them (``ModuleKind``)
    method      the merge method, and
    settings      its parameters
    experts     their names, in order
    hashes      SHA-256 of modules.safetensors, and of the weights that they belong to
    base        SHA-256 of the base's tensors that modules change; null if there are none

The tensors themselves are in ``modules.safetensors`` (``stored``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from ace_gui.checkpoints.input_files import read_json, refusal
from ace_gui.checkpoints.side_files import own_file
from ace_gui.engine.streaming import sha256
from ace_gui.errors import CheckpointError
from ace_gui.formatting import plain
from ace_gui.methods.shared.expert_modules import ModuleKind
from ace_gui.output_files import replacing

STEM: Final = "modules"
MODULES: Final = f"{STEM}.safetensors"
MANIFEST: Final = f"{STEM}.json"
SCHEMA: Final = 1
_LIMIT: Final = 1 << 20


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, kw_only=True)
class ModulesManifest:
    """The content of ``modules.json``."""

    kind: ModuleKind
    method: str
    settings: Mapping[str, float | int | bool | str]
    experts: tuple[str, ...]
    hashes: Mapping[str, str]
    base: str | None = None
    schema: int = SCHEMA


_MANIFEST: Final = TypeAdapter(ModulesManifest)


def has_modules(folder: Path) -> bool:
    """Whether a folder is a merged model with modules.

    A ``modules.json`` alone may be that of sentence-transformers.
    """
    return (folder / MODULES).is_file() and (folder / MANIFEST).is_file()


def write_manifest(folder: Path, manifest: ModulesManifest) -> None:
    """Write ``modules.json`` in one step. Raises OSError."""
    text = json.dumps(asdict(manifest), indent=1, ensure_ascii=False)
    with replacing(folder / MANIFEST) as fresh:
        fresh.write_text(text, encoding="utf-8")


def read_manifest(folder: Path) -> ModulesManifest:
    """The checked ``modules.json`` of a merged folder. Raises CheckpointError."""
    for name in (MANIFEST, MODULES):
        if (folder / name).exists() and own_file(folder / name, name) is None:
            sentence = "This link leads out of the merged folder. Put the file itself there."
            raise refusal(folder / name, sentence)
    content = read_json(folder / MANIFEST, limit=_LIMIT)
    schema = content.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):
        raise _damaged(folder, f"is of schema {schema!r}, which this program does not know")
    try:
        manifest = _MANIFEST.validate_json(json.dumps(content), strict=True)
    except (ValidationError, ValueError, RecursionError) as error:
        failure = _damaged(folder, "does not describe the modules")
        failure.details = str(error)
        raise failure from None
    names = manifest.experts
    if not all(names) or len(set(names)) < len(names) or MODULES not in manifest.hashes:
        raise _damaged(folder, "does not name the experts of the modules, or lacks a hash")
    return manifest


def require_hashes(folder: Path, manifest: ModulesManifest) -> None:
    """Raises CheckpointError if modules or weights differ from those written together."""
    for name, digest in manifest.hashes.items():
        path = folder / name
        inside = not set(name) & set("/\\") and path.is_file() and own_file(path, name)
        if not inside or sha256(path) != digest:
            raise refusal(
                folder,
                f"{plain(name)} is not the file that {MANIFEST} belongs to; merge again.",
            )


def _damaged(folder: Path, what: str) -> CheckpointError:
    return refusal(folder / MANIFEST, f"{MANIFEST} {what}; merge again.")
