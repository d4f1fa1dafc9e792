"""The models that a mergekit file names, and where they are."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from ace_gui.recipe.mergekit.schema import ModelPath, Reference
from ace_gui.recipe.model_paths import ModelPaths, block_count

Folders = tuple[Path, Path | None]
"""The folders of a model and of the adapter on it; None without an adapter."""


@dataclass(frozen=True, kw_only=True)
class ReferencedModels:
    """Finds the models of a file."""

    paths: ModelPaths
    """Finds folders and models in the cache."""
    notes: list[str] = field(default_factory=list)
    """What was left out, a sentence each."""

    def path(self, model: ModelPath) -> Path:
        """A local folder, which has no revision, or else a model in the cache at its revision.

        The name of a local folder may itself look like ``path@revision``.
        """
        full_name_exists = os.path.lexists(self.paths.folder / str(model))
        path_exists = os.path.lexists(self.paths.folder / model.path)
        if model.revision and path_exists:
            self.notes.append(
                f"A local folder has no revisions: {model.revision!r} of {model.path!r} is left "
                "out."
            )
        if path_exists and not full_name_exists:
            return self.paths(model.path)
        return self.paths(str(model))

    def folders_of(self, reference: Reference) -> Folders:
        """The folders of a model and of the adapter on it. Notes what is left out."""
        if reference.override_architecture:
            self.notes.append(
                "'override_architecture' is left out: tensors are matched by their names."
            )
        adapter = None
        if reference.lora is not None:
            adapter = self.path(reference.lora)
        return self.path(reference.model), adapter

    def blocks(self, reference: Reference) -> int | None:
        """The number of blocks of a model; None if its config does not have it."""
        without_notes = replace(self, notes=[])  # ``path`` notes what is left out
        path = without_notes.path(reference.model)
        if path.is_dir():
            return block_count(path)
        return block_count(path.parent)  # a file of weights, beside its config
