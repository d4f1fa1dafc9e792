"""Interprets a pickle without running it.

A pickle is a program for a small stack machine that can call any function of Python. Here its
opcodes are followed on a stack of inert values: nothing is imported, nothing is called, and no
storage is allocated. The few functions that a state dict needs are known by name and replaced by
records (``View``, ``Storage``); a call of any other ends the reading.
"""

from __future__ import annotations

import pickletools
import struct
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final

from ace_gui.checkpoints.header import RANK_LIMIT
from ace_gui.checkpoints.input_files import refusal
from ace_gui.errors import CheckpointError
from ace_gui.formatting import plain
from ace_gui.stored_formats import FORMATS

OPCODE_LIMIT: Final = 1_000_000
"""Most opcodes followed; a tensor of a state dict takes about 40."""

_LARGEST: Final = 2**63
_LARGEST_KEY: Final = 2**31

_DAMAGE: Final = (ValueError, TypeError, IndexError, KeyError, OverflowError, struct.error)
_OPCODES: Final = {opcode.code.encode("latin-1"): opcode for opcode in pickletools.opcodes}
_DTYPES: Final = MappingProxyType(
    {f"torch.{form.torch}": form.tag for form in FORMATS.values() if form.torch is not None}
)
_STORAGES: Final = MappingProxyType(
    {
        **{"Float": "F32", "Double": "F64", "Half": "F16", "BFloat16": "BF16", "Bool": "BOOL"},
        **{"Long": "I64", "Int": "I32", "Short": "I16", "Char": "I8", "Byte": "U8"},
        **{"ComplexFloat": "C64", "QInt8": "I8", "QUInt8": "U8", "QInt32": "I32"},
    }
)
_UNTYPED: Final = "torch.storage.UntypedStorage"


@dataclass(frozen=True, slots=True)
class Global:
    """The name of something in a module, which is never looked up."""

    name: str


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes that lie elsewhere in the file; ``tag`` is None where the tensors say their dtype."""

    key: str
    tag: str | None
    nbytes: int


@dataclass(frozen=True, slots=True)
class View:
    """A tensor: a part of a storage. ``offset`` and ``strides`` count elements, not bytes."""

    storage: Storage
    tag: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unusable:
    """A tensor that is not a plain dense one; ``kind`` says what it is."""

    kind: str


@dataclass(frozen=True)
class Program:
    """``value``: what the pickle describes. ``storages`` that it mentions, by key."""

    value: object
    storages: Mapping[str, Storage]


def follow(stream: BinaryIO, path: Path) -> Program:
    """Follow one pickle of the file ``path`` to its end, and leave ``stream`` behind it.

    Raises CheckpointError if it would call or make anything but the parts of a state dict.
    """
    machine = _Machine(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a text with invalid escapes is damage
            program = _followed(stream, machine)
    except (*_DAMAGE, Warning) as error:
        failure = machine.unknown()
        failure.details = str(error)
        raise failure from None
    if program is None:
        raise refusal(path, f"The pickle has more than {OPCODE_LIMIT} steps. Refused.")
    return program


def _followed(stream: BinaryIO, machine: _Machine) -> Program | None:
    """The program, None where it does not come to an end."""
    for _ in range(OPCODE_LIMIT):
        opcode = _OPCODES.get(stream.read(1))
        if opcode is None or opcode.name not in _STEPS:
            raise machine.refused_opcode(opcode.name if opcode else "")
        argument = opcode.arg.reader(stream) if opcode.arg else None
        if opcode.name == "STOP":
            return Program(machine.finished(), machine.storages)
        _STEPS[opcode.name](machine, argument)
    return None


@dataclass
class _Machine:
    """The stack machine. ``foreign``: the first name met that no state dict needs."""

    path: Path
    stack: list[object] = field(default_factory=list)
    marked: list[list[object]] = field(default_factory=list)
    memo: dict[object, object] = field(default_factory=dict)
    storages: dict[str, Storage] = field(default_factory=dict)
    foreign: str = ""

    def push(self, value: object) -> None:
        self.stack.append(value)

    def mark(self, _: object) -> None:
        self.marked.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[object]:
        values, self.stack = self.stack, self.marked.pop()
        return values

    def last(self, count: int) -> tuple[object, ...]:
        if len(self.stack) < count:
            raise IndexError("the stack is too short")
        values = tuple(self.stack[-count:])
        del self.stack[-count:]
        return values

    def name(self, module: object, attribute: object) -> None:
        if not isinstance(module, str) or not isinstance(attribute, str):
            raise TypeError("a name that is no text")
        name = f"{module}.{attribute}"
        # Types and layouts of torch are values in many files; calling them is refused, too.
        if name not in _CALLS and not name.startswith("torch."):
            self.foreign = self.foreign or name
        self.push(Global(name))

    def append(self, values: Sequence[object]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise TypeError("only lists are appended to")
        target.extend(values)

    def set_items(self, values: Sequence[object]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or len(values) % 2:
            raise TypeError("only dictionaries have items")
        for key, value in zip(values[::2], values[1::2], strict=True):
            # Numbers this small cannot be chosen to collide, so that filling takes linear time.
            if type(key) is not str and (type(key) is not int or abs(key) >= _LARGEST_KEY):
                raise TypeError("keys are names or small numbers")
            if key in target:
                sentence = f"`{plain(str(key))}` is defined twice. The file is malformed."
                raise refusal(self.path, sentence)
            target[key] = value

    def call(self, _: object) -> None:
        function, arguments = self.last(2)
        if not isinstance(function, Global) or not isinstance(arguments, tuple):
            raise TypeError("what is called has no name")
        if function.name not in _CALLS:
            raise self.refused_call(function.name)
        self.push(_CALLS[function.name](*arguments))

    def build(self, _: object) -> None:
        """Attributes of an OrderedDict, such as the versions of its modules: of no use here."""
        target, _state = self.last(2)
        if not isinstance(target, dict):
            raise TypeError("only dictionaries have attributes")
        self.push(target)

    def storage(self, _: object) -> None:
        (reference,) = self.last(1)
        if not isinstance(reference, tuple) or reference[0] != "storage":
            raise TypeError("a reference to something else than a storage")
        kind, key, count = reference[1], reference[2], reference[4]
        if not isinstance(kind, Global) or type(key) is not str or any(reference[5:]):
            raise TypeError("a storage without type or key, or a part of another")
        tag = _storage_tag(kind.name)
        itemsize = FORMATS[tag].bits // 8 if tag else 1
        storage = Storage(key, tag, _natural(count) * itemsize)
        if self.storages.setdefault(key, storage).nbytes != storage.nbytes:
            raise ValueError("a storage of two sizes")
        self.push(storage)

    def finished(self) -> object:
        if self.foreign:
            raise self.program(self.foreign)
        return self.stack.pop()

    def refused_opcode(self, name: str) -> CheckpointError:
        """An opcode no state dict needs; those that make objects tell a module from a call."""
        if name == "NEWOBJ" and isinstance(made := self.last(2)[0], Global):
            return self.program(made.name)
        if name in ("INST", "OBJ", "EXT1", "EXT2", "EXT4"):
            return self.code(self.foreign or name)
        return self.unknown()

    def refused_call(self, name: str) -> CheckpointError:
        library = name.startswith(("torch.", "numpy."))
        return self.program(name) if library else self.code(name)

    def unknown(self) -> CheckpointError:
        if self.foreign:
            return self.code(self.foreign)
        sentence = "This is not a PyTorch state dict, or it is damaged. Nothing in it was run."
        return refusal(self.path, sentence)

    def code(self, name: str) -> CheckpointError:
        return refusal(
            self.path, f"Contains executable code (`{plain(name)}`). Blocked; nothing was run."
        )

    def program(self, name: str) -> CheckpointError:
        return refusal(
            self.path,
            f"Contains a program (`{plain(name)}`), not just weights. Ask for safetensors.",
        )


def _natural(value: object) -> int:
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise ValueError("not a size")
    return value


def _naturals(value: object) -> tuple[int, ...]:
    if not isinstance(value, tuple) or len(value) > RANK_LIMIT:
        raise ValueError("not a shape")
    return tuple(_natural(item) for item in value)


def _storage_tag(name: str) -> str | None:
    """Tag of a storage class, None for an untyped one. Raises KeyError for any other name."""
    if name == _UNTYPED:
        return None
    module, _, kind = name.rpartition(".")
    if module not in ("torch", "torch.cuda") or not kind.endswith("Storage"):
        raise KeyError(name)
    return _STORAGES[kind.removesuffix("Storage")]


def _view(
    storage: object, offset: object, shape: object, strides: object, *rest: object
) -> View | Unusable:
    """``torch._utils._rebuild_tensor`` and ``_v2``: gradient flag and hooks are of no use."""
    if not isinstance(storage, Storage) or storage.tag is None:
        raise TypeError("a tensor without a typed storage")
    if any(rest[2:]):  # bits that say the stored numbers are conjugated or negated
        return Unusable("a lazily conjugated tensor")
    return _made_view(storage, storage.tag, offset, shape, strides)


def _typed_view(
    storage: object,
    offset: object,
    shape: object,
    strides: object,
    _grad: object,
    _hooks: object,
    dtype: object,
    *rest: object,
) -> View | Unusable:
    """``torch._utils._rebuild_tensor_v3``, for formats that have no storage class."""
    if not isinstance(storage, Storage) or not isinstance(dtype, Global):
        raise TypeError("a tensor without storage or dtype")
    if dtype.name not in _DTYPES or any(rest):
        return Unusable(f"quantised or of an unknown format ({plain(dtype.name)})")
    return _made_view(storage, _DTYPES[dtype.name], offset, shape, strides)


def _made_view(storage: Storage, tag: str, offset: object, shape: object, strides: object) -> View:
    view = View(storage, tag, _natural(offset), _naturals(shape), _naturals(strides))
    if len(view.shape) != len(view.strides):
        raise ValueError("shape and strides differ in length")
    return view


def _parameter(data: object, *_rest: object) -> object:
    return data


def _ordered_dict() -> dict[object, object]:
    return {}


_CALLS: Final[Mapping[str, Callable[..., object]]] = MappingProxyType(
    {
        "collections.OrderedDict": _ordered_dict,
        "torch._utils._rebuild_tensor": _view,
        "torch._utils._rebuild_tensor_v2": _view,
        "torch._utils._rebuild_tensor_v3": _typed_view,
        "torch._utils._rebuild_parameter": _parameter,
        "torch._utils._rebuild_qtensor": lambda *_: Unusable("quantised"),
        "torch._utils._rebuild_sparse_tensor": lambda *_: Unusable("sparse"),
        "torch.serialization._get_layout": lambda *_: None,
        "torch.Size": lambda *_: None,
        "torch.device": lambda *_: None,
    }
)


def _pushes(*names: str) -> dict[str, Callable[[_Machine, object], None]]:
    return dict.fromkeys(names, _Machine.push)


_STEPS: Final[Mapping[str, Callable[[_Machine, object], None]]] = MappingProxyType(
    {
        **_pushes("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
        **_pushes("BINUNICODE", "SHORT_BINUNICODE", "BINSTRING", "SHORT_BINSTRING"),
        **_pushes("BINBYTES", "SHORT_BINBYTES"),
        **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda _machine, _argument: None),
        "NONE": lambda machine, _: machine.push(None),
        "NEWTRUE": lambda machine, _: machine.push(True),
        "NEWFALSE": lambda machine, _: machine.push(False),
        "EMPTY_DICT": lambda machine, _: machine.push({}),
        "EMPTY_LIST": lambda machine, _: machine.push([]),
        "EMPTY_TUPLE": lambda machine, _: machine.push(()),
        "MARK": _Machine.mark,
        "TUPLE": lambda machine, _: machine.push(tuple(machine.since_mark())),
        "TUPLE1": lambda machine, _: machine.push(machine.last(1)),
        "TUPLE2": lambda machine, _: machine.push(machine.last(2)),
        "TUPLE3": lambda machine, _: machine.push(machine.last(3)),
        "APPEND": lambda machine, _: machine.append(machine.last(1)),
        "APPENDS": lambda machine, _: machine.append(machine.since_mark()),
        "SETITEM": lambda machine, _: machine.set_items(machine.last(2)),
        "SETITEMS": lambda machine, _: machine.set_items(machine.since_mark()),
        "BINPUT": lambda machine, index: machine.memo.__setitem__(index, machine.stack[-1]),
        "LONG_BINPUT": lambda machine, index: machine.memo.__setitem__(index, machine.stack[-1]),
        "MEMOIZE": lambda machine, _: machine.memo.__setitem__(
            len(machine.memo), machine.stack[-1]
        ),
        "BINGET": lambda machine, index: machine.push(machine.memo[index]),
        "LONG_BINGET": lambda machine, index: machine.push(machine.memo[index]),
        "GLOBAL": lambda machine, names: machine.name(*str(names).split(" ", 1)),
        "STACK_GLOBAL": lambda machine, _: machine.name(*machine.last(2)),
        "BINPERSID": _Machine.storage,
        "REDUCE": _Machine.call,
        "BUILD": _Machine.build,
    }
)
