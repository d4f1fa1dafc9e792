"""PEFT and transformers load every kind of adapter that is written, and get the merged model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import peft
import pytest
import torch
import transformers
from torch import Tensor

from ace_gui.engine.contract.events import MergeFinished
from ace_gui.engine.workflow import Options, extract_adapter, merge_to_folder
from ace_gui.recipe.new_recipes import recipe_for_extraction
from tests.helpers.adapters import SIZES, gpt2, llama, mixtral, randomised, resnet
from tests.helpers.recipes import recipe_over

pytestmark = pytest.mark.filterwarnings("ignore")

VISION = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "image_size": 16,
    "patch_size": 8,
}
EXPERTS = {"head_dim": 8, "moe_intermediate_size": 24, "num_experts": 3, "num_experts_per_tok": 2}
STACKS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]


def bert() -> Any:
    config = transformers.BertConfig(**{**SIZES, "max_position_embeddings": 32})
    return transformers.BertForMaskedLM(config)


def classifier() -> Any:
    config = transformers.BertConfig(**{**SIZES, "max_position_embeddings": 32, "num_labels": 3})
    return transformers.BertForSequenceClassification(config)


def t5() -> Any:
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    config = transformers.T5Config(**sizes, vocab_size=40, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


def vit() -> Any:
    return transformers.ViTForImageClassification(transformers.ViTConfig(**VISION))


def convnext() -> Any:
    sizes = {"depths": [1, 1, 1, 1], "hidden_sizes": [4, 8, 8, 16], "image_size": 32}
    return transformers.ConvNextForImageClassification(transformers.ConvNextConfig(**sizes))


def qwen3_moe() -> Any:
    return transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**SIZES, **EXPERTS))


def qwen2_moe() -> Any:
    sizes = {**SIZES, **EXPERTS, "shared_expert_intermediate_size": 24}
    return transformers.Qwen2MoeForCausalLM(transformers.Qwen2MoeConfig(**sizes))


def gpt_oss() -> Any:
    sizes = {**SIZES, "head_dim": 8, "num_local_experts": 3, "num_experts_per_tok": 2}
    return transformers.GptOssForCausalLM(transformers.GptOssConfig(**sizes))


def deepseek() -> Any:
    """With a dense layer, and experts shared by all tokens."""
    sizes = {
        **SIZES,
        **{"moe_intermediate_size": 24, "n_routed_experts": 4, "num_experts_per_tok": 2},
        **{"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "n_shared_experts": 1},
        **{"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "v_head_dim": 8},
        **{"qk_nope_head_dim": 4},
    }
    return transformers.DeepseekV3ForCausalLM(transformers.DeepseekV3Config(**sizes))


def mamba() -> Any:
    sizes = {"vocab_size": 40, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 2}
    return transformers.MambaForCausalLM(transformers.MambaConfig(**sizes))


def tied() -> Any:
    return llama(tie_word_embeddings=True)


def ctrl() -> Any:
    """Its tied head has a bias of its own."""
    sizes = {"n_embd": 16, "dff": 24, "n_layer": 2, "n_head": 2, "n_positions": 32}
    return transformers.CTRLLMHeadModel(transformers.CTRLConfig(**sizes, vocab_size=40))


MODELS: dict[str, Callable[[], Any]] = {
    "llama": llama,
    "tied": tied,
    "ctrl": ctrl,
    "gpt2": gpt2,
    "bert": bert,
    "classifier": classifier,
    "t5": t5,
    "vit": vit,
    "convnext": convnext,
    "resnet": resnet,
    "mixtral": mixtral,
    "qwen2_moe": qwen2_moe,
    "qwen3_moe": qwen3_moe,
    "gpt_oss": gpt_oss,
    "deepseek": deepseek,
    "mamba": mamba,
}
LINEAR = {
    "llama": ["q_proj", "down_proj"],
    "tied": ["q_proj", "down_proj"],
    "ctrl": ["Wq", "ffn.0"],
    "gpt2": ["c_attn", "c_proj"],
    "bert": ["query", "output.dense"],
    "classifier": ["query", "output.dense"],
    "t5": ["q", "wo"],
    "vit": ["q_proj", "fc1"],
    "convnext": ["pwconv1", "pwconv2"],
    "resnet": ["convolution"],
    "mixtral": ["q_proj"],
    "qwen2_moe": ["q_proj"],
    "qwen3_moe": ["q_proj"],
    "gpt_oss": ["q_proj"],
    "deepseek": ["kv_a_proj_with_mqa", "o_proj"],
    "mamba": ["in_proj", "x_proj"],
}
NORMS = {
    "llama": "norm",
    "tied": "norm",
    "ctrl": "layernorm",
    "gpt2": "ln_f",
    "bert": "LayerNorm",
    "classifier": "LayerNorm",
    "t5": "final_layer_norm",
    "vit": "layernorm",
    "convnext": "layernorm",
    "resnet": "normalization",
    "mixtral": "norm",
    "qwen2_moe": "norm",
    "qwen3_moe": "norm",
    "gpt_oss": "norm",
    "deepseek": "norm",
    "mamba": "norm_f",
}
TABLES = {
    "llama": "embed_tokens",
    "tied": "embed_tokens",
    "ctrl": "transformer.w",
    "gpt2": "wte",
    "bert": "word_embeddings",
    "classifier": "word_embeddings",
    "t5": "shared",
    "mixtral": "embed_tokens",
    "gpt_oss": "embed_tokens",
}
UNTIED = ("llama", "classifier", "mixtral", "gpt_oss")
FUSED = ("mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss")
ROUTERS = {"mixtral": "mlp.gate", "qwen3_moe": "mlp.gate", "gpt_oss": "mlp.router"}


def inputs(model: Any) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(7)
    if hasattr(model.config, "num_channels"):
        size = getattr(model.config, "image_size", 32)
        return {"pixel_values": torch.randn(2, 3, size, size, generator=generator)}
    ids = torch.randint(0, 40, (2, 6), generator=generator)
    return {
        "input_ids": ids,
        **({"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}),
    }


def logits(model: Any) -> Tensor:
    with torch.no_grad():
        answer: Tensor = model.eval()(**inputs(model)).logits
    return answer.double()


def error(actual: Tensor, expected: Tensor) -> float:
    return float((actual - expected).norm() / expected.norm())


@cache
def class_of(name: str) -> Any:
    return type(MODELS[name]())


def opened(name: str, folder: Path) -> Any:
    return class_of(name).from_pretrained(folder, dtype=torch.float32)


def base_of(name: str, folder: Path) -> Any:
    torch.manual_seed(0)
    made = MODELS[name]()
    for value in made.parameters():  # some classes begin with zeros
        value.data += 0.1 * torch.randn(value.shape)
    made.save_pretrained(folder / "base")
    return opened(name, folder / "base")


def moved(model: Any, seed: int, names: Callable[[str], bool] = lambda _: True) -> Any:
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.named_parameters():
        if names(name):
            value.data += 0.05 * torch.randn(value.shape, generator=generator)
    return model


def assert_both_load(name: str, base: Path, adapter: Path, expected: Tensor) -> None:
    """PEFT, its merge, and transformers give these logits."""
    live = peft.PeftModel.from_pretrained(opened(name, base), adapter)
    assert error(logits(live), expected) < 2e-5
    assert error(logits(live.merge_and_unload()), expected) < 2e-5
    plain = opened(name, base)
    plain.load_adapter(str(adapter))
    assert error(logits(plain), expected) < 2e-5


def trained(name: str, folder: Path, **config: Any) -> list[Path]:
    """Two adapters of a base, with every part that PEFT trains moved."""
    folders = []
    for seed in (1, 2):
        settings = {"target_modules": LINEAR[name], "r": seed + 1, "lora_alpha": 5, **config}
        if name == "gpt2":
            settings["fan_in_fan_out"] = True
        adapted = peft.get_peft_model(opened(name, folder / "base"), peft.LoraConfig(**settings))
        adapted = randomised(adapted, seed)
        moved(adapted, seed, lambda n: "modules_to_save" in n)
        if config.get("bias", "none") != "none":
            moved(adapted, seed, lambda n: n.endswith("bias"))
        with pytest.MonkeyPatch.context() as patch:  # its model card takes longer than its weights
            patch.setattr(adapted, "create_or_update_model_card", lambda _: None)
            adapted.save_pretrained(folder / f"adapter-{seed}")
        folders.append(folder / f"adapter-{seed}")
    return folders


KINDS: dict[str, tuple[Mapping[str, Any], Callable[[str], Mapping[str, Any]]]] = {
    "linear": (MODELS, lambda _: {}),
    "norms": (NORMS, lambda name: {"modules_to_save": [NORMS[name]]}),
    "biases": (dict.fromkeys(n for n in MODELS if n != "t5"), lambda _: {"bias": "all"}),
    "tables": (TABLES, lambda name: {"target_modules": [*LINEAR[name], TABLES[name]]}),
    "whole tables": (dict.fromkeys(UNTIED), lambda name: {"modules_to_save": [TABLES[name]]}),
    "stacks": (dict.fromkeys(FUSED), lambda _: {"target_parameters": STACKS}),
    "one stack": (dict.fromkeys(FUSED), lambda _: {"target_parameters": STACKS[1:]}),
    "routers": (ROUTERS, lambda name: {"modules_to_save": [ROUTERS[name]]}),
}


class PeftFamily(NamedTuple):
    name: str
    base: Path
    adapters: Sequence[Path]
    logits: Tensor
    """Those of the base."""


CELLS = [(kind, name) for kind, (names, _) in KINDS.items() for name in names]
METHODS = ("linear", "task_arithmetic")


def merges() -> Iterator[Any]:
    """Every cell by both methods, which differ in factors only; the ordinary run alternates."""
    for number, cell in enumerate(CELLS):
        ordinary = METHODS[number % 2]
        for method in METHODS:
            marks = () if method == ordinary else pytest.mark.long
            yield pytest.param(cell, method, marks=marks, id=f"{'-'.join(cell)}-{method}")


@pytest.fixture(scope="module")
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PeftFamily:
    """A base with two adapters, for every method that merges them."""
    kind, name = request.param
    folder = tmp_path_factory.mktemp("family")
    base_of(name, folder)
    adapters = trained(name, folder, **KINDS[kind][1](name))
    return PeftFamily(name, folder / "base", adapters, logits(opened(name, folder / "base")))


@pytest.mark.parametrize(("family", "method"), list(merges()), indirect=["family"])
def test_a_merge_of_adapters_is_loaded(family: PeftFamily, method: str, tmp_path: Path) -> None:
    name, base, experts, before = family
    outs = {}
    for output in ("model", "adapter"):
        recipe = recipe_over(base, experts, merge_method=method, output=output)
        outs[output] = tmp_path / output
        for _ in merge_to_folder(recipe, outs[output], Options(device="cpu")):
            pass
    expected = logits(opened(name, outs["model"]))
    assert error(before, expected) > 1e-3
    assert_both_load(name, base, outs["adapter"], expected)


@pytest.mark.parametrize("part", ["all", "layers", "no biases"])
@pytest.mark.parametrize("name", [name for name in MODELS if name != "resnet"])
def test_an_extracted_adapter_is_loaded(name: str, part: str, tmp_path: Path) -> None:
    model = base_of(name, tmp_path)
    start = copy.deepcopy(model.state_dict())
    moved(model, 3, lambda n: part == "all" or not n.endswith("bias") or part != "no biases")
    if part == "layers":
        model.load_state_dict(start)
        moved(model, 3, lambda n: n.endswith(tuple(f"{leaf}.weight" for leaf in LINEAR[name])))
    model.save_pretrained(tmp_path / "model")
    recipe = recipe_for_extraction(tmp_path / "base", tmp_path / "model", 99)
    out = tmp_path / "out"
    events = list(extract_adapter(recipe, out, Options(device="cpu")))
    (finished,) = (event for event in events if isinstance(event, MergeFinished))
    warned_names = [n for n in model.state_dict() if any(f"`{n}`" in w for w in finished.warnings)]
    model.load_state_dict({**model.state_dict(), **{n: start[n] for n in warned_names}})
    assert_both_load(name, tmp_path / "base", out, logits(model))
