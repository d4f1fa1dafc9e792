"""Experts with tokens of their own, as transformers makes, saves and loads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LlavaConfig,
    LlavaForConditionalGeneration,
    PreTrainedTokenizerFast,
)

from ace_gui.engine.merging.merge import merge
from ace_gui.engine.output.exporting import publish
from ace_gui.engine.planning.prepare import prepare
from ace_gui.recipe.values import Vocabulary
from tests.helpers.recipes import recipe_over

WORDS = ["<pad>", "<unk>", *"abcdefgh"]
SIZES: dict[str, Any] = {"vocab_size": len(WORDS), "pad_token_id": 0}
LLAMA: dict[str, Any] = {
    **SIZES,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


def llava() -> nn.Module:
    vision = {
        "model_type": "clip_vision_model",
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 8,
        "patch_size": 4,
    }
    text = {"model_type": "llama", **LLAMA}
    return LlavaForConditionalGeneration(
        LlavaConfig(vision_config=vision, text_config=text, image_token_index=9)
    )


MODELS: dict[str, Any] = {
    "bert": lambda: BertForMaskedLM(
        BertConfig(
            **SIZES,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=9,
        )
    ),
    "bart": lambda: BartForConditionalGeneration(
        BartConfig(
            **SIZES,
            d_model=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=24,
            decoder_ffn_dim=24,
            max_position_embeddings=8,
            bos_token_id=2,
            eos_token_id=3,
            decoder_start_token_id=3,
            forced_eos_token_id=3,
        )
    ),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(**SIZES, n_embd=16, n_layer=1, n_head=2, n_positions=8, bos_token_id=2)
    ),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**LLAMA)),
    "llava": llava,
}


def tokenizer(words: Sequence[str]) -> PreTrainedTokenizerFast:
    raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        unk_token="<unk>",
        pad_token="<pad>",
        clean_up_tokenization_spaces=False,
    )


def base_model(kind: str, folder: Path) -> Path:
    torch.manual_seed(0)
    MODELS[kind]().save_pretrained(folder)
    tokenizer(WORDS).save_pretrained(folder)
    return folder


def expert(base: Path, folder: Path, added: Sequence[str], seed: int) -> Path:
    """A fine-tune whose tokenizer was given tokens, and its model rows for them."""
    tokens = AutoTokenizer.from_pretrained(base)
    tokens.add_tokens([AddedToken(token, special=token.startswith("<")) for token in added])
    model = load(base)
    model.resize_token_embeddings(len(tokens), mean_resizing=False)
    torch.manual_seed(seed)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.add_(0.1 * torch.randn(tensor.shape))
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return folder


def load(folder: Path) -> Any:
    (name,) = AutoConfig.from_pretrained(folder).architectures
    return getattr(transformers, name).from_pretrained(folder)


def merged(
    base: Path, experts: Sequence[Path], folder: Path, *, vocabulary: str = "tokens", **changes: Any
) -> Path:
    recipe = recipe_over(base, experts, vocabulary=Vocabulary(vocabulary), **changes)
    for _ in merge(prepare(recipe), folder.with_suffix(".store"), as_output=True):
        pass
    publish(folder.with_suffix(".store"), folder)
    return folder


def rows(folder: Path) -> dict[str, dict[str, Tensor]]:
    """What every tensor with a row for each token has for every token."""
    model, ids = load(folder), AutoTokenizer.from_pretrained(folder).get_vocab()
    size = model.get_input_embeddings().weight.shape[0]
    assert size > max(ids.values())
    found = {}
    for name, tensor in model.state_dict().items():
        if size in tensor.shape[:2]:
            own = tensor.reshape(size, -1)
            found[name] = {token: own[index] for token, index in ids.items()}
    return found


@pytest.mark.parametrize("method", ["linear", "ace"])
@pytest.mark.parametrize("kind", MODELS)
def test_tokens_of_all_experts_are_in_the_model_that_transformers_loads(
    kind: str, method: str, tmp_path: Path
) -> None:
    base = base_model(kind, tmp_path / "base")
    one = expert(base, tmp_path / "one", ["<x>", "new"], 1)
    two = expert(base, tmp_path / "two", ["new", "<x>"], 2)
    out = merged(base, [one, two], tmp_path / "out", merge_method=method)
    found, owned = rows(out), [rows(one), rows(two)]
    assert {"<x>", "new"} < set(next(iter(found.values())))
    for name, tokens in found.items():
        buffer = name.endswith("final_logits_bias")  # the base's, but for new tokens
        for token, row in tokens.items():
            if not (buffer and token in WORDS):
                mean = (owned[0][name][token] + owned[1][name][token]) / 2
                torch.testing.assert_close(row, mean)
    words = AutoTokenizer.from_pretrained(out)
    assert words.tokenize("a <x> b new") == ["a", "<x>", "b", "new"]


@pytest.mark.parametrize(
    ("vocabulary", "tokens"), [("tokens", {"<x>"}), ("union", {"<x>", "<y>", "new"})]
)
def test_a_tokenizer_that_no_expert_has_is_the_base_s_with_more_tokens(
    vocabulary: str, tokens: set[str], tmp_path: Path
) -> None:
    base = base_model("llama", tmp_path / "base")
    one = expert(base, tmp_path / "one", ["<y>", "<x>"], 1)
    two = expert(base, tmp_path / "two", ["<x>", "new"], 2)
    out = merged(base, [one, two], tmp_path / "out", vocabulary=vocabulary)
    words = AutoTokenizer.from_pretrained(out)
    assert set(words.get_vocab()) == {*WORDS, *tokens}
    assert words.tokenize("a <x> b") == ["a", "<x>", "b"]
    assert words.decode(words("a <x>")["input_ids"], skip_special_tokens=True) == "a"
    found, owned = rows(out), [rows(one), rows(two)]
    for name, own in found.items():
        for token in tokens:
            has = [each[name][token] for each in owned if token in each[name]]
            torch.testing.assert_close(own[token], torch.stack(has).mean(dim=0))


def test_ids_that_moved_are_followed_in_the_configs(tmp_path: Path) -> None:
    base = base_model("bart", tmp_path / "base")
    one = expert(base, tmp_path / "one", ["<x>"], 1)
    order = [*reversed(WORDS), "<x>"]
    tokenizer(order).save_pretrained(one)
    model = load(one)
    out = merged(base, [one], tmp_path / "out", merge_method="linear")
    assert AutoTokenizer.from_pretrained(out).get_vocab() == {t: i for i, t in enumerate(order)}
    found = load(out)
    assert WORDS[load(base).config.eos_token_id] == order[found.config.eos_token_id]
    assert found.generation_config.eos_token_id == found.config.eos_token_id
    torch.testing.assert_close(found.model.shared.weight, model.model.shared.weight)
