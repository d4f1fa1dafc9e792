"""The least processor time of a merge on this machine: what every figure stands beside.

Importing torch, the products that must be done at the machine's own rate, and one pass over all
bytes that are read and written at the speed of a copy. All three are measured in the same run. A
ratio to another program says as much about that program's library as about ours.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open

from tests.benchmarks import layers, measuring
from tests.benchmarks.literal_merge import AVERAGED, CONV1D
from tests.benchmarks.measuring import Run

COPIED = 1 << 28
"""Bytes of the copy whose speed is measured."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """One measurement of the machine, by processor time."""

    start: float
    """Seconds to import torch."""

    products: float
    """Operations a second of products in float32."""

    copies: float
    """Bytes a second."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Processor seconds that no program could save."""

    start: float
    products: float
    copies: float

    @property
    def seconds(self) -> float:
        return self.start + self.products + self.copies

    def beside(self, runs: Sequence[Run]) -> str:
        """The median of the runs by this bound, and what the bound consists of."""
        measured = statistics.median(run.processor_seconds for run in runs)
        return (
            f"{measured / self.seconds:.2f} × its bound of {self.seconds:.1f} s processor: "
            f"{self.start:.1f} to import torch, {self.products:.1f} products, "
            f"{self.copies:.1f} for a copy of all bytes"
        )


def measured_rates() -> Rates:
    """Measure the machine once; call it between the runs that it stands beside."""
    clock = layers.Stopwatch(device=torch.device("cpu"), clock=time.process_time)
    source = torch.zeros(COPIED, dtype=torch.uint8)
    target = torch.ones_like(source)
    seconds = min(clock(lambda: target.copy_(source)) for _ in range(3))
    return Rates(
        start=measuring.idle_torch().processor_seconds,
        products=layers.rate(torch.float32, clock),
        copies=COPIED / seconds,
    )


def bound(rates: Sequence[Rates], operations: float, size: int) -> Bound:
    """The bound of a merge with so many operations in products, and bytes read and written."""
    return Bound(
        start=statistics.median(rate.start for rate in rates),
        products=operations / statistics.median(rate.products for rate in rates),
        copies=size / statistics.median(rate.copies for rate in rates),
    )


def matrices(base: Path) -> Iterator[tuple[int, int]]:
    """Outputs and inputs of every matrix of a model that ACE solves for."""
    with safe_open(base / "model.safetensors", "np") as file:
        for name in file.keys():  # noqa: SIM118
            shape = file.get_slice(name).get_shape()
            if len(shape) == 2 and not any(part in name for part in AVERAGED):
                outputs, inputs = reversed(shape) if name.endswith(CONV1D) else shape
                yield outputs, inputs


def operations(base: Path, experts: int) -> float:
    """Operations of ACE's products over a model, if every layer is homogeneous."""
    cases = (
        layers.LayerCase(outputs=outputs, inputs=inputs, experts=experts, kind="hom.")
        for outputs, inputs in matrices(base)
    )
    return sum(sum(layers.products(case)) for case in cases)
