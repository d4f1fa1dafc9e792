"""What the engine found out about single layers, as far as it is remembered."""

from __future__ import annotations

from typing import Final, TypeVar

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.events import LayerDistribution, LayerSubspaces
from ace_gui.gui.state import RecipeKey

FINDINGS_KEPT: Final = 200

Finding = LayerSubspaces | LayerDistribution
_F = TypeVar("_F", LayerSubspaces, LayerDistribution)


class Findings(QObject):
    """The latest findings by kind, layer and what they depend on. ``changed`` carries the layer."""

    changed = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._known: dict[tuple[type, str, RecipeKey], Finding] = {}

    def record(self, key: RecipeKey, finding: Finding) -> None:
        """Remember a finding; the oldest is forgotten where there are too many."""
        self._known[type(finding), finding.name, key] = finding
        while len(self._known) > FINDINGS_KEPT:
            del self._known[next(iter(self._known))]
        self.changed.emit(finding.name)

    def get(self, kind: type[_F], name: str, key: RecipeKey) -> _F | None:
        """The finding of this kind on a layer, if it is remembered."""
        found = self._known.get((kind, name, key))
        return found if isinstance(found, kind) else None

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
