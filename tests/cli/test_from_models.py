"""``ace-gui init`` and ``ace-gui merge`` of a base and experts, without a recipe."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from ace_gui.cli.recipes import checked_recipe, init_recipe, recipe_of
from ace_gui.methods import METHODS, every_variant, method_variant
from ace_gui.recipe.new_recipes import recipe_for, recipe_keys, recommended_keys
from ace_gui.recipe.overrides import After, Cap
from ace_gui.recipe.recipe_file import load_recipe, recipe_from
from ace_gui.recipe.recommended import METHOD, PARAMETERS
from ace_gui.recipe.values import Heads
from tests.helpers.adapters import factors, save_adapter
from tests.helpers.command import ace_gui as ace

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def model(folder: Path, seed: int) -> None:
    folder.mkdir(parents=True)
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        f"layers.{n}.mlp.up_proj.weight": torch.randn(12, 8, generator=generator) for n in range(2)
    }
    save_file(tensors, folder / "model.safetensors")


def named(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A base and two experts, as folders, as files, or as names in the cache of the hub."""
    cache = folder / "cache"
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    monkeypatch.chdir(folder)
    names = []
    for seed, name in enumerate(("base", "cola", "sst2")):
        if kind == "names":
            repository = cache / f"models--org--{name}"
            (repository / "refs").mkdir(parents=True)
            (repository / "refs" / "main").write_text(COMMIT)
            model(repository / "snapshots" / COMMIT, seed)
            names.append(f"org/{name}")
        else:
            model(folder / name, seed)
            names.append(name if kind == "folders" else f"{name}/model.safetensors")
    return names


@pytest.fixture
def models(tmp_path, monkeypatch) -> list[str]:
    return named("folders", tmp_path, monkeypatch)


@pytest.mark.parametrize("kind", ["folders", "files", "names"])
@pytest.mark.parametrize(
    "options", [(), ("--method", "linear"), ("--set", "alpha=0.5", "--set", "seed=3")]
)
def test_a_merge_without_a_file_is_that_of_the_recipe_that_init_writes(
    kind: str, options: tuple[str, ...], tmp_path, monkeypatch
):
    arguments = named(kind, tmp_path, monkeypatch)
    if kind == "files":  # of one name, and so told apart by a number
        assert recipe_for(arguments[0], arguments[1:]).expert_names == ("model-1", "model-2")
    printed = ace("init", *arguments, *options)
    assert printed.returncode == 0
    (tmp_path / "recipe.yaml").write_text(printed.stdout)
    assert ace("merge", *arguments, *options, "--out", "direct").returncode == 0
    assert ace("merge", "recipe.yaml", "--out", "by-file").returncode == 0
    direct, by_file = (tmp_path / out for out in ("direct", "by-file"))
    for name in ("model.safetensors", "merge_recipe.yaml"):
        assert (direct / name).read_bytes() == (by_file / name).read_bytes()
    if not options:
        merge_recipe = load_recipe(direct / "merge_recipe.yaml")
        assert (merge_recipe.merge_method, merge_recipe.parameters) == (METHOD, PARAMETERS)


def test_without_a_method_it_is_the_recommended_merge(models: list[str]):
    base, *experts = models
    merge_recipe = recipe_for(base, experts)
    assert merge_recipe == recipe_from(
        {
            **recommended_keys(),
            "base_model": base,
            "models": [{"model": expert} for expert in experts],
        }
    )
    plain = recipe_from(
        {
            "merge_method": "ace",
            "base_model": base,
            "models": [{"model": expert} for expert in experts],
        }
    )
    assert recipe_for(base, experts, "ace") == plain  # the published variant, exactly
    assert merge_recipe != plain


@pytest.mark.parametrize("method", [None, *METHODS, *every_variant()])
def test_what_init_writes_is_the_recipe_itself(method: str | None, models: list[str]):
    text = init_recipe(models, method)
    Path("recipe.yaml").write_text(text)
    assert load_recipe(Path("recipe.yaml")) == recipe_of(models, method)
    assert len(max(text.splitlines(), key=len)) <= 100


@pytest.mark.parametrize("method", [None, *METHODS, *every_variant()])
def test_what_init_leaves_as_comments_are_the_defaults(method: str | None, models: list[str]):
    """Without the mark of a comment before each, they are read and change no parameter."""
    text = re.sub(
        r"^( *)# ?( *[a-z_0-9]+:(?: [^ ]+)?)$", r"\1\2", init_recipe(models, method), flags=re.M
    )
    Path("recipe.yaml").write_text(text)
    merge_recipe = load_recipe(Path("recipe.yaml"))
    plain = recipe_of(models, method)
    values = checked_recipe(recipe_keys(models[0], models[1:], method)).parameters
    chosen = METHODS[plain.merge_method].parameters
    assert chosen(**merge_recipe.parameters) == chosen(**values)
    assert {**merge_recipe.parameters, **values} == dict(merge_recipe.parameters)
    assert bool(merge_recipe.parameters) == bool(_used(method))


def _used(method: str | None) -> bool:
    merge_method, _ = method_variant(method or METHOD)
    return bool(merge_method.parameters.__dataclass_fields__)


@pytest.mark.parametrize(
    ("setting", "field", "value"),
    [
        ("epsilon=1e-4", "parameters", {"epsilon": 1e-4}),
        ("parameters.epsilon=.5", "parameters", {"epsilon": 0.5}),
        ("refine=agreeing", "parameters", {"refine": "agreeing"}),
        ("scaling=2", "parameters", {"scaling": 2}),
        ("seed=7", "seed", 7),
        ("split_fused=true", "split_fused", True),
        ("out_dtype=bfloat16", "out_dtype", "bfloat16"),
        ("heads=keep", "heads", Heads.KEEP),
        ("after.scale=1.25", "after", After(scale=1.25)),
        ("after.cap=0.2", "after", After(cap=Cap(delta=0.2))),
        ("after={rank: 0.5, spectrum: 0.5}", "after", After(rank=0.5, spectrum=0.5)),
    ],
)
def test_a_setting_of_every_type(setting: str, field: str, value: Any, models: list[str]):
    assert getattr(recipe_of(models, "ace", [setting]), field) == value


def test_later_settings_win_over_earlier_ones_and_over_what_is_recommended(models: list[str]):
    merge_recipe = recipe_of(models, None, ["poolers=merge", "alpha=1", "alpha=0.5"])
    assert merge_recipe.parameters == {**PARAMETERS, "alpha": 0.5}
    assert merge_recipe.poolers == "merge"


MISTAKES = [
    (["base", "cola", "--set", "epsilon"], "KEY=VALUE"),
    (["base", "cola", "--set", "=1"], "KEY=VALUE"),
    (["base", "cola", "--set", "epsilon="], "KEY=VALUE"),
    (["base", "cola", "--set", "a.=1"], "KEY=VALUE"),
    (["base", "cola", "--set", "epsilon=[1"], "epsilon"),
    (["base", "cola", "--set", "epsilon=text"], "epsilon"),
    (["base", "cola", "--set", "epsilon=-1"], "epsilon"),
    (["base", "cola", "--set", "epsilom=1"], "epsilon"),
    (["base", "cola", "--set", "heads=none"], "heads"),
    (["base", "cola", "--set", "heads.with=none"], "heads"),
    (["base", "cola", "--set", "seed=1", "--set", "seed.x=1"], "seed"),
    (["base", "cola", "--set", "after.spectrum=-1"], "after.spectrum"),
    (["base", "cola", "--set", "normalize=true"], "no parameter"),
    (["base", "cola", "--set", "models=x"], "models"),
    (["base", "cola", "--set", "merge_method=x"], "merge_method"),
    (["base", "cola", "--method", "tie"], "ties"),
    (["base", "cola", "--method", "ace:own"], "automatic"),
    (["base", "nowhere"], "nowhere"),
    (["org/base", "cola"], "hf download org/base"),
    (["https://example.org/base", "cola"], "network"),
    (["base", "recipe.yaml"], "recipe"),
]
WRONG_USAGE = [
    ("merge", [], "argument"),
    ("merge", ["base", "--method", "ties"], "--method"),
    ("merge", ["base", "--set", "seed=1"], "--set"),
    ("merge", ["base", "cola", "--set"], "--set"),
    ("init", [], "argument"),
    ("init", ["base"], "expert"),
    ("init", ["base", "cola", "--method"], "--method"),
]


@pytest.mark.parametrize(
    ("command", "arguments", "status", "words"),
    [
        *((command, line, 1, words) for command in ("merge", "init") for line, words in MISTAKES),
        ("merge", ["base", "base"], 1, "same model"),
        ("merge", ["base"], 1, "base"),
        *((command, line, 2, words) for command, line, words in WRONG_USAGE),
    ],
)
def test_a_mistake_ends_in_one_sentence(
    command: str,
    arguments: list[str],
    status: int,
    words: str,
    models: list[str],
    tmp_path,
    monkeypatch,
):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "no-cache"))
    more = ["--out", "out"] if command == "merge" else []
    ended = ace(command, *more, *arguments)
    assert ended.returncode == status
    assert not ended.stdout
    lines = ended.stderr.splitlines()
    assert sum(line.startswith("Error: ") for line in lines) == 1
    assert words.lower() in lines[-1].lower()
    assert not (tmp_path / "out").exists()


def test_init_says_what_else_to_compare_for_adapters_alone(models: list[str]):
    adapters = []
    for name in ("first", "second"):
        tensors = factors("layers.0.mlp.up_proj", 12, 8)
        adapters.append(str(save_adapter(Path(name), tensors)))
    base, *experts = models

    def note(*experts: str, method: str | None = None) -> bool:
        return "--shelf" in init_recipe([base, *experts], method)

    assert note(*adapters)
    assert not note(*experts)
    assert not note(adapters[0], experts[0])
    assert not note(*adapters, method="tsv_m")
