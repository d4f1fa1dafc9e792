"""The whole path without a window: from folders on disk to a folder transformers loads."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.helpers.ace_oracle import ace_oracle
from tests.helpers.command import ace_gui, ace_gui_process
from tests.helpers.models import Family, gpt2_family, load_folder, roberta_family
from tests.helpers.recipes import file_of


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Family]:
    folder = tmp_path_factory.mktemp("families")
    return {
        "gpt2": gpt2_family(folder / "gpt2"),
        "roberta": roberta_family(folder / "roberta"),
    }


@pytest.fixture(scope="module", params=["gpt2", "roberta"])
def merged(
    request: pytest.FixtureRequest,
    families: dict[str, Family],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Family, Path]:
    family = families[request.param]
    folder = tmp_path_factory.mktemp("merged")
    run = ace_gui_process if request.param == "roberta" else ace_gui
    result = run("merge", file_of(folder, family), "--out", folder / "out")
    assert result.returncode == 0, result.stderr
    return family, folder / "out"


def test_transformers_loads_it_without_missing_or_unexpected_keys(
    merged: tuple[Family, Path],
) -> None:
    _, out = merged
    _, report = load_folder(out)
    assert not report.missing
    assert not report.unexpected
    assert not report.mismatched


def test_the_folder_holds_what_the_contract_promises(merged: tuple[Family, Path]) -> None:
    family, out = merged
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    heads = {f"heads/{name}.safetensors" for name in family.experts}
    assert {"model.safetensors", "config.json", "README.md", "merge_recipe.yaml"} | heads <= files
    assert (out / "tokenizer.json").read_bytes() == (family.base / "tokenizer.json").read_bytes()
    assert (
        load_file(out / "model.safetensors").keys()
        == load_file(family.base / "model.safetensors").keys()
    )
    assert list(out.parent.glob(".*")) == []  # nothing left beside it


def test_heads_are_the_experts_own(merged: tuple[Family, Path]) -> None:
    family, out = merged
    base = load_file(family.base / "model.safetensors")
    for name, folder in family.experts.items():
        head = load_file(out / "heads" / f"{name}.safetensors")
        expert = load_file(folder / "model.safetensors")
        assert head.keys() == expert.keys() - base.keys()
        assert all(torch.equal(tensor, expert[key]) for key, tensor in head.items())


def test_matrices_equal_the_oracle_and_the_rest_is_averaged(merged: tuple[Family, Path]) -> None:
    family, out = merged
    result = load_file(out / "model.safetensors")
    base = load_file(family.base / "model.safetensors")
    experts = [load_file(path / "model.safetensors") for path in family.experts.values()]
    epsilon = 4e-2 if any(name.startswith("transformer.h") for name in base) else 1e-5
    matrices = 0
    for name, weight in base.items():
        if not all(name in expert for expert in experts):
            assert torch.equal(result[name], weight)
            continue
        deltas = [(expert[name] - weight).double().numpy() for expert in experts]
        if ".weight" in name and weight.ndim == 2 and ".wte" not in name and "embed" not in name:
            if ".wpe" in name:
                continue
            matrices += 1
            conv1d = "transformer.h" in name
            oriented = [delta.T if conv1d else delta for delta in deltas]
            expected = ace_oracle(np.stack(oriented), epsilon=epsilon, tau=0.3, k_frac=0.3).merged
            expected = expected.T if conv1d else expected
        else:
            expected = np.mean(deltas, axis=0)
        error = np.linalg.norm(result[name].double().numpy() - weight.double().numpy() - expected)
        assert error <= 1e-5 * np.linalg.norm(expected) + 1e-6 * np.linalg.norm(weight.numpy())
    assert matrices >= 8


def test_the_recipe_beside_the_model_runs_again_to_the_same_bits(
    merged: tuple[Family, Path], tmp_path: Path
) -> None:
    _, out = merged
    again = ace_gui("merge", out / "merge_recipe.yaml", "--out", tmp_path / "again")
    assert again.returncode == 0, again.stderr
    first = load_file(out / "model.safetensors")
    second = load_file(tmp_path / "again" / "model.safetensors")
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())


def test_what_follows_from_the_base_model_is_in_every_output(
    merged: tuple[Family, Path], tmp_path: Path
) -> None:
    family, out = merged
    epsilon, said = (4e-2, "0.04") if "gpt2" in str(family.base) else (1e-5, "1e-5")
    written = yaml.safe_load((out / "merge_recipe.yaml").read_text())
    assert written["parameters"]["epsilon"] == epsilon
    card = (out / "README.md").read_text()
    recipe = yaml.safe_load(card.split("```yaml\n")[1].split("```")[0])
    assert recipe["parameters"]["epsilon"] == epsilon
    process = ace_gui("inspect", file_of(tmp_path, family), "--json", tmp_path / "i.json")
    assert re.search(rf"epsilon = {said}\b", process.stdout)
    parameters = json.loads((tmp_path / "i.json").read_text())["parameters"]
    assert parameters["epsilon"] == epsilon


def test_inspect_lists_every_tensor_with_its_reason(
    families: dict[str, Family], tmp_path: Path
) -> None:
    family = families["roberta"]
    recipe = file_of(tmp_path, family)
    result = ace_gui("inspect", recipe, "--json", tmp_path / "i.json", "--csv", tmp_path / "i.csv")
    assert result.returncode == 0, result.stderr
    layers = json.loads((tmp_path / "i.json").read_text())["layers"]
    keys = {"name", "role", "shape", "disposition", "reason", "gamma", "regime", "energies"}
    assert all(layer.keys() == keys and layer["reason"] for layer in layers)
    scales = json.loads((tmp_path / "i.json").read_text())["scales"]
    assert all(scale.keys() == {"name", "log_variance", "gamma_unreliable"} for scale in scales)
    assert {scale["name"] for scale in scales} == {
        layer["name"] for layer in layers if layer["gamma"] is not None
    }
    by_name = {layer["name"]: layer for layer in layers}
    assert by_name.keys() >= load_file(family.base / "model.safetensors").keys()
    query = by_name["roberta.encoder.layer.0.attention.self.query.weight"]
    assert query["disposition"] == "merged"
    assert query["gamma"] > 0
    assert query["energies"].keys() == family.experts.keys()
    norm = by_name["roberta.encoder.layer.0.output.LayerNorm.weight"]
    assert (norm["disposition"], norm["gamma"], norm["regime"]) == ("averaged", None, None)
    lines = (tmp_path / "i.csv").read_text().splitlines()
    assert len(lines) == len(layers) + 1
    assert re.search(r"^The change is .* × an expert's on average; ", result.stdout, re.MULTILINE)


def test_out_dtype_is_written_and_told_to_loaders(
    families: dict[str, Family], tmp_path: Path
) -> None:
    recipe = file_of(tmp_path, families["roberta"], out_dtype="bfloat16")
    result = ace_gui("merge", recipe, "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    model, _ = load_folder(tmp_path / "out")
    assert next(model.parameters()).dtype == torch.bfloat16


BAD = {
    "unknown key": {"tau": 0.3},
    "unknown method": {"merge_method": "acee"},
    "unknown parameter": {"parameters": {"epsilom": 1e-5}},
    "value out of range": {"parameters": {"k_frac": 1.5}},
    "unknown scope": {"scope": "authors"},
    "missing model": {"base_model": "nowhere"},
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD.keys())
def test_bad_recipes_are_one_sentence_and_write_nothing(
    families: dict[str, Family], tmp_path: Path, change: dict[str, object]
) -> None:
    recipe = file_of(tmp_path, families["roberta"], **change)
    result = ace_gui("merge", recipe, "--out", tmp_path / "out")
    assert result.returncode == 1
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.yaml"]


@pytest.mark.parametrize(
    "arguments",
    [["mrege"], ["merge"], ["merge", "recipe.yaml"], ["methods", "a", "b"], ["--nonsense"]],
    ids=" ".join,
)
def test_wrong_usage_is_status_two(arguments: list[str]) -> None:
    result = ace_gui(*arguments)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_the_card_says_how_to_use_a_head_and_its_words_are_true(
    merged: tuple[Family, Path],
) -> None:
    family, out = merged
    card = (out / "README.md").read_text()
    snippet = card.split("```python\n")[1].split("```")[0]
    name = next(iter(family.experts))
    folders = {"EXPERT_FOLDER": repr(str(family.experts[name])), "MERGED_FOLDER": repr(str(out))}
    for word, value in folders.items():
        snippet = snippet.replace(word, value)
    namespace: dict[str, Any] = {}
    exec(snippet, namespace)
    state = namespace["model"].state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in namespace["head"].items())
    written = load_file(out / "heads" / f"{name}.safetensors")
    assert namespace["head"].keys() == written.keys()


def test_complete_heads_load_by_themselves(families: dict[str, Family], tmp_path: Path) -> None:
    for kind, family in families.items():
        folder = tmp_path / kind
        folder.mkdir()
        out = folder / "out"
        result = ace_gui("merge", file_of(folder, family), "--out", out, "--complete-heads")
        assert result.returncode == 0, result.stderr
        merged = load_file(out / "model.safetensors")
        for name, source in family.experts.items():
            expert = load_file(source / "model.safetensors")
            written = load_file(out / "heads" / name / "model.safetensors")
            assert written.keys() == expert.keys()
            for key, tensor in written.items():
                assert torch.equal(tensor, merged.get(key, expert[key])), key
            model, report = load_folder(out / "heads" / name)
            assert not report.missing
            assert not report.unexpected
            assert not report.mismatched
            assert type(model).__name__.endswith("ForSequenceClassification")
            tokenizer = out / "heads" / name / "tokenizer.json"
            assert tokenizer.read_bytes() == (family.base / "tokenizer.json").read_bytes()
        assert f"heads/{name}" in (out / "README.md").read_text()
