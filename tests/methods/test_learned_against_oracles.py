"""Methods that learn, merged as a person merges, against their papers' equations in float64.

All inputs fit into one batch, so that every step sees all of them in either program.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

import ace_gui
from ace_gui.engine.merging.merged_values import _generator
from ace_gui.engine.modules.stored import MODULES
from tests.helpers import learning_oracles as oracle
from tests.helpers.calibrated_models import bert_family, one_by_one
from tests.helpers.learning_oracles import State

EXPERTS = ("two", "three")
TRAINED = "/trained/"
INPUTS = 10
CLEAR = 1e-4
"""Adam's step in an entry whose gradient is a smaller share of the largest follows rounding."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The recipe of two classifiers with ten inputs each, whose vectors have changed, too."""
    folder = tmp_path_factory.mktemp("family")
    recipe = bert_family(folder)
    for seed, name in enumerate(EXPERTS):
        path = folder / name / "model.safetensors"
        generator = torch.Generator().manual_seed(seed)
        moved = {
            key: tensor + 0.1 * torch.randn(tensor.shape, generator=generator)
            for key, tensor in load_file(path).items()
        }
        save_file(moved, path, {"format": "pt"})
        table = folder / f"{name}-inputs.csv"
        table.write_text("\n".join(table.read_text().splitlines()[: INPUTS + 1]) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield recipe


def merged(file: Path, method: str, **parameters: Any) -> tuple[State, State]:
    """The tensors of the merged model and of its modules."""
    document = json.loads(file.read_text()) | {"merge_method": method, "parameters": parameters}
    if method == "localize_stitch_few_shot":
        for task in document["tasks"]:
            task["calibration"] = task["data"]
    recipe_file = file.with_name(f"{method}.yaml")
    recipe_file.write_text(json.dumps(document))
    folder = file.parent / f"out-{len(list(file.parent.iterdir()))}"
    ace_gui.merge(recipe_file, folder, device="cpu")
    modules = read(folder / MODULES) if (folder / MODULES).exists() else {}
    return read(folder / "model.safetensors"), modules


def read(path: Path) -> State:
    return {name: tensor.double() for name, tensor in load_file(path).items()}


def states(file: Path) -> tuple[State, list[State]]:
    """The tensors of the base and of the experts, as far as both have them."""
    base = read(file.parent / "base" / "model.safetensors")
    experts = [read(file.parent / name / "model.safetensors") for name in EXPERTS]
    names = [name for name in base if name in experts[0]]
    return {n: base[n] for n in names}, [{n: expert[n] for n in names} for expert in experts]


def arithmetic(base: State, experts: list[State], scaling: float = 0.3) -> State:
    return {n: base[n] + scaling * sum(expert[n] - base[n] for expert in experts) for n in base}


def models(file: Path) -> list[tuple[Any, list[Any]]]:
    kind = transformers.BertForSequenceClassification
    pairs = [one_by_one(file.parent, name, kind) for name in EXPERTS]
    return [(model.double(), inputs) for model, inputs in pairs]


def tasks(file: Path) -> list[oracle.Task]:
    return [oracle.batch(model, inputs) for model, inputs in models(file)]


def assert_near(
    tensor: Tensor, expected: Tensor, start: Tensor, name: str, within: float = 1e-5
) -> None:
    """The change from ``start`` as near as that, beside the rounding of what is stored."""
    norm = torch.linalg.vector_norm
    allowed = within * norm(expected - start) + 2.0**-23 * norm(expected)
    assert norm(tensor - expected) <= allowed, (name, float(norm(tensor - expected) / allowed))


def is_undetermined(name: str) -> bool:
    """Softmax does not see a bias of keys: its gradient is rounding alone."""
    return name.endswith("key.bias")


@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_adarank_keeps_the_directions_that_its_equations_keep(file: Path, ratio: float) -> None:
    base, experts = states(file)
    settings = {"scaling": 0.3, "ratio": ratio, "temperature": 10.0}
    state, _ = merged(
        file, "adarank", steps=3, learning_rate=0.04, batch=64, patience=0, **settings
    )
    matrices = [name for name in base if base[name].ndim == 2]
    expected, learned = oracle.adarank(
        base, experts, tasks(file), matrices, steps=3, rate=0.04, **settings
    )
    logits = torch.cat([learned.values[f"{name}/logits"].flatten() for name in matrices])
    assert (logits > 0).any()
    assert (logits < 0).any()
    for name in base:
        if not is_undetermined(name):
            assert_near(state[name], expected[name], base[name], name)


@pytest.mark.parametrize(("radius", "within"), [(0.0, 3e-5), (0.07, 3e-5), (0.5, 3e-4)])
def test_samerging_takes_the_sharpness_aware_steps_of_its_equations(
    file: Path, radius: float, within: float
) -> None:
    base, experts = states(file)
    settings = {"scaling": 0.3, "radius": radius, "temperature": 2.0}
    state, _ = merged(file, "samerging", steps=3, learning_rate=0.05, batch=64, **settings)
    answers = [oracle.batch(model, inputs)({}).detach() for model, inputs in models(file)]
    if radius == 0:
        settings["radius"] = 1e-30
    expected = oracle.samerging(base, experts, tasks(file), answers, steps=3, rate=0.05, **settings)
    for name in base:
        if not is_undetermined(name):
            assert_near(state[name], expected[name], base[name], name, within=within)


@pytest.mark.parametrize(("hidden", "pull"), [(0.0, 0.0), (1.0, 0.0), (20.0, 0.3)])
def test_expert_merging_follows_answers_states_and_pull(
    file: Path, hidden: float, pull: float
) -> None:
    base, experts = states(file)
    settings = {"scaling": 0.3, "hidden": hidden, "pull": pull}
    state, _ = merged(
        file, "expert_merging", steps=4, learning_rate=0.2, batch=64, inputs=64, **settings
    )
    compared = [partial(answers_and_states, model, inputs) for model, inputs in models(file)]
    expected = []
    for task, expert in zip(compared, experts, strict=True):
        logits, hidden_states = task(expert)
        expected.append(
            (logits.detach(), [hidden_state.detach() for hidden_state in hidden_states])
        )
    oracle_state = oracle.expert_merging(
        base, experts, compared, expected, steps=4, rate=0.2, **settings
    )
    for name in base:
        if not is_undetermined(name):
            assert_near(state[name], oracle_state[name], base[name], name, within=3e-5)


def test_prodistill_follows_the_states_of_each_block(file: Path) -> None:
    base, experts = states(file)
    state, _ = merged(file, "prodistill", epochs=3, learning_rate=0.05, batch=64)
    blocks = [[name for name in base if f"layer.{block}." in name] for block in range(2)]
    passed = [partial(block_outputs, model, inputs) for model, inputs in models(file)]
    expected = oracle.prodistill(base, experts, blocks, passed, steps=3, rate=0.05, scaling=0.3)
    for name in base:
        if not is_undetermined(name):
            assert_near(state[name], expected[name], base[name], name, within=1e-4)


def block_outputs(model: Any, inputs: list[Any], state: State) -> list[list[Tensor]]:
    """Of each block and input what the block gives."""
    by_input = []
    for input_ in inputs:
        arguments = {**input_, "output_hidden_states": True}
        output = torch.func.functional_call(model, state, (), arguments)
        by_input.append(output.hidden_states[1:])
    return [list(outputs) for outputs in zip(*by_input, strict=True)]


def answers_and_states(model: Any, inputs: list[Any], state: State) -> tuple[Tensor, list[Tensor]]:
    """The logits, and of each input what the middle block gives."""
    middle = (model.config.num_hidden_layers - 1) // 2
    logits = list[Tensor]()
    hidden = list[Tensor]()
    for input_ in inputs:
        arguments = {**input_, "output_hidden_states": True}
        output = torch.func.functional_call(model, state, (), arguments)
        logits.append(output.logits)
        hidden.append(output.hidden_states[middle + 1][0])
    return torch.cat(logits), hidden


@pytest.mark.parametrize("coefficients", [False, True])
def test_concrete_learns_the_mask_of_its_equations(file: Path, coefficients: bool) -> None:
    base, experts = states(file)
    variant = "adamerging" if coefficients else "task-arithmetic"
    state, _ = merged(
        file, "concrete", steps=3, learning_rate=0.01, batch=64, patience=0, variant=variant
    )

    def uniforms(name: str, step: int) -> Tensor:
        drawn = torch.rand(base[name].shape, generator=_generator(0, name, step))
        return drawn.clamp(1e-6, 1 - 1e-6).double()

    expected, learned = oracle.concrete(
        base, experts, tasks(file), uniforms, steps=3, rate=0.01, scaling=0.3, temperature=0.5,
        coefficients=coefficients,
    )  # fmt: skip
    compared = 0
    for name in base:
        clear = learned.least[f"{name}/x"] > CLEAR
        compared += int(clear.sum())
        values = (weights[name][clear] for weights in (state, expected, base))
        assert_near(*values, name, within=3e-5)
    assert compared > 0.2 * sum(tensor.numel() for tensor in base.values())


def test_few_shots_localize_what_their_equations_localize(file: Path) -> None:
    base, experts = states(file)
    state, _ = merged(
        file, "localize_stitch_few_shot", steps=3, learning_rate=1e4, density=0.2, sparsity=1.0,
        patience=0,
    )  # fmt: skip
    masks = []
    for expert, (model, _), name in zip(experts, models(file), EXPERTS, strict=True):
        tokens = transformers.AutoTokenizer.from_pretrained(file.parent / name)
        lines = (file.parent / f"{name}.csv").read_text().splitlines()[1:]
        texts, labels = zip(*(line.rsplit(",label-", 1) for line in lines), strict=True)
        task = oracle.batch(model, [tokens(text, return_tensors="pt") for text in texts])
        targets = torch.tensor([int(label) for label in labels])
        mask, scores = oracle.localized(
            base, expert, lambda state, task=task, targets=targets:
            torch.nn.functional.cross_entropy(task(state), targets),
            density=0.2, steps=3, rate=1e4, pull=1.0,
        )  # fmt: skip
        masks.append(mask)
        begun, _ = oracle.localized(
            base, expert, lambda _: torch.zeros(()), density=0.2, steps=0, rate=0, pull=0
        )
        assert any(not torch.equal(mask[n], begun[n]) for n in base)
        assert min(float(score.abs().min()) for score in scores.values()) > 1e-5
    expected = oracle.stitched(base, experts, masks)
    for name in base:
        assert_near(state[name], expected[name], base[name], name, within=1e-6)


def test_corrections_of_surgery_are_those_of_its_equations(file: Path) -> None:
    base, experts = states(file)
    shared, begun = merged(file, "surgery", steps=0, rank=4)
    _, ended = merged(file, "surgery", steps=3, learning_rate=0.01, rank=4)
    expected = arithmetic(base, experts)
    for name in base:
        assert_near(shared[name], expected[name], base[name], name)
    for expert, (model, inputs), name in zip(experts, models(file), EXPERTS, strict=True):
        merged_inputs, expert_inputs = (
            head_inputs(model, inputs, state) for state in (expected, expert)
        )
        down, up = (begun[f"{TRAINED}{name}/{part}"] for part in ("down", "up"))
        assert not up.any()
        assert down.any()
        learned = oracle.surgery(merged_inputs, expert_inputs, down, up, 3, 0.01)
        for part, start in (("down", down), ("up", up)):
            assert_near(ended[f"{TRAINED}{name}/{part}"], learned.values[part], start, part)


def head_inputs(model: Any, inputs: list[Any], state: State) -> Tensor:
    seen: list[Tensor] = []
    hook = model.classifier.register_forward_pre_hook(
        lambda _, arguments: seen.append(arguments[0][0])
    )
    oracle.batch(model, inputs)(state)
    hook.remove()
    return torch.stack(seen).detach()


def test_routers_of_wemoe_are_those_of_its_equations(file: Path) -> None:
    base, experts = states(file)
    shared, begun = merged(file, "wemoe", steps=0)
    _, ended = merged(file, "wemoe", steps=3, learning_rate=1e-3, patience=0)
    expected = arithmetic(base, experts)
    for name in base:
        assert_near(shared[name], expected[name], base[name], name)
    start = {
        name.removeprefix(TRAINED): tensor
        for name, tensor in begun.items()
        if name.startswith(f"{TRAINED}bert")
    }
    for name, tensor in start.items():  # Gaussian with σ = 0.01, and biases of 0 and λ
        constant = {"hidden_bias": 0.0, "out_bias": 0.3}.get(name.rpartition("/")[2])
        wide = tensor.std() if constant is None else 0.01 + (tensor - constant).abs().max()
        assert 0.006 < float(wide) < 0.014
    blocks: dict[str, list[oracle.RoutedBlock]] = {}
    answers = []
    for model, inputs in models(file):
        model.load_state_dict(expected, strict=False)
        for number, layer in enumerate(model.bert.encoder.layer):
            block = f"bert.encoder.layer.{number}"
            parts = {name: base[f"{block}.{name}"] for name in oracle.MLP}
            changes = [{n: expert[f"{block}.{n}"] - parts[n] for n in parts} for expert in experts]
            routed = oracle.RoutedBlock(layer, parts, changes)
            blocks.setdefault(block, []).append(routed)
        answers.append(partial(oracle.batch(model, oracle.of_one_length(inputs)), {}))
    learned = oracle.wemoe(blocks, answers, start, 3, 1e-3)
    for name, value in learned.values.items():
        clear = learned.least[name] > CLEAR
        assert clear.float().mean() > 0.5
        three = (values[clear] for values in (ended[TRAINED + name], value, start[name]))
        assert_near(*three, name, within=3e-5)


def test_twin_mixes_what_its_equations_mix(file: Path) -> None:
    base, experts = states(file)
    state, modules = merged(file, "twin_merging", rank=3)
    shared, differences = oracle.twin_differences(base, experts, 0.3, 3)
    for name in base:
        assert_near(state[name], shared[name], base[name], name)
        for expert, difference in zip(EXPERTS, differences, strict=True):
            key = f"{expert}/{name}"
            product = modules.get(f"{key}/whole")
            if product is None:
                product = modules[f"{key}/left"] @ modules[f"{key}/right"]
            assert_near(product, difference[name], torch.zeros_like(product), key)
    features = list[Tensor]()
    owners = list[int]()
    for t, (model, inputs) in enumerate(models(file)):
        for input_ in inputs:
            arguments = {**input_, "output_hidden_states": True}
            output = torch.func.functional_call(model, shared, (), arguments)
            features.append(output.hidden_states[-1][0].mean(dim=0).detach())
            owners.append(t)
    seen = torch.stack(features)
    labels = torch.tensor(owners)
    router = oracle.logistic_regression(seen, labels, penalty=1 / len(owners), rounds=12)
    stored = {name: modules[TRAINED + name] for name in router}
    for name in ("centre", "scale"):
        assert_near(stored[name], router[name], torch.zeros_like(router[name]), name)
    shares = [oracle.router_shares(weights, seen) for weights in (stored, router)]
    torch.testing.assert_close(*shares, rtol=0, atol=2e-3)


def test_free_leaves_what_its_equations_leave(file: Path) -> None:
    base, experts = states(file)
    state, modules = merged(file, "free_merging", density=0.2, cutoff=0.3)
    matrices = [name for name in base if f"two/{name}/index" in modules]
    assert len(matrices) == 12
    for name in matrices:
        changes = [expert[name] - base[name] for expert in experts]
        shared, parts = oracle.free(changes, 0.3, 0.2)
        assert_near(state[name], base[name] + shared, base[name], name, within=1e-6)
        for expert, part in zip(EXPERTS, parts, strict=True):
            vector = torch.zeros(part.numel(), dtype=torch.float64)
            vector[modules[f"{expert}/{name}/index"].long()] = modules[f"{expert}/{name}/values"]
            assert_near(vector.reshape(part.shape), part, torch.zeros_like(part), name)
