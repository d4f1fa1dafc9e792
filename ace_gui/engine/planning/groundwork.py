"""What is found out about the models of a plan before its tensors are merged."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ace_gui.engine.contract.plan import Check
from ace_gui.methods.shared.measured import Need
from ace_gui.methods.shared.survey import Findings

if TYPE_CHECKING:
    from ace_gui.engine.calibrating.statistics_folder import Statistics


@dataclass(kw_only=True)
class Groundwork:
    """What surveys, measurements and learning found, and is not found again.

    Each field is filled by the room that its docstring names. On a worker of a cluster,
    ``cluster.worker`` fills them with what it is sent.
    """

    findings: dict[tuple[str, Any], Findings] = field(default_factory=dict)
    """Findings on the whole model, by method and parameters. By ``merging.surveying``."""

    surveys: dict[Hashable, Findings] = field(default_factory=dict)
    """Findings of single surveys, shared by recipes that differ only in method and parameters.
    By ``merging.surveying``."""

    measurements: dict[Need, tuple[Statistics, ...]] = field(default_factory=dict)
    """Statistics of the experts' data, one for each expert. By ``calibrating.calibrate``."""

    learned: dict[Need, tuple[Statistics, ...]] = field(default_factory=dict)
    """What methods learned from the experts' data, one for all experts. By ``merging.learn``."""

    distances: list[Check] = field(default_factory=list)
    """Checks of the experts' distances from the base. By ``merging.surveying``."""

    @property
    def statistics(self) -> Mapping[Need, tuple[Statistics, ...]]:
        """What was measured and learned, by need."""
        return {**self.measurements, **self.learned}

    def forget_statistics(self) -> None:
        """Forget what was measured and learned, because the data may have changed since."""
        self.measurements.clear()
        self.learned.clear()
