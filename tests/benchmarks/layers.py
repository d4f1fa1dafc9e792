"""One layer at a time: the published procedure, ours, and the time its products alone must take.

O outputs, I inputs, T experts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from ace_gui.linalg.products import add_product_
from ace_gui.machine import free_memory
from ace_gui.methods.ace import AceParameters, ace_batch
from ace_gui.methods.ace.closed_form import few_experts
from ace_gui.methods.ace.reference import reference_ace
from ace_gui.methods.method import MethodInput
from ace_gui.methods.shared.experts import Merged
from ace_gui.methods.shared.tolerance import STRICT, tolerance_of_experts
from tests.benchmarks.experts import norms, task_vector

EPSILON = {"hom.": 1e-5, "hom. ε=4e-2": 4e-2, "het.": 1e-5, "hom. bf16": 1e-5, "het. bf16": 1e-5}
"""ε by kind of row: with the paper's value for GPT-2 the sums fit into float32."""

NORM = 0.3
"""Of the largest task vector, Frobenius."""

BASE_NORM = 10 * NORM
"""Of the base's weights where these are bfloat16."""

HEADER = (
    f"{'layer':>11} {'T':>3} {'B':>3}  {'regime':<12} {'numbers':<8} {'literal s':>10} "
    f"{'ours s':>9} {'floor s':>9} {'literal/ours':>13} {'ours/floor':>11} {'rounds':>7}"
)


def shapes(text: str) -> list[tuple[int, int]]:
    """``3072x768,768x768`` on the command line: outputs × inputs."""
    pairs = (shape.split("x") for shape in text.split(","))
    return [(int(outputs), int(inputs)) for outputs, inputs in pairs]


def integers(text: str) -> list[int]:
    """``4,8`` on the command line."""
    return [int(number) for number in text.split(",")]


@dataclass(frozen=True, kw_only=True)
class LayerCase:
    """One row of the table. ``together``: layers that ours merges at once."""

    outputs: int
    inputs: int
    experts: int
    kind: str
    together: int = 1

    @property
    def title(self) -> str:
        size = f"{self.outputs:>5}×{self.inputs:<5} {self.experts:>3}"
        return f"{size} {self.together:>3}  {self.kind:<12}"

    @property
    def heterogeneous(self) -> bool:
        return self.kind.startswith("het.")

    @property
    def rounded(self) -> bool:
        """Whether base and experts are bfloat16."""
        return self.kind.endswith("bf16")

    @property
    def parameters(self) -> AceParameters:
        return AceParameters(epsilon=EPSILON[self.kind], tau=0.0 if self.heterogeneous else 100.0)


@dataclass(frozen=True, kw_only=True)
class LayerTimes:
    """One row of the table: medians, in seconds a layer."""

    case: LayerCase
    """What was merged."""
    literal: float | None
    """The published procedure's time; None where it is left out."""
    ours: float
    """Our time."""
    floor: float
    """The time of the products alone, at the rate of this machine."""
    numbers: str
    """In which ours computes: float64 or float32."""
    rounds: int
    """How often each was timed."""

    def line(self) -> str:
        """Under ``HEADER``."""
        literal = "-" if self.literal is None else f"{self.literal:.3f}"
        ratio = "-" if self.literal is None else f"{self.literal / self.ours:.2f}"
        return (
            f"{self.case.title} {self.numbers:<8} "
            f"{literal:>10} {self.ours:>9.3f} {self.floor:>9.3f} {ratio:>13} "
            f"{self.ours / self.floor:>11.2f} {self.rounds:>7}"
        )


class Rounded(Sequence[Tensor]):
    """Task vectors of bfloat16 experts, widened and subtracted at each use, as a merge does."""

    def __init__(self, base: Tensor, experts: Sequence[Tensor]) -> None:
        self._base = base.float()
        self._experts = experts

    def __len__(self) -> int:
        return len(self._experts)

    def __getitem__(self, index):
        return self._experts[index].float().sub_(self._base)


def deltas_of(case: LayerCase, device: torch.device) -> Sequence[Tensor]:
    generator = torch.Generator().manual_seed(0)
    ratio = 20.0 if case.heterogeneous else 1.0
    deltas = [
        task_vector(case.outputs, case.inputs, norm, generator).to(device)
        for norm in norms(case.experts, NORM, ratio)
    ]
    if not case.rounded:
        return deltas
    base = torch.randn(case.outputs, case.inputs, generator=generator).to(device)
    base = base.mul_(BASE_NORM / float(base.norm())).bfloat16()
    return Rounded(base, [(base.float() + delta).bfloat16() for delta in deltas])


def products(case: LayerCase) -> tuple[float, float]:
    """FLOPs of the necessary products over the experts, and of what comes after.

    A symmetric product counts half. Eigenvalues, copies and additions do not count.
    """
    o = case.outputs
    i = case.inputs
    t = case.experts
    stacked = few_experts((o, i), t)
    if stacked:
        sums = (t * o) ** 2 * i
        after = (t * o) ** 3 / 3 + 2 * o * (t * o) ** 2 + 2 * t * o**2 * i
    else:
        sums = t * o * i**2 + min(2 * (t - 1) * o * i**2, 3 * t * o**2 * i)
        after = i**3 / 3 + 2 * o * i**2
    if case.heterogeneous:
        small = min(o, i)
        after += 4 * t * o**2 * i if stacked else 2 * o * i**2
        after += small * o * i + 2 * 0.3 * small * 2 * o * i
    return float(sums), float(after)


def least_seconds(case: LayerCase, rate: float) -> float:
    """About what one round takes, warm-up and literal procedure included; ``rate`` in float64."""
    o = case.outputs
    i = case.inputs
    literal = case.experts * (8 if case.heterogeneous else 6) * o * i**2 / 2  # at twice the rate
    decomposed = 20 * min(o, i) ** 2 * max(o, i) if case.heterogeneous else 0
    return (1.5 * (literal + decomposed) + 4 * case.together * sum(products(case))) / rate


@dataclass(frozen=True, kw_only=True)
class Stopwatch:
    """Seconds on ``device``, read from ``clock``."""

    device: torch.device
    clock: Callable[[], float] = time.perf_counter

    def __call__(self, run: Callable[[], object]) -> float:
        self._wait()
        started = self.clock()
        run()
        self._wait()
        return self.clock() - started

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def measure(case: LayerCase, seconds: Stopwatch, rounds: int, patience: float) -> LayerTimes:
    """Alternate the contestants; fewer rounds where one round outlasts ``patience`` seconds.

    The rates of products are measured between them.
    """
    deltas = deltas_of(case, seconds.device)
    weights = [1.0] * len(deltas)
    parameters = case.parameters
    tolerance = STRICT
    if case.rounded:
        tolerance = tolerance_of_experts([torch.bfloat16] * len(deltas), weights, BASE_NORM)
    layer = MethodInput(deltas, weights, None, tolerance)

    def literal() -> object:
        return reference_ace(list(deltas), epsilon=parameters.epsilon, tau=parameters.tau)

    def ours() -> list[Merged]:
        return ace_batch([layer] * case.together, parameters)

    contestants: list[Callable[[], object]] = [ours]
    if _literal_fits(case, seconds.device):
        contestants.append(literal)
    times: list[list[float]] = [[] for _ in contestants]
    floors: list[float] = []
    numbers = _numbers(ours()[0])  # warm-up
    dtype = torch.float64 if numbers == "float64" else torch.float32
    solving = torch.float32 if numbers == "float32" else torch.float64
    started = time.perf_counter()
    while len(floors) < rounds and (not floors or time.perf_counter() - started < patience):
        sums, after = products(case)
        floors.append(sums / rate(dtype, seconds) + after / rate(solving, seconds))
        for lengths, contestant in zip(times, contestants, strict=True):
            lengths.append(seconds(contestant))
    medians = [statistics.median(lengths) for lengths in times]
    return LayerTimes(
        case=case,
        literal=medians[1] if len(medians) > 1 else None,
        ours=medians[0] / case.together,
        floor=statistics.median(floors),
        numbers=numbers,
        rounds=len(floors),
    )


def rate(dtype: torch.dtype, seconds: Stopwatch, size: int = 1536) -> float:
    """FLOPs a second of a square matrix product as ours takes it, the best of three."""
    factor = torch.randn(size, size, dtype=dtype, device=seconds.device)
    total = torch.zeros_like(factor)
    return 2 * size**3 / min(seconds(lambda: add_product_(total, factor, factor)) for _ in range(3))


def _numbers(merged: Merged) -> str:
    """Of its sentence on them what matters."""
    return "float64" if "float64" in merged.diagnostics.precision else "float32"


def _literal_fits(case: LayerCase, device: torch.device) -> bool:
    """It holds 2T + 6 matrices I × I in float32 at a time."""
    needed = 4 * (2 * case.experts + 6) * case.inputs**2
    if device.type == "cuda":
        return needed < torch.cuda.mem_get_info(device)[0]
    return needed < free_memory()


def cases(
    shapes: list[tuple[int, int]], counts: list[int], kinds: list[str], together: list[int]
) -> Iterator[LayerCase]:
    for (outputs, inputs), experts, kind, layers in product(shapes, counts, kinds, together):
        yield LayerCase(outputs=outputs, inputs=inputs, experts=experts, kind=kind, together=layers)
