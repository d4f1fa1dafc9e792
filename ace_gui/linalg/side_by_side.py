"""Work on several small matrices at a time.

A second processor hardly helps a single decomposition of a small matrix. Two decompositions at once
use it fully.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

FEW_ENTRIES: Final = 1 << 22
"""Largest number of entries for which a few matrices at a time take negligible memory."""


def matrices_side_by_side(
    work: Callable[[Item], Result], items: Iterable[Item], *, entries: int, device: torch.device
) -> list[Result]:
    """``work`` on every item in parallel, results in order.

    ``entries``: of the matrix of one item; all are of one size. Matrices of more than
    ``FEW_ENTRIES`` entries, and those on a GPU, are done one after another.
    """
    if entries <= FEW_ENTRIES and device.type == "cpu":
        threads = torch.get_num_threads()
    else:
        threads = 1
    if threads == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads, initializer=partial(torch.set_num_threads, 1)) as pool:
        return list(pool.map(work, items))
