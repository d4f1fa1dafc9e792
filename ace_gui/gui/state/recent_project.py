"""A project that was open lately, and what it was like when it was left."""

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
"""Seconds since 1970, or bytes, beyond which a record is damaged."""


@dataclass(frozen=True, kw_only=True)
class RecentProject:
    """``path``: its recipe. The rest stays as it is here where nothing was noted.

    ``colours``: places of its experts in the palette. ``bytes``: of all its models. ``mean``: score
    of its merge. ``left``: when, seconds since 1970.
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
        """What is open now, whose recipe is in ``path``."""
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
        """As ``record`` gave it; what is not of its kind is left out."""
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
        """All but the path, for JSON."""
        fields = asdict(self)
        del fields["path"]
        return fields
