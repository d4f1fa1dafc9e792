"""Tensors come back bit for bit, or with a typed error when the file is no longer the same."""

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ace_gui.checkpoints import input_files
from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.reader import TensorReader, require_finite
from ace_gui.errors import CheckpointError, FileChangedError, NonFiniteError, ResourceError
from tests.helpers.checkpoints import same_bits, save_model, small_tensors

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def test_each_read_has_memory_of_its_own(tmp_path):
    save_model(tmp_path, small_tensors())
    reader = TensorReader(open_checkpoint(tmp_path))
    reader.read("layer.0.weight").zero_()
    assert torch.equal(reader.read("layer.0.weight"), small_tensors()["layer.0.weight"])


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def overwrite(file: Path) -> None:
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))


def swap(file: Path) -> None:
    before = file.stat()
    copy = file.with_name("other")
    copy.write_bytes(file.read_bytes())
    os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))
    copy.replace(file)


@pytest.mark.parametrize(
    "change",
    [truncate, lambda file: file.write_bytes(file.read_bytes() + b"x"), overwrite, swap],
    ids=["truncated", "longer", "overwritten", "swapped"],
)
def test_a_changed_file(tmp_path, change: Callable[[Path], object]):
    checkpoint = open_checkpoint(save_model(tmp_path, small_tensors()))
    reader = TensorReader(checkpoint)
    reader.check_unchanged()
    change(tmp_path / "model.safetensors")
    with pytest.raises(FileChangedError, match=r"model\.safetensors: The file changed"):
        reader.read("layer.0.weight")
    with pytest.raises(FileChangedError):
        reader.check_unchanged()
    with pytest.raises(FileChangedError), TensorReader(checkpoint):
        pass


def test_a_removed_file(tmp_path):
    checkpoint = open_checkpoint(save_model(tmp_path, small_tensors()))
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="No such file"):
        TensorReader(checkpoint).read("layer.0.weight")
    with pytest.raises(FileChangedError):
        TensorReader(checkpoint).check_unchanged()


def test_an_error_in_the_block_is_not_hidden(tmp_path):
    checkpoint = open_checkpoint(save_model(tmp_path, small_tensors()))
    truncate(tmp_path / "model.safetensors")
    with pytest.raises(KeyError, match="absent"), TensorReader(checkpoint) as reader:
        reader.read("absent")


def test_truncation_at_random_moments(tmp_path, monkeypatch):
    """Also between the check and the read, and in the middle of a read."""
    tensors = {"w": torch.arange(4096.0)}
    choose = random.Random(5)
    real = input_files._read_once
    for _ in range(40):
        save_model(tmp_path, tensors)
        file = tmp_path / "model.safetensors"
        checkpoint = open_checkpoint(tmp_path)
        keep = choose.randrange(file.stat().st_size)

        def in_pieces(descriptor: int, buffer: memoryview, offset: int) -> int:
            count = real(descriptor, buffer[:1000], offset)
            if choose.random() < 0.2:
                os.truncate(file, keep)  # noqa: B023 - called within the same turn
            return count

        with monkeypatch.context() as patch:
            patch.setattr(input_files, "_read_once", in_pieces)
            try:
                read = TensorReader(checkpoint).read("w")
            except FileChangedError:
                continue
        assert same_bits(read, tensors["w"])


def test_no_file_stays_open(tmp_path):
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("needs /proc")
    checkpoint = open_checkpoint(save_model(tmp_path, small_tensors(), shards=3))
    before = len(list(descriptors.iterdir()))
    with TensorReader(checkpoint) as reader:
        for name in checkpoint.tensors:
            reader.read(name)
        assert len(list(descriptors.iterdir())) == before


def test_a_tensor_that_memory_cannot_hold(tmp_path):
    checkpoint = open_checkpoint(save_model(tmp_path, small_tensors()))
    info = checkpoint.tensors["layer.0.weight"]
    huge = replace(info, shape=(2**58,), nbytes=2**60)
    reader = TensorReader(replace(checkpoint, tensors={"layer.0.weight": huge}))
    with pytest.raises(ResourceError, match=f"needs {2**60} bytes of memory"):
        reader.read("layer.0.weight")


@pytest.mark.parametrize("dtype", FLOATS)
def test_finite_tensors_pass(dtype: torch.dtype):
    largest = torch.full((64, 64), torch.finfo(dtype).max, dtype=dtype)  # its sum overflows
    for tensor in (
        largest,
        -largest,
        torch.zeros(0, 3, dtype=dtype),
        torch.tensor(1.0, dtype=dtype),
    ):
        require_finite(tensor, "w", "expert", Path("m"))
    require_finite(torch.tensor([1, 2]), "w", "expert", Path("m"))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_every_place_is_looked_at(dtype: torch.dtype, value: float):
    for row in range(7):
        for column in range(7):
            tensor = torch.ones(7, 7, dtype=dtype)
            tensor[row, column] = value
            with pytest.raises(NonFiniteError, match=rf"first at \[{row}, {column}\]"):
                require_finite(tensor, "w", "expert", Path("m"))


def test_the_sentence_about_values_that_are_not_finite():
    tensor = torch.zeros(2, 5)
    tensor[0, 3:] = tensor[1, 1] = float("nan")
    with pytest.raises(NonFiniteError) as caught:
        require_finite(tensor, "layers.17.q_proj.weight", "cola", Path("m"))
    assert caught.value.sentence == (
        "`layers.17.q_proj.weight` of `cola` has 3 NaN values (first at [0, 3]). Download it again."
    )
    assert caught.value.tensor == "layers.17.q_proj.weight"
    tensor[1, 4] = float("inf")
    with pytest.raises(NonFiniteError, match="has 3 NaN and 1 infinite values"):
        require_finite(tensor, "w", "cola", Path("m"))
    with pytest.raises(NonFiniteError, match=r"has 1 infinite value \(first at \[\]\)"):
        require_finite(torch.tensor(float("inf")), "w", "cola", Path("m"))
