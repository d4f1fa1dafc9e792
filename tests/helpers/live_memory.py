"""How many bytes of tensors are alive at once while something is computed."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):
    """Counts every storage that an operation returns, from then until nobody holds it.

    Tensors on the meta device have none.

    ``peak``: the most bytes that were alive at once. What operations use inside and free again
    before they return (workspaces of LAPACK, say) is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._alive: dict[int, int] = {}
        self._total = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        outputs = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(outputs):
            if isinstance(leaf, torch.Tensor) and not leaf.is_meta:
                self._count(leaf.untyped_storage())
        return outputs

    def _count(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._alive:
            return
        self._alive[key] = storage.nbytes()
        self._total += storage.nbytes()
        self.peak = max(self.peak, self._total)
        weakref.finalize(storage, self._forget, key)

    def _forget(self, key: int) -> None:
        self._total -= self._alive.pop(key, 0)
