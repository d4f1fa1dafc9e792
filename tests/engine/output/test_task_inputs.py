"""A merged folder may say anything: ``task`` believes no field of it before it was checked."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

import ace_gui
from ace_gui.checkpoints.input_files import file_digest
from ace_gui.engine.modules.stored import EXPERTS, LAYOUT, MANIFEST, MODULES
from ace_gui.engine.modules.task_tensors import open_task
from ace_gui.engine.output.models_of_experts import write_task_model
from ace_gui.errors import CheckpointError, WorkbenchError
from tests.helpers.merges import merged_folder
from tests.helpers.models import Family, gpt2_family
from tests.helpers.recipes import recipe_of


@pytest.fixture(scope="module")
def family(tmp_path_factory) -> Family:
    return gpt2_family(tmp_path_factory.mktemp("gpt2"), experts=2)


@pytest.fixture(scope="module", params=["emr", "tsv_c", "byom", "smile"])
def merged_model(request, family: Family, tmp_path_factory) -> Path:
    recipe = recipe_of(family, merge_method=request.param)
    return merged_folder(recipe, tmp_path_factory.mktemp("merged") / request.param)


@pytest.fixture
def folder(merged_model: Path, family: Family, tmp_path) -> Path:
    """A copy of a merged folder whose recipe has whole paths."""
    copy = Path(shutil.copytree(merged_model, tmp_path / "merged"))
    models = [{"model": str(path)} for path in family.experts.values()]
    recipe = {"merge_method": merged_model.name, "base_model": str(family.base), "models": models}
    (copy / "merge_recipe.yaml").write_text(yaml.safe_dump({**recipe, "schema": 1}))
    return copy


Tensors = dict[str, Tensor]
Layout = dict[str, dict[str, Any]]


def change(folder: Path, how: Callable[[Tensors, Layout], object]) -> None:
    """Rewrite the modules with other tensors and places, and without the experts' names."""
    file = folder / MODULES
    tensors = load_file(file)
    with safe_open(file, "pt") as opened:
        metadata = opened.metadata()
    layout = json.loads(metadata[LAYOUT])
    how(tensors, layout)
    save_file(tensors, file, {LAYOUT: json.dumps(layout), EXPERTS: metadata[EXPERTS]})
    say(folder, hashes={MODULES: file_digest(file)})


def say(folder: Path, **fields: object) -> None:
    """Change what modules.json says."""
    file = folder / MANIFEST
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def complaint(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        dict(open_task(folder, "task0").tensors())
    return caught.value.sentence


def refusal(folder: Path, how: Callable[[Tensors, Layout], object]) -> str:
    """What is said of modules that are changed so; they are sound again afterwards."""
    sound = (folder / MODULES).read_bytes()
    change(folder, how)
    sentence = complaint(folder)
    (folder / MODULES).write_bytes(sound)
    return sentence


def test_every_tensor_is_needed(folder: Path):
    names = list(load_file(folder / MODULES))
    for name in names[:: max(1, len(names) // 12)]:
        assert "lacks `" in refusal(folder, lambda tensors, _, name=name: tensors.pop(name))

    def drop(tensors: Tensors, layout: Layout) -> None:
        for name in [name for name in tensors if name.startswith(f"task0/{next(iter(layout))}/")]:
            del tensors[name]

    assert "lacks `task0/" in refusal(folder, drop)
    more = {"task0/x/mask": torch.zeros(1)}
    assert "belongs to nothing" in refusal(folder, lambda tensors, _: tensors.update(more))


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "shorter": lambda tensor: tensor[:-1].clone() if tensor.shape[0] > 1 else torch.zeros(0),
    "longer": lambda tensor: torch.cat([tensor, tensor]),
    "other rank": lambda tensor: tensor[None].clone(),
    "float16": lambda tensor: tensor.to(torch.float16),
    "int64": lambda tensor: tensor.to(torch.int64),
    "scalar": lambda tensor: tensor.reshape(-1)[0].clone(),
}


@pytest.mark.parametrize("how", CHANGES)
def test_shapes_and_number_formats(folder: Path, how: str):
    tensors = load_file(folder / MODULES)
    row = next(iter(tensors)).rsplit("/", 1)[0]
    for name in [name for name in tensors if name.startswith(f"{row}/")]:
        changed = {name: CHANGES[how](tensors[name])}
        sentence = refusal(folder, lambda tensors, _, changed=changed: tensors.update(changed))
        assert "in another shape or number format" in sentence


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_values(folder: Path, bad: float):
    def spoil(tensors: Tensors, _: Layout) -> None:
        for name, tensor in tensors.items():
            if name.endswith(("/scale", "/s", "/values", "/right")):
                tensors[name] = torch.full_like(tensor, bad)

    refusal(folder, spoil)


FIELDS = {
    "tensor": ["no.such.tensor", "", 7, None],
    "tensor_shape": [[1, 1], [2**62, 2**62], [-1, 2], [], "ab"],
    "start": [-1, 1, 2**70, "0", 0.5, None],
    "stop": [0, -1, 2**70, 10**9],
    "period": [0, -1, 7, 2**70],
    "first": [-1, 10**9, 2**70],
    "last": [0, -1, 10**9],
}


@pytest.mark.parametrize("field", FIELDS)
def test_places(folder: Path, field: str):
    for value in FIELDS[field]:
        refusal(folder, lambda _, at, value=value: next(iter(at.values())).update({field: value}))


def test_metadata(folder: Path):
    tensors = load_file(folder / MODULES)
    for metadata in ({}, {LAYOUT: "[" * 100_000}, {LAYOUT: "{}"}, {LAYOUT: "{}", EXPERTS: "{}"}):
        save_file(tensors, folder / MODULES, metadata)
        with pytest.raises(WorkbenchError):
            dict(open_task(folder, "task0").tensors())


@pytest.mark.parametrize("merged_model", ["byom"], indirect=True)
def test_entries_that_are_not_in_the_tensor(folder: Path):
    index = {n: t for n, t in load_file(folder / MODULES).items() if n.endswith("/index")}
    name, index = next(iter(index.items()))
    falling = index.flip(0)
    negative = index - index[0] - 1
    beyond = index + 2**30
    for entries in (falling, negative, beyond, torch.zeros_like(index)):
        sentence = refusal(
            folder, lambda tensors, _, entries=entries: tensors.update({name: entries})
        )
        assert "not in the tensor" in sentence


MANIFESTS: dict[str, dict[str, object]] = {
    "newer": {"schema": 2},
    "no number": {"schema": "1"},
    "true": {"schema": True},
    "unknown kind": {"kind": "router"},
    "kind of another type": {"kind": 3},
    "unknown field": {"code": "run me"},
    "experts twice": {"experts": ["task0", "task0"]},
    "nameless": {"experts": ["task0", "task1", ""]},
    "other experts": {"experts": ["task0"]},
    "experts no list": {"experts": "task0"},
    "settings nested": {"settings": {"a": {"b": []}}},
    "no hashes": {"hashes": {}},
    "other hash": {"hashes": {MODULES: "0" * 64}},
    "hash of what is outside": {"hashes": {MODULES: "0", "../base/config.json": "0"}},
    "hash of nothing": {"hashes": {MODULES: "0", "gone.safetensors": "0"}},
}


@pytest.mark.parametrize("has_names", [True, False])
@pytest.mark.parametrize("how", ["one more", "one less", "first less", "renamed", "other order"])
def test_experts_of_modules_json_are_those_of_the_modules(folder: Path, how: str, has_names: bool):
    """``has_names``: with the names in the modules' own metadata, which are not in older files."""
    names = json.loads((folder / MANIFEST).read_text())["experts"]
    if not has_names:
        change(folder, lambda *_: None)
    said = {
        "one more": [*names, "more"],
        "one less": names[:-1],
        "first less": names[1:],
        "renamed": [*names[:-1], "another"],
        "other order": names[::-1],
    }[how]
    say(folder, experts=said)
    if has_names or how in {"one less", "first less", "renamed"}:
        assert "different experts" in complaint(folder)
        with pytest.raises(CheckpointError, match="different experts"):
            ace_gui.load_model(folder, task="task0")
    else:
        assert dict(open_task(folder, "task0").tensors())


SETTINGS: dict[str, dict[str, object]] = {
    "unknown method": {"kind": "smile", "method": "other"},
    "method without a gate": {"kind": "smile", "method": "linear", "settings": {}},
    "unknown setting": {"kind": "smile", "method": "smile", "settings": {"gate": 3}},
    "out of range": {"kind": "smile", "method": "smile", "settings": {"top": 0}},
    "of another type": {"kind": "smile", "method": "smile", "settings": {"top": "all"}},
    "kind with a router": {"kind": "mixture"},
    "kind with corrections": {"kind": "surgery"},
}


@pytest.mark.parametrize("how", [*MANIFESTS, *SETTINGS])
def test_what_modules_json_says(folder: Path, how: str):
    say(folder, **(MANIFESTS | SETTINGS)[how])
    if how in MANIFESTS:
        complaint(folder)
    with pytest.raises(CheckpointError):
        ace_gui.load_model(folder, task="task0")


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "{}", '{"schema": 1}', "\x00"])
def test_a_modules_json_that_is_none(folder: Path, text: str):
    (folder / MANIFEST).write_text(text)
    complaint(folder)


def test_weights_that_the_modules_do_not_belong_to(folder: Path):
    tensors = load_file(folder / "model.safetensors")
    save_file({name: tensor + 1 for name, tensor in tensors.items()}, folder / "model.safetensors")
    assert "is not the file" in complaint(folder)


SECRET = {"auths": {"registry": {"auth": "secret"}}}


KINDS = ["config of something else", "link", "head folder", "model of another kind"]


@pytest.mark.parametrize("kind", KINDS)
def test_only_side_files_of_the_model_are_copied(folder: Path, tmp_path, kind: str):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "config.json").write_text(json.dumps(SECRET))
    if kind == "head folder":
        shutil.copytree(elsewhere, folder / "heads" / "task0")
    elif kind == "link":
        (folder / "vocab.json").symlink_to(elsewhere / "config.json")
    else:
        if kind == "model of another kind":
            shutil.copy(folder / "model.safetensors", elsewhere)
        recipe = yaml.safe_load((folder / "merge_recipe.yaml").read_text())
        recipe["models"][0] = {"model": str(elsewhere), "name": "task0"}
        (folder / "merge_recipe.yaml").write_text(yaml.safe_dump(recipe))
    out = write_task_model(folder, "task0", tmp_path / "out")
    assert not [path for path in out.rglob("*.json") if "secret" in path.read_text()]
    assert json.loads((out / "config.json").read_text())["model_type"] == "gpt2"
