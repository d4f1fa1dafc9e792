"""The engine's findings about single layers, with limited memory."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, TypeVar

from PySide6.QtCore import QObject, Signal

from ace_gui.engine.contract.figures.covariance_match import CovarianceMatch, LayerCovariances
from ace_gui.engine.contract.figures.findings import (
    ExpertSpectra,
    LayerDistribution,
    LayerSpectrum,
    LayerSubspaces,
)
from ace_gui.gui.state.activity import RecipeKey

FINDINGS_KEPT: Final = 100
"""Number of findings kept per kind."""

Finding = ExpertSpectra | LayerSpectrum | LayerSubspaces | LayerDistribution | LayerCovariances
_F = TypeVar(
    "_F", ExpertSpectra, LayerSpectrum, LayerSubspaces, LayerDistribution, LayerCovariances
)


class Findings(QObject):
    """The latest findings by kind, layer and inputs. ``changed`` carries the layer.

    The matches of all compared covariances are kept, for one set of models and inputs.
    """

    changed = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._matches_key: RecipeKey = ()
        self._matches: dict[str, tuple[CovarianceMatch, ...]] = {}
        self._known: defaultdict[type, dict[tuple[str, RecipeKey], Finding]] = defaultdict(dict)

    def record(self, key: RecipeKey, finding: Finding) -> None:
        """Record a finding, and drop the oldest of its kind if there are too many."""
        known = self._known[type(finding)]
        known[finding.name, key] = finding
        if isinstance(finding, LayerCovariances):
            if key != self._matches_key:
                self._matches_key, self._matches = key, {}
            self._matches[finding.name] = finding.matches
        while len(known) > FINDINGS_KEPT:
            del known[next(iter(known))]
        self.changed.emit(finding.name)

    def matches(self, key: RecipeKey) -> dict[str, tuple[CovarianceMatch, ...]]:
        """How well ACE's covariances match the inputs of these models, by matrix; one entry per
        expert."""
        return self._matches if key == self._matches_key else {}

    def get(self, kind: type[_F], name: str, key: RecipeKey) -> _F | None:
        """The finding of this kind for a layer, or None."""
        found = self._known[kind].get((name, key))
        return found if isinstance(found, kind) else None

    def clear(self) -> None:
        self._known.clear()
