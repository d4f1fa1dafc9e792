"""Converting pickled models: equal to what torch reads, whole or not at all, and only once."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ace_gui.checkpoints import pickle_conversion as conversion_module
from ace_gui.checkpoints.adapters import open_adapter
from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.pickle_conversion import convert_pickle, converting, find_converted
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.errors import CheckpointError, OutputError, PickleConsentError
from ace_gui.output_files import MARK
from tests.helpers.checkpoints import same_bits, small_tensors, tensors_of_every_format


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "cache"


def read(folder: Path) -> dict[str, Tensor]:
    checkpoint = open_checkpoint(folder)
    with TensorReader(checkpoint) as reader:
        return {name: reader.read(name) for name in checkpoint.tensors}


def assert_same(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert set(actual) == set(expected)
    assert all(same_bits(actual[name], expected[name]) for name in expected)


@pytest.mark.parametrize("zipped", [True, False])
def test_every_format_comes_out_bit_for_bit(zipped: bool, tmp_path, cache: Path):
    tensors = tensors_of_every_format()
    if not zipped:  # as many as the older form can hold
        tensors = {name: t for name, t in tensors.items() if t.dtype not in NEW_FORMATS}
    file = tmp_path / "model.pt"
    torch.save(tensors, file, _use_new_zipfile_serialization=zipped)
    assert_same(read(convert_pickle(file, cache)), tensors)


NEW_FORMATS = (torch.uint16, torch.uint32, torch.uint64)


@pytest.mark.parametrize("zipped", [True, False])
def test_parameters_views_scalars_and_empty_tensors(zipped: bool, tmp_path, cache: Path):
    matrix = torch.arange(24.0).reshape(4, 6)
    tensors = {
        "parameter": torch.nn.Parameter(torch.randn(3, generator=torch.Generator().manual_seed(0))),
        "turned": torch.arange(6.0).reshape(2, 3).T,
        "left": matrix[:, :2],
        "right": matrix[:, 2:],
        "scalar": torch.tensor(3.0),
        "empty": torch.empty(0, 5),
        "channels": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    }
    file = tmp_path / "model.pth"
    torch.save(tensors, file, _use_new_zipfile_serialization=zipped)
    expected = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    assert_same(read(convert_pickle(file, cache)), expected)


@pytest.mark.parametrize("wrapper", ["state_dict", "model_state_dict", "model", "module", "ema"])
def test_wrappers_are_taken_off(wrapper: str, tmp_path, cache: Path):
    tensors = small_tensors()
    optimizer = {"state": {0: {"step": torch.tensor(1.0)}}, "param_groups": [{"lr": 0.1}]}
    training = {"epoch": 3, "device": torch.device("cpu"), "dtype": torch.float16, "best": None}
    file = tmp_path / "model.ckpt"
    torch.save({wrapper: {"state_dict": tensors}, "optimizer": optimizer, **training}, file)
    assert_same(read(convert_pickle(file, cache)), tensors)


def test_a_state_dict_of_a_module_keeps_its_names(tmp_path, cache: Path):
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    torch.save(module.state_dict(), tmp_path / "model.pt")
    assert_same(read(convert_pickle(tmp_path / "model.pt", cache)), module.state_dict())


def test_tied_tensors_are_stored_once_under_their_first_name(tmp_path, cache: Path):
    weight = torch.randn(4, 2, generator=torch.Generator().manual_seed(1))
    torch.save(
        {"wte.weight": weight, "b": weight[0].clone(), "lm_head.weight": weight}, BIN(tmp_path)
    )
    folder = convert_pickle(BIN(tmp_path), cache)
    assert_same(read(folder), {"wte.weight": weight, "b": weight[0]})
    (warning,) = open_checkpoint(folder).warnings
    assert "stored once: `lm_head.weight` as `wte.weight`." in warning


def BIN(folder: Path) -> Path:
    return folder / "pytorch_model.bin"


def model_folder(folder: Path, tensors: Mapping[str, Tensor], shards: int = 1) -> Path:
    """A Hugging Face folder whose weights are pickles."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    (folder / "tokenizer.json").write_text("{}")
    torch.save({"lr": 0.1}, folder / "training_args.bin")
    if shards == 1:
        torch.save(dict(tensors), BIN(folder))
        return folder
    weight_map = {}
    for number in range(shards):
        file = f"pytorch_model-{number + 1:05d}-of-{shards:05d}.bin"
        held = list(tensors)[number::shards]
        torch.save({name: tensors[name] for name in held}, folder / file)
        weight_map.update(dict.fromkeys(held, file))
    write_index(folder, weight_map)
    return folder


def write_index(folder: Path, weight_map: Mapping[str, str]) -> None:
    index = folder / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))


@pytest.mark.parametrize("shards", [1, 3])
def test_folders_come_with_their_side_files(shards: int, tmp_path, cache: Path):
    folder = model_folder(tmp_path / "expert-a", small_tensors(), shards)
    with pytest.raises(PickleConsentError) as caught:
        open_checkpoint(folder)
    assert caught.value.path == folder
    converted = convert_pickle(caught.value.path, cache)
    assert converted.name == "expert-a"
    assert sorted(file.name for file in converted.iterdir()) == [
        ".conversion.json",
        MARK,
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert ".conversion.json" not in open_checkpoint(converted).side_files
    assert_same(read(converted), small_tensors())
    assert open_checkpoint(converted).config == {"model_type": "bert"}


def test_the_weights_of_a_folder_are_that_folder(tmp_path, cache: Path):
    folder = model_folder(tmp_path / "expert-a", small_tensors())
    assert convert_pickle(BIN(folder), cache) == convert_pickle(folder, cache)


def test_converted_once_until_the_file_changes(tmp_path, cache: Path):
    folder = model_folder(tmp_path / "expert-a", small_tensors())
    assert find_converted(folder, cache) is None
    first = convert_pickle(folder, cache)
    written = (first / "model.safetensors").stat().st_mtime_ns
    assert convert_pickle(folder, cache) == first == find_converted(folder, cache)
    assert (first / "model.safetensors").stat().st_mtime_ns == written
    unseen(BIN(folder), BIN(folder).read_bytes())
    assert find_converted(folder, cache) == first, "the same, copied back"
    os.utime(BIN(folder), ns=(1, 1))
    assert find_converted(folder, cache) is None
    assert convert_pickle(folder, cache) != first


def unseen(file: Path, content: bytes) -> None:
    """Write another content of the same size, and put back the times."""
    before = file.stat()
    assert len(content) == before.st_size
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_pickle_of_another_content_with_its_old_size_and_time(tmp_path, cache: Path):
    folder = model_folder(tmp_path / "expert-a", small_tensors())
    convert_pickle(folder, cache)
    changed_tensors = {name: tensor + 1 for name, tensor in small_tensors().items()}
    again = BIN(model_folder(tmp_path / "expert-b", changed_tensors)).read_bytes()
    unseen(BIN(folder), again)
    assert find_converted(folder, cache) is None
    assert_same(read(convert_pickle(folder, cache)), changed_tensors)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", ".conversion.json"])
def test_bits_that_rot_in_a_kept_conversion_are_found(name: str, tmp_path, cache: Path):
    folder = model_folder(tmp_path / "expert-a", small_tensors())
    converted = convert_pickle(folder, cache)
    content = bytearray((converted / name).read_bytes())
    content[-10] ^= 1
    unseen(converted / name, bytes(content))
    assert find_converted(folder, cache) is None
    assert_same(read(convert_pickle(folder, cache)), small_tensors())
    assert find_converted(folder, cache) == converted


def test_a_conversion_without_its_record_or_a_file_is_made_again(tmp_path, cache: Path):
    folder = model_folder(tmp_path / "expert-a", small_tensors())
    for name in ("model.safetensors", "config.json", ".conversion.json"):
        (convert_pickle(folder, cache) / name).unlink()
        assert find_converted(folder, cache) is None
    assert_same(read(convert_pickle(folder, cache)), small_tensors())


def test_only_a_conversion_is_removed_for_a_new_one(tmp_path, cache: Path):
    folder = model_folder(tmp_path / "expert-a", small_tensors())
    converted = convert_pickle(folder, cache)
    assert (converted / MARK).is_file()
    (converted / "model.safetensors").write_bytes(b"rotten")
    assert_same(read(convert_pickle(folder, cache)), small_tensors())
    for name in (MARK, "model.safetensors"):
        (converted / name).unlink()
    with pytest.raises(OutputError, match="not made by this program"):
        convert_pickle(folder, cache)
    assert (converted / "config.json").is_file()


def test_find_converted_of_what_is_no_pickle(tmp_path, cache: Path):
    assert find_converted(tmp_path, cache) is None
    assert find_converted(tmp_path / "absent", cache) is None
    with pytest.raises(CheckpointError, match="Holds no PyTorch pickle"):
        convert_pickle(tmp_path, cache)
    (tmp_path / "a.txt").touch()
    with pytest.raises(CheckpointError, match="This is not a PyTorch pickle"):
        convert_pickle(tmp_path / "a.txt", cache)


def test_stopping_leaves_nothing(tmp_path, cache: Path, monkeypatch):
    monkeypatch.setattr(conversion_module, "_BLOCK", 16)
    folder = model_folder(tmp_path / "expert-a", small_tensors())
    steps = list(converting(folder, tmp_path / "other"))
    done, total = zip(*steps, strict=True)
    assert list(done) == sorted(set(done))
    assert set(total) == {done[-1]}
    stopped = converting(folder, cache)
    for _ in range(len(steps) // 2):
        next(stopped)
    stopped.close()
    assert not [file for file in cache.rglob("*") if file.is_file()]
    assert find_converted(folder, cache) is None
    assert_same(read(convert_pickle(folder, cache)), small_tensors())


def test_a_flipped_byte_is_found_by_the_checksum(tmp_path, cache: Path):
    tensor = torch.full((64,), 7.0)
    file = tmp_path / "model.pt"
    torch.save({"a": tensor}, file)
    raw = bytearray(file.read_bytes())
    raw[raw.index(tensor.numpy().tobytes()) + 3] ^= 1
    file.write_bytes(raw)
    with pytest.raises(CheckpointError, match="does not match its checksum"):
        convert_pickle(file, cache)
    assert not list(cache.rglob("*.safetensors"))


def test_files_without_checksums_are_read(tmp_path, cache: Path):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(small_tensors(), tmp_path / "model.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    assert_same(read(convert_pickle(tmp_path / "model.pt", cache)), small_tensors())


def test_missing_and_wrong_shards(tmp_path, cache: Path):
    folder = model_folder(tmp_path / "expert-a", small_tensors(), shards=3)
    second, third = (folder / f"pytorch_model-0000{n}-of-00003.bin" for n in (2, 3))
    torch.save({"other": torch.ones(1)}, third)
    with pytest.raises(CheckpointError, match=r"`layer.2.weight` should be in shard 3 but is not"):
        convert_pickle(folder, cache)
    torch.save(small_tensors(), third)
    with pytest.raises(CheckpointError, match="is defined twice, in pytorch_model-00001-of-00003"):
        convert_pickle(folder, cache)
    second.unlink()
    with pytest.raises(CheckpointError, match="Shard 2 of 3 is missing"):
        convert_pickle(folder, cache)
    (folder / "pytorch_model.bin.index.json").unlink()
    with pytest.raises(CheckpointError, match="The shards' index is missing"):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    "shard", ["../x.bin", "/etc/passwd.bin", "a\\b.bin", "C:x.bin", "x.safetensors", "nul.bin"]
)
def test_the_index_of_pickles_never_leads_out(shard: str, tmp_path, cache: Path):
    folder = model_folder(tmp_path / "expert-a", small_tensors(), shards=2)
    torch.save(small_tensors(), tmp_path / "x.bin")
    write_index(folder, {"layer.0.weight": shard})
    with pytest.raises(CheckpointError, match="Refused: the model may be malicious"):
        convert_pickle(folder, cache)


def test_several_pickles(tmp_path):
    for name in ("a.pt", "b.pt", "optimizer.pt"):
        torch.save({}, tmp_path / name)
    with pytest.raises(CheckpointError, match=r"Holds several pickles: `a.pt`, `b.pt`"):
        open_checkpoint(tmp_path)


def test_a_pickled_adapter(tmp_path, cache: Path):
    folder = tmp_path / "lora"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2}')
    factors = {"q.lora_A.weight": torch.ones(2, 4), "q.lora_B.weight": torch.ones(3, 2)}
    torch.save(factors, folder / "adapter_model.bin")
    with pytest.raises(PickleConsentError) as caught:
        open_adapter(folder)
    adapter = open_adapter(convert_pickle(caught.value.path, cache))
    assert adapter.deltas["q.weight"].shape == (3, 4)
