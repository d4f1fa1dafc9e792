"""Merged folders with modules as models: exact, by example, and plain for who ignores them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

import ace_gui
from ace_gui.engine.modules.smile_layers import SmileExperts
from ace_gui.engine.modules.stored import MANIFEST, MODULES
from ace_gui.engine.modules.task_tensors import open_task
from ace_gui.engine.output.models_of_experts import write_task_model
from ace_gui.errors import OutputError, ResourceError
from tests.helpers import module_oracles as oracle
from tests.helpers.models import Family, neox_family
from tests.helpers.recipes import recipe_of
from tests.helpers.scored_models import save_bert, save_gpt2

MATRIX = "transformer.h.0.attn.c_attn.weight"  # stored inputs × outputs


def merged(family: Family, method: str, out: Path, **options: Any) -> Path:
    return ace_gui.merge(
        recipe_of(family, merge_method=method, **options), out, device="cpu"
    ).folder


def logits(model: Any, **inputs: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        output: torch.Tensor = model(**inputs).logits
    return output


def tokens(count: int = 5, length: int = 9, seed: int = 0) -> torch.Tensor:
    return torch.randint(1, 96, (count, length), generator=torch.Generator().manual_seed(seed))


# BYOM


def task_state(family: Family, expert: str) -> dict[str, torch.Tensor]:
    return load_file(family.experts[expert] / "model.safetensors")


def deltas_of(family: Family, name: str) -> np.ndarray:
    base = load_file(family.base / "model.safetensors")[name].double()
    experts = [task_state(family, expert)[name].double() for expert in family.experts]
    return torch.stack([tensor - base for tensor in experts]).numpy()


def test_byom_keeps_the_largest_entries_of_the_whole_model(gpt2: Family, tmp_path):
    out = merged(gpt2, "byom", tmp_path / "out", parameters={"density": 0.05, "scaling": 0.4})
    base = load_file(gpt2.base / "model.safetensors")
    names = [name for name in base if name in task_state(gpt2, "task1")]
    expected = oracle.byom({name: deltas_of(gpt2, name) for name in names}, 1, 0.4, 0.05)
    tensors = dict(open_task(out, "task1").tensors())
    for name in names:
        change = tensors[name].double().numpy() - base[name].double().numpy()
        np.testing.assert_allclose(change, expected[name], atol=1e-6)


@pytest.mark.parametrize(
    "parameters", [{"density": 1.0}, {"keep": "low rank", "rank": 64}], ids=["entries", "rank"]
)
def test_byom_with_all_of_it_is_the_expert(gpt2: Family, tmp_path, parameters: dict[str, Any]):
    out = merged(gpt2, "byom", tmp_path / "out", parameters=parameters)
    model = ace_gui.load_model(out, task="task1")
    expert = transformers.AutoModelForSequenceClassification.from_pretrained(gpt2.experts["task1"])
    assert type(model) is type(expert)
    token_ids = tokens()
    torch.testing.assert_close(
        logits(model, input_ids=token_ids),
        logits(expert.eval(), input_ids=token_ids),
        rtol=0,
        atol=1e-5,
    )


def test_byom_of_next_to_nothing_is_the_merge(gpt2: Family, tmp_path):
    out = merged(gpt2, "byom", tmp_path / "out", parameters={"density": 1e-9})
    tensors = dict(open_task(out, "task0").tensors())
    plain = load_file(out / "model.safetensors")
    changed = sum(int((tensors[name] != plain[name]).sum()) for name in plain if name in tensors)
    assert changed <= 1  # the one entry that is always kept


def test_byom_needs_no_base_for_its_tasks(gpt2: Family, tmp_path):
    out = merged(gpt2, "byom", tmp_path / "out")
    text = (out / "merge_recipe.yaml").read_text()
    (out / "merge_recipe.yaml").write_text(text.replace("base_model: ", "base_model: gone/"))
    assert dict(open_task(out, "task0").tensors())


# SMILE


@pytest.mark.parametrize(("rank", "gate", "top"), [(3, 1, 1), (3, 2, 2), (40, 5, 4), (2, 9, 99)])
def test_smile_layer_by_its_formula(rank: int, gate: int, top: int):
    generator = torch.Generator().manual_seed(1)
    deltas = torch.randn(4, 12, 18, generator=generator, dtype=torch.float64)
    biases = torch.randn(4, 12, generator=generator, dtype=torch.float64)
    inputs = torch.randn(30, 18, generator=generator, dtype=torch.float64)
    triplets = [oracle.triplets(delta.numpy(), rank) for delta in deltas]
    experts = SmileExperts(
        [torch.tensor(u * s) for u, s, _ in triplets],
        [torch.tensor(vh) for _, _, vh in triplets],
        list(biases),
        gate_rank=gate,
        top=top,
        output_indices=None,
    )
    outputs, weights = experts(inputs)
    expected, shares = oracle.smile(deltas.numpy(), biases.numpy(), inputs.numpy(), rank, gate, top)
    np.testing.assert_allclose(outputs.numpy(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(weights.numpy(), shares, rtol=1e-9)


@pytest.fixture(scope="module")
def smile(gpt2: Family, tmp_path_factory) -> Path:
    return merged(gpt2, "smile", tmp_path_factory.mktemp("smile") / "out")


def test_smile_in_a_model_by_its_formula(gpt2: Family, smile: Path):
    """The first layer, whose inputs are known, of a model with Conv1D."""
    model = ace_gui.load_model(smile).double()
    layer = model.transformer.h[0].attn.c_attn
    seen: list[torch.Tensor] = []
    layer.register_forward_hook(lambda _layer, args, output: seen.extend((args[0], output)))
    logits(model, input_ids=tokens(1))
    inputs, output = (tensor[0].double().numpy() for tensor in seen)
    bias = f"{MATRIX.removesuffix('weight')}bias"
    base = load_file(gpt2.base / "model.safetensors")
    deltas = deltas_of(gpt2, MATRIX).transpose(0, 2, 1)
    expected, _ = oracle.smile(deltas, deltas_of(gpt2, bias), inputs, 32, inputs.shape[1] // 2, 1)
    expected += inputs @ base[MATRIX].double().numpy() + base[bias].double().numpy()
    np.testing.assert_allclose(output, expected, atol=1e-6)


def test_smile_of_full_rank_whose_gate_is_known_is_the_expert(tmp_path):
    base = save_bert(tmp_path / "base", "SequenceClassification", num_labels=3)
    for name, scale in (("one", 0.3), ("none", 0.0)):
        torch.manual_seed(3)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "base")
        for module in model.bert.encoder.modules():
            if isinstance(module, torch.nn.Linear):
                for parameter in module.parameters():
                    parameter.data.add_(torch.randn_like(parameter), alpha=scale)
        model.save_pretrained(tmp_path / name)
    family = Family(base=tmp_path / "base", experts={n: tmp_path / n for n in ("one", "none")})
    out = merged(family, "smile", tmp_path / "out", parameters={"rank": 64})
    expert = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "one"
    ).eval()
    arguments = {"input_ids": tokens(4) % 17}
    output = logits(ace_gui.load_model(out).double(), **arguments)
    torch.testing.assert_close(output, logits(expert.double(), **arguments), rtol=0, atol=1e-6)
    assert (output - logits(base.double(), **arguments)).abs().max() > 0.01


def test_smile_in_a_fused_projection_that_was_split(tmp_path):
    family = neox_family(tmp_path / "family")
    out = merged(family, "smile", tmp_path / "out", split_fused=True)
    model = ace_gui.load_model(out).double()
    layer = model.gpt_neox.layers[0].attention.query_key_value
    seen: list[torch.Tensor] = []
    layer.register_forward_hook(lambda _layer, args, output: seen.extend((args[0], output)))
    logits(model, input_ids=tokens(1))
    inputs, output = (tensor[0].double().numpy() for tensor in seen)
    name = "gpt_neox.layers.0.attention.query_key_value"
    base = load_file(family.base / "model.safetensors")
    deltas = deltas_of(family, f"{name}.weight")
    biases = deltas_of(family, f"{name}.bias")
    expected = inputs @ base[f"{name}.weight"].double().numpy().T
    expected += base[f"{name}.bias"].double().numpy()
    rows = np.arange(96).reshape(4, 3, 8)  # query, key, value in every head
    for which in range(3):
        indices = rows[:, which].reshape(-1)
        expected[:, indices] += oracle.smile(
            deltas[:, indices], biases[:, indices], inputs, 32, inputs.shape[1] // 2, 1
        )[0]
    np.testing.assert_allclose(output, expected, atol=1e-6)


# Any model


def test_who_ignores_the_modules_has_a_plain_model(smile: Path, gpt2: Family):
    model = transformers.GPT2LMHeadModel.from_pretrained(smile)
    base = load_file(gpt2.base / "model.safetensors")
    assert torch.equal(model.state_dict()[MATRIX], base[MATRIX])


def test_what_is_saved_from_a_loaded_model_is_the_plain_one(smile: Path, tmp_path):
    ace_gui.load_model(smile).save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    plain = load_file(smile / "model.safetensors")
    assert all(torch.equal(saved[name], plain[name]) for name in saved)


def test_a_model_with_modules_writes_each_text_as_if_alone(tmp_path):
    base = save_gpt2(tmp_path / "base")
    family = Family(base=tmp_path / "base", experts={})
    experts = {}
    for seed in (1, 2):
        for parameter in base.parameters():
            parameter.data.add_(torch.randn_like(parameter), alpha=0.05 * seed)
        base.save_pretrained(tmp_path / f"e{seed}")
        experts[f"e{seed}"] = tmp_path / f"e{seed}"
    out = merged(dataclasses.replace(family, experts=experts), "smile", tmp_path / "out")
    model = ace_gui.load_model(out)
    prompts = torch.tensor([[4, 5, 6], [7, 8, 9], [5, 5, 5]])
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    together = model.generate(prompts, **options)
    for row, prompt in zip(together, prompts, strict=True):
        alone = model.generate(prompt[None], **options)[0]
        assert torch.equal(row[: len(alone)], alone)
        predicted = logits(model, input_ids=alone[None, :-1])[0].argmax(dim=1)
        assert torch.equal(predicted[2:], alone[3:])  # with a cache as without
    beams = model.generate(prompts[:1], **options, num_beams=3)
    assert beams.shape[0] == 1


def test_a_task_gets_its_head_and_another_is_refused(smile: Path):
    assert ace_gui.load_model(smile, task="task1").config.num_labels == 3
    with pytest.raises(OutputError, match="no task 'other'"):
        ace_gui.load_model(smile, task="other")


def test_a_task_of_a_routed_merge_as_a_plain_folder(smile: Path, tmp_path):
    out = write_task_model(smile, "task2", tmp_path / "task")
    assert not {MODULES, MANIFEST} & {path.name for path in out.iterdir()}
    task_model = transformers.AutoModelForSequenceClassification.from_pretrained(out)
    assert task_model.config.num_labels == 4


def test_a_merge_of_a_folder_with_modules_does_not_inherit_them(
    smile: Path, gpt2: Family, tmp_path
):
    second = Family(base=smile, experts={"task0": gpt2.experts["task0"]})
    out = merged(second, "linear", tmp_path / "out")
    assert not {MODULES, MANIFEST} & {path.name for path in out.iterdir()}


REFUSED: dict[str, dict[str, Any]] = {
    "linear layers": {"merge_method": "smile", "scope": "authors-gpt2"}
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_cannot_have_modules_is_refused_in_a_sentence(gpt2: Family, tmp_path, how: str):
    with pytest.raises(ResourceError, match=how):
        ace_gui.merge(recipe_of(gpt2, **REFUSED[how]), tmp_path / "out", device="cpu")
