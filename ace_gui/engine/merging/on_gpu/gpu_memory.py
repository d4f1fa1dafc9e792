"""How much a GPU merges at a time, and what happens when its memory is full."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import torch

from ace_gui.engine.merging.one_tensor.tensor_merge import (
    OutputChunk,
    TensorMerge,
    in_the_end,
    pieces_together,
)
from ace_gui.engine.planning.memory import SIDE_BY_SIDE_BYTES
from ace_gui.errors import MethodError, NonFiniteError, lacks_room
from ace_gui.machine import free_memory

GPU_AHEAD: Final = 4
"""Batches that are read, uploaded, merged and downloaded at the same time."""


@dataclass(eq=False)
class Reservation:
    """A batch in a room. ``room``: how much there was when it came.

    ``contended``: whether others were there meanwhile; ``most``: bytes of all together at most.
    """

    need: int
    room: float
    contended: bool = False
    most: int = 0


class Room:
    """Bytes for batches that are merged at the same time; fewer when they turn out to be too many.

    ``largest``: bytes of one batch at most; a larger one should be divided first. ``too_large``:
    a single matrix of so many has found no room, and others need not try.
    """

    def __init__(self, room: float) -> None:
        self.largest = room
        self.too_large = math.inf
        self._room = room
        self._stays: list[Reservation] = []
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, need: int) -> Iterator[Reservation]:
        """Wait for so much room, or till nobody is there, and hold it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._stays or self._held + need <= self._room)
            stay = Reservation(need=need, room=self._room)
            self._stays.append(stay)
            for each in self._stays:
                each.contended |= len(self._stays) > 1
                each.most = max(each.most, self._held)
        try:
            yield stay
        finally:
            with self._changed:
                self._stays.remove(stay)
                self._changed.notify_all()

    def shrink(self, stay: Reservation, matrices: int) -> None:
        """There was too little room. Of several who say so at once, the first is heard.

        Of those that had company there will be fewer at a time; a batch of several without company
        will be smaller; one matrix will not come again, nor any as large.
        """
        with self._changed:
            if not stay.contended and matrices == 1:
                self.too_large = min(self.too_large, stay.need)
            elif not stay.contended:
                self.largest = min(self.largest, stay.need / 2)
            elif self._room == stay.room:
                self._room = stay.most / 2

    def admits(self, need: int, matrices: int) -> bool:
        """Whether so many matrices should try, as far as is known."""
        return need < self.too_large if matrices == 1 else need <= self.largest

    @property
    def _held(self) -> int:
        return sum(stay.need for stay in self._stays)


@dataclass(frozen=True, kw_only=True)
class Rooms:
    """Room on the ``device``, and in the processor's memory for what the device has none for.

    ``share``: of the device, for each of the batches that it merges at a time.
    """

    device: torch.device
    gpu: Room
    host: Room
    share: float


def rooms_of(device: torch.device, memory_bytes: int | None = None) -> Rooms:
    """``memory_bytes``: of the processor's memory that may be used, None: what is free."""
    host = free_memory() if memory_bytes is None else memory_bytes
    free = bytes_free(device)
    return Rooms(
        device=device,
        gpu=Room(free),
        share=free / GPU_AHEAD,
        host=Room(min(host, SIDE_BY_SIDE_BYTES)),
    )


def bytes_free(device: torch.device) -> float:
    """What a GPU can still give to this process; unlimited for the processor."""
    if device.type != "cuda":
        return math.inf
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + unused


def merged_with_room(
    works: Sequence[TensorMerge], pool: ThreadPoolExecutor, rooms: Rooms
) -> list[list[OutputChunk]]:
    """The pieces of matrices that are merged together, beside as few others as it takes.

    With no room even for all of them alone, each half of them by itself; with none for a single
    one, that is merged on the processor, beside as few others as fit there. The works' reports say
    so. Where one of them cannot be merged, it alone raises what there is to say.
    """
    least, room, alone = sum(work.gpu_bytes for work in works), rooms.gpu, len(works) == 1
    need = least + sum(work.stored_bytes for work in works)
    keep = need <= rooms.share and room.admits(need, len(works))
    need = need if keep else least
    while room.admits(need, len(works)):
        for work in works:
            work.keeps_experts = keep
        with room.reserve(need) as stay:
            try:
                found = _tried(works, pool)
            except (MethodError, NonFiniteError):
                if alone:
                    raise
                return _halves(works, pool, rooms)
        if found is not None:
            return found
        if rooms.device.type == "cuda":
            torch.cuda.empty_cache()
        room.shrink(stay, len(works))
        need, keep = least, False
        if stay.contended:
            for work in works:
                work.begin_again()
    if alone:
        works[0].fall_back()
        with rooms.host.reserve(need):
            return [in_the_end(works[0].pieces(pool))]
    for work in works:
        work.divide()
    return _halves(works, pool, rooms)


def _halves(
    works: Sequence[TensorMerge], pool: ThreadPoolExecutor, rooms: Rooms
) -> list[list[OutputChunk]]:
    middle = len(works) // 2
    first = merged_with_room(works[:middle], pool, rooms)
    return first + merged_with_room(works[middle:], pool, rooms)


def _tried(
    works: Sequence[TensorMerge], pool: ThreadPoolExecutor
) -> list[list[OutputChunk]] | None:
    """None where the GPU has no room; no longer within the error, which keeps tensors alive."""
    try:
        if len(works) == 1:
            return [in_the_end(works[0].pieces(pool))]
        return pieces_together(works)
    except RuntimeError as error:
        if not lacks_room(error):
            raise
    return None
