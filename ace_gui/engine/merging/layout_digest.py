"""A digest of how a plan reads its tensors. A merge can only be resumed with the same digest."""

from __future__ import annotations

import hashlib
from typing import Protocol

from ace_gui.checkpoints import Checkpoint, ExpandedCheckpoint
from ace_gui.checkpoints.composed import ComposedCheckpoint
from ace_gui.checkpoints.extended_vocabulary import ExtendedCheckpoint, Source
from ace_gui.engine.planning.prepare import Prepared


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


def layout_digest(prepared: Prepared) -> str:
    """Digest of names, formats, shapes and file offsets of tensors, adapter scales and row orders.

    Together with the bytes in the files it determines what is merged. File size and modification
    time alone do not show every change of a header or a tokenizer.
    """
    digest = hashlib.sha256()
    for model in (prepared.base, *prepared.experts):
        _add(digest, sorted(model.own_names.items()))
        _add_offsets(digest, model.checkpoint)
        for name, rows in sorted(model.token_rows.items()):
            _add(digest, name)
            digest.update(rows.tobytes())
    return digest.hexdigest()


def _add_offsets(digest: _Digest, checkpoint: Checkpoint) -> None:
    _add(digest, sorted(checkpoint.tensors.items()))
    if isinstance(checkpoint, ExpandedCheckpoint):
        _add(digest, sorted(checkpoint.deltas.items()))
        _add(digest, sorted(checkpoint.beneath.items()))
        _add_offsets(digest, checkpoint.base)
    if isinstance(checkpoint, ComposedCheckpoint):
        models = {id(each.checkpoint): each.checkpoint for each in checkpoint.sources.values()}
        numbers = {key: number for number, key in enumerate(models)}
        sources = sorted(checkpoint.sources.items())
        _add(digest, [(name, numbers[id(s.checkpoint)], s.name) for name, s in sources])
        for model in models.values():
            _add_offsets(digest, model)
    if isinstance(checkpoint, ExtendedCheckpoint):
        _add_offsets(digest, checkpoint.base)
        for name, extension in sorted(checkpoint.extensions.items()):
            _add(digest, name)
            for source in (extension.own, *extension.sources):
                _add_source(digest, source)


def _add_source(digest: _Digest, source: Source | None) -> None:
    if source is not None:
        _add(digest, (source.owner, source.name))
        digest.update(source.rows.tobytes())


def _add(digest: _Digest, value: object) -> None:
    digest.update(repr(value).encode("utf-8", "surrogatepass"))
