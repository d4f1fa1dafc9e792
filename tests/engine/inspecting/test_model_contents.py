"""What a merged folder contains: against least squares of numpy, and folders of other programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM

import ace_gui
from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.engine.contract.contents import ModelContents
from ace_gui.engine.contract.jobs import VerifyJob
from ace_gui.engine.inspecting.change_products import ChangeProducts
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.streaming import PART_ELEMENTS
from ace_gui.errors import CheckpointError, MismatchError, NonFiniteError, RecipeError
from tests.helpers.adapters import llama
from tests.helpers.checkpoints import save_model
from tests.helpers.command import ace_gui as command
from tests.helpers.gguf_files import gguf_of
from tests.helpers.merges import merged_folder
from tests.helpers.quantised_models import NAMES as QUANTISED
from tests.helpers.quantised_models import quantised_llama
from tests.helpers.recipes import recipe_over

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")

Tensors = dict[str, Tensor]


def products_of(columns: Sequence[np.ndarray], merged: np.ndarray) -> ChangeProducts:
    """The products of flat changes that were rounded by no file."""
    stack = np.stack(columns)
    return ChangeProducts(
        gram_TT=stack @ stack.T,
        products_T=stack @ merged,
        energy=float(merged @ merged),
        base_energy=1.0,
        rounding=0.0,
        rounding_T=np.zeros(len(columns)),
    )


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_the_combination_is_that_of_numpy(seed: int, count: int, collinear: int):
    draw = np.random.default_rng(seed)
    columns = list(draw.normal(size=(count, 40)) * draw.uniform(0.1, 10, size=(count, 1)))
    columns += [columns[draw.integers(count)] * draw.normal() for _ in range(collinear)]
    merged = draw.normal(size=40)
    exact, *_ = np.linalg.lstsq(np.stack(columns).T, merged)
    products = products_of(columns, merged)
    fitted = products.fitted()
    np.testing.assert_allclose(fitted, exact, rtol=1e-6, atol=1e-9)
    unexplained = np.linalg.norm(merged - np.stack(columns).T @ exact) / np.linalg.norm(merged)
    assert products.left_over(fitted) == pytest.approx(unexplained, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_layers_and_all_matrices_are_those_of_numpy(dtype: torch.dtype, tmp_path):
    generator = torch.Generator().manual_seed(4)
    shapes = {"layer.0.weight": (9, 7), "layer.1.weight": (600, 1000), "layer.1.bias": (600,)}
    names = ("base", "a", "b", "c", "merged")
    models = {
        name: {
            key: torch.randn(shape, generator=generator).to(dtype) for key, shape in shapes.items()
        }
        for name in names
    }
    for name, tensors in models.items():
        save_model(tmp_path / name, tensors)
    contents = ace_gui.verify(
        tmp_path / "base", [tmp_path / name for name in "abc"], tmp_path / "merged"
    )
    job = VerifyJob(
        base=str(tmp_path / "base"),
        experts=tuple(str(tmp_path / name) for name in "abc"),
        merged=str(tmp_path / "merged"),
    )
    assert list(steps_of(job, None))[-1] == contents

    def changes(name: str, keys: Sequence[str]) -> np.ndarray:
        return torch.cat(
            [(models[name][key].double() - models["base"][key].double()).flatten() for key in keys]
        ).numpy()

    matrices = [key for key, shape in shapes.items() if len(shape) > 1]
    layers = {layer.name: layer for layer in contents.layers}
    assert set(layers) == set(shapes)
    for keys in ([key] for key in shapes):
        stack = np.stack([changes(n, keys) for n in "abc"]).T
        merged = changes("merged", keys)
        exact, *_ = np.linalg.lstsq(stack, merged)
        layer = layers[keys[0]]
        assert layer.coefficients == pytest.approx(exact, rel=1e-9)
        unexplained = np.linalg.norm(merged - stack @ exact) / np.linalg.norm(merged)
        assert layer.left_over == pytest.approx(unexplained, rel=1e-9)
    stack = np.stack([changes(n, matrices) for n in "abc"]).T
    merged = changes("merged", matrices)
    exact, *_ = np.linalg.lstsq(stack, merged)
    assert contents.coefficients == pytest.approx(exact, rel=1e-9)
    assert contents.shares is None
    assert contents.sentences[0].startswith("It is not a sum of the experts' changes: ")


# Folders as other programs write them.


@dataclass(frozen=True)
class Folders:
    """A tiny Llama, two adapters of it, and two whole fine-tunes."""

    path: Path
    dtype: torch.dtype
    tied: bool

    @property
    def base(self) -> Path:
        return self.path / "base"

    def save(self, name: str, model: Any) -> Path:
        model.to(self.dtype).save_pretrained(self.path / name)
        return self.path / name

    def load(self, name: str = "base") -> Any:
        return AutoModelForCausalLM.from_pretrained(self.path / name, dtype=self.dtype)

    def tensors(self, name: str) -> Tensors:
        return load_file(self.path / name / "model.safetensors")

    def written(self, name: str, tensors: Mapping[str, Tensor]) -> Path:
        """A folder with the base's config, in shards, as mergekit writes it."""
        config = json.loads((self.base / "config.json").read_text())
        stored = {key: value.to(self.dtype).contiguous() for key, value in tensors.items()}
        return save_model(self.path / name, stored, config=config, shards=2)

    def merged_adapters(self, name: str, **weights: float) -> Path:
        """By PEFT's own merge, one adapter after another, at a share of each."""
        model = self.load()
        for adapter, weight in weights.items():
            tuned = peft.PeftModel.from_pretrained(model, self.path / adapter)
            for module in tuned.modules():
                if isinstance(module, peft.tuners.lora.LoraLayer):
                    module.scale_layer(weight)
            model = tuned.merge_and_unload()
        return self.save(name, model)

    def combined(self, name: str, **weights: float) -> Path:
        """W₀ + Σ w (W_t − W₀) in the experts' format, tensor by tensor."""
        base = self.tensors("base")
        models = {expert: self.tensors(expert) for expert in weights}
        return self.written(
            name,
            {
                key: value + sum(w * (models[t][key] - value) for t, w in weights.items())
                for key, value in base.items()
            },
        )


def family(path: Path, dtype: torch.dtype, tied: bool) -> Folders:
    torch.manual_seed(5)
    folders = Folders(path=path, dtype=dtype, tied=tied)
    model = llama(tie_word_embeddings=tied, num_hidden_layers=4)
    folders.save("base", model)
    for adapter, targets in (("lora", "all-linear"), ("other", ["q_proj", "v_proj"])):
        tuned = peft.get_peft_model(folders.load(), peft.LoraConfig(r=2, target_modules=targets))
        with torch.no_grad():
            for name, value in tuned.named_parameters():
                if "lora_" in name:
                    value.copy_(0.04 * torch.randn(value.shape))
        tuned.save_pretrained(path / adapter)
    for expert in ("a", "b"):
        tuned = folders.load()
        with torch.no_grad():
            for value in tuned.parameters():
                value.add_(0.004 * torch.randn(value.shape))
        folders.save(expert, tuned)
    return folders


@pytest.fixture(scope="module", params=["float32 untied", "bfloat16 tied", "float16 untied"])
def folders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Folders:
    dtype, ties = request.param.split()
    path = tmp_path_factory.mktemp("family")
    return family(path, getattr(torch, dtype), ties == "tied")


def verified(folders: Folders, experts: Sequence[str], merged: Path) -> ModelContents:
    return ace_gui.verify(folders.base, [folders.path / name for name in experts], merged)


Right = tuple[list[str], Callable[[Folders], Path], str]
RIGHT: dict[str, Right] = {
    "PEFT's merge": (
        ["lora"],
        lambda f: f.merged_adapters("peft", lora=1.0),
        "It contains 100 % of `lora`, nothing else.",
    ),
    "PEFT's merge, with an expert that is not in it": (
        ["other", "lora"],
        lambda f: f.merged_adapters("peft-again", lora=1.0),
        "It contains 100 % of `lora`, nothing else.",
    ),
    "two adapters one after the other": (
        ["lora", "other"],
        lambda f: f.merged_adapters("peft-two", lora=1.0, other=1.0),
        "It contains 100 % of `lora` and 100 % of `other`, nothing else.",
    ),
    "the mean of a script": (
        ["a", "b"],
        lambda f: f.combined("mean", a=0.5, b=0.5),
        "It is the mean of `a` and `b`.",
    ),
    "task arithmetic of a script": (
        ["a", "b"],
        lambda f: f.combined("arithmetic", a=0.7, b=0.4),
        "It contains 70 % of `a` and 40 % of `b`, nothing else.",
    ),
    "a subtracted expert": (
        ["a", "b"],
        lambda f: f.combined("negative", a=1.0, b=-0.5),
        "It contains 100 % of `a` and −50 % of `b`, nothing else.",
    ),
    "the base": (["a", "lora"], lambda f: f.written("same", f.tensors("base")), "It is the base."),
    "an expert": (
        ["a", "b"],
        lambda f: f.written("copied", f.tensors("b")),
        "It contains 100 % of `b`, nothing else.",
    ),
}


@pytest.mark.parametrize("case", RIGHT)
def test_right_folders(case: str, folders: Folders):
    experts, make, sentence = RIGHT[case]
    contents = verified(folders, experts, make(folders))
    assert contents.sentences[0] == sentence
    assert contents.left_over < 0.01
    assert not contents.differing
    assert contents.missing == contents.extra == contents.other_shape == ()


def forgotten(folders: Folders) -> Path:
    """One block keeps the base's weights."""
    tensors = folders.tensors(folders.merged_adapters("whole", lora=1.0).name)
    base = folders.tensors("base")
    base_layer = {key: base[key] for key in base if ".layers.2." in key}
    return folders.written("forgotten", {**tensors, **base_layer})


def test_a_forgotten_block_is_named(folders: Folders):
    contents = verified(folders, ["lora"], forgotten(folders))
    assert contents.sentences[0].startswith(
        "It contains 100 % of `lora`, nothing else, except in 7 of"
    )
    assert {name.split(".")[2] for name in contents.differing} == {"2"}
    assert {layer.coefficients for layer in contents.layers if layer.differs} == {(0.0,)}


def test_half_the_scale_is_seen(folders: Folders):
    contents = verified(folders, ["lora"], folders.merged_adapters("half", lora=0.5))
    assert contents.coefficients == pytest.approx([0.5], abs=0.01)
    assert contents.sentences[0] == "It contains 50 % of `lora`, nothing else."


def test_swapped_experts_are_seen(folders: Folders):
    contents = verified(folders, ["b", "a"], folders.combined("swapped", a=0.3, b=0.7))
    assert contents.experts == ("b", "a")
    assert contents.coefficients == pytest.approx([0.7, 0.3], abs=0.01)


def test_another_base_is_seen(folders: Folders, tmp_path):
    torch.manual_seed(77)
    other_base = llama(tie_word_embeddings=folders.tied, num_hidden_layers=4)
    other_base.to(folders.dtype).save_pretrained(tmp_path / "other")
    merged = folders.merged_adapters("on-its-base", lora=1.0)
    contents = ace_gui.verify(tmp_path / "other", [folders.path / "lora"], merged)
    assert contents.left_over > 0.9
    assert any("another base" in sentence for sentence in contents.sentences)
    assert any("too far for fine-tunes" in sentence for sentence in contents.sentences)


def test_a_head_that_is_stored_twice_with_other_values(folders: Folders):
    base = folders.tensors("base")
    tensors = {key: (folders.tensors("a")[key] + folders.tensors("b")[key]) / 2 for key in base}
    head = base.get("lm_head.weight", base["model.embed_tokens.weight"])
    merged = folders.written("two-heads", {**tensors, "lm_head.weight": head})
    contents = verified(folders, ["a", "b"], merged)
    assert contents.differing == ("lm_head.weight",)
    assert contents.sentences[0].startswith("It is the mean of `a` and `b`, except in 1 of")


def test_a_method_that_is_no_sum(folders: Folders, tmp_path):
    recipe = recipe_over(
        folders.base, [folders.path / "a", folders.path / "b"], merge_method="ties"
    )
    contents = verified(folders, ["a", "b"], merged_folder(recipe, tmp_path / "ties"))
    assert contents.shares is None
    assert contents.left_over > 0.05
    assert contents.sentences[0].startswith("It is not a sum of the experts' changes: ")


def test_missing_new_and_reshaped_tensors_are_named(folders: Folders):
    tensors = dict(folders.tensors("a"))
    del tensors["model.norm.weight"]
    tensors["model.layers.0.mlp.up_proj.weight"] = torch.zeros(3, 16)
    tensors["model.new.weight"] = torch.zeros(3, 3)
    contents = verified(folders, ["a"], folders.written("other-parts", tensors))
    assert contents.missing == ("model.norm.weight",)
    assert contents.extra == ("model.new.weight",)
    assert contents.other_shape == ("model.layers.0.mlp.up_proj.weight",)
    text = " ".join(contents.sentences)
    for name in (*contents.missing, *contents.extra, *contents.other_shape):
        assert f"`{name}`" in text


def test_files_of_llama_cpp_are_read(tmp_path):
    folders = family(tmp_path, torch.float32, tied=False)
    model = folders.load(folders.merged_adapters("whole", lora=1.0).name)
    contents = verified(folders, ["lora"], gguf_of(model, tmp_path / "whole.gguf", torch.float16))
    assert contents.sentences[0] == "It contains 100 % of `lora`, nothing else."


@pytest.mark.parametrize("name", QUANTISED)
def test_a_quantised_base_with_its_adapter(name: str, tmp_path):
    pair = quantised_llama(name, tmp_path / "pair")
    model = AutoModelForCausalLM.from_pretrained(pair.plain, dtype=torch.float32)
    tuned = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["q_proj", "up_proj"]))
    with torch.no_grad():
        for key, value in tuned.named_parameters():
            if "lora_" in key:
                value.copy_(0.05 * torch.randn(value.shape))
    tuned.save_pretrained(tmp_path / "lora")
    tuned.merge_and_unload().save_pretrained(tmp_path / "merged")
    contents = ace_gui.verify(pair.quantised, [tmp_path / "lora"], tmp_path / "merged")
    assert contents.sentences[0] == "It contains 100 % of `lora`, nothing else."


def test_an_adapter_made_of_adapters(folders: Folders):
    tuned = peft.PeftModel.from_pretrained(folders.load(), folders.path / "lora", "lora")
    tuned.load_adapter(folders.path / "other", "other")
    tuned.add_weighted_adapter(["lora", "other"], [0.5, 0.5], "both", combination_type="cat")
    tuned.save_pretrained(folders.path / "weighted", selected_adapters=["both"])
    contents = verified(folders, ["lora", "other"], folders.path / "weighted" / "both")
    assert contents.sentences[0] == "It is the mean of `lora` and `other`."


def test_a_change_below_the_steps_of_the_format_is_said(tmp_path):
    generator = torch.Generator().manual_seed(1)
    base = torch.randn(200, 100, generator=generator).bfloat16()
    change = 0.004 * torch.randn(200, 100, generator=generator)
    for name, value in (
        ("base", base),
        ("a", base + change),
        ("merged", (base + change).bfloat16()),
    ):
        save_model(tmp_path / name, {"layer.0.weight": value})
    contents = ace_gui.verify(tmp_path / "base", [tmp_path / "a"], tmp_path / "merged")
    assert contents.left_over == 0
    assert contents.sentences[0] == "It contains 100 % of `a`, nothing else."
    assert any(sentence.startswith("Rounding to the files'") for sentence in contents.sentences)


def test_only_a_part_of_a_tensor_is_read_at_a_time(tmp_path, monkeypatch):
    value = torch.ones(2 * PART_ELEMENTS // 1000, 1000)
    for factor, name in enumerate(("base", "a", "merged")):
        save_model(tmp_path / name, {"layer.0.weight": factor * value})
    sizes: list[int] = []
    elements = TensorReader.elements

    def counted(reader: TensorReader, info: TensorInfo, start: int, stop: int) -> Tensor:
        sizes.append(stop - start)
        return elements(reader, info, start, stop)

    monkeypatch.setattr(TensorReader, "elements", counted)
    contents = ace_gui.verify(tmp_path / "base", [tmp_path / "a"], tmp_path / "merged")
    assert contents.coefficients == pytest.approx([2.0])
    assert max(sizes) == PART_ELEMENTS


def test_bad_input_has_one_sentence(folders: Folders, tmp_path):
    tensors = folders.tensors("a")
    tensors["model.norm.weight"] = torch.full((16,), torch.nan)
    broken = folders.written("broken", tensors)
    with pytest.raises(NonFiniteError, match=r"`model.norm.weight` of `broken` has 16 NaN values"):
        verified(folders, ["a"], broken)
    with pytest.raises(RecipeError, match="at least one expert"):
        verified(folders, [], broken)
    with pytest.raises((RecipeError, CheckpointError), match="not-there"):
        verified(folders, ["a"], tmp_path / "not-there")
    save_model(tmp_path / "alien", {"layer.0.weight": torch.ones(2, 2)})
    with pytest.raises(MismatchError, match="alien"):
        verified(folders, ["a"], tmp_path / "alien")


def test_the_command(folders: Folders, tmp_path):
    merged = forgotten(folders)
    words = ["verify", folders.base, folders.path / "lora", merged, "--json", tmp_path / "f.json"]
    ended = command(*words)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("It contains 100 % of `lora`, nothing else, except in 7 of")
    assert len(lines) < 24
    assert "model.layers.2.mlp.up_proj.weight" in ended.stdout
    assert "model.layers.1.mlp.up_proj.weight" not in ended.stdout
    report = json.loads((tmp_path / "f.json").read_text())
    assert report["experts"][0]["model"] == "lora"
    assert set(report["layers"][0]) >= {"name", "coefficients", "left_over"}
    assert set(report["layers"][0]["coefficients"]) == {"lora"}
    assert command("verify", folders.base, folders.path / "lora").returncode == 2
