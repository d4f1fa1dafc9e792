"""What is read back is compared with what was computed: a flipped bit anywhere is found."""

from pathlib import Path

import pytest
import torch

from ace_gui.checkpoints.input_files import file_digest
from ace_gui.checkpoints.writer import OutputTensor, Shard, ShardedWriter, plan_shards
from ace_gui.engine.merging.store import verify_shards
from ace_gui.engine.streaming import checksum
from ace_gui.errors import OutputError

TENSORS = {"a": torch.linspace(-1, 1, 40).reshape(8, 5), "b": torch.ones(3, dtype=torch.float16)}
CHECKSUMS = {name: checksum(tensor) for name, tensor in TENSORS.items()}


def written(folder: Path, tensors: dict[str, torch.Tensor] = TENSORS) -> tuple[Shard, ...]:
    dtypes = {torch.float32: "F32", torch.float16: "F16"}
    outputs = [
        OutputTensor(name=name, dtype=dtypes[tensor.dtype], shape=tuple(tensor.shape))
        for name, tensor in tensors.items()
    ]
    shards = plan_shards(outputs, 10**9)
    writer = ShardedWriter(folder, shards)
    for name, tensor in tensors.items():
        writer.write(name, tensor)
    writer.finish()
    return shards


def test_a_sound_file_gives_its_hash(tmp_path):
    shards = written(tmp_path)
    hashes = verify_shards(tmp_path, shards, CHECKSUMS)
    assert hashes == {"model.safetensors": file_digest(tmp_path / "model.safetensors")}


def test_every_flipped_bit_is_found(tmp_path):
    shards = written(tmp_path)
    path = tmp_path / "model.safetensors"
    sound = path.read_bytes()
    for index in range(len(sound) - sum(t.nbytes for t in TENSORS.values()), len(sound)):
        broken = bytearray(sound)
        broken[index] ^= 1 << (index % 8)
        path.write_bytes(broken)
        with pytest.raises(OutputError, match="not what was written"):
            verify_shards(tmp_path, shards, CHECKSUMS)


@pytest.mark.parametrize("cut", [1, 50, 10_000])
def test_a_cut_file_is_found(tmp_path, cut: int):
    shards = written(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(OutputError, match="not what was written"):
        verify_shards(tmp_path, shards, CHECKSUMS)


def test_values_that_are_not_finite_are_found(tmp_path):
    tensors = {"a": torch.tensor([1.0, torch.inf])}
    shards = written(tmp_path, tensors)
    with pytest.raises(OutputError, match="NaN or Inf"):
        verify_shards(tmp_path, shards, {"a": checksum(tensors["a"])})
