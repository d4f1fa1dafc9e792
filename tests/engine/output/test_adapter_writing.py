"""Merges and models as one adapter: exact or nearest, whole or not at all, and resumed."""

from __future__ import annotations

import errno
import itertools
import json
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor

import ace_gui
from ace_gui.engine.contract.events import JobProgress, TensorFinished
from ace_gui.engine.contract.jobs import EnergyByRankJob, ExportJob
from ace_gui.engine.contract.plan import CheckVerdict
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.requirements import output_checks, store_checks
from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.errors import MismatchError, RecipeError, ResourceError, ResumeError
from ace_gui.gui.state.session import checks_of
from ace_gui.linalg.singular import (
    concatenated_factors,
    cut_to_rank,
    product_cut_to_rank,
    rank_for_energy,
    squared_values,
)
from ace_gui.methods import METHODS, checked_parameters
from ace_gui.output_files import staging_folder
from ace_gui.recipe import Override
from ace_gui.recipe.output_forms import AdapterExport, Output
from ace_gui.recipe.values import Task
from tests.helpers.adapters import SIZES, factors, save_adapter
from tests.helpers.command import ace_gui as command
from tests.helpers.merges import merged_tensors
from tests.helpers.recipes import file_over, recipe_over

Q = "model.layers.0.self_attn.q_proj"
V = "model.layers.1.self_attn.v_proj"
WEIGHTS = "adapter_model.safetensors"


@pytest.fixture
def base(tmp_path) -> Path:
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).save_pretrained(
        tmp_path / "base"
    )
    return tmp_path / "base"


@pytest.fixture
def experts(tmp_path) -> list[Path]:
    norm = {"base_model.model.model.norm.weight": torch.full((16,), 3.0)}
    first = {**factors(Q, 16, 16, rank=2), **factors(V, 16, 16, rank=2, seed=1), **norm}
    second = factors(Q, 16, 16, rank=2, seed=2)
    return [save_adapter(tmp_path / "one", first), save_adapter(tmp_path / "two", second)]


def written(recipe: Any, out: Path, **options: Any) -> dict[str, Tensor]:
    list(merge_to_folder(recipe, out, Options(device="cpu", **options)))
    return load_file(out / WEIGHTS)


def read_back(base: Path, adapter: Path, store: Path) -> dict[str, Tensor]:
    """What base and adapter are together."""
    recipe = recipe_over(base, [adapter], merge_method="linear")
    return dict(merged_tensors(prepare(recipe), store, device="cpu", as_output=True))


def fine_tune(base: Path, folder: Path) -> Path:
    model = transformers.LlamaForCausalLM.from_pretrained(base)
    for value in model.parameters():
        value.data += 0.02 * torch.randn(value.shape)
    model.save_pretrained(folder)
    return folder


def fine_tune_of(kind: Any, folder: Path) -> Path:
    """A model of another class with every parameter of its base in ``folder`` moved."""
    model = kind.from_pretrained(folder / "base")
    for value in model.parameters():
        value.data += 0.02 * torch.randn(value.shape)
    model.save_pretrained(folder / "model")
    return folder / "model"


@pytest.mark.parametrize("shape", [(7, 12), (12, 7), (5, 5)])
@pytest.mark.parametrize("balanced", [False, True])
def test_a_cut_is_the_nearest_matrix(shape: tuple[int, int], balanced: bool):
    torch.manual_seed(1)
    matrix = torch.randn(shape, dtype=torch.float64)
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    for rank in (1, 3, 5):
        low_rank = cut_to_rank(matrix, rank, balanced=balanced)
        torch.testing.assert_close(
            low_rank.b_OR @ low_rank.a_RI, u[:, :rank] * s[:rank] @ vh[:rank]
        )
        assert low_rank.energy_share == pytest.approx(float((s[:rank] ** 2).sum() / (s**2).sum()))
        sides = low_rank.b_OR.norm(dim=0), low_rank.a_RI.norm(dim=1)
        equal = sides if balanced else (sides[1], torch.ones(rank, dtype=torch.float64))
        torch.testing.assert_close(*equal)
    torch.testing.assert_close(squared_values(matrix), s**2)
    assert rank_for_energy(s**2, float((s[:2] ** 2).sum() / (s**2).sum()) - 1e-9) == 2
    assert rank_for_energy(s * 0, 0.5) == 0
    assert cut_to_rank(matrix * 0, 2).b_OR.count_nonzero() == 0


def test_a_product_is_cut_without_the_matrix():
    torch.manual_seed(1)
    terms = [
        (0.5, torch.randn(9, 3), torch.randn(3, 8)),
        (-2.0, torch.randn(9, 2), torch.randn(2, 8)),
    ]
    matrix = sum(c * b.double() @ a.double() for c, b, a in terms)
    product = concatenated_factors(terms)
    torch.testing.assert_close(product.b_OR @ product.a_RI, matrix)
    for rank in (1, 4):
        low_rank = product_cut_to_rank(product, rank)
        nearest = cut_to_rank(matrix, rank)
        torch.testing.assert_close(low_rank.b_OR @ low_rank.a_RI, nearest.b_OR @ nearest.a_RI)
        assert low_rank.energy_share == pytest.approx(nearest.energy_share)


@pytest.mark.parametrize("method", ["linear", "task_arithmetic"])
def test_without_a_rank_a_linear_merge_is_exact(
    method: str, base: Path, experts: list[Path], tmp_path
):
    model_recipe = recipe_over(base, experts, merge_method=method)
    expected = merged_tensors(prepare(model_recipe), tmp_path / "m", device="cpu", as_output=True)
    recipe = recipe_over(base, experts, merge_method=method, output="adapter")
    tensors = written(recipe, tmp_path / "x")
    assert tensors[f"base_model.model.{Q}.lora_A.weight"].shape == (4, 16)
    assert tensors[f"base_model.model.{V}.lora_A.weight"].shape == (2, 16)
    assert set(tensors) == {
        *(f"base_model.model.{n}.lora_{x}.weight" for n in (Q, V) for x in "AB"),
        "base_model.model.model.norm.weight",
    }
    for name, tensor in read_back(base, tmp_path / "x", tmp_path / "store").items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-5, atol=1e-6)
    settings = json.loads((tmp_path / "x" / "adapter_config.json").read_text())
    assert (settings["r"], settings["lora_alpha"]) == (4, 4)
    assert settings["rank_pattern"] == settings["alpha_pattern"] == {V: 2}
    assert settings["modules_to_save"] == ["model.norm"]
    assert "100.0000%" in (tmp_path / "x" / "README.md").read_text()


@pytest.mark.parametrize("method", ["task_arithmetic", "ties"])
def test_a_rank_cuts_the_merged_change(method: str, base: Path, experts: list[Path], tmp_path):
    model_recipe = recipe_over(base, experts, merge_method=method)
    merged = merged_tensors(prepare(model_recipe), tmp_path / "m", device="cpu", as_output=True)
    recipe = recipe_over(base, experts, merge_method=method, output="adapter", rank=1)
    written(recipe, tmp_path / "x")
    before = load_file(base / "model.safetensors")
    tensors = read_back(base, tmp_path / "x", tmp_path / "store")
    change = (merged[f"{Q}.weight"] - before[f"{Q}.weight"]).double()
    u, s, vh = torch.linalg.svd(change)
    exact = before[f"{Q}.weight"] + u[:, :1] * s[:1] @ vh[:1]
    assert (tensors[f"{Q}.weight"] - exact).norm() <= 1e-5 * change.norm()


def test_a_stopped_merge_resumes_to_the_same_bytes(base: Path, experts: list[Path], tmp_path):
    recipe = recipe_over(base, experts, merge_method="ties", output="adapter", energy=0.7)
    uninterrupted = tmp_path / "whole"
    out = tmp_path / "out"
    written(recipe, uninterrupted)
    events = merge_to_folder(recipe, out, Options(device="cpu"))
    next(event for event in events if isinstance(event, TensorFinished))
    events.close()
    assert not out.exists()
    partial = staging_folder(out)
    lines = map(json.loads, (partial / "journal.jsonl").read_text().splitlines())
    assert sum(bool(line.get("written")) for line in lines) == 1
    by_ties = recipe_over(base, experts, merge_method="ties", output="adapter", energy=0.6)
    with pytest.raises(ResumeError, match="recipe"):
        written(by_ties, out, resume=True)
    file = partial / "model" / WEIGHTS
    content = bytearray(file.read_bytes())
    content[-1] ^= 1  # bits that rot in what is written are written again
    file.write_bytes(content)
    resumed = list(merge_to_folder(recipe, out, Options(device="cpu", resume=True)))
    assert any(isinstance(event, TensorFinished) for event in resumed)
    assert (out / WEIGHTS).read_bytes() == (uninterrupted / WEIGHTS).read_bytes()
    assert not partial.exists()


def begun(recipe: Any, out: Path, tensors: int = 1, **options: Any) -> Path:
    """The store of a merge that was stopped after some tensors."""
    events = merge_to_folder(recipe, out, Options(device="cpu", **options))
    for _ in range(tensors):
        next(event for event in events if isinstance(event, TensorFinished))
    events.close()
    assert not out.exists()
    return staging_folder(out)


def test_an_equal_recipe_in_another_order_or_with_a_task_resumes(
    base: Path, experts: list[Path], tmp_path
):
    parameters = {"density": 0.5, "scaling": 0.7}
    keys = {"merge_method": "ties", "output": "adapter", "rank": 2}
    recipe = recipe_over(base, experts, **keys, parameters=parameters)
    written(recipe, tmp_path / "whole")
    begun(recipe, tmp_path / "out")
    (tmp_path / "data.jsonl").write_text("{}")
    equal = recipe_over(
        base, experts, **keys, parameters=dict(reversed(parameters.items())),
        tasks=(Task(expert="one", data=tmp_path / "data.jsonl"),),
    )  # fmt: skip
    written(equal, tmp_path / "out", resume=True)
    pair = [(tmp_path / name / WEIGHTS).read_bytes() for name in ("whole", "out")]
    assert pair[0] == pair[1]


@pytest.mark.parametrize("energy", [None, 0.7])
def test_an_input_that_changed_in_place_is_not_continued(
    energy: float | None, base: Path, experts: list[Path], tmp_path
):
    keys = {"energy": energy} if energy else {"rank": 2}
    recipe = recipe_over(base, experts, merge_method="ties", output="adapter", **keys)
    begun(recipe, tmp_path / "out", 2)
    file = experts[0] / WEIGHTS
    status = file.stat()
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(ResumeError, match="another content"):
        written(recipe, tmp_path / "out", resume=True)


LINES = {
    "no object": lambda _: "[1, 2]",
    "no JSON": lambda line: line[: len(line) // 2],
    "another value": lambda line: json.dumps({**json.loads(line), "written": 5}),
    "another rank": lambda line: json.dumps({**json.loads(line), "rank": -3}),
    "a huge rank": lambda line: json.dumps({**json.loads(line), "rank": 10**9}),
    "no tensor": lambda line: json.dumps({"rank": 1}),
    "other reads": lambda line: json.dumps({"read": {"x": 5}}),
    "deep": lambda _: "[" * 100_000,
}


@pytest.mark.parametrize("form", LINES)
@pytest.mark.parametrize("place", [0, -1])
def test_a_damaged_journal_is_continued_before_the_damage(
    place: int, form: str, base: Path, experts: list[Path], tmp_path
):
    recipe = recipe_over(base, experts, merge_method="ties", output="adapter", energy=0.7)
    written(recipe, tmp_path / "whole")
    journal = begun(recipe, tmp_path / "out") / "journal.jsonl"
    lines = journal.read_text().splitlines()
    places = [n for n, line in enumerate(lines) if '"tensor"' in line]
    lines[places[place]] = LINES[form](lines[places[place]])
    journal.write_text("\n".join(lines) + "\n")
    written(recipe, tmp_path / "out", resume=True)
    pair = [(tmp_path / name / WEIGHTS).read_bytes() for name in ("whole", "out")]
    assert pair[0] == pair[1]


@pytest.mark.parametrize("name", ["journal.jsonl", "manifest.json"])
def test_a_store_that_cannot_be_read_says_what_to_do(
    name: str, base: Path, experts: list[Path], tmp_path
):
    recipe = recipe_over(base, experts, merge_method="ties", output="adapter", rank=2)
    file = begun(recipe, tmp_path / "out") / name
    file.unlink()
    file.mkdir()
    with pytest.raises(ResumeError, match=rf"{name} cannot be read; begin again without resuming"):
        written(recipe, tmp_path / "out", resume=True)


@pytest.mark.parametrize("kind", ["ties", "linear"])
def test_after_a_full_disk_an_adapter_is_continued(
    kind: str, base: Path, experts: list[Path], tmp_path, monkeypatch
):
    """The disk is full at the n-th write or allocation, whichever it is."""
    more = {"energy": 0.7} if kind == "ties" else {}
    recipe = recipe_over(base, experts, merge_method=kind, output="adapter", **more)
    written(recipe, tmp_path / "whole")
    real = {name: getattr(os, name) for name in ("write", "posix_fallocate", "ftruncate")}
    for number in range(12):
        counted = itertools.count()

        def full(name: str, *arguments: Any, at: int = number, count: Any = counted) -> Any:
            if next(count) == at:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real[name](*arguments)

        out = tmp_path / f"out-{number}"
        with monkeypatch.context() as patched:
            for name in real:
                patched.setattr(os, name, partial(full, name))
            with suppress(ResourceError):
                written(recipe, out)
        if not out.exists():
            written(recipe, out, resume=True)
        assert (out / WEIGHTS).read_bytes() == (tmp_path / "whole" / WEIGHTS).read_bytes()


def test_a_disk_without_room_is_noticed_before_anything_is_written(
    base: Path, experts: list[Path], tmp_path, monkeypatch
):
    recipe = recipe_over(base, experts, merge_method="linear", output="adapter")
    monkeypatch.setattr("ace_gui.engine.planning.requirements.free_bytes", lambda _: 100)
    with pytest.raises(ResourceError, match=r"for the adapter; 100 B free.*Nothing was"):
        written(recipe, tmp_path / "out")
    assert not staging_folder(tmp_path / "out").exists()


def test_an_extracted_adapter_keeps_its_energy_and_its_whole_tensors(base: Path, tmp_path):
    model = fine_tune(base, tmp_path / "model")
    result = ace_gui.extract(base, model, tmp_path / "x", energy=0.8, device="cpu")
    assert result.folder == tmp_path / "x"
    before, after = (load_file(p / "model.safetensors") for p in (base, model))
    tensors = load_file(tmp_path / "x" / WEIGHTS)
    back = read_back(base, tmp_path / "x", tmp_path / "store")
    ranks = {len(tensor) for name, tensor in tensors.items() if "lora_A" in name}
    assert len(ranks) > 1
    for name, tensor in after.items():
        factor = tensors.get(f"base_model.model.{name}".replace(".weight", ".lora_A.weight"))
        change = (tensor - before[name]).double()
        exact = change
        if factor is not None:
            u, s, vh = torch.linalg.svd(change, full_matrices=False)
            shares = (s**2).cumsum(0) / (s**2).sum()
            rank = len(factor)
            assert shares[rank - 1] >= 0.8
            assert rank == 1 or shares[rank - 2] < 0.8
            exact = u[:, :rank] * s[:rank] @ vh[:rank]
        error = back[name] - (before[name].double() + exact)
        assert error.norm() <= 1e-6 * tensor.norm(), name


@pytest.mark.parametrize(
    ("name", "sizes", "keeps_ties"),
    [
        ("LlamaForCausalLM", {**SIZES, "tie_word_embeddings": True}, True),
        (
            "T5ForConditionalGeneration",
            {"d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 1, "num_heads": 4},
            False,
        ),
        ("CTRLLMHeadModel", {"n_embd": 16, "dff": 24, "n_layer": 1, "n_head": 2}, False),
    ],
)
def test_peft_is_to_tie_heads_but_not_those_with_a_bias_nor_embeddings_of_a_decoder(
    name, sizes, keeps_ties, tmp_path
):
    model_class = getattr(transformers, name)
    model = model_class(model_class.config_class(**{**sizes, "vocab_size": 40}))
    model.save_pretrained(tmp_path / "base")
    for value in model.parameters():
        value.data += 0.02 * torch.randn(value.shape)
    model.save_pretrained(tmp_path / "model")
    ace_gui.extract(tmp_path / "base", tmp_path / "model", tmp_path / "x", rank=4, device="cpu")
    config = json.loads((tmp_path / "x" / "adapter_config.json").read_text())
    assert "lm_head" in config["modules_to_save"]
    assert config["ensure_weight_tying"] is keeps_ties


def test_patterns_choose_tensors_and_the_command_line_extracts(base: Path, tmp_path):
    model = fine_tune(base, tmp_path / "model")
    out = tmp_path / "x"
    process = command("extract", base, model, "--out", out, "--rank", 2, "--include", "*_proj*",
                    "--exclude", "*.1.*")  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert f"change from {base.name} to model" in process.stdout
    assert "Merged" not in process.stdout
    names = load_file(out / WEIGHTS)
    assert len(names) == 14
    assert all("lora_" in name and ".layers.0." in name for name in names)
    refused = command("extract", base, model, "--out", tmp_path / "y", "--rank", 2, "--energy", 0.5)
    assert refused.returncode == 1
    assert "not both" in refused.stderr
    norms = command(
        "extract", base, model, "--out", tmp_path / "y", "--rank", 2, "--include", "*norm*"
    )
    assert "linear layer" in norms.stderr
    wrong = command("merge", base, model, "--out", tmp_path / "y", "--rank", 2)
    assert "--as adapter" in wrong.stderr
    assert not (tmp_path / "y").exists()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, "`rank` or `energy`"),
        ({"rank": 2, "energy": 0.5}, "not both"),
        ({"rank": 2, "chat_template": "chatml"}, "chat_template"),
        ({"rank": 2, "overrides": (Override(pattern="*", disposition="base"),)}, "linear layer"),
    ],
)
def test_the_plan_refuses_what_the_merge_would_refuse(
    keys: dict[str, Any], words: str, base: Path, experts: list[Path], tmp_path
):
    """A merge in a store holds whole tensors and is not refused."""
    model = fine_tune(base, tmp_path / "model")
    recipe = recipe_over(base, [experts[0], model], output="adapter", **keys)
    plan = ace_gui.plan(recipe)
    (error,) = (check for check in plan.checks if check.verdict is CheckVerdict.ERROR)
    assert words in error.sentence
    with pytest.raises(RecipeError) as raised:
        written(recipe, tmp_path / "x")
    assert raised.value.sentence == error.sentence
    assert not (tmp_path / "x").exists()
    assert error in output_checks(plan, tmp_path, gpu_memory=0)
    stored = store_checks(plan, memory_bytes=None, gpu_memory=0, store=None)
    of_window = prepare(recipe).plan
    for checks in (stored, checks_of(of_window, None, None)):
        assert CheckVerdict.ERROR not in {check.verdict for check in checks}


def test_the_estimate_and_the_dry_run_say_that_the_rank_is_missing(
    base: Path, experts: list[Path], tmp_path
):
    lora = prepare(recipe_over(base, experts, merge_method="linear", output="adapter"))
    assert CheckVerdict.ERROR not in {check.verdict for check in lora.plan.checks}
    file = file_over(tmp_path, base, [fine_tune(base, tmp_path / "model")], output="adapter")
    for words in (("estimate", file), ("merge", file, "--dry-run")):
        process = command(*words)
        assert "`rank` or `energy`" in " ".join(process.stderr.split()), words


def test_experts_in_files_of_their_own_become_factors_of_the_stack(tmp_path):
    config = transformers.MixtralConfig(**SIZES, num_local_experts=2)
    transformers.MixtralForCausalLM(config).save_pretrained(tmp_path / "base")
    model = fine_tune_of(transformers.MixtralForCausalLM, tmp_path)
    ace_gui.extract(tmp_path / "base", model, tmp_path / "x", rank=2)
    settings = json.loads((tmp_path / "x" / "adapter_config.json").read_text())
    stacks = [f"model.layers.{n}.mlp.experts" for n in range(2)]
    assert set(settings["target_parameters"]) == {
        f"{stack}.{leaf}" for stack in stacks for leaf in ("gate_up_proj", "down_proj")
    }
    tensors = load_file(tmp_path / "x" / WEIGHTS)
    shapes = {
        name: tuple(tensors[f"base_model.model.{stacks[0]}.{name}.weight"].shape)
        for name in ("lora_A", "lora_B", "base_layer.lora_A", "base_layer.lora_B")
    }
    assert shapes == {
        "lora_A": (4, 24),
        "lora_B": (16, 4),
        "base_layer.lora_A": (4, 16),
        "base_layer.lora_B": (48, 4),
    }


@pytest.mark.parametrize("changed", [True, False])
def test_joined_tensors_are_in_the_way_only_if_they_change(changed: bool, tmp_path):
    """transformers divides this model's tensors of gate and up when it loads them."""
    config = transformers.Dinov2Config(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=8,
        use_swiglu_ffn=True,
    )  # fmt: skip
    model = transformers.Dinov2Model(config)
    model.save_pretrained(tmp_path / "base")
    for name, value in model.named_parameters():
        if changed or "attention.query.weight" in name or "q_proj.weight" in name:
            value.data += 0.02 * torch.randn(value.shape)
    model.save_pretrained(tmp_path / "model")
    arguments = (tmp_path / "base", tmp_path / "model", tmp_path / "x")
    if changed:
        with pytest.raises(MismatchError, match=r"joins or divides"):
            ace_gui.extract(*arguments, rank=2)
    else:
        ace_gui.extract(*arguments, rank=2)
        assert len(load_file(tmp_path / "x" / WEIGHTS)) == 4


PLAIN = [
    name
    for name, method in METHODS.items()
    if method.modules is None
    and method.learning is None
    and method.need(checked_parameters(method, {})) is None
    and method.most != 1
]


@pytest.mark.parametrize("method", PLAIN)
def test_at_full_rank_an_adapter_is_the_merge(method: str, base: Path, tmp_path):
    experts = [fine_tune(base, tmp_path / name) for name in "ab"]
    model_recipe = recipe_over(base, experts, merge_method=method)
    merged = merged_tensors(prepare(model_recipe), tmp_path / "m", device="cpu", as_output=True)
    recipe = recipe_over(base, experts, merge_method=method, output="adapter", rank=16)
    written(recipe, tmp_path / "x")
    start = load_file(base / "model.safetensors")
    for name, tensor in read_back(base, tmp_path / "x", tmp_path / "store").items():
        change = (merged[name] - start[name]).norm()
        assert (tensor - merged[name]).norm() <= 1e-5 * change + 1e-6 * start[name].norm(), name


def test_a_finished_merge_becomes_an_adapter_whose_files_name_its_models(
    base: Path, experts: list[Path], tmp_path
):
    recipe = recipe_over(base, experts, merge_method="ties")
    store = tmp_path / "store"
    merged = merged_tensors(prepare(recipe), store, device="cpu")
    start = load_file(base / "model.safetensors")
    changes = [merged[f"{name}.weight"].double() - start[f"{name}.weight"] for name in (Q, V)]
    *progress, energies = steps_of(EnergyByRankJob(store=store), None)
    assert progress
    assert all(isinstance(event, JobProgress) for event in progress)
    squares = [torch.linalg.svdvals(change) ** 2 for change in changes]
    mean = sum(s.cumsum(0) / s.sum() for s in squares) / 2
    assert (energies.matrices, len(energies.shares)) == (2, 16)
    assert energies.shares == pytest.approx(mean.tolist())
    for chosen in (AdapterExport(rank=1), AdapterExport(by_energy=True, energy=0.5)):
        out = tmp_path / f"out-{chosen.by_energy}"
        job = ExportJob(store=store, folder=out, output=Output.ADAPTER, chosen=chosen)
        *progress, end = steps_of(job, None)
        assert end.folder == out
        assert isinstance(progress[0], JobProgress)
        config = json.loads((out / "adapter_config.json").read_text())
        assert set(config["target_modules"]) == {Q, V}, "what no expert changes is left out"
        assert config["modules_to_save"] == ["model.norm"]
        a = load_file(out / WEIGHTS)[f"base_model.model.{Q}.lora_A.weight"]
        assert a.shape[0] == (rank_for_energy(squares[0], 0.5) if chosen.by_energy else 1)
        text = (out / "README.md").read_text() + (out / "merge_recipe.yaml").read_text()
        assert str(store) not in text
        assert "ties" in text
        assert "output: adapter" in text


def test_a_cancelled_adapter_leaves_nothing(base: Path, experts: list[Path], tmp_path):
    store = tmp_path / "store"
    out = tmp_path / "new" / "out"
    merged_tensors(prepare(recipe_over(base, experts)), store, device="cpu")
    chosen = AdapterExport(rank=1)
    steps = steps_of(ExportJob(store=store, folder=out, output=Output.ADAPTER, chosen=chosen), None)
    next(steps)
    assert staging_folder(out).exists()
    steps.close()
    assert not staging_folder(out).exists()
    assert not out.exists()


def test_an_adapter_needs_no_config_of_a_model(base: Path, experts: list[Path]):
    for expert in prepare(recipe_over(base, experts)).plan.experts:
        assert (expert.architecture, expert.warnings) == ("adapter", ())
