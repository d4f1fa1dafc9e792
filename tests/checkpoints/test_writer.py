"""What is written is what the library would write, whatever the order; and no false completion."""

import errno
import json
import os
import random
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from ace_gui.checkpoints.header import tag_of
from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.checkpoints.writer import OutputTensor, ShardedWriter, plan_shards
from ace_gui.errors import OutputError, ResourceError, ResumeError, WorkbenchError
from tests.helpers.checkpoints import same_bits, small_tensors, tensors_of_every_format
from tests.helpers.damage import flip

ONE_FILE = 10**12


def planned(tensors: Mapping[str, Tensor]) -> list[OutputTensor]:
    return [
        OutputTensor(name=name, dtype=tag_of(tensor.dtype), shape=tuple(tensor.shape))
        for name, tensor in tensors.items()
    ]


def write_all(folder: Path, tensors: Mapping[str, Tensor], shard_bytes: int) -> tuple[Path, ...]:
    writer = ShardedWriter(folder, plan_shards(planned(tensors), shard_bytes))
    for name in random.Random(1).sample(sorted(tensors), len(tensors)):
        writer.write(name, tensors[name])
    return writer.finish()


def test_one_file_is_byte_for_byte_the_library_s(tmp_path):
    tensors = small_tensors()
    (written,) = write_all(tmp_path, tensors, ONE_FILE)
    save_file(tensors, tmp_path / "library.safetensors", metadata={"format": "pt"})
    assert written.name == "model.safetensors"
    assert written.read_bytes() == (tmp_path / "library.safetensors").read_bytes()


@pytest.mark.parametrize("shard_bytes", [ONE_FILE, 100, 1])
def test_every_format_in_one_file_or_many(tmp_path, shard_bytes: int):
    tensors = {
        **tensors_of_every_format(),
        "scalar": torch.tensor(2.5, dtype=torch.bfloat16),
        "empty": torch.zeros(0, 3),
        "odd": torch.ones(3, dtype=torch.uint8),
        'name with "quotes" and ü': torch.ones(2),
    }
    files = write_all(tmp_path, tensors, shard_bytes)
    loaded = {}
    for file in files:
        if file.suffix == ".safetensors":
            with safe_open(file, "pt") as library:
                assert library.metadata() == {"format": "pt"}
                loaded.update({name: library.get_tensor(name) for name in library.keys()})  # noqa: SIM118
    assert loaded.keys() == tensors.keys()
    with TensorReader(open_checkpoint(tmp_path)) as reader:
        for name, tensor in tensors.items():
            assert same_bits(loaded[name], tensor)
            assert same_bits(reader.read(name), tensor)


def test_a_transposed_view_is_written_as_its_values(tmp_path):
    shared = torch.arange(12.0).reshape(3, 4)
    tensors = {"a": shared, "b": shared.T, "c": shared[1]}
    write_all(tmp_path, tensors, ONE_FILE)
    for name, tensor in load_file(tmp_path / "model.safetensors").items():
        assert torch.equal(tensor, tensors[name])


def test_the_index_and_the_files_agree_both_ways(tmp_path):
    tensors = small_tensors()
    files = write_all(tmp_path, tensors, 100)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in tensors.values())
    held = {}
    for file in files:
        if file.suffix == ".safetensors":
            held.update(dict.fromkeys(load_file(file), file.name))
    assert index["weight_map"] == held
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in files}
    assert open_checkpoint(tmp_path).warnings == ()


def test_transformers_loads_the_shards(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=11, n_positions=6)
    model = transformers.GPT2Model(config)
    config.save_pretrained(tmp_path)
    write_all(tmp_path, model.state_dict(), 1000)
    loaded, report = transformers.GPT2Model.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)


SIZES = st.lists(st.integers(0, 30), max_size=30)


@settings(max_examples=100)
@given(sizes=SIZES, shard_bytes=st.integers(1, 60))
def test_shards_keep_the_order_and_the_limit(sizes: list[int], shard_bytes: int):
    tensors = [
        OutputTensor(name=str(index), dtype="U8", shape=(size,)) for index, size in enumerate(sizes)
    ]
    shards = plan_shards(tensors, shard_bytes)
    assert [tensor for shard in shards for tensor in shard.tensors] == tensors
    for shard in shards:
        held = sum(tensor.nbytes for tensor in shard.tensors)
        assert held <= shard_bytes or len([t for t in shard.tensors if t.nbytes]) == 1
    if sum(sizes) <= shard_bytes:
        assert [shard.file_name for shard in shards] == ["model.safetensors"]
    for number, shard in enumerate(shards, start=1):
        count = len(shards)
        assert count == 1 or shard.file_name == f"model-{number:05d}-of-{count:05d}.safetensors"


@settings(max_examples=60)
@given(tags=st.lists(st.sampled_from(["F64", "F32", "BF16", "U8"]), min_size=1, max_size=8))
def test_every_tensor_begins_at_a_multiple_of_its_element_s_size(tags: list[str]):
    tensors = [OutputTensor(name=str(n), dtype=tag, shape=(3,)) for n, tag in enumerate(tags)]
    (shard,) = plan_shards(tensors, ONE_FILE)
    assert len(shard.header) % 8 == 0
    for tensor in tensors:
        assert shard.starts[tensor.name] % (tensor.nbytes // 3) == 0


def test_other_stems(tmp_path):
    (shard,) = plan_shards(planned(small_tensors()), ONE_FILE, stem="cola")
    assert shard.file_name == "cola.safetensors"


def test_a_name_given_twice():
    tensor = OutputTensor(name="a", dtype="F32", shape=(2,))
    with pytest.raises(OutputError, match="`a` would be written twice"):
        plan_shards([tensor, tensor], ONE_FILE)


@pytest.mark.parametrize("wrong", [torch.ones(3, 2), torch.ones(2, 3, dtype=torch.float16)])
def test_other_shape_or_dtype_than_planned(tmp_path, wrong: Tensor):
    shards = plan_shards([OutputTensor(name="a", dtype="F32", shape=(2, 3))], ONE_FILE)
    writer = ShardedWriter(tmp_path, shards)
    with pytest.raises(OutputError, match=r"`a` was planned as F32 \[2, 3\], not torch"):
        writer.write("a", wrong)
    with pytest.raises(KeyError):
        writer.write("b", wrong)


def test_finishing_without_every_tensor(tmp_path):
    writer = ShardedWriter(tmp_path, plan_shards(planned(small_tensors()), 100))
    writer.write("layer.0.weight", small_tensors()["layer.0.weight"])
    with pytest.raises(OutputError, match=r"5 tensors were not written: `layer\.1\.weight`"):
        writer.finish()
    assert not (tmp_path / "model.safetensors.index.json").exists()


def test_files_that_are_there_are_not_overwritten(tmp_path):
    (tmp_path / "model.safetensors").write_text("mine")
    with pytest.raises(OutputError, match="Something is already there"):
        ShardedWriter(tmp_path, plan_shards(planned(small_tensors()), ONE_FILE))
    assert (tmp_path / "model.safetensors").read_text() == "mine"


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
def test_the_mode_follows_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        (file,) = write_all(tmp_path, small_tensors(), ONE_FILE)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize("done", range(7))
@pytest.mark.parametrize("shard_bytes", [ONE_FILE, 100])
def test_a_resumed_writer_gives_the_same_bytes(tmp_path, done: int, shard_bytes: int):
    tensors = small_tensors()
    shards = plan_shards(planned(tensors), shard_bytes)
    uninterrupted = tmp_path / "whole"
    resumed = tmp_path / "resumed"
    uninterrupted.mkdir()
    resumed.mkdir()
    write_all(uninterrupted, tensors, shard_bytes)
    names = list(tensors)
    writer = ShardedWriter(resumed, shards)
    for name in names[:done]:
        writer.write(name, tensors[name])
    fill(ShardedWriter(resumed, shards, names[:done]), dict(list(tensors.items())[done:]), [])
    for file in uninterrupted.iterdir():
        assert (resumed / file.name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    "harm",
    [
        lambda file: flip(file, 20),  # in the header
        lambda file: os.truncate(file, file.stat().st_size - 1),
        Path.unlink,
    ],
)
def test_files_that_a_merge_cannot_resume_into(tmp_path, harm):
    shards = plan_shards(planned(small_tensors()), 100)
    ShardedWriter(tmp_path, shards)
    harm(tmp_path / shards[1].file_name)
    with pytest.raises(ResumeError, match=shards[1].file_name):
        ShardedWriter(tmp_path, shards, [])


def test_a_disk_that_fills_at_any_write(tmp_path, monkeypatch):
    """Whichever write fails: a typed error, nothing complete, and resuming completes it."""
    tensors = small_tensors()
    shards = plan_shards(planned(tensors), 100)
    real = os.write
    for allowed in range(len(shards), len(shards) + len(tensors)):
        folder = tmp_path / str(allowed)
        folder.mkdir()
        remaining = allowed

        def limited(descriptor: int, data: memoryview) -> int:
            nonlocal remaining
            remaining -= 1
            if remaining < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(descriptor, data)

        written: list[str] = []
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", limited)
            with pytest.raises(ResourceError, match="The disk is full"):
                fill(ShardedWriter(folder, shards), tensors, written)
        assert not (folder / "model.safetensors.index.json").exists()
        writer = ShardedWriter(folder, shards, written)
        with pytest.raises(OutputError, match="not written"):
            writer.finish()
        fill(writer, {name: tensors[name] for name in tensors if name not in written}, written)
        with TensorReader(open_checkpoint(folder)) as reader:
            assert all(same_bits(reader.read(name), tensors[name]) for name in tensors)


def fill(writer: ShardedWriter, tensors: Mapping[str, Tensor], written: list[str]) -> None:
    for name, tensor in tensors.items():
        writer.write(name, tensor)
        written.append(name)
    writer.finish()


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file of this process may grow over ``size`` bytes (SIGXFSZ is ignored by Python).

    For a moment only: the test runner's own output may be such a file.
    """
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("can_reserve", [True, False])
def test_a_limit_on_the_size_of_files(tmp_path, monkeypatch, can_reserve: bool):
    if not can_reserve:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    shards = plan_shards(planned({"a": torch.zeros(300), "b": torch.zeros(8192)}), ONE_FILE)
    with (
        pytest.raises(ResourceError, match="or smaller shards"),
        file_size_limit(4096),
    ):
        ShardedWriter(tmp_path, shards)


def failing(number: int) -> Callable[..., None]:
    """A call of the system that ends with this error."""

    def fail(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_room_is_reserved_before_any_work_where_it_can_be(tmp_path, monkeypatch):
    shards = plan_shards(planned(small_tensors()), ONE_FILE)
    monkeypatch.setattr(os, "posix_fallocate", failing(errno.ENOSPC), raising=False)
    with pytest.raises(ResourceError, match="The disk is full"):
        ShardedWriter(tmp_path, shards)
    monkeypatch.setattr(os, "posix_fallocate", failing(errno.EOPNOTSUPP), raising=False)
    (tmp_path / "other").mkdir()
    write_all(tmp_path / "other", small_tensors(), ONE_FILE)
    assert load_file(tmp_path / "other/model.safetensors").keys() == small_tensors().keys()


@pytest.mark.parametrize(
    ("number", "kind"),
    [(errno.EIO, OutputError), (errno.EFBIG, ResourceError), (errno.EDQUOT, ResourceError)],
)
def test_a_failing_disk(tmp_path, monkeypatch, number: int, kind: type[WorkbenchError]):
    writer = ShardedWriter(tmp_path, plan_shards(planned(small_tensors()), ONE_FILE))
    monkeypatch.setattr(os, "fsync", failing(number))
    with pytest.raises(kind) as caught:
        fill(writer, small_tensors(), [])
    assert type(caught.value) is kind
