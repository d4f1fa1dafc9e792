"""A GPU played by the processor: tensors that say `cuda:0` and compute in the processor's memory.

It shows what a machine without a GPU otherwise cannot: tensors of two devices in one operation,
every wait for the device, every upload and download, and how much is alive there at once. It knows
nothing of CUDA's own numbers, of solvers' workspaces, or of time.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from ace_gui.engine import capabilities

GPU: Final = torch.device("cuda:0")
CPU: Final = torch.device("cpu")

WAITS: Final = frozenset(
    ["_local_scalar_dense", "nonzero", "equal", "masked_select", "_linalg_eigh", "_linalg_svd"]
)
"""Operations whose results the processor must know before it can go on."""

ERRORS: Final[dict[str, Callable[[], Exception]]] = {
    "allocator": lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    "cublas": lambda: RuntimeError(
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
    ),
    "pinned": lambda: torch.AcceleratorError("CUDA error: out of memory"),
    "solver": lambda: torch.linalg.LinAlgError(
        "cusolver error: CUSOLVER_STATUS_INVALID_VALUE, when calling `cusolverDnDsyevd_bufferSize`"
    ),
}
"""How a GPU says that it has no room, by who says it."""


_T: Final = torch.Tensor
_ASKED: Final = frozenset([_T.item, _T.tolist, _T.__bool__, _T.__float__, _T.__int__, _T.__index__])
_GUARDED: Final = _ASKED | {
    _T.__invert__,
    _T.__getitem__,
    _T.__setitem__,
    _T.contiguous,
    _T.new_tensor,
    _T.copy_,
}
_IN_ONE_PIECE: Final = {"memory_format": torch.contiguous_format}


class DeviceTensor(torch.Tensor):
    """A tensor of the stand-in; ``held`` has its numbers, on the processor."""

    held: torch.Tensor
    stand_in: DeviceStandIn

    @staticmethod
    def __new__(cls, inner: torch.Tensor, stand_in: DeviceStandIn) -> DeviceTensor:
        made: DeviceTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=GPU,
        )
        made.held = inner
        made.stand_in = stand_in
        return made

    def __repr__(self) -> str:
        return f"DeviceTensor({tuple(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _GUARDED:
            tensor = next(leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, cls))
            return tensor.stand_in.guarded(func, args, kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        tensor = next(leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, cls))
        return tensor.stand_in.dispatch(func, args, kwargs or {})


class DeviceStandIn:
    """One GPU. Within ``installed`` torch finds it under ``cuda:0``, in every thread.

    ``waits``: for results, by operation; uploads from memory that is not pinned wait too, and are
    counted apart. ``uploads`` and ``downloads``: bytes of each, in order; ``unpinned``: of those
    among them that wait. ``astray``: how often a thread that had not said for which GPU it works
    did something there, or pinned memory, which is then the first one's. ``peak``: most bytes alive
    at once. ``capacity``: bytes that it has. ``fails``: called with the name of every operation
    before it is carried out, to raise what a GPU would.
    """

    def __init__(self, capacity: float = 8e9) -> None:
        self.capacity = capacity
        self.fails: Callable[[str], None] = lambda _operation: None
        self.waits: Counter[str] = Counter()
        self.uploads: list[int] = []
        self.unpinned: list[int] = []
        self.downloads: list[int] = []
        self.operations: Counter[str] = Counter()
        self.streams: list[object] = []
        self.astray = 0
        self._chosen = threading.local()
        self.peak = 0
        self.allocated = 0
        self._alive: set[int] = set()
        self._pinned: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()
        self._lock = threading.RLock()

    def forget(self) -> None:
        """Begin to count anew."""
        with self._lock:
            for record in (
                self.waits,
                self.uploads,
                self.unpinned,
                self.downloads,
                self.operations,
            ):
                record.clear()
            self.peak = self.allocated

    @contextmanager
    def installed(self) -> Iterator[DeviceStandIn]:
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(capabilities, "_STARTED", set()))
            for owner, name, value in self._torch():
                stack.enter_context(mock.patch.object(owner, name, value))
            stack.enter_context(_Mode(self))
            yield self

    def dispatch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Carry out an operation in which one of the device's tensors takes part."""
        name = func.overloadpacket.__name__
        self._note_thread()
        with self._lock:
            self.operations[name] += 1
        self.fails(name)
        if name in {"_to_copy", "copy_"}:
            return self._copied(func, args, kwargs)
        self._require_one_device(name, args, kwargs)
        if name in WAITS or (name in {"index", "index_put_"} and _by_mask(args[1])):
            with self._lock:
                self.waits[name] += 1
        if kwargs.get("device") is not None:
            on_gpu = torch.device(kwargs["device"]).type == "cuda"
            kwargs = {**kwargs, "device": CPU}
        else:
            on_gpu = True
        return self._computed(func, args, kwargs, on_gpu=on_gpu)

    def guarded(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What torch cannot even begin without CUDA's libraries, which are not there."""
        if func in _ASKED:
            self.fails("item")
            self._wait("item")
            return func(*_inner(args), **kwargs)
        if func is torch.Tensor.copy_:
            return self._copied(torch.ops.aten.copy_.default, args, kwargs)
        if func is torch.Tensor.new_tensor:
            options = {"dtype": args[0].dtype} | kwargs
            return torch.tensor(args[1], **options).to(GPU)
        if func is torch.Tensor.contiguous:
            return args[0] if args[0].is_contiguous() else args[0].clone(**_IN_ONE_PIECE)
        if _by_mask(args[1:2]):
            self._wait("index")
        if func is torch.Tensor.__setitem__ and isinstance(args[2], torch.Tensor):
            target = args[0] if args[1] is ... else args[0][args[1]]
            if not _by_mask(args[1]) and not _is_list(args[1]):
                target.copy_(args[2])
                return None
        output = func(*_inner(args), **_inner(kwargs))
        return self.hold(output) if isinstance(output, torch.Tensor) else output

    def _computed(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, on_gpu: bool
    ) -> Any:
        with _disable_current_modes():
            output = func(*_inner(args), **_inner(kwargs))
        changed = _changed_argument(func, args, kwargs)
        if changed is not None:
            return changed
        return tree_map_only(torch.Tensor, self.hold, output) if on_gpu else output

    def _copied(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Between devices, or from one dtype to another: here it is known what goes where."""
        if func.overloadpacket.__name__ == "copy_":
            target = args[0]
            source = args[1]
            where = target.device
        else:
            target = None
            source = args[0]
            where = torch.device(kwargs.get("device") or source.device)
        later = kwargs.get("non_blocking") or (len(args) > 2 and args[2])
        self._count_transfer(source, where, target, later=bool(later))
        kwargs = {key: value for key, value in kwargs.items() if key not in {"device"}}
        output = self._computed(func, args, kwargs, on_gpu=where.type == "cuda")
        return output if target is None else target

    def _count_transfer(
        self, source: torch.Tensor, where: torch.device, target: Any, *, later: bool
    ) -> None:
        size = source.numel() * source.element_size()
        with self._lock:
            if source.device.type == "cpu" and where.type == "cuda":
                self.uploads.append(size)
                if not self.is_pinned(source):
                    self.unpinned.append(size)
            elif source.device.type == "cuda" and where.type == "cpu":
                self.downloads.append(size)
                if not (later and target is not None and self.is_pinned(target)):
                    self.waits["download"] += 1
                    self.unpinned.append(size)

    def _require_one_device(self, name: str, args: Any, kwargs: Any) -> None:
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor) and leaf.device != GPU and leaf.ndim:
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but found at least two "
                    f"devices, cuda:0 and cpu! (in {name})"
                )

    def hold(self, inner: torch.Tensor) -> DeviceTensor:
        """A tensor of the device, counted till nobody holds its storage."""
        if isinstance(inner, DeviceTensor):
            return inner
        storage = inner.untyped_storage()
        with self._lock:
            key = storage._cdata
            if key not in self._alive:
                if self.allocated + storage.nbytes() > self.capacity:
                    raise ERRORS["allocator"]()
                self._alive.add(key)
                self.allocated += storage.nbytes()
                self.peak = max(self.peak, self.allocated)
                weakref.finalize(storage, self._release, key, storage.nbytes())
        return DeviceTensor(inner, self)

    def _release(self, key: int, size: int) -> None:
        with self._lock:
            self._alive.discard(key)
            self.allocated -= size

    def pin(self, tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
        self.fails("pin_memory")
        with _disable_current_modes():
            pinned = tensor.clone(memory_format=torch.contiguous_format)
        return self.pinned(pinned)

    def pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor, from now on in memory that the GPU may copy to and from by itself."""
        self._note_thread()
        self._pinned.add(tensor.untyped_storage())
        return tensor

    def _note_thread(self) -> None:
        with self._lock:
            self.astray += not hasattr(self._chosen, "device")

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage() in self._pinned

    def _torch(self) -> Iterator[tuple[Any, str, Any]]:
        """What of torch is another while the stand-in is there."""
        run = threading.Thread.run

        def within(thread: threading.Thread) -> None:
            with _Mode(self):
                run(thread)

        yield threading.Thread, "run", within
        yield torch.Tensor, "pin_memory", lambda tensor, *_: self.pin(tensor)
        cuda: dict[str, Any] = {
            "_lazy_init": lambda: None,
            "init": lambda: None,
            "is_available": lambda: True,
            "device_count": lambda: 1,
            "get_device_properties": lambda *_: self._properties(),
            "get_arch_list": lambda: ["sm_80"],
            "set_device": lambda device: setattr(self._chosen, "device", device),
            "synchronize": lambda *_: self._wait("synchronize"),
            "empty_cache": lambda: None,
            "mem_get_info": lambda *_: (self.capacity - self.allocated, self.capacity),
            "memory_allocated": lambda *_: self.allocated,
            "memory_reserved": lambda *_: self.allocated,
            "max_memory_allocated": lambda *_: self.peak,
            "max_memory_reserved": lambda *_: self.peak,
            "reset_peak_memory_stats": lambda *_: self.forget(),
            "set_per_process_memory_fraction": lambda *_: None,
            "Stream": lambda *_: object(),
            "set_stream": self.streams.append,
            "current_stream": lambda *_: SimpleNamespace(
                synchronize=lambda: self._wait("synchronize")
            ),
        }
        for name, value in cuda.items():
            yield torch.cuda, name, value

    def _properties(self) -> Any:
        memory = int(min(self.capacity, 1e15))
        return SimpleNamespace(
            name="Stand-in", major=8, minor=0, multi_processor_count=108, total_memory=memory
        )

    def _wait(self, name: str) -> None:
        with self._lock:
            self.waits[name] += 1


class _Mode(TorchDispatchMode):
    """Sees operations that make a tensor of the device out of none of it."""

    def __init__(self, stand_in: DeviceStandIn) -> None:
        super().__init__()
        self._stand_in = stand_in

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        ours = any(isinstance(leaf, DeviceTensor) for leaf in tree_leaves((args, kwargs)))
        if ours:
            return self._stand_in.dispatch(func, args, kwargs)
        if kwargs.get("pin_memory"):
            output = func(*args, **{**kwargs, "pin_memory": False})
            return self._stand_in.pinned(output)
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == "cuda":
            if func.overloadpacket.__name__ == "_to_copy":
                return self._stand_in.dispatch(func, args, kwargs)
            output = func(*args, **{**kwargs, "device": CPU})
            return tree_map_only(torch.Tensor, self._stand_in.hold, output)
        return func(*args, **kwargs)


def _inner(tree: Any) -> Any:
    return tree_map_only(DeviceTensor, lambda tensor: tensor.held, tree)


def _by_mask(indices: Any) -> bool:
    return any(
        isinstance(tree_leave, torch.Tensor) and tree_leave.dtype in {torch.bool, torch.uint8}
        for tree_leave in tree_leaves(indices)
    )


def _is_list(indices: Any) -> bool:
    return any(isinstance(index, list | torch.Tensor) for index in [indices])


def _changed_argument(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The tensor that an operation works on in place, or writes its result to; None without."""
    for index, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            return args[index] if index < len(args) else kwargs.get(argument.name)
    return None
