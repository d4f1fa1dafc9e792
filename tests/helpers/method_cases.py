"""Experts that methods are tried on: random, low-rank, duplicate, zero, alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ace_gui.methods import METHODS, Merged, MergeMethod, checked_parameters
from ace_gui.methods.shared.expert_modules import learns
from ace_gui.methods.shared.measured import Measured, Need
from ace_gui.methods.shared.survey import (
    Findings,
    RandomKey,
    Range,
    SurveyContext,
    findings_of_tensors,
)
from tests.helpers.ace_cases import low_rank_deltas, random_deltas, spread
from tests.helpers.method_oracles import relative_error

Array = NDArray[np.float64]


def matrix_cases() -> dict[str, Array]:
    """(T, m, n) each, exactly representable in float32."""
    alike = random_deltas(2, 12, 18, 0.5, 5)
    opposed = random_deltas(1, 9, 7, 0.3, 6)[0]
    cases = {
        "wide": random_deltas(3, 12, 30, spread(3, 10), 0),
        "square": random_deltas(5, 24, 24, 0.2, 1),
        "tall": random_deltas(4, 30, 12, spread(4, 100), 2),
        "many": random_deltas(20, 16, 20, 0.05, 3),
        "low-rank": low_rank_deltas(3, 20, 26, 2, spread(3, 5), 4),
        "duplicate": np.array([alike[0], alike[0], alike[1]]),
        "only-duplicates": np.array([alike[0], alike[0]]),
        "one-zero": np.array([alike[0], np.zeros((12, 18)), alike[1]]),
        "all-zero": np.zeros((3, 6, 8)),
        "opposed": np.array([opposed, -opposed, 0.5 * opposed[::-1]]),
        "single": random_deltas(1, 10, 14, 0.4, 7),
        "single-low-rank": low_rank_deltas(1, 10, 14, 3, 0.4, 8),
        "one-row": random_deltas(3, 1, 11, 0.4, 9),
    }
    return {name: deltas.astype(np.float32).astype(np.float64) for name, deltas in cases.items()}


def tensor_cases() -> dict[str, Array]:
    """The matrices, and tensors of other shapes, with equal magnitudes among them."""
    rng = np.random.default_rng(10)
    cases = {
        "scalar": rng.standard_normal(3),
        "vector": rng.standard_normal((4, 17)),
        "convolution": rng.standard_normal((3, 4, 3, 2, 2)),
        "equal-magnitudes": np.round(rng.standard_normal((4, 9, 11)) * 2) / 2,
        "single-entry": rng.standard_normal((3, 1)),
    }
    cases = {name: deltas.astype(np.float32).astype(np.float64) for name, deltas in cases.items()}
    return matrix_cases() | cases


def random_key(T: int, seed: int = 0, tensor: str = "layer.weight") -> RandomKey:
    return RandomKey(tensor=tensor, experts=tuple(f"expert-{t}" for t in range(T)), seed=seed)


def base_of(shape: Sequence[int]) -> Array:
    """Whole weights of a base, exactly representable in float32."""
    rng = np.random.default_rng(11)
    return np.asarray(rng.standard_normal(shape), np.float32).astype(np.float64)


def needs_data(method: MergeMethod[Any]) -> bool:
    """Whether it cannot be tried, with its defaults, without data."""
    return method.need(checked_parameters(method, {})) is not None or learns(method.modules)


def in_weights(method: MergeMethod[Any]) -> bool:
    """Whether it needs no data, and leaves what the experts share in the merged weights."""
    return not needs_data(method) and method.name != "smile"


def gram_of(delta: Array) -> Array:
    """A Gram matrix of inputs that goes with an expert, whatever the scale of its change."""
    delta = np.where(np.isfinite(delta), delta, 0)
    inputs = delta.shape[-1]
    energy = float((delta**2).sum())
    gram = delta.T @ delta * (inputs / energy) if energy else np.zeros((inputs, inputs))
    return np.asarray(gram + 0.5 * np.eye(inputs), np.float32).astype(np.float64)


def information_of(delta: Array) -> Array:
    """Fisher information that goes with an expert, entry by entry, whatever its scale."""
    return np.asarray(1.5 + np.sign(delta))


def measured_with(need: Need | None, deltas: Sequence[torch.Tensor]) -> Measured | None:
    """What a method needs of these experts' data."""
    if need is None:
        return None
    ones = (1.0,) * len(deltas)
    if need is Need.GRADIENTS:
        information = [torch.from_numpy(information_of(delta.double().numpy())) for delta in deltas]
        return Measured(
            by_expert=[values.float() for values in information], norms=ones, means=ones
        )
    grams = [torch.from_numpy(gram_of(delta.double().numpy())).float() for delta in deltas]
    centres = [torch.full((delta.shape[-1],), 0.1) for delta in deltas]
    return Measured(by_expert=grams, centres=centres, norms=ones, means=ones)


def surveyed_model(
    method: MergeMethod[Any], parameters: Any, tensors: Sequence[Sequence[torch.Tensor]]
) -> Findings | None:
    """The findings of a method's surveys of a model; None if it needs none."""
    experts = len(tensors[0])
    if not method.needs_model(parameters, experts):
        return None
    survey_context = SurveyContext.of_model(parameters, experts)
    for declared in method.surveys_over(Range.MODEL, parameters):
        survey = declared.due(survey_context)
        if survey is not None:
            survey_context = declared.context_with(
                survey_context, findings_of_tensors(survey, tensors)
            )
    return survey_context.findings


def context(
    method: MergeMethod[Any], deltas: Sequence[torch.Tensor], parameters: Any = None
) -> dict[str, Any]:
    """The usual place, and a survey of these task vectors, for methods that need them."""
    arguments: dict[str, Any] = {"random_key": random_key(len(deltas))} if method.seeded else {}
    if len(deltas):
        arguments["base"] = torch.tensor(base_of(deltas[0].shape), dtype=torch.float32)
    checked = checked_parameters(method, {}) if parameters is None else parameters
    if len(deltas):
        arguments["findings"] = surveyed_model(method, checked, [deltas])
    need = method.need(checked)
    if method.learning is not None:
        arguments["measured"] = begun(method, deltas, checked, arguments.get("findings"))
    elif need is not None:
        arguments["measured"] = measured_with(need, deltas)
    return arguments


def begun(
    method: MergeMethod[Any],
    deltas: Sequence[torch.Tensor],
    parameters: Any,
    findings: Findings | None = None,
) -> Measured:
    """The values with which a method begins to learn."""
    learning = method.learning
    values: dict[str, torch.Tensor] = {}
    if learning.shared is not None:
        values |= learning.shared(parameters, len(deltas))
    if learning.per_expert:
        reported = [
            {n: (values[t],) for n, values in (findings or {}).items()} for t in range(len(deltas))
        ]
        starts = [
            learning.start([delta], parameters, report)
            for delta, report in zip(deltas, reported, strict=True)
        ]
        values |= (
            {name: torch.cat([start[name] for start in starts]) for name in starts[0]}
            if starts
            else {}
        )
    elif len(deltas):
        values |= learning.start(deltas, parameters, findings)
    settled = {name: learning.stored_form(value) for name, value in values.items()}
    return Measured(values=settled, expert_count=len(deltas))


def run(
    name: str, deltas: Array, *, weights: Sequence[float] | None = None, **parameters: Any
) -> Merged:
    """A registered method on float32 task vectors, in the usual place."""
    method = METHODS[name]
    tensors = [torch.tensor(delta, dtype=torch.float32) for delta in deltas]
    factors = [1.0] * len(tensors) if weights is None else list(weights)
    checked = checked_parameters(method, parameters)
    return method.merge(tensors, factors, checked, **context(method, tensors, checked))


def merged(name: str, deltas: Array, **options: Any) -> Array:
    return run(name, deltas, **options).delta.double().numpy()


def experts(T: int, m: int = 12, n: int = 15, seed: int = 0) -> Array:
    """Full-rank matrices whose norms differ by a factor of three."""
    return random_deltas(T, m, n, spread(T, 3), seed).astype(np.float32).astype(np.float64)


def orthogonal(size: int, seed: int) -> Array:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]


def norm(matrix: Array, kind: str = "fro") -> float:
    return float(np.linalg.norm(matrix, kind))


def assert_close(actual: Array, expected: Array, tolerance: float = 1e-5) -> None:
    assert relative_error(actual, expected) <= tolerance
