"""Every tensor of published architectures, under the names in the files."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping

import pytest

from ace_gui.architecture.describe import describe
from ace_gui.architecture.traits import Role
from tests.architecture.catalogue import (
    FUSIONS,
    TABLES,
    differences,
    fusions,
    saved_shapes,
    written,
)
from tests.architecture.published import CONFIGS
from tests.architecture.sweep import sweep, verdict

Shape = tuple[int, ...]


@pytest.fixture(scope="module")
def shapes() -> Mapping[str, dict[str, Shape]]:
    return {name: saved_shapes(config) for name, config in CONFIGS.items()}


def test_every_published_model_has_a_table():
    assert list(TABLES) == list(CONFIGS)


@pytest.mark.parametrize("model", CONFIGS)
def test_every_tensor_of_a_published_model(model: str, shapes: Mapping[str, dict[str, Shape]]):
    architecture = describe(CONFIGS[model], shapes[model])
    assert differences(architecture, TABLES[model]) == []
    assert architecture.family == CONFIGS[model]["model_type"]
    assert [architecture.model_class] == CONFIGS[model]["architectures"]
    assert architecture.note == ""
    assert fusions(architecture) == FUSIONS.get(model, {})


# Only the class of the model knows what this one does.
UNKNOWN_TO_NAMES = {"whisper-tiny": {"proj_out.weight"}}


@pytest.mark.parametrize("model", CONFIGS)
def test_names_alone_say_the_same(model: str, shapes: Mapping[str, dict[str, Shape]]):
    by_class = describe(CONFIGS[model], shapes[model])
    by_name = describe(None, shapes[model])
    assert by_name.model_class is None
    assert by_name.family is None
    assert by_name.note != ""
    different = {
        name
        for name, traits in by_class.traits.items()
        if written(traits).split(" = ")[0] != written(by_name.traits[name])
        or traits.block != by_name.traits[name].block
    }
    assert different == UNKNOWN_TO_NAMES.get(model, set())


@pytest.mark.parametrize(
    "prefix", ["module.", "_orig_mod.", "module._orig_mod.", "base_model.model."]
)
@pytest.mark.parametrize("model", ["roberta-base", "gpt2", "vit-base-patch16", "mixtral-8x7b"])
def test_wrappers_change_nothing(model: str, prefix: str, shapes: Mapping[str, dict[str, Shape]]):
    plain = describe(CONFIGS[model], shapes[model])
    wrapped = describe(CONFIGS[model], {prefix + n: shape for n, shape in shapes[model].items()})
    assert wrapped.note == ""
    assert {name: written(traits) for name, traits in wrapped.traits.items()} == {
        prefix + name: written(traits).replace(" = ", f" = {prefix}")
        for name, traits in plain.traits.items()
    }


@pytest.mark.parametrize("model", ["roberta-base", "gpt2"])
def test_a_model_kept_in_an_attribute_of_a_training_class(
    model: str, shapes: Mapping[str, dict[str, Shape]]
):
    plain = describe(CONFIGS[model], shapes[model])
    inner = describe(CONFIGS[model], {f"model.{n}": shape for n, shape in shapes[model].items()})
    assert inner.note == ""
    assert list(map(written, inner.traits.values())) == [
        written(traits).replace(" = ", " = model.") for traits in plain.traits.values()
    ]


def test_bare_backbone_under_a_task_config(shapes: Mapping[str, dict[str, Shape]]):
    table = {
        "encoder.layer.3.attention.self.key.weight": "key M",
        "embeddings.position_embeddings.weight": "position embedding -",
        "pooler.dense.weight": "other M",
    }
    bare = {
        name.removeprefix("roberta."): shape
        for name, shape in shapes["roberta-base"].items()
        if name.startswith("roberta.")
    }
    bare |= {"pooler.dense.weight": (768, 768), "pooler.dense.bias": (768,)}
    architecture = describe(CONFIGS["roberta-base"], bare)
    assert {name: written(architecture.traits[name]) for name in table} == table
    assert "pooler.dense.weight" in architecture.note
    assert "encoder" not in architecture.note


def test_task_checkpoint_under_a_backbone_config(shapes: Mapping[str, dict[str, Shape]]):
    config = {**CONFIGS["roberta-base"], "architectures": ["RobertaModel"]}
    architecture = describe(config, shapes["roberta-base"])
    assert architecture.model_class == "RobertaModel"
    assert differences(architecture, TABLES["roberta-base"]) == []
    assert "classifier.dense.weight" in architecture.note
    name = "model.layers.0.self_attn.q_proj.weight"  # of another model: names say what it is
    architecture = describe(config, {name: (8, 8)})
    assert written(architecture.traits[name]) == "query M"
    assert name in architecture.note


def test_names_of_early_bert_files():
    config = {**CONFIGS["bert-base"], "num_hidden_layers": 1}
    shapes = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): shape
        for name, shape in saved_shapes(config).items()
    }
    architecture = describe(config, shapes)
    assert written(architecture.traits["bert.embeddings.LayerNorm.gamma"]) == "norm -"
    assert written(architecture.traits["bert.encoder.layer.0.output.LayerNorm.beta"]) == "norm -"
    assert architecture.note == ""


@pytest.mark.parametrize(
    ("model", "name", "shape"),
    [
        ("bert-base", "bert.embeddings.position_ids", (1, 512)),
        ("llama-3.2-1b", "model.layers.0.self_attn.rotary_emb.inv_freq", (32,)),
        ("gpt2", "transformer.h.0.attn.bias", (1, 1, 1024, 1024)),  # of early files
        ("gpt2", "transformer.h.0.attn.masked_bias", ()),
    ],
)
def test_tables_and_masks_are_buffers(
    model: str, name: str, shape: Shape, shapes: Mapping[str, dict[str, Shape]]
):
    traits = describe(CONFIGS[model], shapes[model] | {name: shape}).traits
    assert traits[name].role is Role.BUFFER
    if model == "gpt2":  # whose names say it without a config, too
        assert describe(None, shapes[model] | {name: shape}).traits[name].role is Role.BUFFER


EXPERTS = {
    "model.layers.0.mlp.experts.gate_up_proj": "MLP gate+up E×M",
    "model.layers.0.mlp.experts.down_proj": "MLP down E×M",
    "model.layers.0.mlp.gate.weight": "other M",
}
UNUSUAL: dict[str, tuple[dict[str, object], dict[str, str], list[Shape]]] = {
    "experts of Mixtral that another tool stacked": (
        CONFIGS["mixtral-8x7b"],
        EXPERTS,
        [(8, 28672, 4096), (8, 4096, 14336), (8, 4096)],
    ),
    "experts of Qwen that another tool stacked": (
        CONFIGS["qwen1.5-moe"],
        EXPERTS,
        [(60, 2816, 2048), (60, 2048, 1408), (60, 2048)],
    ),
    "the module names of today's transformers": (
        CONFIGS["vit-base-patch16"],
        {
            "vit.layers.0.attention.q_proj.weight": "query M",
            "vit.layers.0.attention.o_proj.weight": "attention output M",
            "vit.layers.0.mlp.fc1.weight": "MLP up M",
        },
        [(768, 768), (768, 768), (3072, 768)],
    ),
    "routers of ERNIE, whose files hold them inputs × outputs": (
        {
            "model_type": "ernie4_5_vl_moe",
            "architectures": ["Ernie4_5_VLMoeForConditionalGeneration"],
        },
        {"model.layers.3.mlp.gate.weight": "other MT"},
        [(2560, 64)],
    ),
    "a part of a composite config": (
        {**CONFIGS["clip-vit-base-patch32"], "architectures": ["CLIPVisionModel"]},
        {
            "vision_model.encoder.layers.11.self_attn.v_proj.weight": "value M",
            "vision_model.embeddings.class_embedding": "embedding -",
        },
        [(768, 768), (768,)],
    ),
    "no model type": (
        {"architectures": ["BertModel"]},
        {"pooler.dense.weight": "other M"},
        [(768, 768)],
    ),
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_what_published_files_may_be_instead(what: str):
    config, table, shapes = UNUSUAL[what]
    architecture = describe(config, dict(zip(table, shapes, strict=True)))
    assert {name: written(traits) for name, traits in architecture.traits.items()} == table
    assert architecture.note == ""
    assert [architecture.model_class] == config["architectures"]
    assert architecture.family == config.get("model_type", "bert")


def test_stacks_that_lie_the_other_way_round_in_the_files():
    """Qwen3-VL-MoE's files hold its experts inputs × outputs, its modules outputs × inputs."""
    text = {
        "model_type": "qwen3_vl_moe_text",
        "hidden_size": 64,
        "moe_intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_experts": 4,
    }
    config = {
        "model_type": "qwen3_vl_moe",
        "architectures": ["Qwen3VLMoeForConditionalGeneration"],
        "text_config": text,
    }
    name = "model.language_model.layers.0.mlp.experts."
    for turned in (False, True):
        stored = {"gate_up_proj": (4, 96, 64), "down_proj": (4, 64, 48)}
        if turned:
            stored = {side: (e, b, a) for side, (e, a, b) in stored.items()}
        architecture = describe(config, {name + side: shape for side, shape in stored.items()})
        layout = "E×MT" if turned else "E×M"
        assert {n.removeprefix(name): written(t) for n, t in architecture.traits.items()} == {
            "gate_up_proj": f"MLP gate+up {layout}",
            "down_proj": f"MLP down {layout}",
        }
        assert fusions(architecture) == {
            "model.language_model.layers.N.mlp.experts.gate_up_proj": "MLP gate 48, MLP up 48"
        }
        assert architecture.note == ""


def test_tie_needs_both_tensors_in_the_files(shapes: Mapping[str, dict[str, Shape]]):
    gpt2 = dict(shapes["gpt2"])
    del gpt2["transformer.wte.weight"]
    assert describe(CONFIGS["gpt2"], gpt2).traits["lm_head.weight"].tied_to is None
    t5 = dict(shapes["t5-small"])
    del t5["shared.weight"]
    traits = describe(CONFIGS["t5-small"], t5).traits
    assert traits["encoder.embed_tokens.weight"].tied_to is None
    assert traits["decoder.embed_tokens.weight"].tied_to == "encoder.embed_tokens.weight"
    assert traits["lm_head.weight"].tied_to == "encoder.embed_tokens.weight"


def test_tensors_of_different_shape_are_not_tied(shapes: Mapping[str, dict[str, Shape]]):
    resized = shapes["gpt2"] | {"lm_head.weight": (50300, 768)}
    architecture = describe(CONFIGS["gpt2"], resized)
    assert architecture.traits["lm_head.weight"].tied_to is None
    assert "lm_head.weight" in architecture.note


def test_resized_vocabulary_keeps_its_traits(shapes: Mapping[str, dict[str, Shape]]):
    resized = shapes["gpt2"] | {
        "lm_head.weight": (50300, 768),
        "transformer.wte.weight": (50300, 768),
    }
    architecture = describe(CONFIGS["gpt2"], resized)
    assert differences(architecture, TABLES["gpt2"]) == []
    assert "transformer.wte.weight" in architecture.note


def test_swapped_axes_are_not_what_the_class_stores(shapes: Mapping[str, dict[str, Shape]]):
    """GPT-2's names over Linear modules: the class is not asked, the shapes decide."""
    linear = {
        name: shape[::-1] if ".c_" in name and len(shape) == 2 else shape
        for name, shape in shapes["gpt2"].items()
    }
    architecture = describe(CONFIGS["gpt2"], linear)
    assert written(architecture.traits["transformer.h.0.mlp.c_fc.weight"]) == "MLP up M"
    assert "transformer.h.0.mlp.c_fc.weight" in architecture.note


@pytest.mark.parametrize(
    ("change", "model_class", "said"),
    [
        ({"architectures": None}, "GPT2Model", "names no model class"),
        ({"architectures": ["MyGPT"]}, "GPT2Model", "MyGPT"),
        ({"architectures": ["LlamaForCausalLM"]}, "GPT2Model", "LlamaForCausalLM"),
        ({"architectures": ["AutoModel"]}, "GPT2Model", "AutoModel"),
        ({"auto_map": {"AutoModel": "evil.Model"}}, "GPT2LMHeadModel", "never run"),
        ({"model_type": "no-such-model"}, None, "no-such-model"),
        ({"model_type": ["gpt2"]}, None, "gpt2"),
        ({"n_embd": 767}, None, "GPT2LMHeadModel"),
        ({"n_embd": "wide"}, None, "GPT2"),
        ({"n_layer": 10**12}, None, "n_layer"),
        ({"num_labels": 10**12}, None, "num_labels"),
    ],
)
def test_configs_that_do_not_fit_are_said_so(
    change: dict[str, object],
    model_class: str | None,
    said: str,
    shapes: Mapping[str, dict[str, Shape]],
):
    architecture = describe(CONFIGS["gpt2"] | change, shapes["gpt2"])
    assert architecture.model_class == model_class
    assert said in architecture.note
    assert (
        written(architecture.traits["transformer.h.5.attn.c_proj.weight"]) == "attention output MT"
    )


def test_config_nested_without_end():
    nested: dict[str, object] = {}
    for _ in range(5000):
        nested = {"text_config": nested}
    architecture = describe({"model_type": "gpt2"} | nested, {"a.weight": (2, 3)})
    assert "nested" in architecture.note
    assert architecture.traits["a.weight"].matrix


def test_quantisation_and_kernels_in_a_config_are_not_loaded(
    shapes: Mapping[str, dict[str, Shape]],
):
    config = CONFIGS["llama-3.2-1b"] | {
        "quantization_config": {"quant_method": "gptq", "bits": 4},
        "attn_implementation": "someone/kernel",
        "_attn_implementation": "someone/kernel",
    }
    architecture = describe(config, shapes["llama-3.2-1b"])
    assert differences(architecture, TABLES["llama-3.2-1b"]) == []


def test_a_model_of_seventy_billion_parameters_is_described_at_once():
    config = CONFIGS["llama-3.2-1b"] | {
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "head_dim": 128,
        "tie_word_embeddings": False,
    }
    shapes = saved_shapes(config)
    start = time.perf_counter()
    architecture = describe(config, shapes)
    assert time.perf_counter() - start < 2
    assert differences(architecture, TABLES["mistral-7b"]) == []


def test_nothing_is_written_to_stderr(capfd):
    describe(CONFIGS["gpt2"] | {"n_embd": 767, "surprise": 1}, {"a.weight": (2, 3)})
    describe(CONFIGS["whisper-tiny"], {"a.weight": (2, 3)})
    assert capfd.readouterr() == ("", "")


def test_plain_values_import_nothing_heavy():
    code = (
        "import sys, ace_gui.architecture.traits, ace_gui.architecture.names, "
        "ace_gui.architecture.scopes, ace_gui.architecture.describe; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


ONCE_WRONG = (
    "DINOv3ViTModel",
    "IBertForMaskedLM",
    "Gemma3ForConditionalGeneration",
    "RecurrentGemmaForCausalLM",
    "UniSpeechForPreTraining",
    "CpmAntForCausalLM",
    "DistilBertForQuestionAnswering",
)


@pytest.mark.parametrize("name", ONCE_WRONG)
def test_parameters_of_a_class(name: str):
    judgement = verdict(name)
    assert (judgement.refused, judgement.wrong) == ("", ())
    assert judgement.tensors


@pytest.mark.long
def test_parameters_of_all_classes():
    judgements = sweep()
    assert sum(not judgement.refused for judgement in judgements) > 1500, {
        judgement.refused for judgement in judgements
    }
    assert [line for judgement in judgements for line in judgement.wrong] == []
