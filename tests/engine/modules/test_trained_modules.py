"""Modules that are trained with the experts' inputs: routers of the whole model, corrections."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import ace_gui
from ace_gui.checkpoints.input_files import file_digest
from ace_gui.engine.contract.events import LearningProgress
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.modules.layers import Correction
from ace_gui.engine.modules.stored import MANIFEST, MERGED_SHARES, MODULES, TRAINED
from ace_gui.engine.modules.task_tensors import open_task
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.routing import fitted
from ace_gui.errors import CheckpointError, OutputError, ResourceError, TaskError
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers import module_oracles as oracle
from tests.helpers.calibrated_models import bert_family, gpt2_family
from tests.helpers.command import ace_gui as run
from tests.helpers.learning_oracles import compressed, free

GIVEN = torch.tensor([[4, 5, 6, 7], [9, 8, 7, 6], [5, 5, 12, 5]])


def merged(file: Path, out: Path, method: str, **parameters: Any) -> Path:
    document = json.loads(file.read_text())
    recipe = {**document, "merge_method": method, "parameters": parameters}
    recipe_file = file.with_name(f"{method}.yaml")
    recipe_file.write_text(json.dumps(recipe))
    return ace_gui.merge(recipe_file, out, device="cpu").folder


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory) -> Path:
    return gpt2_family(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="module")
def twin(gpt2: Path) -> Path:
    return merged(gpt2, gpt2.parent / "twin", "twin_merging", rank=64)


def retrained(folder: Path, copy: Path, **tensors: torch.Tensor) -> Path:
    """The folder with other trained tensors."""
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    with safe_open(copy / MODULES, "pt") as file:
        metadata = file.metadata()
    changed = load_file(copy / MODULES) | {TRAINED + n: t for n, t in tensors.items()}
    save_file(changed, copy / MODULES, metadata)
    reported = json.loads((copy / MANIFEST).read_text())
    reported["hashes"] = {**reported["hashes"], MODULES: file_digest(copy / MODULES)}
    (copy / MANIFEST).write_text(json.dumps(reported))
    return copy


def logits(model: Any, token_ids: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        output: torch.Tensor = model(input_ids=token_ids).logits
    return output


def plain(folder: Path) -> Any:
    return transformers.GPT2LMHeadModel.from_pretrained(folder).eval()


@pytest.mark.parametrize("t", [0, 1])
def test_twin_of_full_rank_with_a_one_hot_router_is_the_expert(
    gpt2: Path, twin: Path, tmp_path, t: int
):
    bias = torch.tensor([90.0, 0.0] if t == 0 else [0.0, 90.0])
    copy = retrained(twin, tmp_path / "copy", weight=torch.zeros(2, 16), bias=bias)
    expert = plain(gpt2.parent / ("one", "other")[t])
    output = logits(ace_gui.load_model(copy), GIVEN)
    torch.testing.assert_close(output, logits(expert, GIVEN), rtol=0, atol=2e-5)


def test_twin_of_full_rank_with_an_even_router_is_the_mean(gpt2: Path, twin: Path, tmp_path):
    even = retrained(twin, tmp_path / "c", weight=torch.zeros(2, 16), bias=torch.zeros(2))
    mean = merged(gpt2, tmp_path / "mean", "linear")
    output = logits(ace_gui.load_model(even), GIVEN)
    torch.testing.assert_close(output, logits(plain(mean), GIVEN), rtol=0, atol=2e-5)


def change_in(stored: dict[str, torch.Tensor], start: str) -> torch.Tensor:
    """D of an expert as it is stored, float64; of a tied tensor that of what it is tied to."""
    start = start.replace("lm_head.weight", "transformer.wte.weight")
    if f"{start}/whole" in stored:
        return stored[f"{start}/whole"].double()
    return stored[f"{start}/left"].double() @ stored[f"{start}/right"].double()


def test_twin_by_its_formula(gpt2: Path, tmp_path):
    """θ_s + Σ softmax(A h + b)_t v_t for each example, v_t of rank 3, in float64."""
    folder = merged(gpt2, tmp_path / "out", "twin_merging", rank=3)
    shared = plain(folder).double()
    stored = load_file(folder / MODULES)
    centre, scale, weight, bias = (
        stored[TRAINED + name].double() for name in ("centre", "scale", "weight", "bias")
    )
    start = {name: tensor.clone() for name, tensor in shared.state_dict().items()}
    changes = []
    for name in ("one", "other"):
        state = plain(gpt2.parent / name).double().state_dict()
        changes.append({n: change_in(stored, f"{name}/{n}") for n in start})
        for n in start:
            expected = compressed(state[n] - start[n], 3)
            torch.testing.assert_close(changes[-1][n], expected, rtol=0, atol=1e-6)
    output = logits(ace_gui.load_model(folder).double(), GIVEN)
    for row, token_ids in zip(output, GIVEN, strict=True):
        shared.load_state_dict(start)
        with torch.no_grad():
            hidden = shared.transformer(token_ids[None]).last_hidden_state[0].mean(dim=0)
        share = torch.softmax(weight @ ((hidden - centre) / scale) + bias, dim=0)
        mixed = {
            n: tensor + sum(s * c[n] for s, c in zip(share, changes, strict=True))
            for n, tensor in start.items()
        }
        shared.load_state_dict(mixed)
        torch.testing.assert_close(row, logits(shared, token_ids[None])[0], rtol=0, atol=1e-6)


def test_free_experts_by_their_formula(gpt2: Path, tmp_path):
    folder = merged(gpt2, tmp_path / "out", "free_merging", density=0.2, cutoff=0.1)
    base = load_file(gpt2.parent / "base" / "model.safetensors")
    experts = [load_file(gpt2.parent / n / "model.safetensors") for n in ("one", "other")]
    shared = load_file(folder / "model.safetensors")
    tensors = dict(open_task(folder, "one").tensors())
    for name in ("transformer.h.0.mlp.c_fc.weight", "transformer.h.1.attn.c_proj.weight"):
        deltas = [(expert[name] - base[name]).double().T.contiguous() for expert in experts]
        _, (expected, _) = free(deltas, 0.1, 0.2)
        torch.testing.assert_close(
            (tensors[name] - shared[name]).double(), expected.T, rtol=0, atol=1e-6
        )


def test_free_takes_one_expert_for_each_example(gpt2: Path, tmp_path):
    folder = merged(gpt2, tmp_path / "out", "free_merging", density=0.3)
    output = logits(ace_gui.load_model(folder), GIVEN)
    models = []
    for name in ("one", "other"):
        models.append(plain(folder))
        models[-1].load_state_dict(dict(open_task(folder, name).tensors()), strict=False)
    options = torch.stack([logits(model, GIVEN) for model in models])
    nearest = (options - output).abs().amax(dim=(2, 3)).amin(dim=0)
    assert float(nearest.max()) < 1e-6


ROUTED: dict[str, dict[str, Any]] = {
    "twin_merging": {},
    "free_merging": {},
    "smile": {},
    "wemoe": {"steps": 0},
}


@pytest.mark.parametrize("method", ROUTED)
def test_the_other_examples_of_a_batch_change_nothing(gpt2: Path, tmp_path, method: str):
    model = ace_gui.load_model(merged(gpt2, tmp_path / "out", method, **ROUTED[method]))
    alone = torch.cat([logits(model, row[None]) for row in GIVEN])
    for order in ([0, 1, 2], [2, 0], [2, 2, 2, 0], [1]):
        assert torch.equal(logits(model, GIVEN[order]), alone[order])
    assert not torch.equal(logits(plain(tmp_path / "out"), GIVEN), alone)
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    together = model.generate(GIVEN, **options)
    for row, token_ids in zip(together, GIVEN, strict=True):
        written = model.generate(token_ids[None], **options)[0]
        assert torch.equal(row[: len(written)], written)
    again = plain(tmp_path / "out").state_dict()
    state = model.state_dict()
    assert all(torch.equal(state[name], again[name]) for name in again)


def test_padding_does_not_take_part_in_what_the_router_sees(twin: Path):
    model = ace_gui.load_model(twin)
    router = next(module for name, module in model.named_modules() if name == "ace_modules.0")
    seen: list[torch.Tensor] = []
    router.observer = seen.append
    padded = torch.cat([GIVEN[:1], torch.zeros(1, 3, dtype=torch.long)], dim=1)
    mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0]])
    with torch.inference_mode():
        model(input_ids=padded, attention_mask=mask)
        model(input_ids=GIVEN[:1], attention_mask=mask[:, :4])
    torch.testing.assert_close(seen[0], seen[1])


def test_a_router_finds_whose_inputs_they_are_and_falls_where_they_are_shuffled():
    generator = torch.Generator().manual_seed(0)
    owners = torch.randint(4, (400,), generator=generator)
    seen = torch.randn(400, 12, generator=generator, dtype=torch.float64)
    seen[torch.arange(400), owners] += 4

    def right(labels: torch.Tensor) -> float:
        router = fitted(seen[:200], labels[:200].tolist())
        standardised = (seen[200:].float() - router[f"{TRAINED}centre"]) / router[f"{TRAINED}scale"]
        scores = standardised @ router[f"{TRAINED}weight"].T + router[f"{TRAINED}bias"]
        return float((scores.argmax(dim=1) == owners[200:]).float().mean())

    assert right(owners) > 0.9
    assert right(owners[torch.randperm(400, generator=generator)]) < 0.5


# WEMoE


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Path:
    return bert_family(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def wemoe(gpt2: Path) -> Path:
    return merged(gpt2, gpt2.parent / "wemoe", "wemoe", steps=0)


def answers(model: Any) -> torch.Tensor:
    return logits(model, torch.tensor([[2, 5, 6, 7, 3], [2, 9, 8, 14, 3], [2, 6, 6, 5, 3]]))


def blocks(folder: Path, **tensors: torch.Tensor) -> dict[str, torch.Tensor]:
    """These tensors for the router of every block."""
    return {
        f"transformer.h.{block}/{name}": tensor.clone()
        for block in range(2)
        for name, tensor in tensors.items()
    }


@pytest.mark.parametrize("t", [0, 1])
def test_wemoe_with_a_one_hot_router_has_the_experts_blocks(
    gpt2: Path, wemoe: Path, tmp_path, t: int
):
    one_hot = torch.eye(2)[t]
    trained = blocks(wemoe, out=torch.zeros(2, 16), out_bias=one_hot)
    copy = retrained(wemoe, tmp_path / "copy", **trained)
    state = load_file(wemoe / "model.safetensors")
    expert_state = load_file(gpt2.parent / ("one", "other")[t] / "model.safetensors")
    expected = plain(wemoe)
    mlp = {name: tensor for name, tensor in expert_state.items() if ".mlp." in name}
    assert len(mlp) == 8
    expected.load_state_dict({**state, **mlp}, strict=False)
    output = logits(ace_gui.load_model(copy), GIVEN)
    torch.testing.assert_close(output, logits(expected, GIVEN), rtol=0, atol=2e-5)
    task = dict(open_task(copy, ("one", "other")[t]).tensors())
    for name, tensor in mlp.items():
        torch.testing.assert_close(task[name], tensor, rtol=0, atol=1e-6)


def test_wemoe_begins_as_task_arithmetic(gpt2: Path, wemoe: Path, tmp_path):
    copy = retrained(wemoe, tmp_path / "copy", **blocks(wemoe, out=torch.zeros(2, 16)))
    output = logits(ace_gui.load_model(copy), GIVEN)
    torch.testing.assert_close(output, logits(plain(wemoe), GIVEN), rtol=0, atol=1e-6)
    near = logits(ace_gui.load_model(wemoe), GIVEN)
    assert 0 < float((near - output).abs().max()) < 0.05


def test_a_block_by_its_formula(wemoe: Path, tmp_path):
    generator = torch.Generator().manual_seed(3)
    drawn = {
        name: torch.randn(*shape, generator=generator)
        for name, shape in {
            "hidden": (16, 16), "hidden_bias": (16,), "out": (2, 16), "out_bias": (2,)
        }.items()
    }  # fmt: skip
    copy = retrained(wemoe, tmp_path / "copy", **blocks(wemoe, **drawn))
    model = ace_gui.load_model(copy).double()
    seen: list[torch.Tensor] = []
    layer = model.transformer.h[0].mlp.c_fc
    layer.register_forward_hook(lambda _layer, args, output: seen.extend((args[0], output)))
    logits(model, GIVEN[:1])
    inputs, output = (tensor[0].numpy() for tensor in seen)
    stored = load_file(copy / MODULES)
    name = "transformer.h.0.mlp.c_fc"
    shared = load_file(copy / "model.safetensors")

    def change(what: str) -> list[np.ndarray]:
        return [
            stored[f"{expert}/{name}.{what}/whole"].double().numpy() for expert in ("one", "other")
        ]

    router = {what: tensor.double().numpy() for what, tensor in drawn.items()}
    shares = oracle.block_shares(inputs, **router)
    weight, bias = (shared[f"{name}.{what}"].double().numpy() for what in ("weight", "bias"))
    weight = weight + sum((s - 0.3) * c for s, c in zip(shares, change("weight"), strict=True))
    bias = bias + sum((s - 0.3) * c for s, c in zip(shares, change("bias"), strict=True))
    np.testing.assert_allclose(output, inputs @ weight + bias, atol=1e-6)


def test_shares_for_another_number_of_experts_are_named_as_such(wemoe: Path, tmp_path):
    router = {
        "hidden": torch.zeros(16, 16),
        "hidden_bias": torch.zeros(16),
        "out": torch.zeros(3, 16),
        "out_bias": torch.zeros(3),
    }
    tensors = {**blocks(wemoe, **router), MERGED_SHARES: torch.full((3,), 0.3)}
    copy = retrained(wemoe, tmp_path / "copy", **tensors)
    with pytest.raises(CheckpointError, match="3 shares for 2 experts"):
        ace_gui.load_model(copy)


def test_wemoe_learns_to_make_answers_sure(bert: Path, tmp_path):
    def entropy(folder: Path) -> float:
        answer_logits = answers(ace_gui.load_model(folder, task="three")).double()
        log = torch.log_softmax(answer_logits, dim=1)
        return float(-(log.exp() * log).sum(dim=1).mean())

    begun = merged(bert, tmp_path / "begun", "wemoe", steps=0)
    learnt = merged(bert, tmp_path / "learnt", "wemoe", steps=30, learning_rate=1e-2, patience=0)
    assert entropy(learnt) < 0.9 * entropy(begun)
    again = merged(bert, tmp_path / "again", "wemoe", steps=30, learning_rate=1e-2, patience=0)
    assert (again / MODULES).read_bytes() == (learnt / MODULES).read_bytes()


def test_wemoe_without_probabilities_is_refused(tmp_path):
    file = bert_family(tmp_path)
    document = json.loads(file.read_text())
    for task in document["tasks"]:
        task["kind"] = "regression"
        data = tmp_path / task["data"]
        data.write_text(data.read_text().replace("label-0", "1.5"))
    file.write_text(json.dumps(document))
    with pytest.raises(TaskError, match="no task has answers with probabilities"):
        merged(file, tmp_path / "out", "wemoe", steps=1)


@pytest.mark.parametrize("method", ["wemoe", "surgery"])
def test_a_training_that_was_stopped_goes_on_to_the_same_bits(
    bert: Path, tmp_path, monkeypatch, method: str
):
    monkeypatch.setattr("ace_gui.engine.adapting.training._CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("ace_gui.engine.adapting.training._REPORT_SECONDS", 0.0)
    document = json.loads(bert.read_text())
    recipe = {**document, "merge_method": method, "parameters": {"steps": 6}}
    recipe_file = bert.with_name(f"stopped-{method}.yaml")
    recipe_file.write_text(json.dumps(recipe))
    uninterrupted = ace_gui.merge(recipe_file, tmp_path / "whole", device="cpu").folder
    prepared = prepare(load_recipe(recipe_file))
    store = tmp_path / "store"
    for event in merge(prepared, store, device="cpu"):
        if isinstance(event, LearningProgress) and event.done == 4:
            break
    going_on = merge(prepare(load_recipe(recipe_file)), store, device="cpu", resume=True)
    first = next(event for event in going_on if isinstance(event, LearningProgress))
    assert first.done == 4
    assert all(event is not None for event in going_on)
    assert (store / "model" / MODULES).read_bytes() == (uninterrupted / MODULES).read_bytes()
    assert not (store / "training").exists()


# Representation Surgery


def test_a_correction_by_its_formula():
    generator = torch.Generator().manual_seed(0)
    down, up, hidden = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((3, 7), (7, 3), (5, 4, 7))
    )
    corrected = Correction(down, up)(hidden).numpy()
    expected = hidden.numpy() - np.maximum(hidden.numpy() @ down.numpy().T, 0) @ up.numpy().T
    np.testing.assert_allclose(corrected, expected, rtol=1e-12)


def test_surgery_of_no_steps_is_the_merge(bert: Path, tmp_path):
    cut = merged(bert, tmp_path / "cut", "surgery", steps=0)
    arithmetic = merged(bert, tmp_path / "whole", "task_arithmetic")
    plain = shutil.copytree(cut, tmp_path / "plain", ignore=shutil.ignore_patterns("modules.*"))
    for task in ("two", "three"):
        output = answers(ace_gui.load_model(cut, task=task))
        assert torch.equal(output, answers(ace_gui.load_model(plain, task=task)))
    changes = [
        {name: tensor.double() for name, tensor in load_file(folder / "model.safetensors").items()}
        for folder in (cut, arithmetic, bert.parent / "base")
    ]
    for name, tensor in changes[0].items():
        expected = changes[1][name]
        begun = changes[2].get(name, torch.zeros_like(tensor))
        # Their sums differ by rounding, and float32 keeps a change to the last bit of the weight.
        last = 2.0**-23 * float(expected.abs().max())
        assert (
            float((tensor - expected).abs().max())
            <= 1e-6 * float((expected - begun).abs().max()) + last
        )


def test_surgery_brings_answers_nearer_to_the_experts(bert: Path, tmp_path):
    folder = merged(bert, tmp_path / "cut", "surgery", steps=300, learning_rate=1e-2)
    plain_merge = merged(bert, tmp_path / "whole", "task_arithmetic")
    expert = transformers.BertForSequenceClassification.from_pretrained(
        bert.parent / "three"
    ).eval()
    near = answers(ace_gui.load_model(folder, task="three")) - answers(expert)
    far = answers(ace_gui.load_model(plain_merge, task="three")) - answers(expert)
    assert near.abs().mean() < 0.8 * far.abs().mean()


def test_surgery_has_no_plain_model_of_a_task(bert: Path, tmp_path):
    folder = merged(bert, tmp_path / "cut", "surgery", steps=1)
    with pytest.raises(OutputError, match="no change of weights"):
        dict(open_task(folder, "two").tensors())


# Refused


@pytest.mark.parametrize("method", ["twin_merging", "free_merging", "surgery", "wemoe"])
def test_without_data_it_is_refused_in_a_sentence(gpt2: Path, tmp_path, method: str):
    recipe = {**json.loads(gpt2.read_text()), "merge_method": method}
    del recipe["tasks"]
    folder = gpt2.parent
    recipe["base_model"] = str(folder / "base")
    recipe["models"] = [{"model": str(folder / name)} for name in ("one", "other")]
    with pytest.raises(ResourceError, match="needs inputs of each expert's task"):
        ace_gui.merge(recipe, tmp_path / "out", device="cpu")


ROUTERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "weight": lambda tensor: tensor[:1].clone(),
    "scale": lambda tensor: -tensor,
    "centre": lambda tensor: tensor[:3].clone(),
    "bias": lambda tensor: torch.cat([tensor, tensor]),
}


@pytest.mark.parametrize("name", ROUTERS)
def test_a_router_of_another_model_is_refused(twin: Path, tmp_path, name: str):
    changed = ROUTERS[name](load_file(twin / MODULES)[TRAINED + name])
    copy = retrained(twin, tmp_path / "copy", **{name: changed})
    with pytest.raises(CheckpointError):
        ace_gui.load_model(copy)


def test_a_router_with_nan_or_too_much_is_refused(twin: Path, tmp_path):
    for number, tensors in enumerate(
        ({"bias": torch.tensor([float("nan"), 0.0])}, {"more": torch.zeros(1)})
    ):
        copy = retrained(twin, tmp_path / str(number), **tensors)
        with pytest.raises(CheckpointError):
            ace_gui.load_model(copy)


# Who takes what


def test_routes_say_which_expert_takes_which_examples(gpt2: Path, twin: Path, tmp_path):
    bias = torch.tensor([0.0, 90.0])
    copy = retrained(twin, tmp_path / "copy", weight=torch.zeros(2, 16), bias=bias)
    for route in ace_gui.routes(gpt2, [copy], limit=4):
        assert (route.n, route.layers, route.experts) == (4, ("whole model",), ("one", "other"))
        np.testing.assert_allclose(route.share_LT, [[0, 1]], atol=1e-6)
        assert route.owner == route.task
        assert route.module_bytes == (copy / MODULES).stat().st_size
        assert route.seconds > 0 < route.plain_seconds


def test_routes_of_every_layer(gpt2: Path, tmp_path):
    folder = merged(gpt2, tmp_path / "smile", "smile", top=1)
    routes = ace_gui.routes(gpt2, [folder, gpt2.parent / "base"], limit=3)
    assert {route.model for route in routes} == {str(folder)}
    for route in routes:
        assert len(route.layers) == 8
        assert route.layers[0] == "transformer.h.0.attn.c_attn"
        np.testing.assert_allclose(np.sum(route.share_LT, axis=1), 1, rtol=1e-5)
        np.testing.assert_allclose(sum(route.mean_T), 1, rtol=1e-5)


def test_the_command_line_shows_routes(gpt2: Path, twin: Path, tmp_path):
    done = run("evaluate", gpt2, twin, "--routing", "--limit", "3", "--json", tmp_path / "x.json")
    assert done.returncode == 0, done.stderr
    assert "ms per example" in done.stdout
    routes = json.loads((tmp_path / "x.json").read_text())["routes"]
    assert [route["task"] for route in routes] == ["one", "other"]
    refused = run("evaluate", gpt2, gpt2.parent / "base", "--routing", "--limit", "3")
    assert refused.returncode == 1
    assert "None of these models has a router" in refused.stderr
