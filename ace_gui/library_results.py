"""What the library's functions return: values, and tables of them for notebooks.

Tables are of pandas, which is not required otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ace_gui.engine.contract.distilled import Distilled
from ace_gui.engine.contract.events import MethodCompared
from ace_gui.engine.contract.findings import CovarianceMatch
from ace_gui.engine.contract.plan import Check, Plan
from ace_gui.engine.contract.sanity import SanityResult
from ace_gui.engine.contract.scored import MeanScore, TaskScore, Tuned, means
from ace_gui.engine.inspecting.statistics import Layer
from ace_gui.recipe import Recipe


@dataclass(frozen=True, kw_only=True, repr=False)
class Inspection:
    """``layers``: one per tensor, in the plan's order. ``checks``: worst first. ``covariances``:
    one per matrix and expert, if requested.
    """

    layers: tuple[Layer, ...]
    checks: tuple[Check, ...]
    plan: Plan
    covariances: tuple[CovarianceMatch, ...] = ()

    def __repr__(self) -> str:
        worries = sum(check.is_worry for check in self.checks)
        return f"<Inspection: {len(self.layers)} tensors, {worries} warnings>"

    def to_frame(self) -> Any:
        """The layers as a pandas DataFrame; ImportError where pandas is not installed."""
        import pandas as pd

        return pd.DataFrame([layer.record() for layer in self.layers])


@dataclass(frozen=True, kw_only=True)
class MergeResult:
    """The result of ``merge``."""

    folder: Path
    """The output."""
    seconds: float
    """The time of merging."""
    warnings: tuple[str, ...]
    """About the merge as a whole."""
    files: tuple[str, ...]
    """The output's files, by their path in it."""
    notes: tuple[str, ...] = ()
    """About the workers of a cluster."""
    distilled: Distilled | None = None
    """What aligning the merge with its experts gave; None if it was not aligned."""
    sanity: SanityResult | None = None
    """What the sanity check gave; None if none was made."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluation:
    """``scores``: one per model and task; first the base, then experts, then the folders."""

    scores: tuple[TaskScore, ...]

    def __repr__(self) -> str:
        models = dict.fromkeys(score.model for score in self.scores)
        tasks = dict.fromkeys(score.task for score in self.scores)
        return f"<Evaluation: {len(models)} models on {len(tasks)} tasks>"

    @property
    def means(self) -> tuple[MeanScore, ...]:
        """For every model, the mean score and the mean share of the experts' scores."""
        return means(self.scores)

    def to_frame(self) -> Any:
        """One row per model and task, as a pandas DataFrame: the fields of ``evaluate --json``."""
        import pandas as pd

        return pd.DataFrame([score.record() for score in self.scores])


@dataclass(frozen=True, kw_only=True, repr=False)
class Tuning:
    """``recipe``: has the chosen values, and the values that follow from the base model.

    ``result``: every merge that was tried, and scores of the original and the chosen recipe on the
    half of the data that was not searched.
    """

    recipe: Recipe
    result: Tuned

    def __repr__(self) -> str:
        return f"<Tuning: {dict(self.result.best.parameters)} of {len(self.result.points)} merges>"

    @property
    def evaluation(self) -> Evaluation:
        """The original and the chosen recipe, scored on the half of the data not searched."""
        return Evaluation(scores=self.result.compared)

    def to_frame(self) -> Any:
        """One row per merge that was tried, as a pandas DataFrame.

        The columns are the parameters (one each), score, seconds, error, chosen.

        >>> tuned = ace_gui.tune(sample, {"scaling": (0.5, 1.0)}, merges=2, limit=8)
        >>> tuned.to_frame()["scaling"].tolist()
        [0.5, 1.0]
        """
        import pandas as pd

        best = self.result.best
        rows = []
        for point in self.result.points:
            row = {**point.parameters, "score": point.score, "seconds": point.seconds}
            row |= {"error": point.error, "chosen": point is best}
            rows.append(row)
        return pd.DataFrame(rows)


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """``rows``: one per merge, in the requested order. A failed merge has its reason in
    ``error``.
    """

    rows: tuple[MethodCompared, ...]

    def __repr__(self) -> str:
        failed = sum(bool(row.error) for row in self.rows)
        return f"<Comparison: {len(self.rows)} merges, {failed} failed>"

    def to_frame(self) -> Any:
        """One line per merge and task, as a pandas DataFrame. Raises ImportError without pandas.

        The columns are title, method, the parameters of the method (one each), relative_norm,
        distance, cosine, warned, seconds, peak_bytes and error. Tasks add the columns task, metric,
        score, n, standard_error and normalised.

        >>> ace_gui.compare(recipe, methods=["linear", "ties"]).to_frame()["method"].tolist()
        ['linear', 'ties']
        """
        import pandas as pd

        return pd.DataFrame(list(chain.from_iterable(map(_tidy, self.rows))))


def _tidy(row: MethodCompared) -> list[dict[str, Any]]:
    cosines = list(row.cosines.values())
    figures: dict[str, Any] = {
        "title": row.title,
        "method": row.variant.recipe.merge_method,
        **row.parameters,
        "relative_norm": row.relative_norm,
        "distance": row.mean_distance,
        "cosine": sum(cosines) / len(cosines) if cosines else None,
        "warned": row.warned,
        "seconds": row.seconds,
        "peak_bytes": row.peak_bytes,
        "error": row.error,
    }
    names = ("task", "metric", "score", "n", "standard_error", "normalised")
    scores = [score.record() for score in row.scores]
    return [figures | {name: record[name] for name in names} for record in scores] or [figures]
