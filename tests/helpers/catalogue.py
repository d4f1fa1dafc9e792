"""The catalogue of bad inputs, 1 to 24: how each is made, and the sentence that people read."""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.helpers.adapters import factors, save_adapter
from tests.helpers.checkpoints import entry, raw_file, save_model, small_tensors, write_index
from tests.helpers.gguf_files import gguf_bytes
from tests.helpers.pickles import Call, Reference, pickled, view, zip_file

F32 = entry("F32", [2], 0, 8)


@dataclass(frozen=True)
class BadInput:
    """``make`` puts the bad input into a folder and returns what is opened."""

    number: int
    make: Callable[[Path], Path]
    sentence: str

    def __str__(self) -> str:
        return f"{self.number}-{self.sentence[:24]}"


def file(content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "model.safetensors").write_bytes(content)
        return folder / "model.safetensors"

    return make


def header(entries: object, size: int = 8) -> Callable[[Path], Path]:
    return lambda folder: raw_file(folder / "model.safetensors", entries, bytes(size))


def quantised(name: str, dtype: torch.dtype = torch.int32) -> Callable[[Path], Path]:
    return lambda folder: save_model(folder, {name: torch.ones(4).to(dtype)})


def configured(method: str) -> Callable[[Path], Path]:
    config = {"quantization_config": {"quant_method": method}}
    held = {**small_tensors(), "packed": torch.ones(4, dtype=torch.int32)}
    return lambda folder: save_model(folder, held, config=config)


def large_header(folder: Path) -> Path:
    path = folder / "model.safetensors"
    with path.open("wb") as sparse:
        sparse.write(struct.pack("<Q", 20_000_000) + b"{")
        sparse.truncate(30_000_000)
    return path


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "model.safetensors")
    return folder / "model.safetensors"


def device(folder: Path) -> Path:
    (folder / "model.safetensors").symlink_to("/dev/zero")
    return folder


def directory(folder: Path) -> Path:
    (folder / "model.safetensors").mkdir()
    return folder


def escaping_index(folder: Path) -> Path:
    write_index(folder, {"x": "../../x.safetensors"})
    return folder


def missing_shard(folder: Path) -> Path:
    save_model(folder, small_tensors(7), shards=7)
    (folder / "model-00003-of-00007.safetensors").unlink()
    return folder


def absent_tensor(folder: Path) -> Path:
    save_model(folder, small_tensors(), shards=3)
    save_file({"other": torch.ones(1)}, folder / "model-00003-of-00003.safetensors")
    return folder


QUANTISED = "Merging needs BF16, FP16 or FP32; dequantise first."

OPENED = [
    BadInput(1, file(b""), "File is empty (0 bytes). Download it again."),
    BadInput(
        2,
        file(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"),
        "This is a Git LFS placeholder, not the weights. Run `git lfs pull`.",
    ),
    BadInput(3, file(b"<!doctype html><html></html>"), "This is a web page, not a model."),
    BadInput(
        4,
        lambda folder: zip_file(folder / "model.safetensors", pickled({})),
        "Contents are a PyTorch pickle despite the name.",
    ),
    BadInput(4, file(pickled({"a": 1})), "Contents are a PyTorch pickle despite the name."),
    BadInput(
        5,
        file(struct.pack("<Q", 9000) + b"{" + bytes(91)),
        "Header claims 9000 bytes; the file has 100. Likely truncated.",
    ),
    BadInput(6, large_header, "Header too large (20000000); the limit is 10000000."),
    BadInput(7, header({"a": F32}, 7), "Incomplete: expected "),
    BadInput(8, header({"a": F32}, 11), "3 unexpected bytes after the last tensor."),
    BadInput(
        9,
        header({"a": F32, "b": entry("F32", [2], 4, 12)}, 12),
        "`b` overlaps `a`; the file is malformed.",
    ),
    BadInput(
        10, header({"a": F32, "b": entry("F32", [2], 12, 20)}, 20), "Gap of 4 bytes before `b`."
    ),
    BadInput(
        11,
        header('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":1}'),
        "Tensor `a` is defined twice.",
    ),
    BadInput(
        12,
        header({"a": entry("F32", [2, 2**64 - 2], 0, 8)}),
        "Tensor `a` declares an impossible size.",
    ),
    BadInput(
        13, header({"a": entry("F32", [0, 2**63], 0, 0)}), "Tensor `a` declares an impossible size."
    ),
    BadInput(14, header({"a": entry("F9", [2], 0, 8)}), "Unknown number format `F9` in `a`."),
    BadInput(15, header({"a": entry("F4", [16], 0, 8)}), f"`a` is quantised (F4). {QUANTISED}"),
    BadInput(
        15,
        header({"a": entry("F6_E2M3", [8], 0, 6)}, 6),
        f"`a` is quantised (F6_E2M3). {QUANTISED}",
    ),
    BadInput(
        15, header({"a": entry("F8_E8M0", [8], 0, 8)}), f"`a` is quantised (F8_E8M0). {QUANTISED}"
    ),
    BadInput(15, quantised("a", torch.float8_e4m3fn), f"`a` is quantised (F8_E4M3). {QUANTISED}"),
    BadInput(15, quantised("q.qweight"), f"`q.qweight` is quantised (GPTQ or AWQ). {QUANTISED}"),
    BadInput(15, quantised("q.absmax"), f"`q.absmax` is quantised (bitsandbytes). {QUANTISED}"),
    BadInput(15, configured("awq"), f"is quantised (awq). {QUANTISED}"),
    BadInput(16, pipe, "Not a regular file."),
    BadInput(16, device, "Not a regular file."),
    BadInput(16, directory, "Not a regular file."),
    BadInput(
        17,
        escaping_index,
        "The index points outside the model's folder. Refused: the model may be malicious.",
    ),
    BadInput(18, missing_shard, "Shard 3 of 7 is missing."),
    BadInput(18, absent_tensor, "`layer.2.weight` should be in shard 3 but is not."),
]


def pickle_of(value: object) -> Callable[[Path], Path]:
    return lambda folder: zip_file(folder / "pytorch_model.bin", pickled(value), {"0": bytes(4)})


def compressed(folder: Path) -> Path:
    tensor = view(Reference("0", 250_000), (250_000,), (1,))
    return zip_file(
        folder / "pytorch_model.bin",
        pickled({"a": tensor}),
        {"0": bytes(1_000_000)},
        compression=zipfile.ZIP_DEFLATED,
    )


def whole_module(folder: Path) -> Path:
    torch.save(torch.nn.Linear(1, 1), folder / "pytorch_model.bin")
    return folder / "pytorch_model.bin"


def torchscript(folder: Path) -> Path:
    more = {"constants.pkl": b"", "code/__torch__.py": b""}
    return zip_file(folder / "pytorch_model.bin", pickled({}), more=more)


CONVERTED = [
    BadInput(
        19,
        pickle_of({"a": Call(os.system, ("exit 1",))}),
        "Contains executable code (`posix.system`). Blocked; nothing was run.",
    ),
    BadInput(20, compressed, "bytes would expand to 1000"),
    BadInput(
        21,
        pickle_of({"a": view(Reference("0", 1), (2**20, 2**20), (0, 0))}),
        "`a` claims 4398046511104 bytes; its storage holds 4.",
    ),
    BadInput(
        22,
        whole_module,
        "Contains a program (`torch.nn.modules.linear.Linear`), not just weights. Ask for "
        "safetensors.",
    ),
    BadInput(
        22, torchscript, "Contains a program (TorchScript), not just weights. Ask for safetensors."
    ),
]


def adapter(outputs_rank: int = 2, inputs_rank: int = 2) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        a = factors("q_proj", 6, 4, rank=inputs_rank)
        b = factors("q_proj", 6, 4, rank=outputs_rank)
        names = [name for name in a if "lora_A" in name], [name for name in b if "lora_B" in name]
        tensors = {names[0][0]: a[names[0][0]], names[1][0]: b[names[1][0]]}
        return save_adapter(folder, tensors)

    return make


def lonely_factor(folder: Path) -> Path:
    tensors = factors("q_proj", 6, 4)
    return save_adapter(folder, {name: t for name, t in tensors.items() if "lora_A" in name})


ADAPTERS = [
    BadInput(
        24, adapter(outputs_rank=8, inputs_rank=2), "`q_proj`: A is 2×4, B is 6×8; ranks differ."
    ),
    BadInput(24, lonely_factor, "`q_proj` has A but no B."),
]


@dataclass(frozen=True)
class Unsupported:
    """A kind of model that is recognised and not merged. ``what``: for the table of the docs."""

    what: str
    make: Callable[[Path], Path]

    def __str__(self) -> str:
        return self.what


def tensors_named(*names: str, dtype: torch.dtype = torch.float32) -> Callable[[Path], Path]:
    held = {name: torch.ones(4, 2).to(dtype) for name in names}
    return lambda folder: save_model(folder, held)


def peft(**config: object) -> Callable[[Path], Path]:
    return lambda folder: save_adapter(folder, factors("q_proj", 6, 4), **config)


def lycoris(*names: str) -> Callable[[Path], Path]:
    held = {"lora_unet_q.lora_down.weight": torch.ones(2, 4), **dict.fromkeys(names, torch.ones(4))}

    def make(folder: Path) -> Path:
        save_file(held, folder / "pytorch_lora_weights.safetensors")
        return folder

    return make


def only(name: str, content: bytes = b"weights") -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder

    return make


QUANTISED_GGUF = gguf_bytes(
    {"general.architecture": "llama"}, {"output_norm.weight": torch.ones(4)}
).replace(struct.pack("<IQIQ", 1, 4, 0, 0), struct.pack("<IQIQ", 1, 4, 12, 0))

UNSUPPORTED = [
    Unsupported("bitsandbytes, 4 bits", configured("bitsandbytes")),
    Unsupported("bitsandbytes without its config", tensors_named("q.weight", "q.weight.absmax")),
    Unsupported("GPTQ", configured("gptq")),
    Unsupported("AWQ", configured("awq")),
    Unsupported("GPTQ or AWQ without its config", quantised("q.qweight")),
    Unsupported("fp8 without scales", quantised("a", torch.float8_e4m3fn)),
    Unsupported("fp8 with scales that do not fit", tensors_named("q.weight", "q.weight_scale_inv")),
    Unsupported("MXFP4 of another form", tensors_named("q_blocks", "q_scales", dtype=torch.uint8)),
    Unsupported("compressed-tensors", tensors_named("q.weight_packed", dtype=torch.int32)),
    Unsupported("HQQ", tensors_named("q.W_q", dtype=torch.uint8)),
    Unsupported("AQLM", tensors_named("q.codebooks", "q.codes")),
    Unsupported("EXL2", tensors_named("q.q_weight", dtype=torch.int32)),
    Unsupported("GGUF of blocks of few bits", only("model-q4.gguf", QUANTISED_GGUF)),
    Unsupported("GGUF by another name", file(b"GGUF\x03\0\0\0\0\0")),
    Unsupported("TensorFlow, Flax, ONNX", only("tf_model.h5")),
    Unsupported("TorchScript (once its conversion is agreed to)", torchscript),
    Unsupported("a whole pickled module (likewise)", whole_module),
    Unsupported("IA³ in PEFT's form", peft(peft_type="IA3")),
    Unsupported("QALoRA", peft(use_qalora=True)),
    Unsupported("DoRA of LyCORIS", lycoris("lora_unet_q.dora_scale")),
    Unsupported("prompt and prefix tuning", peft(peft_type="PREFIX_TUNING")),
    Unsupported("PiSSA, OLoRA, CorDA", peft(init_lora_weights="pissa")),
    Unsupported("LoRA in a bare file", tensors_named("base_model.model.q.lora_A.weight")),
    Unsupported("LoRA of diffusers or kohya as a base", tensors_named("unet.q.lora.down.weight")),
]
