"""LoRA adapters: the change equals what the adapted module computes; everything else is refused."""

import itertools
import math
import os
import re
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from ace_gui.checkpoints.adapters import is_adapter, open_adapter
from ace_gui.checkpoints.adapters.adapter_config import is_remote
from ace_gui.checkpoints.derived import ChangedInfo, expand, read_factor
from ace_gui.checkpoints.index import Checkpoint, open_checkpoint
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.errors import CheckpointError, FileChangedError, MismatchError, NonFiniteError
from tests.helpers.adapters import PREFIX, factors, save_adapter
from tests.helpers.checkpoints import same_bits, save_model

O = 5  # noqa: E741 - outputs
I = 7  # noqa: E741 - inputs
R = 2  # rank


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "lora"


def delta(folder: Path, target: str) -> Tensor:
    adapter = open_adapter(folder)
    change = adapter.deltas[target]
    read = partial(read_factor, TensorReader(adapter.stored))
    return change.product(read, 0, math.prod(change.shape) // change.width).reshape(change.shape)


def added(checkpoint: Checkpoint, name: str, start: int, stop: int) -> Tensor:
    info = checkpoint.tensors[name]
    return info.delta(TensorReader(checkpoint), start, stop)


def randn(*shape: int, seed: int = 9) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def close(first: Tensor, second: Tensor) -> bool:
    return torch.allclose(first, second, rtol=1e-5, atol=1e-5)


def refused(folder: Path, sentence: str) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        open_adapter(folder)
    assert sentence in caught.value.sentence
    assert "lora" in caught.value.sentence
    return caught.value


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("form", [".weight", ".default.weight", ".my_adapter.weight"])
@pytest.mark.parametrize("prefix", [PREFIX, ""])
def test_linear(dtype: torch.dtype, form: str, prefix: str, folder: Path):
    tensors = {
        name: tensor.to(dtype)
        for name, tensor in factors("layers.0.q_proj", O, I, form=form, prefix=prefix).items()
    }
    save_adapter(folder, tensors, lora_alpha=3)
    a_RI, b_OR = (tensor.float() for tensor in tensors.values())
    weight_OI = randn(O, I)
    x_BI = randn(4, I, seed=1)
    adapted = functional.linear(x_BI, weight_OI) + (x_BI @ a_RI.T) @ b_OR.T * (3 / R)
    change = delta(folder, "layers.0.q_proj.weight")
    assert change.dtype == torch.float32
    assert close(functional.linear(x_BI, weight_OI + change), adapted)


def test_conv1d_stores_inputs_by_outputs(folder: Path):
    save_adapter(folder, factors("h.0.attn.c_attn", O, I), fan_in_fan_out=True)
    a_RI, b_OR = factors("h.0.attn.c_attn", O, I).values()
    weight_IO = randn(I, O)
    x_BI = randn(4, I, seed=1)
    change = delta(folder, "h.0.attn.c_attn.weight")
    adapted = x_BI @ weight_IO + (x_BI @ a_RI.T) @ b_OR.T * 4
    assert change.shape == (I, O)
    assert close(x_BI @ (weight_IO + change), adapted)


def test_embedding(folder: Path):
    a_RV = randn(R, 11)
    b_DR = randn(O, R, seed=2)
    names = [f"{PREFIX}wte.lora_embedding_A", f"{PREFIX}wte.lora_embedding_B"]
    save_adapter(folder, dict(zip(names, (a_RV, b_DR), strict=True)))
    weight_VD = randn(11, O, seed=3)
    tokens = torch.tensor([0, 10, 4, 4])
    adapted = functional.embedding(tokens, weight_VD)
    adapted = adapted + functional.embedding(tokens, a_RV.T) @ b_DR.T * 4
    change = delta(folder, "wte.weight")
    assert close(functional.embedding(tokens, weight_VD + change), adapted)


def test_convolution(folder: Path):
    a_RIkk = randn(R, 3, 3, 3)
    b_OR11 = randn(O, R, 1, 1, seed=2)
    names = [f"{PREFIX}conv.lora_A.weight", f"{PREFIX}conv.lora_B.weight"]
    save_adapter(folder, dict(zip(names, (a_RIkk, b_OR11), strict=True)), fan_in_fan_out=True)
    weight = randn(O, 3, 3, 3, seed=3)
    image = randn(2, 3, 6, 6, seed=4)
    adapted = functional.conv2d(image, weight)
    adapted = adapted + functional.conv2d(functional.conv2d(image, a_RIkk), b_OR11) * 4
    output = functional.conv2d(image, weight + delta(folder, "conv.weight"))
    assert torch.allclose(output, adapted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("config", "scale"),
    [
        ({}, 8 / 2),
        ({"use_rslora": True}, 8 / math.sqrt(2)),
        ({"lora_alpha": 0.5}, 0.25),
        ({"alpha_pattern": {"q_proj": 3}}, 1.5),
        ({"alpha_pattern": {"v_proj": 3}}, 4),
        ({"alpha_pattern": {"_proj": 3, "j": 3}}, 4),
        ({"alpha_pattern": {"layers.0.q_proj": 3}}, 1.5),
        ({"alpha_pattern": {"^model.layers.0.q_proj": 3}}, 1.5),
        ({"alpha_pattern": {"^layers.0.q_proj": 3}}, 4),
        ({"alpha_pattern": {"model\\.layers\\.0\\.q_proj$": 3}}, 1.5),
        ({"alpha_pattern": {"0.q_proj": 5, "q_proj": 3}}, 2.5),
        ({"alpha_pattern": {"q_proj": 3, "0.q_proj": 5}}, 1.5),
        ({"r": 16, "rank_pattern": {"q_proj": 2}}, 4),
        ({"r": 16, "rank_pattern": {"q_proj": 2}, "alpha_pattern": {"q_proj": 1}}, 0.5),
        ({"r": 2, "rank_pattern": None, "alpha_pattern": None}, 4),
    ],
)
def test_scale(config: dict[str, object], scale: float, folder: Path):
    save_adapter(folder, factors("model.layers.0.q_proj", O, I), **config)
    factor = open_adapter(folder).deltas["model.layers.0.q_proj.weight"].scale
    assert factor == pytest.approx(scale, rel=1e-15)


@given(start=st.integers(0, 35), length=st.integers(0, 35), turned=st.booleans())
@settings(max_examples=50)
def test_parts_are_parts_of_the_whole(start: int, length: int, turned: bool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("a") / "lora"
    save_adapter(folder, factors("q", O, I), fan_in_fan_out=turned)
    base = save_model(
        folder.parent / "base", {"q.weight": torch.zeros((I, O) if turned else (O, I))}
    )
    stop = min(start + length, O * I)
    part = added(expanded(folder, base, ("q.weight",) if turned else ()), "q.weight", start, stop)
    assert close(part, delta(folder, "q.weight").reshape(-1)[start:stop])


def expanded(folder: Path, base: Path, transposed: tuple[str, ...] = ()) -> Checkpoint:
    adapter = open_adapter(folder)
    checkpoint = open_checkpoint(base)
    answers = {name: name for name in adapter.names if name in checkpoint.tensors}
    return expand(adapter, checkpoint, answers, transposed)


def base_folder(tmp_path: Path, dtype: torch.dtype = torch.float32) -> Path:
    tensors = {"q.weight": randn(O, I), "k.weight": randn(O, I, seed=1), "q.bias": randn(O)}
    tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    tensors["classifier.weight"] = randn(2, O).to(dtype)
    return save_model(tmp_path / "base", tensors, config={"model_type": "llama"})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_an_expanded_model_is_its_base_with_the_change_added(
    dtype: torch.dtype, folder: Path, tmp_path
):
    base = base_folder(tmp_path, dtype)
    full = {f"{PREFIX}classifier.weight": randn(2, O, seed=5), f"{PREFIX}new.weight": randn(3)}
    save_adapter(folder, {**factors("q", O, I), **full})
    checkpoint = expanded(folder, base)
    with TensorReader(checkpoint) as reader, TensorReader(open_checkpoint(base)) as original:
        tensors = {name: reader.read(name) for name in checkpoint.tensors}
        stored = {name: original.read(name) for name in open_checkpoint(base).tensors}
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert set(tensors) == {*stored, "new.weight"}
    expected = stored["q.weight"].to(wide) + delta(folder, "q.weight").to(wide)
    assert same_bits(tensors["q.weight"], expected)
    assert same_bits(tensors["k.weight"], stored["k.weight"])
    assert same_bits(tensors["classifier.weight"], full[f"{PREFIX}classifier.weight"])
    assert same_bits(tensors["new.weight"], full[f"{PREFIX}new.weight"])
    for name, info in checkpoint.tensors.items():
        assert (tuple(tensors[name].shape), tensors[name].nbytes) == (info.shape, info.nbytes)
    assert checkpoint.config == {"model_type": "llama"}
    assert checkpoint.identity > open_checkpoint(base).identity


def test_deltas_without_the_rounding_of_a_sum(folder: Path, tmp_path):
    save_adapter(folder, factors("q", O, I))
    checkpoint = expanded(folder, base_folder(tmp_path))
    exact = added(checkpoint, "q.weight", 7, 21)
    assert same_bits(exact, delta(folder, "q.weight").reshape(-1)[7:21].clone())
    assert not isinstance(checkpoint.tensors["k.weight"], ChangedInfo)


def test_square_matrices_are_turned_by_the_class_of_the_base_alone(folder: Path, tmp_path):
    base = save_model(tmp_path / "base", {"q.weight": torch.zeros(4, 4)})
    save_adapter(folder, factors("q", 4, 4), fan_in_fan_out=True)
    linear = TensorReader(expanded(folder, base)).read("q.weight")
    conv1d = TensorReader(expanded(folder, base, ("q.weight",))).read("q.weight")
    a_RI, b_OR = factors("q", 4, 4).values()
    assert close(linear, b_OR @ a_RI * 4)
    assert close(conv1d, (b_OR @ a_RI * 4).T)


def test_dora_scales_to_its_magnitudes(folder: Path, tmp_path):
    magnitude = randn(O, seed=4).abs()
    more = {f"{PREFIX}q.lora_magnitude_vector": magnitude}
    save_adapter(folder, {**factors("q", O, I), **more}, use_dora=True)
    stored = TensorReader(open_checkpoint(base_folder(tmp_path))).read("q.weight").double()
    a_RI, b_OR = factors("q", O, I).values()
    changed = stored + 4 * (b_OR @ a_RI).double()
    exact = magnitude.double()[:, None] * changed / changed.norm(dim=1, keepdim=True)
    reader = TensorReader(expanded(folder, base_folder(tmp_path)))
    assert (reader.read("q.weight") - exact).norm() <= 1e-6 * exact.norm()
    part = added(expanded(folder, base_folder(tmp_path)), "q.weight", 9, 20)
    assert (part - (exact - stored).flatten()[9:20]).norm() <= 1e-6 * exact.norm()


def test_a_bias_of_lora_is_added_with_the_scale(folder: Path, tmp_path):
    vector = randn(O, seed=4)
    save_adapter(folder, {**factors("q", O, I), f"{PREFIX}q.lora_B.bias": vector}, lora_bias=True)
    stored = TensorReader(open_checkpoint(base_folder(tmp_path))).read("q.bias")
    reader = TensorReader(expanded(folder, base_folder(tmp_path)))
    assert close(reader.read("q.bias"), stored + 4 * vector)
    save_adapter(folder, {**factors("k", O, I), f"{PREFIX}k.lora_B.bias": vector}, lora_bias=True)
    with pytest.raises(MismatchError, match=r"`k\.bias`"):
        expanded(folder, base_folder(tmp_path))


@pytest.mark.parametrize("tokens", [[4, 0], {"q": [4, 0]}, {"other": [1], "q": [4, 0]}])
def test_trained_rows_replace_the_base_s(tokens: object, folder: Path, tmp_path):
    rows = randn(2, I, seed=4)
    name = f"{PREFIX}q.token_adapter.trainable_tokens_delta"
    save_adapter(folder, {**factors("k", O, I), name: rows}, trainable_token_indices=tokens)
    reader = TensorReader(expanded(folder, base_folder(tmp_path)))
    tensor = reader.read("q.weight")
    stored = randn(O, I)
    assert close(tensor[[4, 0]], rows)
    assert same_bits(tensor[1:4].contiguous(), stored[1:4].contiguous())


@pytest.mark.parametrize("turned", [False, True])
def test_a_stack_of_experts_has_a_product_for_each(turned: bool, folder: Path, tmp_path):
    E = 3
    O_ = 5
    I_ = 7
    a = randn(E * R, I_)
    b = randn(O_, R * E, seed=1)
    shape = (E, I_, O_) if turned else (E, O_, I_)
    base = save_model(tmp_path / "base", {"mlp.experts.w": torch.zeros(shape)})
    tensors = {f"{PREFIX}mlp.experts.lora_A.weight": a, f"{PREFIX}mlp.experts.lora_B.weight": b}
    save_adapter(folder, tensors, target_parameters=["experts.w"])
    reader = TensorReader(expanded(folder, base))
    left_factor = b.reshape(O_, R, E)
    right_factor = a.reshape(E, R, I_)
    exact = 4 * torch.einsum(
        "ore,eri->eio" if turned else "ore,eri->eoi", left_factor, right_factor
    )
    assert close(reader.read("mlp.experts.w"), exact)
    assert close(reader.read_part("mlp.experts.w", 33, 71), exact.flatten()[33:71])


def test_a_base_that_does_not_fit(folder: Path, tmp_path):
    base = base_folder(tmp_path)
    save_adapter(folder, factors("absent", O, I))
    with pytest.raises(MismatchError, match=r"1 of the adapter's targets .* `absent.weight`"):
        expanded(folder, base)
    save_adapter(folder, factors("q", O, I + 1))
    with pytest.raises(MismatchError, match=r"change of `q.weight` is 5×8, but the base's is 5×7"):
        expanded(folder, base)
    save_model(tmp_path / "base", {"q.weight": torch.zeros(O, I, dtype=torch.int8)})
    save_adapter(folder, factors("q", O, I))
    with pytest.raises(MismatchError, match="in I8"):
        expanded(folder, base)


@pytest.mark.parametrize("change", ["adapter_model.safetensors", "adapter_config.json"])
def test_changes_of_the_files_are_noticed(change: str, folder: Path, tmp_path):
    save_adapter(folder, factors("q", O, I))
    reader = TensorReader(expanded(folder, base_folder(tmp_path)))
    os.utime(folder / change, ns=(1, 1))
    with pytest.raises(FileChangedError):
        reader.check_unchanged()


def test_nan_in_a_factor_is_named(folder: Path):
    tensors = factors("q", O, I)
    tensors[f"{PREFIX}q.lora_B.weight"][1, 0] = torch.nan
    save_adapter(folder, tensors)
    with pytest.raises(
        NonFiniteError, match=rf"`base_model.model.q.lora_B.weight` of `{re.escape(str(folder))}"
    ):
        delta(folder, "q.weight")


def test_tensors_that_replace_the_bases(folder: Path):
    names = ["classifier.weight", "score.modules_to_save.default.weight", "q.base_layer.bias"]
    full = {f"{PREFIX}{name}": randn(2) for name in [*names, "pooler.modules_to_save.bias"]}
    save_adapter(folder, {**factors("q", O, I), **full}, bias="all")
    adapter = open_adapter(folder)
    expected = {"classifier.weight", "score.weight", "q.bias", "pooler.bias"}
    assert set(adapter.full) == expected
    assert set(adapter.names) == {*expected, "q.weight"}
    tensor = TensorReader(adapter.stored).read(adapter.full["q.bias"].name)
    assert same_bits(tensor, full[f"{PREFIX}q.base_layer.bias"])


COPIES = ["{}.weight", "{}.modules_to_save.weight", "{}.modules_to_save.default.weight"]
START = "{}.original_module.weight"


@pytest.mark.parametrize("names", list(itertools.permutations(COPIES, 2)))
@pytest.mark.parametrize("started", [True, False])
@pytest.mark.parametrize("differs", [True, False])
def test_copies_of_a_trained_table_are_one(
    names: tuple[str, str], started: bool, differs: bool, folder: Path
):
    trained = randn(3, 2)
    full = {f"{PREFIX}{name.format('embed')}": trained.clone() for name in names}
    if started:
        full[f"{PREFIX}{START.format('embed')}"] = randn(3, 2)
    if differs:
        full[f"{PREFIX}{names[1].format('embed')}"][2, 1] += 1
    save_adapter(folder, {**factors("q", O, I), **full})
    if differs:
        refused(folder, "differ. Save the adapter again.")
        return
    adapter = open_adapter(folder)
    (stored,) = adapter.full.values()
    assert set(adapter.full) == {"embed.weight"}
    assert same_bits(TensorReader(adapter.stored).read(stored.name), trained)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"peft_type": "IA3"}, "This adapter is of type IA3; LoRA, LoHa and LoKr are added."),
        ({"peft_type": None}, "is of type None;"),
        ({"use_qalora": True}, "This adapter uses QALoRA (`use_qalora`)."),
        ({"kasa_config": {"beta": 1}}, "changes its base before training"),
        ({"use_bdlora": {"nblocks": 2}}, "has factors in blocks"),
        ({"layer_replication": [[0, 2]]}, "repeats layers of its base"),
        ({"trainable_token_indices": [1, 1]}, "is not a valid value"),
        ({"trainable_token_indices": {"q": [-1]}}, "is not a valid value"),
        ({"target_parameters": "experts.w1"}, '`target_parameters` is "experts.w1", which'),
        ({"target_parameters": ["q.x", "q.y"]}, "which belongs to which is not known"),
        ({"init_lora_weights": "pissa"}, "This adapter began from a changed base"),
        ({"init_lora_weights": "pissa_niter_4"}, "began from a changed base"),
        ({"init_lora_weights": "olora"}, "began from a changed base"),
        ({"r": 0}, "`r` is 0, which is not a valid value."),
        ({"r": True}, "`r` is true, which is not a valid value."),
        ({"r": "2"}, '`r` is "2", which is not a valid value.'),
        ({"lora_alpha": float("nan")}, "`lora_alpha` is NaN, which is not a valid value."),
        ({"alpha_pattern": {"q": "8"}}, '`alpha_pattern` is "8", which is not a valid value.'),
        ({"alpha_pattern": {"(?=a)q": 8}}, "`alpha_pattern` has `(?=a)q`, which cannot be matched"),
        ({"rank_pattern": {"(": 8}}, "`rank_pattern` has `(`, which cannot be matched"),
        ({"rank_pattern": [8]}, "`rank_pattern` is [8], which is not a valid value."),
        ({"lora_alpha": 10**400}, "`lora_alpha` is 1000"),
        ({"r": 4}, "A is 2×7, B is 5×2; the config gives rank 4."),
    ],
)
def test_configs_that_are_not_plain_lora(config: dict[str, object], sentence: str, folder: Path):
    save_adapter(folder, factors("q", O, I), **config)
    refused(folder, sentence)


@pytest.mark.parametrize(
    ("config", "merged_first"),
    [
        ({"use_qalora": True}, True),
        ({"kasa_config": {"beta": 1}}, True),
        ({"alora_invocation_tokens": [1, 2]}, False),
        ({"arrow_config": {"top_k": 2}}, False),
        ({"layer_replication": [[0, 2]]}, True),
        *(({"peft_type": kind}, True) for kind in ("IA3", "OFT", "BOFT", "VERA", "HRA", "GLORA")),
        *(({"peft_type": kind}, False) for kind in ("LILY", "POLY", "SHADOW", "XLORA")),
        *(({"peft_type": kind}, False) for kind in ("CARTRIDGE", "PREFIX_TUNING", "CPT")),
    ],
)
def test_nobody_is_sent_to_a_merge_that_peft_cannot_do(
    config: dict[str, object], merged_first: bool, folder: Path
):
    save_adapter(folder, factors("q", O, I), **config)
    with pytest.raises(CheckpointError) as caught:
        open_adapter(folder)
    assert ("merge_and_unload" in caught.value.sentence) is merged_first
    assert ("depth" in caught.value.sentence) is ("layer_replication" in config)
    assert str(config.get("peft_type", "")) in caught.value.sentence


@pytest.mark.parametrize("subfolders", [(), ("second",), ("second", "third")])
def test_of_several_adapters_in_a_folder_the_one_that_is_read_is_named(
    subfolders: tuple[str, ...], folder: Path
):
    save_adapter(folder, factors("q", O, I))
    for name in subfolders:
        save_adapter(folder / name, factors("q", O, I, seed=3))
    said = " ".join(open_adapter(folder).warnings)
    assert ("in the folder itself is read" in said) is bool(subfolders)
    assert all(f"`{name}`" in said for name in subfolders)


@pytest.mark.parametrize("start", [True, False, None, "gaussian", "eva", "orthogonal"])
def test_starts_that_leave_the_base_alone(start: object, folder: Path):
    save_adapter(folder, factors("q", O, I), init_lora_weights=start)
    assert set(open_adapter(folder).deltas) == {"q.weight"}


def with_factors(**shapes: tuple[int, ...]) -> dict[str, Tensor]:
    return {f"{PREFIX}{name.replace('__', '.')}": torch.ones(s) for name, s in shapes.items()}


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        (
            with_factors(q_proj__lora_A__weight=(16, 4096), q_proj__lora_B__weight=(4096, 8)),
            "`q_proj`: A is 16×4096, B is 4096×8; ranks differ.",
        ),
        (with_factors(q__lora_A__weight=(2, 8)), "`q` has A but no B."),
        (with_factors(q__lora_B__weight=(8, 2)), "`q` has B but no A."),
        (
            with_factors(q__lora_A__weight=(2, 8, 3, 3), q__lora_B__weight=(8, 2, 3, 3)),
            "they do not fit each other.",
        ),
        (with_factors(q__lora_A__weight=(2,), q__lora_B__weight=(8, 2)), "A is 2, B is 8×2"),
        (
            {**factors("q", O, I), f"{PREFIX}q.lora_diag.default": torch.ones(R)},
            "`base_model.model.q.lora_diag.default` is of a kind that is not read.",
        ),
        (
            {**factors("q", O, I), f"{PREFIX}e.trainable_tokens_delta": torch.ones(2, O)},
            "is 2×5, but the config names 0 tokens",
        ),
        (
            {**factors("q", O, I, form=".one.weight"), **factors("q", O, I, form=".two.weight")},
            "are of several adapters.",
        ),
        (
            {**factors("q", O, I), f"{PREFIX}q.modules_to_save.weight": torch.ones(O, I)},
            "`q.weight` is changed twice.",
        ),
        ({f"{PREFIX}classifier.weight": torch.ones(2)}, "Holds no LoRA factors."),
        (
            {n: t.to(torch.float8_e4m3fn) for n, t in factors("q", O, I).items()},
            "is quantised (F8_E4M3)",
        ),
        ({n: t.to(torch.int32) for n, t in factors("q", O, I).items()}, "not floating point"),
    ],
)
def test_factors_that_do_not_fit(tensors: dict[str, Tensor], sentence: str, folder: Path):
    save_adapter(folder, tensors)
    refused(folder, sentence)


def test_missing_and_malformed_files(folder: Path):
    save_adapter(folder, factors("q", O, I))
    assert is_adapter(folder)
    (folder / "adapter_config.json").write_text("{")
    refused(folder, "This is not valid JSON.")
    save_adapter(folder, factors("q", O, I))
    (folder / "adapter_model.safetensors").unlink()
    refused(folder, "No such file or folder.")
    (folder / "adapter_config.json").unlink()
    assert not is_adapter(folder)


def test_a_whole_model_beside_adapter_files_is_a_model(folder: Path):
    save_adapter(folder, factors("q", O, I))
    save_model(folder, {"q.weight": torch.ones(O, I)})
    assert not is_adapter(folder)


@pytest.mark.parametrize(
    "name",
    [
        *("\\\\host\\x", "//host/x", "\\/host", "/\\host/x", "\\\\?\\UNC\\host", "//?/UNC/host"),
        *(
            " //host",
            "\t\\\\host",
            "http://[::1]/x",
            "FILE:host",
            "ssh:host",
            "hf://host",
            "s3://x",
        ),
    ],
)
def test_every_spelling_of_a_network_is_one(name: str):
    assert is_remote(name)


@pytest.mark.parametrize(
    "name", ["org/model", "/models/base", "C:\\models\\base", "D:/m", "..\\base", "gpt2", ""]
)
def test_ordinary_bases_are_shown_and_not_looked_up(name: str, folder: Path):
    save_adapter(folder, factors("q", O, I), base_model_name_or_path=name)
    adapter = open_adapter(folder)
    assert adapter.named_base == name
    assert adapter.warnings == ()
