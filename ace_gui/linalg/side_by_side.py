"""Several decompositions in parallel, one processor each.

A decomposition of a small matrix gains little from a second processor; two of them at once gain all
of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

SMALL: Final = 1 << 22
"""Entries of a matrix up to which a few of them at a time take no memory worth counting."""


def side_by_side(
    work: Callable[[Item], Result], items: Iterable[Item], *, entries: int, device: torch.device
) -> list[Result]:
    """``work`` on every item, results in order.

    One after another for matrices of more than ``SMALL`` entries, and on a GPU, which each has to
    itself.
    """
    threads = torch.get_num_threads() if entries <= SMALL and device.type == "cpu" else 1
    if threads == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads, initializer=partial(torch.set_num_threads, 1)) as pool:
        return list(pool.map(work, items))
