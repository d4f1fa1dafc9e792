"""Every check's verdict, on a tiny pair of bare models changed in one place at a time."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ace_gui.engine.contract.plan import (
    EVERYTHING,
    Check,
    CheckVerdict,
    bytes_in_store,
    worst_first,
)
from ace_gui.engine.planning import preflight
from ace_gui.engine.planning.preflight import config_differences
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.token_ids import compare
from ace_gui.errors import CheckpointError, MismatchError
from tests.helpers.checkpoints import stamps
from tests.helpers.models import gpt2_family, roberta_family
from tests.helpers.recipes import recipe_over

CONFIG = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_layer": 1,
    "n_embd": 8,
    "n_head": 2,
    "vocab_size": 6,
    "n_positions": 4,
    "tie_word_embeddings": True,
}
TOKENS = {"a": 0, "b": 1, "c": 2}
Tensors = dict[str, torch.Tensor]
Builder = Callable[..., Path]


def tensors(seed: int) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    shapes = {
        "transformer.wte.weight": (6, 8),
        "transformer.wpe.weight": (4, 8),
        "transformer.ln_f.weight": (8,),
        "transformer.ln_f.bias": (8,),
        "transformer.h.0.attn.c_attn.weight": (8, 24),
        "transformer.h.0.mlp.c_fc.weight": (8, 32),
    }
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


@pytest.fixture
def build(tmp_path) -> Builder:
    """Writes a model folder: tensors, config and tokenizer, each as told."""

    def make(
        name: str,
        seed: int = 0,
        *,
        config: dict[str, object] | None = None,
        tokens: dict[str, int] | None = None,
        change: Callable[[Tensors], Tensors] = lambda held: held,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        save_file(change(tensors(seed)), folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
        (folder / "vocab.json").write_text(json.dumps(tokens or TOKENS))
        return folder

    return make


def prepared(base: Path, *experts: Path) -> Prepared:
    return prepare(recipe_over(base, experts))


def checks(base: Path, *experts: Path) -> tuple[Check, ...]:
    return prepared(base, *experts).plan.checks


def only_worry(base: Path, *experts: Path) -> Check:
    (worry,) = (check for check in checks(base, *experts) if check.is_worry)
    return worry


def test_all_fine_has_a_verdict_a_row_and_no_worry(build: Builder):
    all_checks = checks(build("base"), build("one", 1), build("two", 2))
    assert {check.verdict for check in all_checks} == {CheckVerdict.OK}
    titles = [check.title for check in all_checks]
    assert len(titles) == len(set(titles))
    assert {"Names", "Shapes", "Vocabulary", "Configuration", "Disk", "Memory"} <= set(titles)
    assert all(check.sentence for check in all_checks)


def test_families_with_heads_are_noted_not_warned_of(tmp_path):
    for family in (gpt2_family(tmp_path / "g"), roberta_family(tmp_path / "r")):
        all_checks = checks(family.base, *family.experts.values())
        (heads,) = [check for check in all_checks if check.title == "Heads"]
        assert heads.verdict is CheckVerdict.NOTE
        assert all(name in heads.sentence for name in family.experts)
        assert not [check for check in all_checks if check.is_worry]


def test_another_prefix_is_named_as_the_cause(build: Builder):
    def bare(held: Tensors) -> Tensors:
        return {name.removeprefix("transformer."): tensor for name, tensor in held.items()}

    all_checks = checks(build("base"), build("one", 1, change=bare))
    (names,) = [check for check in all_checks if check.title == "Names"]
    assert (names.verdict, names.subject) == (CheckVerdict.NOTE, "one")
    assert "prefix" in names.sentence
    assert len(names.details.splitlines()) == len(tensors(0))


def test_experts_with_the_same_finding_share_a_check(build: Builder):
    def bare(held: Tensors) -> Tensors:
        return {name.removeprefix("transformer."): tensor for name, tensor in held.items()}

    experts = [build("one", 1, change=bare), build("two", 2, change=bare), build("three", 3)]
    (names,) = [check for check in checks(build("base"), *experts) if check.title == "Names"]
    assert names.subject == "one, two"


def test_an_expert_without_its_embedding(build: Builder):
    def cut(held: Tensors) -> Tensors:
        return {name: tensor for name, tensor in held.items() if "wte" not in name}

    worry = only_worry(build("base"), build("one", 1, change=cut), build("two", 2))
    assert (worry.title, worry.subject) == ("Names", "one")
    assert "`transformer.wte.weight`" in worry.sentence


@pytest.mark.parametrize(
    ("dtype", "verdict"),
    [(torch.bfloat16, CheckVerdict.WARNING), (torch.float16, CheckVerdict.NOTE)],
)
def test_formats_that_differ_are_judged_by_their_rounding(
    build: Builder, dtype: torch.dtype, verdict: CheckVerdict
):
    def narrow(held: Tensors) -> Tensors:
        return {name: tensor.to(dtype) for name, tensor in held.items()}

    all_checks = checks(build("base"), build("one", 1, change=narrow))
    (formats,) = [check for check in all_checks if check.title == "Number format"]
    assert formats.verdict is verdict
    narrow_checks = checks(build("b", change=narrow), build("e", 1, change=narrow))
    assert not [
        check for check in narrow_checks if check.title == "Number format" and check.details
    ]


def test_a_head_that_only_one_of_them_has(build: Builder):
    def untie(held: Tensors) -> Tensors:
        return {**held, "lm_head.weight": torch.ones(6, 8)}

    untied = {"config": {"tie_word_embeddings": False}, "change": untie}
    all_checks = checks(build("base"), build("one", 1, **untied))
    (ties,) = [check for check in all_checks if check.title == "Tied weights"]
    assert (ties.verdict, ties.subject) == (CheckVerdict.NOTE, "one")
    assert "`lm_head.weight`" in ties.sentence
    all_of = checks(build("untied", **untied), build("two", 1))
    (ties,) = [check for check in all_of if check.title == "Tied weights"]
    assert (ties.verdict, ties.subject) == (CheckVerdict.NOTE, "two")
    assert "`lm_head.weight`" in ties.sentence
    assert not any("prefix" in check.sentence for check in all_of)


def test_equal_sizes_are_no_equal_vocabularies(build: Builder):
    worry = only_worry(build("base"), build("one", 1, tokens={"a": 1, "b": 0, "c": 2}))
    assert worry.title == "Vocabulary"
    assert worry.sentence.startswith("2 of 3 token ids")
    assert "id 0 is 'a' in the base and 'b' in the expert" in worry.sentence


@pytest.mark.parametrize(
    ("whose", "harm", "said"),
    [
        ("one", lambda file: file.write_text("["), "not valid JSON"),
        ("base", Path.unlink, "base's folder"),
    ],
)
def test_a_tokenizer_that_cannot_be_compared(
    build: Builder, tmp_path, whose: str, harm: Callable[[Path], object], said: str
):
    base = build("base")
    expert = build("one", 1)
    harm(tmp_path / whose / "vocab.json")
    assert said in only_worry(base, expert).sentence


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("layer_norm_epsilon", 1e-6, "norm epsilon"),
        ("activation_function", "relu", "activation"),
        ("n_head", 4, "attention heads"),
        ("scale_attn_by_inverse_layer_idx", True, "attention"),
    ],
)
def test_a_config_that_means_something_else(build: Builder, key: str, value: object, kind: str):
    full = {
        "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new",
        "scale_attn_by_inverse_layer_idx": False,
    }
    worry = only_worry(build("base", config=full), build("one", 1, config={**full, key: value}))
    assert worry.title == "Configuration"
    assert kind in worry.sentence
    assert f"`{key}` is {value!r}" in worry.sentence


def test_rope_is_compared_wherever_the_config_keeps_it():
    old = {"rope_theta": 1e4}
    new = {"rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}}
    far = {"rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", "factor": 8.0}}
    assert not list(config_differences(old, new))
    assert [kind for kind, _ in config_differences(old, far)] == [
        "position encoding",
        "position encoding",
    ]
    nested = list(config_differences({"text_config": old}, {"text_config": far}))
    assert nested[0][1].startswith("`text_config.rope_theta`")


def test_what_only_one_config_says_is_no_difference():
    assert not list(config_differences({}, {"hidden_act": "gelu"}))
    assert list(config_differences({}, {"rope_scaling": {"factor": 2.0}}))
    assert not list(config_differences({}, {"rope_scaling": None}))


def test_copies_are_found_by_their_blocks(build: Builder):
    worry = only_worry(build("base"), build("one", 1), build("two", 2), build("again", 1))
    assert (worry.title, worry.subject) == ("Duplicates", "again")
    assert "Probably the same weights as one" in worry.sentence
    assert "as the base" in only_worry(build("b"), build("one-more", 1), build("copy")).sentence


@pytest.mark.parametrize(
    ("free", "verdict"),
    [(99, CheckVerdict.ERROR), (110, CheckVerdict.WARNING), (200, CheckVerdict.OK)],
)
def test_room(build: Builder, monkeypatch, free: int, verdict: CheckVerdict):
    ready = prepared(build("base"), build("one", 1))
    store = bytes_in_store(ready.plan.rows) + ready.plan.bytes_for_experts
    for title, disk, memory in (("Disk", free, 10**9), ("Memory", 10**9, free)):
        plan = replace(ready.plan, peak_bytes=100, free_memory=memory)
        monkeypatch.setattr(preflight, "free_disk_bytes", lambda disk=disk: store * disk // 100)
        all_checks = preflight.preflight(replace(ready, plan=plan))
        (room,) = [check for check in all_checks if check.title == title]
        assert room.verdict is verdict
        assert all_checks == worst_first(all_checks)


def test_a_bare_base_without_experts(tmp_path):
    file = tmp_path / "bare.safetensors"
    save_file(tensors(0), file)
    base, *machine_checks = checks(file)
    assert base.verdict is CheckVerdict.NOTE
    assert "No config.json" in base.sentence
    assert {check.title for check in machine_checks} == {"Disk", "Memory"}


def test_other_vocabulary_rows_are_refused_with_the_first_new_token(build: Builder):
    def longer(held: Tensors) -> Tensors:
        return {**held, "transformer.wte.weight": torch.ones(8, 8)}

    base = build("base", tokens={f"t{index}": index for index in range(6)})
    expert = build(
        "one",
        1,
        config={"vocab_size": 8},
        tokens={f"t{index}": index for index in range(8)},
        change=longer,
    )
    with pytest.raises(MismatchError, match="8 rows in one but 6 in the base") as caught:
        prepared(base, expert)
    assert "2 tokens more (the first is 't6', id 6)" in caught.value.sentence
    with pytest.raises(MismatchError, match="2 tokens fewer"):
        prepared(expert, base)


def test_every_kind_of_tokenizer_file_is_read(tmp_path):
    added = [{"id": 2, "content": "<x>"}]
    fast = {"model": {"vocab": {"a": 0, "b": 1}}, "added_tokens": added}
    unigram = {"model": {"vocab": [["a", -1.0], ["b", -2.0]]}, "added_tokens": added}
    files = {
        "1/tokenizer.json": json.dumps(fast),
        "2/tokenizer.json": json.dumps(unigram),
        "3/vocab.txt": "a\nb\n<x>\n",
        "4/vocab.json": json.dumps({"a": 0, "b": 1}),
        "4/added_tokens.json": json.dumps({"<x>": 2}),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    kinds = [
        stamps(*(tmp_path / name for name in files if name.startswith(number))) for number in "1234"
    ]
    for kind in kinds:
        difference = compare(kinds[0], kind)
        assert (difference.tokens, difference.size) == (0, 3)
    assert compare(kinds[0], kinds[3][:1]).tokens == 1
    with pytest.raises(CheckpointError):
        compare(kinds[0], stamps(tmp_path / "nowhere.json"))


def test_the_worst_come_first():
    def check(verdict: CheckVerdict) -> Check:
        return Check(subject=EVERYTHING, title="t", verdict=verdict, sentence="s")

    unordered = [
        check(CheckVerdict.OK),
        check(CheckVerdict.WARNING),
        check(CheckVerdict.ERROR),
        check(CheckVerdict.ERROR),
    ]
    assert [entry.verdict for entry in worst_first(unordered)] == [
        CheckVerdict.ERROR,
        CheckVerdict.ERROR,
        CheckVerdict.WARNING,
        CheckVerdict.OK,
    ]
