"""Experts with tokens of their own, as transformers makes, saves and loads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
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

from ace_gui.engine.planning.chat_templates import BUILT_IN
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.errors import MismatchError, RecipeError
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.values import TokenSource, Vocabulary
from tests.helpers.adapters import PREFIX, factors, save_adapter
from tests.helpers.merges import merged_folder
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
    return merged_folder(recipe, folder)


def rows(folder: Path) -> dict[str, dict[str, Tensor]]:
    """What every tensor with a row for each token has for every token."""
    model = load(folder)
    ids = AutoTokenizer.from_pretrained(folder).get_vocab()
    size = model.get_input_embeddings().weight.shape[0]
    assert size > max(ids.values())
    tables = {}
    for name, tensor in model.state_dict().items():
        if size in tensor.shape[:2]:
            table = tensor.reshape(size, -1)
            tables[name] = {token: table[index] for token, index in ids.items()}
    return tables


@pytest.mark.parametrize("method", ["linear", "ace"])
@pytest.mark.parametrize("kind", MODELS)
def test_tokens_of_all_experts_are_in_the_model_that_transformers_loads(
    kind: str, method: str, tmp_path: Path
) -> None:
    base = base_model(kind, tmp_path / "base")
    first_expert = expert(base, tmp_path / "one", ["<x>", "new"], 1)
    second_expert = expert(base, tmp_path / "two", ["new", "<x>"], 2)
    out = merged(base, [first_expert, second_expert], tmp_path / "out", merge_method=method)
    tables = rows(out)
    owned = [rows(first_expert), rows(second_expert)]
    assert {"<x>", "new"} < set(next(iter(tables.values())))
    for name, tokens in tables.items():
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
    first_expert = expert(base, tmp_path / "one", ["<y>", "<x>"], 1)
    second_expert = expert(base, tmp_path / "two", ["<x>", "new"], 2)
    out = merged(base, [first_expert, second_expert], tmp_path / "out", vocabulary=vocabulary)
    words = AutoTokenizer.from_pretrained(out)
    assert set(words.get_vocab()) == {*WORDS, *tokens}
    assert words.tokenize("a <x> b") == ["a", "<x>", "b"]
    assert words.decode(words("a <x>")["input_ids"], skip_special_tokens=True) == "a"
    tables = rows(out)
    owned = [rows(first_expert), rows(second_expert)]
    for name, table in tables.items():
        for token in tokens:
            has = [owner[name][token] for owner in owned if token in owner[name]]
            torch.testing.assert_close(table[token], torch.stack(has).mean(dim=0))


def test_rows_of_single_tokens_come_from_their_sources(tmp_path: Path) -> None:
    base = base_model("llama", tmp_path / "base")
    first_expert = expert(base, tmp_path / "one", ["<x>", "new"], 1)
    second_expert = expert(base, tmp_path / "two", ["<x>"], 2)
    tokens = {
        "<x>": TokenSource(model="one"),
        "new": TokenSource(model="one", force=True),
        "<z>": TokenSource(zero=True),
        "<copy>": TokenSource(model="base", token="a"),
        "b": TokenSource(model="two", force=True),
        "c": TokenSource(model="one", token_id=WORDS.index("d"), force=True),
    }
    more = {"tokens": tokens, "pad_to_multiple_of": 20, "merge_method": "linear"}
    out = merged(base, [first_expert, second_expert], tmp_path / "out", vocabulary="union", **more)
    ids = AutoTokenizer.from_pretrained(out).get_vocab()
    assert set(ids) == {*WORDS, *tokens}
    assert load(out).config.vocab_size == 20
    tables = rows(out)
    start = rows(base)
    first = rows(first_expert)
    second = rows(second_expert)
    for name, row in tables.items():
        exact_rows = {
            "<x>": first[name]["<x>"],
            "new": first[name]["new"],
            "<z>": torch.zeros(16),
            "<copy>": start[name]["a"],
            "b": second[name]["b"],
            "c": first[name]["d"],
        }
        for token, exact in exact_rows.items():
            mean = (exact + second[name]["<x>"]) / 2 if token == "<x>" else exact
            torch.testing.assert_close(row[token], mean)
        torch.testing.assert_close(row["e"], (first[name]["e"] + second[name]["e"]) / 2)
        before = torch.stack([exact_rows.get(token, start[name].get(token)) for token in ids])
        padding = load(out).state_dict()[name][len(ids) :]
        torch.testing.assert_close(padding, before.mean(0).expand(6, -1))


@pytest.mark.parametrize(
    ("tokens", "vocabulary", "words"),
    [
        ({"<x>": TokenSource(model="one")}, "position", "union"),
        ({"<q>": TokenSource(model="one")}, "union", "one has no row for '<q>'"),
        ({"<q>": TokenSource(model="base", token_id=99)}, "union", "no row for '<q>'"),
        ({"a": TokenSource(model="one")}, "union", "force: true"),
    ],
)
def test_single_tokens_that_no_source_has_are_refused(
    tokens: dict[str, TokenSource], vocabulary: str, words: str, tmp_path: Path
) -> None:
    base = base_model("llama", tmp_path / "base")
    first_expert = expert(base, tmp_path / "one", ["<x>"], 1)
    second_expert = expert(base, tmp_path / "two", ["<x>"], 2)
    tokenizer([*(word if word != "a" else "other" for word in WORDS), "<x>"]).save_pretrained(
        second_expert
    )
    recipe = recipe_over(
        base, [first_expert, second_expert], vocabulary=Vocabulary(vocabulary), tokens=tokens
    )
    with pytest.raises(RecipeError, match=words):
        prepare(recipe)


def test_ids_that_moved_are_followed_in_the_configs(tmp_path: Path) -> None:
    base = base_model("bart", tmp_path / "base")
    expert_folder = expert(base, tmp_path / "one", ["<x>"], 1)
    order = [*reversed(WORDS), "<x>"]
    tokenizer(order).save_pretrained(expert_folder)
    model = load(expert_folder)
    out = merged(base, [expert_folder], tmp_path / "out", merge_method="linear")
    assert AutoTokenizer.from_pretrained(out).get_vocab() == {t: i for i, t in enumerate(order)}
    merged_model = load(out)
    assert WORDS[load(base).config.eos_token_id] == order[merged_model.config.eos_token_id]
    assert merged_model.generation_config.eos_token_id == merged_model.config.eos_token_id
    torch.testing.assert_close(merged_model.model.shared.weight, model.model.shared.weight)


def adapter(base: Path, folder: Path, added: Sequence[str], seed: int, form: str) -> Path:
    """A LoRA adapter with rows for new tokens, under the names that PEFT saves (``form``)."""
    tokens = AutoTokenizer.from_pretrained(base)
    tokens.add_tokens(list(added))
    model = load(base)
    model.resize_token_embeddings(len(tokens), mean_resizing=False)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    generator = torch.Generator().manual_seed(seed)
    tensors = factors("model.layers.0.self_attn.q_proj", 16, 16, seed=seed)
    tied = model.config.tie_word_embeddings
    for module in ("model.embed_tokens", "lm_head"):
        start = before[f"{module}.weight"]
        trained = start + torch.randn(start.shape, generator=generator)
        if module == "lm_head" and tied:
            trained = tensors[f"{PREFIX}model.embed_tokens.weight"]
        names = {f"{module}.weight": trained}
        if form == "trained":
            names |= {
                f"{module}.modules_to_save.weight": trained,
                f"{module}.original_module.weight": start,
            }
        tensors |= {f"{PREFIX}{name}": tensor.clone() for name, tensor in names.items()}
    save_adapter(folder, tensors, ensure_weight_tying=tied)
    tokens.save_pretrained(folder)
    return folder


def with_adapter(base: Path, folder: Path) -> dict[str, dict[str, Tensor]]:
    """By tensor and token, in float64: the base resized, with the adapter loaded and merged."""
    held = load_file(folder / "adapter_model.safetensors")
    ids = AutoTokenizer.from_pretrained(folder).get_vocab()
    tables = {}
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        table = held[PREFIX + name].double()
        tables[name] = {token: table[index] for token, index in ids.items()}
    module = "model.layers.0.self_attn.q_proj"
    a, b = (held[f"{PREFIX}{module}.lora_{letter}.weight"].double() for letter in "AB")
    start = load(base).state_dict()[f"{module}.weight"].double()
    return {**tables, "query": {"": start + 4.0 * (b @ a)}}  # α/r is 8/2


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("form", ["plain", "trained"])
@pytest.mark.parametrize("vocabulary", ["tokens", "union"])
@pytest.mark.parametrize("added", [(["<x>", "new"],), (["<x>", "new"], ["<y>", "<x>"])])
def test_adapters_with_new_tokens_are_as_resized_loaded_and_merged(
    added: tuple[list[str], ...], vocabulary: str, form: str, tied: bool, tmp_path: Path
) -> None:
    config = LlamaConfig(**LLAMA, tie_word_embeddings=tied)
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "base")
    tokenizer(WORDS).save_pretrained(tmp_path / "base")
    base = tmp_path / "base"
    folders = [adapter(base, tmp_path / f"a{n}", tokens, n, form) for n, tokens in enumerate(added)]
    out = merged(base, folders, tmp_path / "out", vocabulary=vocabulary, merge_method="linear")
    owned = [with_adapter(base, folder) for folder in folders]
    combination = set.union if vocabulary == "union" else set.intersection
    assert set(rows(out)["lm_head.weight"]) == {*WORDS, *combination(*map(set, added))}
    for name, tokens in rows(out).items():
        for token, row in tokens.items():
            mean = torch.stack([owner[name][token] for owner in owned if token in owner[name]])
            torch.testing.assert_close(row.double(), mean.mean(dim=0), atol=1e-6, rtol=0)
    query = load(out).state_dict()["model.layers.0.self_attn.q_proj.weight"].double()
    mean = torch.stack([owner["query"][""] for owner in owned]).mean(dim=0)
    torch.testing.assert_close(query, mean, atol=2e-6, rtol=0)


@pytest.mark.parametrize("form", ["plain", "trained"])
def test_a_table_that_was_trained_apart_from_a_saved_head(form: str, tmp_path: Path) -> None:
    """PEFT unties the two, and so does a merge."""
    config = LlamaConfig(**LLAMA, tie_word_embeddings=True)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "base")
    tokenizer(WORDS).save_pretrained(tmp_path / "base")
    folder = adapter(tmp_path / "base", tmp_path / "a", ["<x>"], 1, form)
    held = load_file(folder / "adapter_model.safetensors")
    for name in held:
        if name.startswith(f"{PREFIX}lm_head."):
            held[name] += 1
    save_adapter(folder, held)
    out = merged(
        tmp_path / "base", [folder], tmp_path / "out", vocabulary="tokens", merge_method="linear"
    )
    merged_model = load(out)
    assert not merged_model.config.tie_word_embeddings
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        expected = held[PREFIX + name]
        torch.testing.assert_close(merged_model.state_dict()[name], expected, atol=1e-6, rtol=0)


def test_the_tokenizer_of_one_expert(tmp_path: Path) -> None:
    """Its tokens in its order, its template and end tokens; rows are matched by token."""
    base = base_model("llama", tmp_path / "base")
    a = expert(base, tmp_path / "a", ["<x>"], 1)
    b = expert(base, tmp_path / "b", ["<y>"], 2)
    tokens = AutoTokenizer.from_pretrained(a)
    tokens.chat_template = "{{ messages[0]['content'] }}"
    tokens.save_pretrained(a)
    ends = {"base": 3, "a": 10}
    for name, end in ends.items():
        transformers.GenerationConfig(eos_token_id=end).save_pretrained(tmp_path / name)
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "merge_method: linear\nbase_model: base\nmodels: [{model: a}, {model: b}]\n"
        "schema: 1\ntokenizer: a\n"
    )
    for _ in merge_to_folder(load_recipe(path), tmp_path / "out", Options()):
        pass
    merged_state, state_a, state_b = (
        load(folder).state_dict() for folder in (tmp_path / "out", a, b)
    )
    name = "model.embed_tokens.weight"
    assert len(merged_state[name]) == len(WORDS) + 1
    assert torch.equal(merged_state[name][len(WORDS)], state_a[name][len(WORDS)])
    mean = (state_a[name][: len(WORDS)] + state_b[name][: len(WORDS)]) / 2
    assert torch.allclose(merged_state[name][: len(WORDS)], mean, atol=1e-6)
    made = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert made.convert_tokens_to_ids("<x>") == len(WORDS)
    assert made.chat_template == tokens.chat_template
    assert transformers.GenerationConfig.from_pretrained(tmp_path / "out").eos_token_id == 10


@pytest.mark.parametrize(
    "template", ["a", "auto", "chatml", "{{ messages }}", "file.jinja", "", "base"]
)
def test_chat_templates(tmp_path: Path, template: str) -> None:
    base = base_model("llama", tmp_path / "base")
    tokens = AutoTokenizer.from_pretrained(expert(base, tmp_path / "a", [], 1))
    tokens.chat_template = "{{ messages[0]['content'] }}"
    tokens.save_pretrained(tmp_path / "a")
    (tmp_path / "file.jinja").write_text("{{ messages[0]['role'] }}")
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "schema: 1\nmerge_method: linear\nbase_model: base\nmodels: [{model: a}]\n"
        f"chat_template: {template!r}\n"
    )
    prepared = prepare(load_recipe(path))
    offered = [check.sentence for check in prepared.plan.checks if check.title == "Chat"]
    assert len(offered) == (not template)
    if offered:
        assert "chat_template: a" in offered[0]
    for _ in merge_to_folder(load_recipe(path), tmp_path / "out", Options()):
        pass
    output_tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    if template in ("", "base"):
        assert output_tokenizer.chat_template is None
        return
    messages = [{"role": "user", "content": "hello"}]
    text = output_tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True
    )
    expected = {
        "a": "hello",
        "auto": "hello",
        "chatml": "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n",
        "{{ messages }}": str(messages),
        "file.jinja": "user",
    }
    assert text == expected[template]


@pytest.mark.parametrize("name", BUILT_IN)
def test_well_known_templates_hold_every_message(name: str) -> None:
    with_template = tokenizer(WORDS)
    with_template.add_special_tokens({"bos_token": "<s>", "eos_token": "</s>"})
    with_template.chat_template = BUILT_IN[name]
    messages = [{"role": role, "content": f"of {role}"} for role in ("user", "assistant", "user")]
    text = with_template.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text.count("of user") == 2
    assert text.index("of user") < text.index("of assistant") < text.rindex("of user")


def test_an_adapter_cannot_hold_new_tokens(tmp_path: Path) -> None:
    base = base_model("llama", tmp_path / "base")
    expert_folder = expert(base, tmp_path / "one", ["<x>"], 1)
    recipe = recipe_over(
        base, [expert_folder], merge_method="linear", vocabulary="union", output="adapter", rank=2
    )
    with pytest.raises(MismatchError, match="tokens"):
        list(merge_to_folder(recipe, tmp_path / "out", Options()))
    assert not (tmp_path / "out").exists()
