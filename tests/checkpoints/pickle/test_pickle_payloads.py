"""Malicious pickles: nothing in them runs, and they are refused at once and in little memory."""

import io
import itertools
import pickle
import shutil
import time
import tracemalloc
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.pickle_conversion import convert_pickle
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.errors import CheckpointError, PickleConsentError
from tests.helpers.checkpoints import same_bits
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

FORMS: dict[str, Callable[[Path, bytes], Path]] = {
    "zip": zip_file,
    "legacy": legacy_file,
    "legacy-first": raw_pickle,
    "legacy-keys": lambda path, program: legacy_file(path, pickled({}), program),
    "tar": tar_file,
    "raw": raw_pickle,
}
SECONDS = 2
MEMORY = 200_000_000
MEMORY_OF_ALL = 1_000_000_000
ONE = torch.ones(1)


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "pytorch_model.bin"


def refused(file: Path) -> str:
    """The sentence of the refusal, which is quick, takes little memory and leaves nothing."""
    cache = file.with_name("cache")
    tracemalloc.start()
    began = time.monotonic()
    try:
        with pytest.raises(CheckpointError) as caught:
            convert_pickle(file, cache)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Tracing makes Python several times slower.
    assert time.monotonic() - began < 5 * SECONDS
    assert peak < MEMORY
    assert not list(cache.rglob("*.safetensors"))
    return caught.value.sentence


def programs(canary: Path) -> Iterator[tuple[str, bytes]]:
    """Every call, in several places and protocols."""
    for (name, call), protocol in itertools.product(calls(canary).items(), (0, 1, 2, 4, 5)):
        yield name, pickled(OrderedDict(weight=call), protocol)
        yield name, pickled({"state_dict": {}, "epoch": [1, (call,)]}, protocol)


def old_opcodes(canary: Path) -> Iterator[tuple[str, bytes]]:
    """Calls by opcodes that no pickler of today writes."""
    text = f"mkdir {canary}".encode()
    yield "posix.system", b"(S'" + text + b"'\niposix\nsystem\n."
    yield "posix.system", b"(cposix\nsystem\nS'" + text + b"'\no."
    yield "posix.system", b"cposix\nsystem\n(S'" + text + b"'\ntR."
    short = b"\x8c" + bytes([len(text)]) + text
    yield "posix.system", b"\x80\x04\x8c\x05posix\x8c\x06system\x93" + short + b"\x85R."
    yield "posix.system", b"\x80\x04cposix\nsystem\n" + short + b"\x85}\x92."
    yield "posix.system", b"\x80\x04cposix\nsystem\n" + short + b"\x85\x81."


@pytest.mark.parametrize("form", FORMS)
def test_no_payload_runs(form: str, file: Path, tmp_path):
    canary = tmp_path / "canary"
    payloads = [*programs(canary), *old_opcodes(canary)]
    assert len(payloads) == 96
    for name, program in payloads:
        refusal = refused(FORMS[form](file, program))
        assert not canary.exists(), name
        if form != "tar" and program[:1] == b"\x80":  # which PyTorch's own pickles begin with
            assert "Blocked; nothing was run." in refusal or "Contains a program (`" in refusal


def test_the_payloads_would_run(tmp_path):
    canary = tmp_path / "canary"
    fired = set()
    for name, program in [*programs(canary), *list(old_opcodes(canary))[:4]]:
        pickle.loads(program)
        assert canary.exists(), name
        fired.add(name)
        canary.rmdir() if canary.is_dir() else canary.unlink()
    assert len(fired) == len(calls(canary)) + 1


@pytest.mark.parametrize("protocol", [2, 4])
def test_modules_are_programs(protocol: int, file: Path):
    torch.save(torch.nn.Linear(2, 2), file, pickle_protocol=protocol)
    assert "Contains a program (`torch.nn.modules.linear.Linear`)" in refused(file)
    torch.save({"a": torch.ones(2), "net": torch.nn.ReLU()}, file, pickle_protocol=protocol)
    assert "Contains a program (`torch.nn.modules.activation.ReLU`)" in refused(file)


def test_torchscript(file: Path):
    more = {"constants.pkl": pickled(()), "code/__torch__.py": b"class M: pass"}
    zip_file(file, pickled({}), more=more)
    assert "Contains a program (TorchScript), not just weights." in refused(file)


def test_names_that_are_not_called_still_are_no_weights(file: Path):
    zip_file(file, pickled({"weight": torch.nn.Linear, "hook": pickle.loads}))
    assert "Contains a program (`" in refused(file)


def tensor(count: int, *claims: object) -> bytes:
    """A state dict with one tensor; ``claims``: its shape, its strides, where it begins."""
    return pickled({"a": view(Reference("0", count), *claims)})


VIEWS = {f"w{i}": view(Reference("0", 64), (8,), (1,), i) for i in range(56)}
COLLIDING = b"".join(
    b"\x8a\x0a" + (k * (2**61 - 1)).to_bytes(10, "little") + b"N" for k in range(100_000)
)
BOMBS: dict[str, tuple[bytes, int, str]] = {
    "stride 0": (
        tensor(1, (2**20, 2**20), (0, 0)),
        4,
        "`a` claims 4398046511104 bytes; its storage holds 4.",
    ),
    "stride 0 within the storage": (tensor(8, (4,), (0,)), 32, "uses the same bytes repeatedly."),
    "beyond the storage": (tensor(8, (4,), (1,), 6), 32, "it is damaged"),
    "beyond by its strides": (tensor(8, (2,), (2**62,)), 32, "it is damaged"),
    "many views of one storage": (pickled(VIEWS), 256, "claim 288 bytes of a storage of 256."),
    "empty of impossible size": (
        tensor(1, (0, 2**62, 2**62), (0, 0, 0)),
        4,
        "`a` claims 0 bytes; its storage holds 4.",
    ),
    "absent storage": (tensor(2**40, (1,), (1,)), 0, "it is damaged"),
    "negative size": (tensor(1, (-1,), (1,)), 4, "not a PyTorch state dict, or it is damaged"),
    "steps": (b"\x80\x02" + b"}" * 9_000_000 + b".", 0, "more than 500000 steps"),
    "nesting": (b"\x80\x02" + b"(" * 400_000 + b"t" * 400_000 + b".", 0, "more than 500000 steps"),
    "colliding keys": (b"\x80\x02}(" + COLLIDING + b"u.", 0, "not a PyTorch state dict"),
    "itself": (b"\x80\x02}q\x00X\x05\0\0\0modelh\x00s.", 0, "`model` is not a tensor."),
    "large pickle": (bytes(10_000_001), 0, "Pickle too large (10000001 bytes)"),
}
"""What claims more than there is: a pickle, the bytes of its storage, and what is said of it."""


@pytest.mark.parametrize("name", BOMBS)
def test_bombs(name: str, file: Path):
    program, size, sentence = BOMBS[name]
    zip_file(file, program, {"0": bytes(size)} if size else None)
    assert sentence in refused(file)


def test_bombs_of_other_forms(file: Path):
    members = {"0": bytes(2**28)}
    packed = tensor(2**26, (2**26,), (1,))
    zip_file(file, packed, members, compression=zipfile.ZIP_DEFLATED)
    assert "would expand to 268435" in refused(file)
    legacy_file(file, tensor(2**60, (1,), (1,)), pickled(["0"]), (2**60).to_bytes(8, "little"))
    assert "it is damaged" in refused(file)
    raw_pickle(file, b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7f" + b"x" * 64)
    assert "not a PyTorch state dict" in refused(file)
    file.write_bytes(zip_file(file, pickled({}), {"0": bytes(999)}).read_bytes()[:-30])
    assert "damaged or cut short" in refused(file)


@pytest.mark.parametrize(
    ("field", "change", "sentence"),
    [
        (24, b"\xff\x7f", "would expand to"),
        (20, b"\xff\x7f", "would expand to"),
        (42, b"\xff\x7f", "damaged"),
        (28, b"\xff\x7f", "not a PyTorch checkpoint"),
        (20, b"\xff\xff\xff\x0f" * 2, "The archive claims 2684"),  # packed and whole size alike
        (8, b"\x01", "encrypted"),
    ],
)
def test_a_directory_that_lies(field: int, change: bytes, sentence: str, file: Path):
    zip_file(file, pickled({}), {"0": bytes(64)})
    raw = bytearray(file.read_bytes())
    index = raw.index(b"PK\x01\x02") + field
    raw[index : index + len(change)] = change
    file.write_bytes(raw)
    assert sentence in refused(file)


def test_big_endian_numbers(file: Path):
    zip_file(file, pickled({}), more={"byteorder": b"big"})
    assert "big-endian" in refused(file)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (lambda: {}, "Holds no tensors by name."),
        (lambda: [1, 2], "Holds no tensors by name."),
        (lambda: {"a": 3}, "`a` is not a tensor."),
        (lambda: {3: ONE}, "`3` is not the name of a tensor."),
        (lambda: {"__metadata__": ONE}, "`__metadata__` is not the name of a tensor."),
        (lambda: {"\ud800": ONE}, "is not the name of a tensor."),
        (lambda: {"a": torch.ones(2, 2).to_sparse()}, "`a` is sparse."),
        (lambda: {"a": ONE.to(torch.float8_e4m3fn)}, "`a` is quantised or of an unknown"),
        (lambda: {"a": ONE.to(torch.complex64).conj()}, "`a` is a lazily conjugated tensor."),
        (lambda: {"a": torch.quantize_per_tensor(ONE, 0.1, 0, torch.qint8)}, "`a` is quantised."),
        (lambda: {"model": {"a": ONE}, "ema": {"a": ONE}}, "sets of weights (`model`, `ema`)."),
    ],
)
def test_what_is_no_state_dict(value: Callable[[], object], sentence: str, file: Path):
    torch.save(value(), file)
    assert sentence in refused(file)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "File is empty (0 bytes)."),
        (b"version https://git-lfs.github.com/spec/v1\n", "This is a Git LFS placeholder"),
        (b"<!DOCTYPE html>", "This is a web page, not a model."),
        (b"\x10\0\0\0\0\0\0\0{}              ", "Contents are safetensors despite the name."),
        (b"PK\x03\x04", "damaged or cut short"),
        (b"\x80\x02}.", "This is a pickle, but not a PyTorch checkpoint."),
        (b"random", "not a PyTorch state dict, or it is damaged"),
        (b"\x80\x02K\x01.", "This is a pickle, but not a PyTorch checkpoint."),
        (
            b"\x80\x04\x8d" + (2**60).to_bytes(8, "little"),
            "not a PyTorch state dict, or it is damaged",
        ),
    ],
)
def test_what_is_no_pickle(content: bytes, sentence: str, file: Path):
    file.write_bytes(content)
    assert sentence in refused(file)


def test_opening_never_reads_a_pickle(file: Path, monkeypatch):
    def forbidden(*arguments: object, **options: object) -> None:
        raise AssertionError(arguments)

    zip_file(file, pickled({"a": Call(exec, ("raise SystemExit",))}))
    monkeypatch.setattr(torch, "load", forbidden)
    monkeypatch.setattr("ace_gui.checkpoints.input_files.os.open", forbidden)
    for path in (file, file.parent):
        with pytest.raises(PickleConsentError, match="not read unless you agree") as caught:
            open_checkpoint(path)
        assert caught.value.path == path


def good_file(*, zipped: bool) -> bytes:
    """A small state dict as torch writes it, without checksums."""
    stream = io.BytesIO()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(TENSORS, stream, _use_new_zipfile_serialization=zipped)
    finally:
        torch.serialization.set_crc32_options(True)
    return stream.getvalue()


def torch_reads(file: Path) -> dict[str, torch.Tensor] | None:
    """What the library makes of a damaged file; None if it refuses it, in whatever way."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(file, weights_only=True)
    except Exception:
        return None


@given(data=st.data())
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutated_files_are_refused_or_read_alike(data: st.DataObject, tmp_path):
    raw = bytearray(data.draw(st.sampled_from(GOOD)))
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, len(raw) - 1))
        raw[index] = data.draw(st.integers(0, 255))
    file = tmp_path / "model.pt"
    file.write_bytes(raw)
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    try:
        converted = open_checkpoint(convert_pickle(file, tmp_path / "cache"))
    except CheckpointError:
        return
    expected = torch_reads(file)
    with TensorReader(converted) as reader:
        for name in () if expected is None else converted.tensors:
            restored = reader.read(name)
            # With some damage to the archive's directory, torch returns memory it never filled.
            is_original = name in TENSORS and same_bits(restored, TENSORS[name])
            assert is_original or same_bits(restored, expected[name])


TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2)}
GOOD = (good_file(zipped=True), good_file(zipped=False))


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
    canary = folder / "canary"
    file = folder / "model.pt"
    said = []

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
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


def check(folder: Path, examples: int) -> None:
    said = fuzz(folder, examples)
    assert len(said) >= 0.9 * examples  # some are drawn twice
    blocked = [sentence for sentence in said if "Blocked; nothing was run." in sentence]
    assert len(blocked) > len(said) // 4  # the payload itself was met
    assert said.count("") < len(said) // 20


def test_hundreds_of_payloads(tmp_path):
    check(tmp_path, 300)


@pytest.mark.long
def test_ten_thousand_payloads(tmp_path):
    Path("/proc/self/clear_refs").write_text("5")  # forget the largest memory until now
    check(tmp_path, 10_000)
    status = Path("/proc/self/status").read_text()
    assert 1024 * int(status.split("VmHWM:")[1].split()[0]) < MEMORY_OF_ALL
