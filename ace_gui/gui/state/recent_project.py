"""A recent project, and its state when it was closed."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ace_gui.gui.state.found.runs import mean_score
from ace_gui.gui.state.session import Session

_KINDS: Final[dict[str, type | tuple[type, ...]]] = {
    "architecture": str,
    "method": str,
    "colours": list,
    "bytes": int,
    "is_merged": bool,
    "is_exported": bool,
    "mean": float,
    "left": (int, float),
}
_LARGEST: Final = 2.0**50
"""Limit of times in seconds since 1970 and of bytes; larger values mean a damaged record."""


@dataclass(frozen=True, kw_only=True)
class RecentProject:
    """``path`` is its recipe. The other fields keep their defaults if nothing was recorded.

    ``colours``: palette indices of its experts. ``bytes``: of all its models. ``mean``: score of
    its merge. ``left``: time of closing, seconds since 1970.
    """

    path: Path
    architecture: str = ""
    method: str = ""
    colours: tuple[int, ...] = ()
    bytes: int = 0
    is_merged: bool = False
    is_exported: bool = False
    mean: float | None = None
    left: float = 0.0

    @classmethod
    def of(cls, session: Session, path: Path) -> RecentProject:
        """The record of the open project, whose recipe is in ``path``."""
        draft, plan, merge = session.draft, session.draft.plan, session.results.merge
        models = (plan.base, *plan.experts) if plan is not None else ()
        finished = merge if session.results.is_merged else None
        return cls(
            path=path,
            architecture=plan.base.architecture if plan is not None else "",
            method=draft.method.title if draft.method is not None else draft.inputs.method,
            colours=tuple(expert.colour for expert in draft.planned.experts),
            bytes=sum(model.bytes for model in models),
            is_merged=finished is not None,
            is_exported=finished is not None and finished.exported,
            mean=mean_score(finished) if finished is not None else None,
            left=time.time(),
        )

    @classmethod
    def from_record(cls, path: Path, record: object) -> RecentProject:
        """From the output of ``record``; invalid values are skipped."""
        fields = record if isinstance(record, dict) else {}
        known: dict[str, Any] = {
            name: fields[name]
            for name, kind in _KINDS.items()
            if isinstance(fields.get(name), kind)
        }
        for name in ("left", "bytes"):
            if not 0 <= known.get(name, 0) < _LARGEST:
                del known[name]
        colours = (index for index in known.pop("colours", ()) if isinstance(index, int))
        return cls(path=path, colours=tuple(colours), **known)

    def record(self) -> dict[str, object]:
        """All fields but the path, for JSON."""
        fields = asdict(self)
        del fields["path"]
        return fields
