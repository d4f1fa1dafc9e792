"""How much a GPU merges at a time, and what happens when its memory is full."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch

from ace_gui.engine.merging.tensor_merge import Piece, TensorMerge, pieces_together
from ace_gui.errors import MethodError, NonFiniteError


@dataclass(eq=False)
class Stay:
    """A batch on the GPU. ``room``: how much there was when it came.

    ``company``: whether others were there meanwhile; ``most``: bytes of all together at most.
    """

    need: int
    room: float
    company: bool = False
    most: int = 0


class GpuRoom:
    """Bytes for batches on a GPU; halved, for good, when they turn out to be too many.

    ``largest``: bytes of one batch at most; a larger one should be divided first.
    """

    def __init__(self, room: float) -> None:
        self.largest = room
        self._room = room
        self._stays: list[Stay] = []
        self._changed = threading.Condition()

    @contextmanager
    def place(self, need: int) -> Iterator[Stay]:
        """Wait for so much room, or till nobody is there, and hold it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._stays or self._held + need <= self._room)
            stay = Stay(need=need, room=self._room)
            self._stays.append(stay)
            for each in self._stays:
                each.company |= len(self._stays) > 1
                each.most = max(each.most, self._held)
        try:
            yield stay
        finally:
            with self._changed:
                self._stays.remove(stay)
                self._changed.notify_all()

    def halve(self, stay: Stay) -> None:
        """There was too little room. Of several who say so at once, the first is heard.

        Of those that had company there will be fewer at a time; a batch without will be smaller.
        """
        with self._changed:
            if not stay.company:
                self.largest = min(self.largest, stay.need / 2)
            elif self._room == stay.room:
                self._room = stay.most / 2

    @property
    def _held(self) -> int:
        return sum(stay.need for stay in self._stays)


def bytes_free(device: torch.device) -> float:
    """What a GPU can still give to this process; unlimited for the processor."""
    if device.type != "cuda":
        return math.inf
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + unused


def merged_with_room(
    works: Sequence[TensorMerge], pool: ThreadPoolExecutor, room: GpuRoom
) -> list[list[Piece]]:
    """The pieces of matrices that are merged together, beside as few others as it takes.

    With no room even for all of them alone, each half of them by itself; with none for a single
    one, that is merged on the processor. The works' reports say so. Where one of them cannot be
    merged, it alone raises what there is to say.
    """
    need = sum(work.gpu_bytes for work in works)
    while len(works) == 1 or need <= room.largest:
        with room.place(need) as stay, _own_stream(works[0].device):
            try:
                return _pieces(works, pool)
            except torch.OutOfMemoryError:
                pass  # and out of the handler, whose traceback would keep the tensors alive
            except (MethodError, NonFiniteError):
                if len(works) == 1:
                    raise
                break
        torch.cuda.empty_cache()
        room.halve(stay)
        if len(works) == 1 and not stay.company:
            works[0].fall_back()
            return [list(works[0].pieces(pool))]
        for work in works:
            work.begin_again()
    middle = len(works) // 2
    first = merged_with_room(works[:middle], pool, room)
    return first + merged_with_room(works[middle:], pool, room)


def _pieces(works: Sequence[TensorMerge], pool: ThreadPoolExecutor) -> list[list[Piece]]:
    return [list(works[0].pieces(pool))] if len(works) == 1 else pieces_together(works)


def _own_stream(device: torch.device) -> AbstractContextManager[object]:
    if device.type != "cuda":
        return nullcontext()
    return torch.cuda.stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]
