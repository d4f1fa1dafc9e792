"""Configs of published models, in the parts that shape them."""

from __future__ import annotations

Config = dict[str, object]


def _config(model_type: str, architecture: str, **shaping: object) -> Config:
    return {"model_type": model_type, "architectures": [architecture], **shaping}


def _decoder(
    model_type: str,
    architecture: str,
    sizes: tuple[int, int, int],
    heads: tuple[int, int, int],
    **settings: object,
) -> Config:
    """``sizes``: hidden, inner, layers. ``heads``: of queries, of keys and values; and a size."""
    shaping = {
        **dict(zip(("hidden_size", "intermediate_size", "num_hidden_layers"), sizes, strict=True)),
        **dict(zip(("num_attention_heads", "num_key_value_heads", "head_dim"), heads, strict=True)),
    }
    return _config(model_type, architecture, **shaping, **settings)


def _falcon(hidden: int, heads: int, **settings: object) -> Config:
    sizes = {"hidden_size": hidden, "num_attention_heads": heads, "num_hidden_layers": 2}
    return _config("falcon", "FalconForCausalLM", **sizes, **settings)


def _t5(inner: int, heads: int, layers: int, **settings: object) -> Config:
    sizes = {"d_ff": inner, "num_heads": heads, "num_layers": layers, "vocab_size": 32128}
    return _config("t5", "T5ForConditionalGeneration", **sizes, **settings)


_TIED = {"tie_word_embeddings": True}
_UNTIED = {"tie_word_embeddings": False}
_LLAMA = {**_TIED, "vocab_size": 128256, "rope_theta": 500000.0, "torch_dtype": "bfloat16"}
_LABELS = {"id2label": {"0": "cat", "1": "dog"}, "label2id": {"cat": 0, "dog": 1}}
_CLIP = {
    "projection_dim": 512,
    "text_config": {"model_type": "clip_text_model", "vocab_size": 49408},
    "vision_config": {"model_type": "clip_vision_model", "patch_size": 32},
}
_WHISPER = {"d_model": 384, "vocab_size": 51865} | {
    f"{side}_{what}": count
    for side in ("encoder", "decoder")
    for what, count in (("layers", 4), ("attention_heads", 6), ("ffn_dim", 1536))
}
_QWEN_MOE = {"moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632}
_PYTHIA = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 6}
_BLOOM = {"hidden_size": 1024, "n_head": 16, "n_layer": 2, "vocab_size": 250880}

CONFIGS: dict[str, Config] = {
    "roberta-base": _config("roberta", "RobertaForSequenceClassification", vocab_size=50265),
    "bert-base": _config("bert", "BertForPreTraining"),
    "distilbert-sst2": _config("distilbert", "DistilBertForSequenceClassification"),
    "distilbert-mlm": _config("distilbert", "DistilBertForMaskedLM"),
    "gpt2": _config("gpt2", "GPT2LMHeadModel", n_ctx=1024),
    "gpt2-cola": _config("gpt2", "GPT2ForSequenceClassification", pad_token_id=50256),
    "llama-3.2-1b": _decoder("llama", "LlamaForCausalLM", (2048, 8192, 16), (32, 8, 64), **_LLAMA),
    "mistral-7b": _decoder("mistral", "MistralForCausalLM", (4096, 14336, 32), (32, 8, 128)),
    "qwen2-0.5b": _decoder("qwen2", "Qwen2ForCausalLM", (896, 4864, 24), (14, 2, 64), **_TIED),
    "qwen3-0.6b": _decoder("qwen3", "Qwen3ForCausalLM", (1024, 3072, 28), (16, 8, 128), **_TIED),
    "gemma-2b": _decoder("gemma", "GemmaForCausalLM", (2048, 16384, 18), (8, 1, 256)),
    "t5-small": _t5(2048, 8, 6),
    "flan-t5-small": _t5(1024, 6, 8, feed_forward_proj="gated-gelu", **_UNTIED),
    "clip-vit-base-patch32": _config("clip", "CLIPModel", **_CLIP),
    "vit-base-patch16": _config("vit", "ViTForImageClassification", **_LABELS),
    "whisper-tiny": _config("whisper", "WhisperForConditionalGeneration", **_WHISPER),
    "mixtral-8x7b": _decoder("mixtral", "MixtralForCausalLM", (4096, 14336, 4), (32, 8, 128)),
    "qwen1.5-moe": _decoder(
        "qwen2_moe", "Qwen2MoeForCausalLM", (2048, 5632, 4), (16, 16, 128), **_QWEN_MOE
    ),
    "gpt-oss": _config("gpt_oss", "GptOssForCausalLM", num_hidden_layers=2),
    "qwen3-30b-a3b": _decoder(
        "qwen3_moe", "Qwen3MoeForCausalLM", (2048, 6144, 2), (32, 4, 128), num_experts=128
    ),
    "llama-4-scout": _decoder(
        "llama4_text", "Llama4ForCausalLM", (5120, 8192, 2), (40, 8, 128), num_local_experts=16
    ),
    "gemma-3-1b": _decoder("gemma3_text", "Gemma3ForCausalLM", (1152, 6912, 2), (4, 1, 256)),
    "pythia-70m": _config("gpt_neox", "GPTNeoXForCausalLM", num_attention_heads=8, **_PYTHIA),
    "bloom-560m": _config("bloom", "BloomForCausalLM", **_BLOOM),
    "falcon-7b": _falcon(4544, 71, multi_query=True),
    "falcon-40b": _falcon(8192, 128, num_kv_heads=8, new_decoder_architecture=True),
    "phi-3-mini": _decoder("phi3", "Phi3ForCausalLM", (3072, 8192, 2), (32, 32, 96)),
}
