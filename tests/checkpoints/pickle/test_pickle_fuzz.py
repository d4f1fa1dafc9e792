"""Malicious pickles in thousands of shapes: nothing in them runs, each is dealt with at once."""

import shutil
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ace_gui.checkpoints import convert_pickle
from ace_gui.errors import CheckpointError
from tests.helpers.faults import complaint
from tests.helpers.pickles import (
    Call,
    Reference,
    calls,
    legacy_file,
    pickled,
    raw_pickle,
    tar_file,
    view,
    zip_file,
)

SECONDS = 2
MEMORY = 1_000_000_000

Wrap = Callable[[object], object]
WRAPS: dict[str, Wrap] = {
    "value": lambda inner: {"weight": inner},
    "key": lambda inner: {"state_dict": {"weight": 1}, "more": (inner,)},
    "list": lambda inner: [inner],
    "tuple": lambda inner: (1, inner),
    "ordered": lambda inner: OrderedDict(model=inner),
    "after a tensor": lambda inner: {
        "a": view(Reference("0", 1), (1,), (1,)),
        "b": inner,
    },
    "shape": lambda inner: {"a": view(Reference("0", 1), (inner,), (1,))},
    "argument": lambda inner: {"a": Call(OrderedDict, ([("x", inner)],))},
    "state": lambda inner: {"a": Call(set, ([inner],))},
}
FORMS: dict[str, Callable[[Path, bytes], Path]] = {
    "zip": lambda path, program: zip_file(path, program, {"0": bytes(4)}),
    "legacy": legacy_file,
    "legacy keys": lambda path, program: legacy_file(path, pickled({}), program),
    "tar": tar_file,
    "raw": raw_pickle,
}


@st.composite
def payloads(draw: st.DrawFn, harmful: list[Call]) -> tuple[str, bytes]:
    """A form, and a program with a call somewhere in it, at times damaged a little."""
    inner: object = draw(st.sampled_from(harmful))
    for name in draw(st.lists(st.sampled_from(sorted(WRAPS)), min_size=1, max_size=4)):
        inner = WRAPS[name](inner)
    program = bytearray(pickled(inner, draw(st.sampled_from([0, 1, 2, 3, 4, 5]))))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        index = draw(st.integers(0, len(program) - 1))
        if draw(st.booleans()):
            program[index] = draw(st.integers(0, 255))
        else:
            program[index:index] = draw(st.binary(min_size=1, max_size=6))
    return draw(st.sampled_from(sorted(FORMS))), bytes(program)


def fuzz(folder: Path, examples: int) -> list[str]:
    """What became of each: its refusal, or nothing where it was taken for weights."""
    canary, file = folder / "canary", folder / "model.pt"
    said = []

    @settings(
        deadline=None,
        max_examples=examples,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(payload=payloads(list(calls(canary).values())))
    def run(payload: tuple[str, bytes]) -> None:
        form, program = payload
        FORMS[form](file, program)
        shutil.rmtree(folder / "cache", ignore_errors=True)
        began = time.monotonic()
        error = complaint(lambda: convert_pickle(file, folder / "cache"))
        assert time.monotonic() - began < SECONDS
        assert error is None or isinstance(error, CheckpointError)
        said.append("" if error is None else error.sentence)
        assert said[-1].isprintable()
        assert not canary.exists(), program

    run()
    return said


def peak_memory() -> int:
    """Largest resident memory of this process since ``forget_peak``."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def check(folder: Path, examples: int) -> None:
    said = fuzz(folder, examples)
    assert len(said) >= 0.9 * examples  # some are drawn twice
    blocked = [sentence for sentence in said if "Blocked; nothing was run." in sentence]
    assert len(blocked) > len(said) // 4  # the payload itself was met
    assert said.count("") < len(said) // 20


def test_hundreds_of_payloads(tmp_path: Path) -> None:
    check(tmp_path, 300)


@pytest.mark.long
def test_ten_thousand_payloads(tmp_path: Path) -> None:
    forget_peak()
    check(tmp_path, 10_000)
    assert peak_memory() < MEMORY
