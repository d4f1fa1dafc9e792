"""Memory for learning, and for training the modules stored with the merged weights.

Activations of a batch depend on the inputs and are not counted. T experts.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.planning.expert_files import module_rows
from ace_gui.methods.method import MergeMethod
from ace_gui.methods.shared.expert_modules import ModuleKind, by_entries, kind_of, learns

FLOAT32: Final = 4
FLOAT64: Final = 8

LEAST_KEPT: Final = 128_000_000
SHARE_KEPT: Final = 0.5
"""Multiple of the model's bytes that cached task vectors and inputs may use, if that is more."""

COPIES: Final = 5
"""Copies of a learned number: itself, its gradient, two moments, and the best value so far."""

AT_ONCE: Final = 4
"""Tensors of the largest shape held during a step."""

DECOMPOSED: Final = 6
"""Float64 tensors of a matrix's shape held during its decomposition."""


def kept_bytes(model: int) -> int:
    """Bytes that cached task vectors and inputs may use for a model of this size."""
    return max(LEAST_KEPT, int(SHARE_KEPT * model))


def learning_bytes(rows: tuple[PlanRow, ...], method: MergeMethod[Any], parameters: object) -> int:
    """Estimated peak while the recipe's method learns; 0 if it does not learn."""
    return max(_learned(rows, method), _modules(rows, method, parameters))


def _learned(rows: tuple[PlanRow, ...], method: MergeMethod[Any]) -> int:
    """One model with its gradients, the cached tensors, and the learned numbers."""
    learning = method.learning
    if learning is None:
        return 0
    model, merged = _model(rows), [row for row in rows if _is_merged(row)]
    numbers = sum(learning.numbers(row.shape, len(row.experts)) for row in merged)
    at_once = max((prod(row.shape) for row in merged), default=0) * FLOAT32 * AT_ONCE
    steps = 2 * model + kept_bytes(model) + FLOAT32 * COPIES * numbers + at_once
    return max(steps, 0 if learning.factors is None else _decomposed(merged))


def _modules(rows: tuple[PlanRow, ...], method: MergeMethod[Any], parameters: object) -> int:
    """The decomposition of the largest matrix, or the models with which modules are trained."""
    modules = method.modules
    if modules is None:
        return 0
    own = module_rows(rows, method)
    trained = 2 * _model(rows) if learns(modules) else 0  # and one while it is loaded
    if kind_of(modules) is ModuleKind.BLOCKS:  # all experts' blocks
        trained += FLOAT32 * sum(prod(row.shape) * len(row.experts) for row in own)
    return max(trained, 0 if by_entries(modules, parameters) else _decomposed(own))


def _decomposed(rows: list[PlanRow]) -> int:
    matrices = [prod(row.shape) for row in rows if len(row.shape) == 2]
    return DECOMPOSED * FLOAT64 * max(matrices, default=0)


def _model(rows: tuple[PlanRow, ...]) -> int:
    """Bytes of the base's tensors, each counted once."""
    shapes = {row.tensor: row.tensor_shape for row in rows if row.in_base and row.tied_to is None}
    return FLOAT32 * sum(map(prod, shapes.values()))


def _is_merged(row: PlanRow) -> bool:
    return row.disposition is Disposition.MERGED and row.tied_to is None
