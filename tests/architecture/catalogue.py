"""What every tensor of published checkpoints is, written by hand.

A table maps patterns of names as found in the files to traits. In a pattern ``N`` is the block
index, ``#`` another number and ``{a,b}`` one of several; in the traits ``M`` marks a matrix stored
outputs × inputs, ``MT`` one stored inputs × outputs, ``E×`` a stack of them, ``= name`` a tie.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ace_gui.architecture.traits import Architecture, TensorTraits

Shape = tuple[int, ...]
Table = Mapping[str, str]


def saved_shapes(config: Mapping[str, object]) -> dict[str, Shape]:
    """Names and shapes as transformers writes them, tied tensors under each of their names."""
    from transformers.core_model_loading import revert_weight_conversion

    from ace_gui.architecture import blueprint

    model = blueprint.build(config)
    saved = revert_weight_conversion(model, model.state_dict())
    return {name: tuple(tensor.shape) for name, tensor in saved.items()}


def written(traits: TensorTraits) -> str:
    """Traits as the tables write them."""
    layout = ("MT" if traits.transposed else "M") if traits.matrix else "-"
    layout = f"E×{layout}" if traits.stack else layout
    tie = f" = {traits.tied_to}" if traits.tied_to else ""
    return f"{traits.role} {layout}{tie}"


def fusions(architecture: Architecture) -> dict[str, str]:
    """The fused matrices, blocks aside, as ``FUSIONS`` writes them."""
    return {
        re.sub(r"(?<=\.)\d+(?=\.)", "N", name): ", ".join(
            f"{role} {outputs}" for role, outputs in traits.fusion.shares
        )
        for name, traits in architecture.traits.items()
        if traits.fusion is not None
    }


def differences(architecture: Architecture, table: Table) -> list[str]:
    """Where the traits differ from the table; tensors and patterns without a partner included."""
    compiled = {pattern: _compile(pattern) for pattern in table}
    unused = set(table)
    problems = []
    for name, traits in architecture.traits.items():
        hits = [(p, match) for p, rule in compiled.items() if (match := rule.fullmatch(name))]
        if len(hits) != 1:
            problems.append(f"{name}: matched by {[p for p, _ in hits]}")
            continue
        pattern, match = hits[0]
        unused.discard(pattern)
        block = int(match["block"]) if "block" in match.re.groupindex else None
        expected = f"{table[pattern]} @{block}"
        actual = f"{written(traits)} @{traits.block}"
        if expected != actual:
            problems.append(f"{name}: {actual}, expected {expected}")
    return problems + [f"{pattern}: no such tensor" for pattern in sorted(unused)]


def _compile(pattern: str) -> re.Pattern[str]:
    parts = re.escape(pattern).replace(r"\{", "(?:").replace(r"\}", ")").replace(",", "|")
    parts = re.sub(r"(?<=\.)N(?=\\)", r"(?P<block>\\d+)", parts)
    return re.compile(parts.replace(r"\#", r"\d+"))


def _bert_blocks(prefix: str) -> dict[str, str]:
    block = f"{prefix}encoder.layer.N."
    return {
        block + "attention.self.query.weight": "query M",
        block + "attention.self.key.weight": "key M",
        block + "attention.self.value.weight": "value M",
        block + "attention.output.dense.weight": "attention output M",
        block + "intermediate.dense.weight": "MLP up M",
        block + "output.dense.weight": "MLP down M",
        block
        + "{attention.self.query,attention.self.key,attention.self.value,attention.output.dense,"
        "intermediate.dense,output.dense}.bias": "bias -",
        block + "{attention.output,output}.LayerNorm.{weight,bias}": "norm -",
    }


def _bert_embeddings(prefix: str) -> dict[str, str]:
    return {
        prefix + "embeddings.{word_embeddings,token_type_embeddings}.weight": "embedding -",
        prefix + "embeddings.position_embeddings.weight": "position embedding -",
        prefix + "embeddings.LayerNorm.{weight,bias}": "norm -",
    }


def _gpt2(head: dict[str, str]) -> dict[str, str]:
    block = "transformer.h.N."
    return {
        "transformer.wte.weight": "embedding -",
        "transformer.wpe.weight": "position embedding -",
        block + "{ln_1,ln_2}.{weight,bias}": "norm -",
        block + "attn.c_attn.weight": "query+key+value MT",
        block + "attn.c_proj.weight": "attention output MT",
        block + "mlp.c_fc.weight": "MLP up MT",
        block + "mlp.c_proj.weight": "MLP down MT",
        block + "{attn.c_attn,attn.c_proj,mlp.c_fc,mlp.c_proj}.bias": "bias -",
        "transformer.ln_f.{weight,bias}": "norm -",
        **head,
    }


def _llama(*, tied: bool, biases: bool = False, head_norms: bool = False) -> dict[str, str]:
    block = "model.layers.N."
    return {
        **_llama_attention(biases=biases, head_norms=head_norms, tied=tied),
        block + "mlp.gate_proj.weight": "MLP gate M",
        block + "mlp.up_proj.weight": "MLP up M",
        block + "mlp.down_proj.weight": "MLP down M",
    }


def _llama_attention(
    *, tied: bool, biases: bool = False, head_norms: bool = False
) -> dict[str, str]:
    block = "model.layers.N."
    table = {
        "model.embed_tokens.weight": "embedding -",
        block + "self_attn.q_proj.weight": "query M",
        block + "self_attn.k_proj.weight": "key M",
        block + "self_attn.v_proj.weight": "value M",
        block + "self_attn.o_proj.weight": "attention output M",
        block + "{input_layernorm,post_attention_layernorm}.weight": "norm -",
        "model.norm.weight": "norm -",
        "lm_head.weight": "vocabulary head M" + " = model.embed_tokens.weight" * tied,
    }
    if biases:
        table[block + "self_attn.{q_proj,k_proj,v_proj}.bias"] = "bias -"
    if head_norms:
        table[block + "self_attn.{q_norm,k_norm}.weight"] = "norm -"
    return table


def _t5() -> dict[str, str]:
    block = "{encoder,decoder}.block.N.layer.#."
    return {
        "shared.weight": "embedding -",
        "{encoder,decoder}.embed_tokens.weight": "embedding - = shared.weight",
        block + "{SelfAttention,EncDecAttention}.q.weight": "query M",
        block + "{SelfAttention,EncDecAttention}.k.weight": "key M",
        block + "{SelfAttention,EncDecAttention}.v.weight": "value M",
        block + "{SelfAttention,EncDecAttention}.o.weight": "attention output M",
        block + "SelfAttention.relative_attention_bias.weight": "position embedding -",
        block + "layer_norm.weight": "norm -",
        block + "DenseReluDense.wo.weight": "MLP down M",
        "{encoder,decoder}.final_layer_norm.weight": "norm -",
    }


def _bart_layers(block: str, *, mlp: str = "") -> dict[str, str]:
    return {
        block + "{self_attn,encoder_attn}.q_proj.weight": "query M",
        block + "{self_attn,encoder_attn}.k_proj.weight": "key M",
        block + "{self_attn,encoder_attn}.v_proj.weight": "value M",
        block + "{self_attn,encoder_attn}.out_proj.weight": "attention output M",
        block + mlp + "fc1.weight": "MLP up M",
        block + mlp + "fc2.weight": "MLP down M",
        block + "{self_attn,encoder_attn}.{q_proj,k_proj,v_proj,out_proj}.bias": "bias -",
        block + mlp + "{fc1,fc2}.bias": "bias -",
    }


def _falcon(norms: str) -> dict[str, str]:
    block = "transformer.h.N."
    return {
        "transformer.word_embeddings.weight": "embedding -",
        block + "self_attention.query_key_value.weight": "query+key+value M",
        block + "self_attention.dense.weight": "attention output M",
        block + "mlp.dense_h_to_4h.weight": "MLP up M",
        block + "mlp.dense_4h_to_h.weight": "MLP down M",
        block + norms + ".{weight,bias}": "norm -",
        "transformer.ln_f.{weight,bias}": "norm -",
        "lm_head.weight": "vocabulary head M = transformer.word_embeddings.weight",
    }


_NEOX_BLOCK = "gpt_neox.layers.N."
_WHISPER_BLOCK = "model.{encoder,decoder}.layers.N."
_CLIP_BLOCK = "{text_model,vision_model}.encoder.layers.N."
_VIT_BLOCK = "vit.encoder.layer.N."

_DISTILBERT = {
    "distilbert.embeddings.word_embeddings.weight": "embedding -",
    "distilbert.embeddings.position_embeddings.weight": "position embedding -",
    "distilbert.embeddings.LayerNorm.{weight,bias}": "norm -",
    "distilbert.transformer.layer.N.attention.q_lin.weight": "query M",
    "distilbert.transformer.layer.N.attention.k_lin.weight": "key M",
    "distilbert.transformer.layer.N.attention.v_lin.weight": "value M",
    "distilbert.transformer.layer.N.attention.out_lin.weight": "attention output M",
    "distilbert.transformer.layer.N.ffn.lin1.weight": "MLP up M",
    "distilbert.transformer.layer.N.ffn.lin2.weight": "MLP down M",
    "distilbert.transformer.layer.N.attention.{q_lin,k_lin,v_lin,out_lin}.bias": "bias -",
    "distilbert.transformer.layer.N.ffn.{lin1,lin2}.bias": "bias -",
    "distilbert.transformer.layer.N.{sa_layer_norm,output_layer_norm}.{weight,bias}": "norm -",
}

TABLES: dict[str, Table] = {
    "roberta-base": {
        **_bert_embeddings("roberta."),
        **_bert_blocks("roberta."),
        "classifier.{dense,out_proj}.weight": "head M",
        "classifier.{dense,out_proj}.bias": "head -",
    },
    "bert-base": {
        **_bert_embeddings("bert."),
        **_bert_blocks("bert."),
        "bert.pooler.dense.weight": "other M",
        "bert.pooler.dense.bias": "bias -",
        "cls.predictions.bias": "vocabulary head -",
        "cls.predictions.transform.dense.weight": "vocabulary head M",
        "cls.predictions.transform.{dense.bias,LayerNorm.weight,LayerNorm.bias}": (
            "vocabulary head -"
        ),
        "cls.predictions.decoder.weight": (
            "vocabulary head M = bert.embeddings.word_embeddings.weight"
        ),
        "cls.predictions.decoder.bias": "vocabulary head - = cls.predictions.bias",
        "cls.seq_relationship.weight": "head M",
        "cls.seq_relationship.bias": "head -",
    },
    "distilbert-sst2": {
        **_DISTILBERT,
        "{pre_classifier,classifier}.weight": "head M",
        "{pre_classifier,classifier}.bias": "head -",
    },
    "distilbert-mlm": {
        **_DISTILBERT,
        "vocab_transform.weight": "vocabulary head M",
        "{vocab_transform.bias,vocab_layer_norm.weight,vocab_layer_norm.bias}": "vocabulary head -",
        "vocab_projector.weight": (
            "vocabulary head M = distilbert.embeddings.word_embeddings.weight"
        ),
        "vocab_projector.bias": "vocabulary head -",
    },
    "gpt2": _gpt2({"lm_head.weight": "vocabulary head M = transformer.wte.weight"}),
    "gpt2-cola": _gpt2({"score.weight": "head M"}),
    "llama-3.2-1b": _llama(tied=True),
    "mistral-7b": _llama(tied=False),
    "qwen2-0.5b": _llama(tied=True, biases=True),
    "qwen3-0.6b": _llama(tied=True, head_norms=True),
    "gemma-2b": _llama(tied=True),
    "t5-small": {
        **_t5(),
        "{encoder,decoder}.block.N.layer.#.DenseReluDense.wi.weight": "MLP up M",
        "lm_head.weight": "vocabulary head M = shared.weight",
    },
    "flan-t5-small": {
        **_t5(),
        "{encoder,decoder}.block.N.layer.#.DenseReluDense.wi_0.weight": "MLP gate M",
        "{encoder,decoder}.block.N.layer.#.DenseReluDense.wi_1.weight": "MLP up M",
        "lm_head.weight": "vocabulary head M",
    },
    "clip-vit-base-patch32": {
        "logit_scale": "other -",
        "text_model.embeddings.token_embedding.weight": "embedding -",
        "vision_model.embeddings.class_embedding": "embedding -",
        "{text_model,vision_model}.embeddings.position_embedding.weight": "position embedding -",
        "vision_model.embeddings.patch_embedding.weight": "convolution -",
        **_bart_layers(_CLIP_BLOCK, mlp="mlp."),
        _CLIP_BLOCK + "{layer_norm1,layer_norm2}.{weight,bias}": "norm -",
        "text_model.final_layer_norm.{weight,bias}": "norm -",
        "vision_model.{pre_layrnorm,post_layernorm}.{weight,bias}": "norm -",
        "{visual_projection,text_projection}.weight": "other M",
    },
    "vit-base-patch16": {
        "vit.embeddings.cls_token": "embedding -",
        "vit.embeddings.position_embeddings": "position embedding -",
        "vit.embeddings.patch_embeddings.projection.weight": "convolution -",
        "vit.embeddings.patch_embeddings.projection.bias": "bias -",
        _VIT_BLOCK + "attention.attention.query.weight": "query M",
        _VIT_BLOCK + "attention.attention.key.weight": "key M",
        _VIT_BLOCK + "attention.attention.value.weight": "value M",
        _VIT_BLOCK + "attention.output.dense.weight": "attention output M",
        _VIT_BLOCK + "intermediate.dense.weight": "MLP up M",
        _VIT_BLOCK + "output.dense.weight": "MLP down M",
        _VIT_BLOCK + "attention.attention.{query,key,value}.bias": "bias -",
        _VIT_BLOCK + "{attention.output,intermediate,output}.dense.bias": "bias -",
        _VIT_BLOCK + "{layernorm_before,layernorm_after}.{weight,bias}": "norm -",
        "vit.layernorm.{weight,bias}": "norm -",
        "classifier.weight": "head M",
        "classifier.bias": "head -",
    },
    "whisper-tiny": {
        "model.encoder.{conv1,conv2}.weight": "convolution -",
        "model.encoder.{conv1,conv2}.bias": "bias -",
        "model.{encoder,decoder}.embed_positions.weight": "position embedding -",
        "model.decoder.embed_tokens.weight": "embedding -",
        **_bart_layers(_WHISPER_BLOCK),
        _WHISPER_BLOCK
        + "{self_attn_layer_norm,encoder_attn_layer_norm,final_layer_norm}"
        + ".{weight,bias}": "norm -",
        "model.{encoder,decoder}.layer_norm.{weight,bias}": "norm -",
        "proj_out.weight": "vocabulary head M = model.decoder.embed_tokens.weight",
    },
    "mixtral-8x7b": {
        **_llama_attention(tied=False),
        "model.layers.N.block_sparse_moe.gate.weight": "other M",
        "model.layers.N.block_sparse_moe.experts.#.w1.weight": "MLP gate M",
        "model.layers.N.block_sparse_moe.experts.#.w2.weight": "MLP down M",
        "model.layers.N.block_sparse_moe.experts.#.w3.weight": "MLP up M",
    },
    "qwen1.5-moe": {
        **_llama_attention(tied=False, biases=True),
        "model.layers.N.mlp.{gate,shared_expert_gate}.weight": "other M",
        "model.layers.N.mlp.{experts.#,shared_expert}.gate_proj.weight": "MLP gate M",
        "model.layers.N.mlp.{experts.#,shared_expert}.up_proj.weight": "MLP up M",
        "model.layers.N.mlp.{experts.#,shared_expert}.down_proj.weight": "MLP down M",
    },
    "gpt-oss": {
        **_llama_attention(tied=False, biases=True),
        "model.layers.N.self_attn.o_proj.bias": "bias -",
        "model.layers.N.self_attn.sinks": "other -",
        "model.layers.N.mlp.router.weight": "other M",
        "model.layers.N.mlp.router.bias": "bias -",
        "model.layers.N.mlp.experts.gate_up_proj": "MLP gate+up E×MT",
        "model.layers.N.mlp.experts.down_proj": "MLP down E×MT",
        "model.layers.N.mlp.experts.{gate_up_proj_bias,down_proj_bias}": "bias -",
    },
    "qwen3-30b-a3b": {
        **_llama_attention(tied=False, head_norms=True),
        "model.layers.N.mlp.gate.weight": "other M",
        "model.layers.N.mlp.experts.#.gate_proj.weight": "MLP gate M",
        "model.layers.N.mlp.experts.#.up_proj.weight": "MLP up M",
        "model.layers.N.mlp.experts.#.down_proj.weight": "MLP down M",
    },
    "llama-4-scout": {
        **_llama_attention(tied=False),
        "model.layers.N.feed_forward.router.weight": "other M",
        "model.layers.N.feed_forward.experts.gate_up_proj": "MLP gate+up E×MT",
        "model.layers.N.feed_forward.experts.down_proj": "MLP down E×MT",
        "model.layers.N.feed_forward.shared_expert.gate_proj.weight": "MLP gate M",
        "model.layers.N.feed_forward.shared_expert.up_proj.weight": "MLP up M",
        "model.layers.N.feed_forward.shared_expert.down_proj.weight": "MLP down M",
    },
    "gemma-3-1b": {
        **_llama(tied=True, head_norms=True),
        "model.layers.N.{pre_feedforward_layernorm,post_feedforward_layernorm}.weight": "norm -",
    },
    "pythia-70m": {
        "gpt_neox.embed_in.weight": "embedding -",
        _NEOX_BLOCK + "attention.query_key_value.weight": "query+key+value M",
        _NEOX_BLOCK + "attention.dense.weight": "attention output M",
        _NEOX_BLOCK + "mlp.dense_h_to_4h.weight": "MLP up M",
        _NEOX_BLOCK + "mlp.dense_4h_to_h.weight": "MLP down M",
        _NEOX_BLOCK + "attention.{query_key_value,dense}.bias": "bias -",
        _NEOX_BLOCK + "mlp.{dense_h_to_4h,dense_4h_to_h}.bias": "bias -",
        _NEOX_BLOCK + "{input_layernorm,post_attention_layernorm}.{weight,bias}": "norm -",
        "gpt_neox.final_layer_norm.{weight,bias}": "norm -",
        "embed_out.weight": "vocabulary head M",
    },
    "bloom-560m": {
        **_falcon("{input_layernorm,post_attention_layernorm}"),
        "transformer.word_embeddings_layernorm.{weight,bias}": "norm -",
        "transformer.h.N.self_attention.{query_key_value,dense}.bias": "bias -",
        "transformer.h.N.mlp.{dense_h_to_4h,dense_4h_to_h}.bias": "bias -",
    },
    "falcon-7b": _falcon("input_layernorm"),
    "falcon-40b": _falcon("{ln_attn,ln_mlp}"),
    "phi-3-mini": {
        "model.embed_tokens.weight": "embedding -",
        "model.layers.N.self_attn.qkv_proj.weight": "query+key+value M",
        "model.layers.N.self_attn.o_proj.weight": "attention output M",
        "model.layers.N.mlp.gate_up_proj.weight": "MLP gate+up M",
        "model.layers.N.mlp.down_proj.weight": "MLP down M",
        "model.layers.N.{input_layernorm,post_attention_layernorm}.weight": "norm -",
        "model.norm.weight": "norm -",
        "lm_head.weight": "vocabulary head M",
    },
}

_GATE_UP = "MLP gate {0}, MLP up {0}"
_QKV = "query {0}, key {1}, value {1}"

FUSIONS: dict[str, Table] = {
    "gpt2": {"transformer.h.N.attn.c_attn.weight": _QKV.format(768, 768)},
    "gpt2-cola": {"transformer.h.N.attn.c_attn.weight": _QKV.format(768, 768)},
    "gpt-oss": {"model.layers.N.mlp.experts.gate_up_proj": _GATE_UP.format(1)},
    "llama-4-scout": {"model.layers.N.feed_forward.experts.gate_up_proj": _GATE_UP.format(8192)},
    "pythia-70m": {_NEOX_BLOCK + "attention.query_key_value.weight": _QKV.format(64, 64)},
    "bloom-560m": {"transformer.h.N.self_attention.query_key_value.weight": _QKV.format(64, 64)},
    "falcon-7b": {"transformer.h.N.self_attention.query_key_value.weight": _QKV.format(4544, 64)},
    "falcon-40b": {"transformer.h.N.self_attention.query_key_value.weight": _QKV.format(1024, 64)},
    "phi-3-mini": {
        "model.layers.N.self_attn.qkv_proj.weight": _QKV.format(3072, 3072),
        "model.layers.N.mlp.gate_up_proj.weight": _GATE_UP.format(8192),
    },
}
"""Outputs of each matrix in a fused one, until they repeat; models without one are absent."""
