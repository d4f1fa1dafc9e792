"""The models in the local Hugging Face cache, by name.

This never uses the network. huggingface_hub is imported on use, because it brings an HTTP client
with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ace_gui.checkpoints.parts import holds_model

if TYPE_CHECKING:
    from huggingface_hub import CachedRevisionInfo


@dataclass(frozen=True, kw_only=True)
class CachedModel:
    """One revision of a model in the cache.

    ``name`` as on the hub (``org/model``); ``revision``: its branch or tag, or the first digits of
    its commit. ``folder`` can be opened as a checkpoint; ``bytes`` are those of all its files.
    """

    name: str
    revision: str
    folder: Path
    bytes: int


def cache_folder() -> Path:
    """The cache of this machine: that of ``HF_HUB_CACHE`` or ``HF_HOME``, or the usual one."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def cached_models(folder: Path | None = None) -> tuple[CachedModel, ...]:
    """Every model of the cache that has weights, by name, newest revision first.

    ``folder``: the cache, where it is not ``cache_folder()``. Entries that huggingface_hub finds
    corrupt are left out; where it cannot scan the cache at all, there are no models.
    """
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        found = scan_cache_dir(folder or cache_folder())
    except (CacheNotFound, OSError, ValueError):
        return ()
    models = [
        (repo.repo_id, -revision.last_modified, _model(repo.repo_id, revision))
        for repo in found.repos
        if repo.repo_type == "model"
        for revision in repo.revisions
        if holds_model(revision.snapshot_path)
    ]
    return tuple(model for _, _, model in sorted(models, key=lambda item: item[:2]))


def _model(name: str, revision: CachedRevisionInfo) -> CachedModel:
    return CachedModel(
        name=name,
        revision=", ".join(sorted(revision.refs)) or revision.commit_hash[:8],
        folder=revision.snapshot_path,
        bytes=revision.size_on_disk,
    )
