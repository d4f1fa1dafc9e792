"""How many matrices a GPU merges side by side, and what is done when it has no room for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from ace_gui.engine.tensor_merge import Piece, TensorMerge


class GpuRoom:
    """Places for matrices on a GPU; their number is halved, for good, when they were too many."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._taken = 0
        self._changed = threading.Condition()

    @contextmanager
    def place(self) -> Iterator[int]:
        """Wait for a place and hold it; how many places there were then."""
        with self._changed:
            self._changed.wait_for(lambda: self._taken < self._places)
            self._taken += 1
            places = self._places
        try:
            yield places
        finally:
            with self._changed:
                self._taken -= 1
                self._changed.notify_all()

    def halve(self, places: int) -> None:
        """So many places were too many. Of several who say so at once, the first is heard."""
        with self._changed:
            if self._places == places:
                self._places = max(1, places // 2)


def merged_with_room(work: TensorMerge, pool: ThreadPoolExecutor, room: GpuRoom) -> list[Piece]:
    """The pieces of a matrix that is merged whole, beside as few others as it takes.

    With no room even for it alone, it is merged on the processor. The work's report says so.
    """
    while True:
        with room.place() as places, _own_stream(work.device):
            try:
                return list(work.pieces(pool))
            except torch.OutOfMemoryError:
                pass  # and out of the handler, whose traceback would keep the tensors alive
        torch.cuda.empty_cache()
        if places == 1:
            work.fall_back()
            return list(work.pieces(pool))
        work.begin_again()
        room.halve(places)


def _own_stream(device: torch.device) -> AbstractContextManager[object]:
    if device.type != "cuda":
        return nullcontext()
    return torch.cuda.stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]
