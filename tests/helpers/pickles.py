"""PyTorch pickles, right, wrong and malicious, for tests."""

from __future__ import annotations

import io
import os
import pickle
import runpy
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch._utils import _rebuild_tensor_v2

LEGACY_HEADS = (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True})


@dataclass(frozen=True)
class Call:
    """Something that calls ``function`` when it is unpickled."""

    function: Callable[..., object]
    arguments: tuple[object, ...]

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.function, self.arguments


def calls(canary: Path) -> dict[str, Call]:
    """Calls that each make ``canary`` a file or folder."""
    shutil.copy(__file__, canary.with_name("source"))
    script = canary.with_name("script.py")
    script.write_text(f"import os; os.mkdir({str(canary)!r})")
    make = f"__import__('os').mkdir({str(canary)!r})"
    return {
        "os.system": Call(os.system, (f"mkdir {canary}",)),
        "os.mkdir": Call(os.mkdir, (str(canary),)),
        "subprocess.call": Call(subprocess.call, (["mkdir", str(canary)],)),
        "builtins.exec": Call(exec, (make,)),
        "builtins.eval": Call(eval, (make,)),
        "shutil.copy": Call(shutil.copy, (str(canary.with_name("source")), str(canary))),
        "runpy.run_path": Call(runpy.run_path, (str(script),)),
        "numpy.save": Call(np.savetxt, (str(canary), [1.0])),
        "torch.save": Call(torch.save, (1, str(canary))),
    }


@dataclass(frozen=True)
class Reference:
    """A storage that lies elsewhere in the file."""

    key: str
    count: int
    kind: type = torch.FloatStorage


def view(
    storage: Reference, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0
) -> Call:
    """A tensor of any claims over a storage."""
    return Call(_rebuild_tensor_v2, (storage, offset, shape, strides, False, {}))


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: object) -> object:
        if isinstance(value, Reference):
            return ("storage", value.kind, value.key, "cpu", value.count)
        return None


def pickled(value: object, protocol: int = 2) -> bytes:
    """``value`` as a pickle, with references to storages."""
    stream = io.BytesIO()
    _Pickler(stream, protocol).dump(value)
    return stream.getvalue()


def zip_file(
    path: Path,
    program: bytes,
    storages: dict[str, bytes] | None = None,
    *,
    compression: int = zipfile.ZIP_STORED,
    more: dict[str, bytes] | None = None,
) -> Path:
    """A PyTorch zip of this pickle and these storages."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/version", b"3\n")
        for key, content in (storages or {}).items():
            archive.writestr(f"archive/data/{key}", content)
        for name, content in (more or {}).items():
            archive.writestr(f"archive/{name}", content)
    return path


def legacy_file(path: Path, program: bytes, keys: bytes | None = None, data: bytes = b"") -> Path:
    """The form before PyTorch 1.6: pickles one after another, then the storages."""
    heads = b"".join(pickled(head) for head in LEGACY_HEADS)
    path.write_bytes(heads + program + (keys or pickled([])) + data)
    return path


def tar_file(path: Path, program: bytes) -> Path:
    """The form before PyTorch 0.2."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            member = tarfile.TarInfo(name)
            member.size = len(program)
            archive.addfile(member, io.BytesIO(program))
    return path


def raw_pickle(path: Path, program: bytes) -> Path:
    """A pickle and nothing else."""
    path.write_bytes(program)
    return path
