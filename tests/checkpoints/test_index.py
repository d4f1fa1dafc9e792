"""Opening model folders and bare files by their headers."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ace_gui.checkpoints.adapters import is_adapter
from ace_gui.checkpoints.folder import nested_models
from ace_gui.checkpoints.index import is_plain_shard_name, open_checkpoint
from ace_gui.errors import CheckpointError
from tests.helpers.checkpoints import raw_file, save_model, small_tensors, write_index


def refused(path: Path, sentence: str) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    assert sentence in caught.value.sentence
    assert caught.value.path is not None
    return caught.value


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "expert-a"


@pytest.mark.parametrize("shards", [1, 3])
def test_folder(folder: Path, shards: int):
    tensors = small_tensors()
    save_model(folder, tensors, config={"model_type": "roberta"}, shards=shards)
    (folder / "tokenizer.json").write_text("{}")
    (folder / "modeling.py").write_text("raise SystemExit")
    checkpoint = open_checkpoint(folder)
    shapes = {name: tensor.shape for name, tensor in checkpoint.tensors.items()}
    assert shapes == {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    assert checkpoint.bytes == sum(tensor.nbytes for tensor in tensors.values())
    assert checkpoint.folder == folder
    assert checkpoint.config == {"model_type": "roberta"}
    assert checkpoint.dtype == "F32"
    assert len(checkpoint.files) == shards
    assert list(checkpoint.side_files) == ["config.json", "tokenizer.json"]
    assert "expert-a: Code of the model is neither run nor copied" in checkpoint.warnings[0]


def test_bare_file(tmp_path):
    file = tmp_path / "any.safetensors"
    save_file(small_tensors(), file)
    checkpoint = open_checkpoint(str(file))
    assert checkpoint.folder is None
    assert checkpoint.config is None
    assert checkpoint.side_files == {}
    assert set(checkpoint.tensors) == set(small_tensors())


def test_the_weights_of_a_folder_open_as_that_folder(folder: Path):
    save_model(folder, small_tensors())
    checkpoint = open_checkpoint(folder / "model.safetensors")
    assert checkpoint.folder == folder
    assert checkpoint.config is not None


@pytest.mark.parametrize(
    "name",
    [
        "diffusion_pytorch_model.safetensors",
        "open_clip_model.safetensors",
        "anything.safetensors",
    ],
)
def test_other_names_of_the_single_file(folder: Path, name: str):
    folder.mkdir()
    save_file(small_tensors(), folder / name)
    assert set(open_checkpoint(folder).tensors) == set(small_tensors())


def test_a_single_file_comes_before_an_index_as_in_transformers(folder: Path):
    save_model(folder, small_tensors(), shards=2)
    save_file({"only": torch.zeros(1)}, folder / "model.safetensors")
    checkpoint = open_checkpoint(folder)
    assert list(checkpoint.tensors) == ["only"]
    assert "as transformers does" in checkpoint.warnings[0]


def test_weights_that_are_not_read_are_named(folder: Path):
    save_model(folder, small_tensors())
    save_file(small_tensors(), folder / "consolidated.safetensors")
    assert "not `consolidated.safetensors`" in open_checkpoint(folder).warnings[0]


def test_identity_is_the_files_not_the_path(tmp_path):
    first = open_checkpoint(save_model(tmp_path / "a", small_tensors()))
    (tmp_path / "b").symlink_to(tmp_path / "a")
    copy = open_checkpoint(save_model(tmp_path / "c", small_tensors()))
    assert open_checkpoint(tmp_path / "b").identity == first.identity
    assert copy.identity != first.identity


def test_a_snapshot_of_the_hugging_face_cache(tmp_path):
    blobs = tmp_path / "repo/blobs"
    snapshot = tmp_path / "repo/snapshots/abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    save_model(tmp_path / "plain", small_tensors(), shards=2)
    for number, file in enumerate(sorted((tmp_path / "plain").iterdir())):
        shutil.copy(file, blobs / str(number))
        (snapshot / file.name).symlink_to(Path("../../blobs") / str(number))
    checkpoint = open_checkpoint(snapshot)
    assert set(checkpoint.tensors) == set(small_tensors())
    assert list(checkpoint.side_files) == ["config.json"]
    assert checkpoint.warnings == ()


def test_tensors_that_the_index_does_not_list_are_read_and_named(folder: Path):
    save_model(folder, small_tensors(), shards=2)
    file = folder / "model-00002-of-00002.safetensors"
    save_file({**load_file(file), "extra.bias": torch.zeros(2)}, file)
    checkpoint = open_checkpoint(folder)
    assert "extra.bias" in checkpoint.tensors
    assert "`extra.bias`" in checkpoint.warnings[0]


def test_a_tensor_in_two_shards(folder: Path):
    save_model(folder, {"a": torch.zeros(1), "b": torch.zeros(1)}, shards=2)
    save_file({"a": torch.ones(1), "b": torch.ones(1)}, folder / "model-00002-of-00002.safetensors")
    refused(folder, "Tensor `a` is defined twice, in model-00001-of-00002.safetensors and in")


@pytest.mark.parametrize(
    ("index", "sentence"),
    [
        ("{", "This is not valid JSON."),
        ("[]", "This JSON file holds no object."),
        ('{"a":' * 100_000, "This is not valid JSON."),
        ("{}", "The index has no weight map."),
        ('{"weight_map": {}}', "The index has no weight map."),
        ('{"weight_map": ["a"]}', "The index has no weight map."),
        ('{"weight_map": {"a": 3}}', "The index names no file for `a`."),
    ],
)
def test_malformed_index(folder: Path, index: str, sentence: str):
    folder.mkdir()
    (folder / "model.safetensors.index.json").write_text(index)
    refused(folder, sentence)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], "The folder is empty."),
        (["notes.txt"], "No weights here."),
        (["pytorch_model.bin", "config.json"], "Holds a PyTorch pickle (`pytorch_model.bin`)."),
        (["model.gguf"], "malformed"),
        (["a-q4.gguf", "a-q8.gguf"], "Holds several GGUF files: `a-q4.gguf`, `a-q8.gguf`."),
        (["adapter_config.json", "adapter_model.safetensors"], "This is an adapter (LoRA)"),
        (["a.safetensors", "b.safetensors"], "Holds several models: `a.safetensors`, `b"),
        (["model-00001-of-00002.safetensors"], "The shards' index is missing."),
        (
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
            "The shards' index is missing.",
        ),
        (["unet/diffusion_pytorch_model.safetensors"], "No weights here, only in `unet`."),
    ],
)
def test_folders_without_a_model(folder: Path, names: list[str], sentence: str):
    folder.mkdir()
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    refused(folder, sentence)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("model.gguf", "malformed"),
        ("pytorch_model.bin", "This is a PyTorch pickle."),
        ("model.pth", "a pickle can run code"),
        ("model.safetensors.index.json", "Open the folder it is in."),
        ("adapter.safetensors", "File is empty (0 bytes)."),
        ("anything", "File is empty (0 bytes)."),
    ],
)
def test_files_that_are_no_model(tmp_path, name: str, sentence: str):
    (tmp_path / name).touch()
    refused(tmp_path / name, sentence)


def test_a_folder_of_several_models_names_them(folder: Path):
    for name in ("unet", "text_encoder", "vision_model"):
        save_model(folder / name, small_tensors())
    (folder / "tokenizer").mkdir()
    (folder / "notes").touch()
    refused(folder, "No weights here, only in `text_encoder`, `unet`, `vision_model`. Open one")
    names = [path.name for path in nested_models(folder)]
    assert names == ["text_encoder", "unet", "vision_model"]
    assert all(open_checkpoint(path).tensors for path in nested_models(folder))


def test_missing_paths_and_files_without_tensors(tmp_path):
    refused(tmp_path / "absent", "No such file or folder.")
    refused(tmp_path / "absent.bin", "No such file or folder.")
    refused(raw_file(tmp_path / "a.safetensors", "{}"), "Holds no tensors.")


def test_no_permission_to_list_the_folder(folder: Path, monkeypatch):
    def denied(*_arguments: object) -> list[str]:
        raise PermissionError(13, "Permission denied")

    folder.mkdir()
    monkeypatch.setattr(os, "listdir", denied)
    monkeypatch.setattr(os, "scandir", denied)
    refused(folder, "No permission to read it.")


@pytest.mark.parametrize(
    ("config", "how"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "(gptq)"),
        ({"text_config": {"quantization_config": {"quant_method": "fp8"}}}, "(fp8)"),
        ({"quantization": {"group_size": 64, "bits": 4}}, "(MLX)"),
        ({"quantization": {"levels": 4}}, "(quantization)"),
    ],
)
def test_quantised_by_its_config(folder: Path, config: dict[str, object], how: str):
    save_model(folder, {"a": torch.ones(2), "b": torch.ones(2, dtype=torch.int8)}, config=config)
    sentence = refused(folder, "is quantised").sentence
    assert how in sentence
    assert "Merging needs BF16, FP16 or FP32; dequantise first." in sentence


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("key", ["quantization_config", "compression_config", "quantization"])
def test_plain_weights_whose_config_says_quantised_are_opened(
    folder: Path, key: str, nested: bool, dtype: torch.dtype
):
    said = {key: {"quant_method": "fp8"}}
    config = {"model_type": "x", "text_config": {"a": 1, **said}} if nested else {"b": 2, **said}
    save_model(folder, {"layer.weight": torch.ones(2, 2, dtype=dtype)}, config=config)
    checkpoint = open_checkpoint(folder)
    assert "quantised" in " ".join(checkpoint.warnings)
    assert "fp8" not in str(checkpoint.config)
    assert ("text_config" in (checkpoint.config or {})) is nested
    for more in (torch.ones(2, dtype=torch.int8), torch.ones(2).to(torch.float8_e4m3fn)):
        save_model(folder, {"layer.weight": torch.ones(2), "x": more}, config=config)
        refused(folder, "quantised")
    save_model(folder, {"layer.absmax": torch.ones(2)}, config=config)
    refused(folder, "quantised")


LORA_NAMES = {
    "diffusers": "unet.down_blocks.0.attentions.0.to_q.lora.down.weight",
    "diffusers, processors": "unet.down_blocks.0.attn1.processor.to_q_lora.down.weight",
    "diffusers, PEFT's factors": "unet.down_blocks.0.attentions.0.to_q.lora_A.weight",
    "transformer": "transformer.blocks.0.attn.to_k.lora_B.weight",
    "kohya": "lora_unet_down_blocks_0_attentions_0_to_q.lora_down.weight",
    "kohya, text encoder": "lora_te_text_model_encoder_layers_0_mlp_fc1.lora_up.weight",
}


@pytest.mark.parametrize("name", LORA_NAMES.values(), ids=LORA_NAMES)
@pytest.mark.parametrize("bare", [False, True])
def test_loras_of_other_libraries_are_named_as_such(folder: Path, name: str, bare: bool):
    folder.mkdir(exist_ok=True)
    file = folder / "pytorch_lora_weights.safetensors"
    alpha = name.rpartition(".lora")[0] + ".alpha"
    save_file({alpha: torch.tensor(4.0), name: torch.ones(2, 2)}, file)
    sentence = refused(file if bare else folder, "can be added as an expert").sentence
    assert "its folder" not in sentence.lower()
    assert is_adapter(file if bare else folder)


OTHER_KINDS = {
    "GLoRA": "lycoris_down_blocks_0_attn1_to_q.a1.weight",
    "full differences": "lycoris_down_blocks_0_attn1_to_q.diff",
    "IA³": "lora_unet_down_blocks_0_attn1_to_q.on_input",
    "OFT": "lycoris_down_blocks_0_attn1_to_q.oft_blocks",
    "T-LoRA": "lycoris_down_blocks_0_attn1_to_q.lambda_layer",
    "XLabs": "double_blocks.0.processor.qkv_lora1.down.weight",
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_adapters_of_kinds_that_are_not_read_are_named_as_such(folder: Path, kind: str):
    folder.mkdir(exist_ok=True)
    file = folder / "adapter.safetensors"
    save_file({OTHER_KINDS[kind]: torch.ones(2, 2)}, file)
    assert kind in refused(file, "with the tool that made it").sentence


def test_pefts_file_alone_is_told_from_its_folder(folder: Path):
    folder.mkdir(exist_ok=True)
    file = folder / "adapter_model.safetensors"
    save_file({"base_model.model.q.lora_A.weight": torch.ones(2, 2)}, file)
    refused(file, "Download its adapter_config.json, too")
    (folder / "adapter_config.json").write_text("{}")
    refused(file, "Name its folder.")


@pytest.mark.parametrize("suffix", [".onnx", ".h5", ".msgpack", ".ONNX"])
def test_a_bare_file_of_another_framework_is_named_as_such(folder: Path, suffix: str):
    folder.mkdir(exist_ok=True)
    file = folder / f"model{suffix}"
    file.write_bytes(b"\x08\x07" * 20)
    assert "header" not in refused(file, "TensorFlow, Flax or ONNX").sentence


@pytest.mark.parametrize("name", ["qzeros", "weight_scale_inv", "SCB", "weight_packed"])
def test_quantised_by_its_names(folder: Path, name: str):
    save_model(folder, {**small_tensors(), f"layer.{name}": torch.zeros(1)})
    assert refused(folder, f"`layer.{name}` is quantised").tensor == f"layer.{name}"


@pytest.mark.parametrize("name", ["scales", "scale", "weight_scale"])
def test_scales_are_quantised_only_beside_integers(folder: Path, name: str):
    scales = {f"layer.{name}": torch.ones(2)}
    save_model(folder, {"layer.weight": torch.ones(2, 2), **scales})
    assert f"layer.{name}" in open_checkpoint(folder).tensors
    save_model(folder, {"layer.weight": torch.ones(2, 2, dtype=torch.int8), **scales})
    refused(folder, "is quantised (integers with scales)")
    save_model(folder, {"layer.weight": torch.ones(2, 2, dtype=torch.uint32), **scales})
    refused(folder, f"is quantised ({'MLX' if name == 'scales' else 'integers with scales'})")


def test_masks_of_bytes_are_not_quantised(folder: Path):
    save_model(folder, {"attn.bias": torch.ones(1, 1, 4, 4, dtype=torch.uint8)})
    assert open_checkpoint(folder).dtype is None


def test_code_in_a_checkpoint_is_never_imported(folder: Path, tmp_path):
    canary = tmp_path / "canary"
    save_model(folder, small_tensors(), config={"auto_map": {"AutoModel": "modeling.Model"}})
    (folder / "modeling.py").write_text(f"open({str(canary)!r}, 'w')")
    assert open_checkpoint(folder).config == json.loads((folder / "config.json").read_text())
    assert not canary.exists()


def test_links_to_devices_and_pipes_do_not_hang(folder: Path, tmp_path):
    folder.mkdir()
    os.mkfifo(tmp_path / "pipe")
    (folder / "x.safetensors").symlink_to(tmp_path / "pipe")
    index = write_index(folder, {"x": "x.safetensors"})
    refused(folder, "Not a regular file")
    index.unlink()
    index.symlink_to("/dev/zero")
    refused(folder, "Not a regular file.")


@pytest.mark.parametrize(
    "name",
    ["model-00001-of-00002.safetensors", "x.safetensors", "con-1.safetensors", "ü.safetensors"],
)
def test_plain_names_are_accepted(name: str):
    assert is_plain_shard_name(name)


@pytest.mark.parametrize("name", ["é" * 125 + ".safetensors", "\udcff.safetensors"])
def test_names_no_file_system_holds(name: str):
    assert not is_plain_shard_name(name)
