"""Merge methods on families made here: ``python -m tests.benchmarks.families [--strength 1] …``.

Every family is trained from seeds, merged by the real engine, and judged on held-out examples, each
task with its expert's own head. Scores are divided by the expert's: a row says how much a method
keeps of its experts. Standard errors are those of the examples. The last column has the paired
difference to the automatic variant, in standard errors, negative where that one is better. Nothing
was chosen on these families: the variants are tried with the constants they came with.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transformers
from torch import Tensor

from ace_gui.engine.merging.merge import merge
from ace_gui.engine.planning.prepare import prepare
from ace_gui.recipe import ModelEntry, Recipe
from tests.benchmarks.families.zoo import (
    FAMILIES,
    Spec,
    Trained,
    correct,
    loaded,
    pretrain,
    train,
    with_body,
)

EPSILONS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
SCALES = (0.1, 0.2, 0.3, 0.5, 0.8, 1.0)
AUTOMATIC = "ACE automatic"

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "averaging": ("linear", {}),
    "task arithmetic 0.3": ("task_arithmetic", {"scaling": 0.3}),
    "TIES": ("ties", {}),
    "TSV-M": ("tsv_m", {}),
    "Iso-C": ("iso_c", {}),
    "WUDI": ("wudi", {}),
    "ACE 1e-5": ("ace", {"epsilon": 1e-5}),
    "ACE family": ("ace", {}),
    AUTOMATIC: ("ace", {"variant": "automatic"}),
    "ACE automatic, no cap": ("ace", {"variant": "automatic", "delta": 10.0}),
    "ACE automatic, α = 1": ("ace", {"variant": "automatic", "alpha": 1.0}),
}
SEARCHED = {
    "task arithmetic, best": ("task_arithmetic", "scaling", SCALES),
    "ACE, best ε": ("ace", "epsilon", EPSILONS),
}
"""Chosen by looking at the very examples that are reported: what the others are held against."""


@dataclass(frozen=True)
class Score:
    """Of one method on one family: each example right or wrong, and the experts' scores."""

    right: Mapping[str, Tensor]
    experts: Mapping[str, float]

    @property
    def mean(self) -> float:
        """Mean over the tasks of the score by the expert's."""
        return sum(float(r.mean()) / self.experts[t] for t, r in self.right.items()) / len(
            self.right
        )

    @property
    def error(self) -> float:
        """Standard error of ``mean`` over the examples."""
        return _error({t: r / self.experts[t] for t, r in self.right.items()})

    def against(self, other: Score) -> float:
        """Difference to another method on the same examples, in standard errors."""
        gaps = {t: (r - other.right[t]) / self.experts[t] for t, r in self.right.items()}
        mean = sum(float(gap.mean()) for gap in gaps.values()) / len(gaps)
        return mean / (_error(gaps) or math.inf)


def _error(values: Mapping[str, Tensor]) -> float:
    return math.sqrt(sum(float(v.var()) / len(v) for v in values.values())) / len(values)


def judged(trained: Trained, weights: dict[str, Tensor] | None, count: int) -> Mapping[str, Tensor]:
    """Held-out examples of every task; ``weights`` None: each expert on its own."""
    spec = trained.spec
    found = {}
    for task in spec.tasks:
        model = trained.models[task.name]
        model = model if weights is None else with_body(model, weights)
        found[task.name] = correct(model, spec, task, count)
    return found


def merged(
    trained: Trained, method: str, parameters: dict[str, Any], folder: Path
) -> dict[str, Tensor]:
    """The merged weights, by the engine."""
    models = tuple(ModelEntry(model=path) for path in trained.experts.values())
    recipe = Recipe(
        base_model=trained.base, models=models, merge_method=method, parameters=parameters
    )
    for _ in merge(prepare(recipe), folder, device="cpu", as_output=True):
        pass
    return loaded(trained, folder / "model")


def study(spec: Spec, strength: float, count: int) -> dict[str, Score]:
    """Every method on one family."""
    with tempfile.TemporaryDirectory(prefix="ace-families-") as name:
        folder = Path(name)
        trained = train(spec, folder, strength, pretrain(spec.kind))
        own = {t: float(r.mean()) for t, r in judged(trained, None, count).items()}
        base = loaded(trained, trained.base)
        scores = {"base": Score(judged(trained, base, count), own)}
        for label, (method, parameters) in METHODS.items():
            weights = merged(trained, method, parameters, folder / label.replace(" ", "-"))
            scores[label] = Score(judged(trained, weights, count), own)
        for label, (method, parameter, values) in SEARCHED.items():
            tried = []
            for value in values:
                index = folder / f"{method}-{value}"
                tried.append(
                    Score(
                        judged(trained, merged(trained, method, {parameter: value}, index), count),
                        own,
                    )
                )
            scores[label] = max(tried, key=lambda score: score.mean)
        scores["experts"] = Score(judged(trained, None, count), own)
    return scores


def table(found: Mapping[str, Mapping[str, Score]]) -> str:
    """One row a method, one column a family, the mean, and the paired differences."""
    labels = list(next(iter(found.values())))
    lines = ["| method | " + " | ".join(found) + " | mean | against automatic, z by family |"]
    lines.append("|---|" + "---|" * (len(found) + 2))
    for label in labels:
        cells = [
            f"{scores[label].mean:.3f} ± {scores[label].error:.3f}" for scores in found.values()
        ]
        mean = sum(scores[label].mean for scores in found.values()) / len(found)
        gaps = [f"{scores[label].against(scores[AUTOMATIC]):+.1f}" for scores in found.values()]
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {mean:.3f} | {' '.join(gaps)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.families")
    parser.add_argument("--family", action="append", help="only these, by a part of the name")
    parser.add_argument(
        "--strength", type=float, action="append", help="0.5, 1 and 2 where left out"
    )
    parser.add_argument("--examples", type=int, default=1000, help="held out, for each task")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    chosen = [s for s in FAMILIES if not options.family or any(f in s.name for f in options.family)]
    everything = {}
    for strength in options.strength or (1.0, 0.5, 2.0):
        found = {}
        for spec in chosen:
            started = time.monotonic()
            found[spec.name] = study(spec, strength, options.examples)
            print(
                f"{spec.name}, strength {strength:g}: {time.monotonic() - started:.0f} s",
                flush=True,
            )
        print(f"\nstrength {strength:g}\n\n{table(found)}\n", flush=True)
        everything[str(strength)] = {
            name: {label: [score.mean, score.error] for label, score in scores.items()}
            for name, scores in found.items()
        }
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
