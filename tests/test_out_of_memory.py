"""Lack of memory is called so, whoever notices it."""

import errno
import os

import pytest
import torch
from safetensors import SafetensorError

from ace_gui.cli.streams import status_of
from ace_gui.errors import is_out_of_memory


def test_torch_s_own_error_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    assert status_of(caught.value, verbose=False) == 1
    said = capsys.readouterr().err
    assert said.startswith("Error: There was not enough memory")
    assert len(said.splitlines()) == 1


def of_windows(code: int) -> OSError:
    error = OSError(errno.EINVAL, "Zu wenig Speicher")
    error.winerror = code  # type: ignore[attr-defined]
    return error


def caused_by(cause: Exception) -> Exception:
    error = ValueError("cannot load the library")
    error.__cause__ = cause
    return error


LACK = [
    MemoryError(),
    OSError(errno.ENOMEM, "Kein Speicher verf\u00fcgbar"),
    OSError(errno.ENOMEM, os.strerror(errno.ENOMEM), "a file"),
    of_windows(8),
    of_windows(1455),
    torch.OutOfMemoryError("no text that is known"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory"
    ),
    RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("HIP out of memory. Tried to allocate 2.00 MiB"),
    RuntimeError("unable to mmap 4096 bytes from file <x>: Cannot allocate memory (12)"),
    RuntimeError("std::bad_alloc"),
    RuntimeError("can't start new thread"),
    SafetensorError("Error while deserializing header: Cannot allocate memory (os error 12)"),
    ImportError("libx.so: failed to map segment from shared object"),
    ImportError("libx.so: cannot map zero-fill pages: Cannot allocate memory"),
    ImportError("DLL load failed while importing x: The paging file is too small"),
    caused_by(MemoryError()),
    caused_by(OSError(errno.ENOMEM, "x")),
]


@pytest.mark.parametrize("error", LACK, ids=repr)
def test_every_kind_of_lack_is_known_by_its_class(error: Exception) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("shapes differ"),
        ValueError("out of memory"),
        OSError(errno.ENOSPC, "No space left on device"),
        ImportError("libx.so: cannot open shared object file"),
        of_windows(5),
    ],
    ids=repr,
)
def test_other_errors_are_not(error: Exception) -> None:
    assert not is_out_of_memory(error)
