"""What can happen to a file that a program keeps for its next run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file


def flip(path: Path, index: int, bit: int = 0) -> None:
    """Turn one bit over."""
    content = bytearray(path.read_bytes())
    content[index] ^= 1 << bit
    path.write_bytes(content)


def rewrite(path: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Save other tensors under the same metadata."""
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    change(tensors)
    save_file(tensors, path, metadata)


def _first(tensors: dict[str, torch.Tensor]) -> str:
    return next(name for name, tensor in tensors.items() if tensor.numel() and tensor.ndim)


def _cut(tensors: dict[str, torch.Tensor]) -> None:
    name = _first(tensors)
    tensors[name] = tensors[name][:-1].contiguous()


def _halved(tensors: dict[str, torch.Tensor]) -> None:
    name = _first(tensors)
    tensors[name] = tensors[name].half()


def _renamed(tensors: dict[str, torch.Tensor]) -> None:
    tensors["another"] = tensors.pop(_first(tensors))


def _swapped(tensors: dict[str, torch.Tensor]) -> None:
    name = _first(tensors)
    tensors[name] = -tensors[name]


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


ANY_FILE: Mapping[str, Callable[[Path], object]] = {
    "first bit": lambda path: flip(path, 0),
    "bit in the middle": lambda path: flip(path, path.stat().st_size // 2, 3),
    "last bit": lambda path: flip(path, -1, 7),
    "truncated": lambda path: os.truncate(path, path.stat().st_size - 3),
    "empty": lambda path: os.truncate(path, 0),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"more"),
    "other content": lambda path: path.write_bytes(np.arange(999).tobytes()),
    "folder": _folder,
    "pipe": _pipe,
    "link to nowhere": _link,
    "missing": Path.unlink,
}
"""Whatever kind of file it is."""

TENSORS: Mapping[str, Callable[[Path], object]] = {
    "fewer rows": lambda path: rewrite(path, _cut),
    "other format": lambda path: rewrite(path, _halved),
    "fewer tensors": lambda path: rewrite(path, lambda tensors: tensors.pop(_first(tensors))),
    "more tensors": lambda path: rewrite(path, lambda t: t.update(more=torch.zeros(2))),
    "other names": lambda path: rewrite(path, _renamed),
    "other values": lambda path: rewrite(path, _swapped),
}
"""Valid safetensors files, but not those that were written."""


def restored(pristine: Path, folder: Path) -> None:
    """Make ``folder`` what it was."""
    shutil.rmtree(folder)
    shutil.copytree(pristine, folder)
