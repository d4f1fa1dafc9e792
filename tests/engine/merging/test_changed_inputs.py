"""Inputs that change with their old size and time: a merge is that of one content, or refused."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ace_gui.engine.contract.events import TensorFinished
from ace_gui.engine.merging.journal import JOURNAL
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL, SURVEY
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import FileChangedError, ResumeError
from ace_gui.recipe import Recipe
from tests.helpers.adapters import factors, save_adapter
from tests.helpers.checkpoints import save_model
from tests.helpers.merges import stopped_merge
from tests.helpers.recipes import recipe_over

NAMES = [f"layers.{n}.{kind}" for n in range(3) for kind in ("mlp.weight", "mlp.bias")]


@pytest.fixture
def recipe(tmp_path) -> Recipe:
    generator = torch.Generator().manual_seed(0)
    shapes = {name: (8, 8) if name.endswith("weight") else (8,) for name in NAMES}
    base = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    paths = [save_model(tmp_path / "base", base)]
    for expert in ("one", "two"):
        tuned = {n: t + 0.1 * torch.randn(t.shape, generator=generator) for n, t in base.items()}
        paths.append(save_model(tmp_path / expert, tuned))
    module = "layers.0.mlp"
    paths.append(save_adapter(tmp_path / "lora", factors(module, 8, 8)))
    return recipe_over(paths[0], paths[1:])


def unseen(file: Path, change: Callable[[Path], None]) -> None:
    """Change a file in place, and put back its times; size and inode stay anyway."""
    before = file.stat()
    change(file)
    assert file.stat().st_size == before.st_size
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def retuned(file: Path) -> None:
    """Every weight is another."""
    tensors = {name: 2 * tensor for name, tensor in load_file(file).items()}
    content = file.with_suffix(".other")
    save_file(tensors, content, metadata={"format": "pt"})
    file.write_bytes(content.read_bytes())
    content.unlink()


def renamed(file: Path) -> None:
    """Two tensors have each other's names."""
    content = file.read_bytes()
    first, second, apart = (f"layers.{n}.mlp.weight".encode() for n in (0, 1, 7))
    for old, new in ((first, apart), (second, first), (apart, second)):
        content = content.replace(old, new)
    file.write_bytes(content)


def content(store: Path) -> dict[str, bytes]:
    tensors = load_file(store / MODEL / "model.safetensors")
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


def merged_content(recipe: Recipe, store: Path) -> dict[str, bytes]:
    list(merge(prepare(recipe), store))
    return content(store)


def flipped(file: Path) -> None:
    """One bit of the file's first tensor is another."""
    with file.open("rb") as stream:
        start = 8 + int.from_bytes(stream.read(8), "little")
    content = bytearray(file.read_bytes())
    content[start] ^= 1
    file.write_bytes(content)


WEIGHTS = ("base/model.safetensors", "two/model.safetensors", "lora/adapter_model.safetensors")


@pytest.mark.parametrize("method", ["ace", "linear", "pcb"])
@pytest.mark.parametrize("file", WEIGHTS)
@pytest.mark.parametrize("change", [retuned, flipped], ids=lambda change: change.__name__)
def test_a_merge_is_not_resumed_over_another_content(
    change: Callable[[Path], None], file: str, method: str, recipe: Recipe, tmp_path
):
    recipe = recipe_over(recipe.base_model, [e.model for e in recipe.models], merge_method=method)
    store = tmp_path / "store"
    stopped_merge(prepare(recipe), store, 5)
    unseen(tmp_path / file, change)
    with pytest.raises(ResumeError, match="has another content than when it began") as caught:
        list(merge(prepare(recipe), store, resume=True))
    assert str(tmp_path / file) in caught.value.sentence
    merged_content(recipe, store)  # anew, it goes on


@pytest.mark.parametrize("done", range(8))
def test_wherever_it_was_stopped_it_is_one_content_or_refused(done: int, recipe: Recipe, tmp_path):
    store = tmp_path / "store"
    file = tmp_path / "two" / "model.safetensors"
    stopped_merge(prepare(recipe), store, done)
    unseen(file, flipped)
    expected = merged_content(recipe, tmp_path / "anew")
    try:
        list(merge(prepare(recipe), store, resume=True))
    except ResumeError:
        return
    assert content(store) == expected


def rescaled(file: Path) -> None:
    """An adapter's change is larger."""
    text = file.read_text()
    file.write_text(text.replace('"lora_alpha": 8', '"lora_alpha": 9'))
    assert file.read_text() != text


@pytest.mark.parametrize(
    ("file", "change"), [("two/model.safetensors", renamed), ("lora/adapter_config.json", rescaled)]
)
def test_headers_and_configs_are_content(
    file: str, change: Callable[[Path], None], recipe: Recipe, tmp_path
):
    store = tmp_path / "store"
    stopped_merge(prepare(recipe), store, 3)
    unseen(tmp_path / file, change)
    with pytest.raises(ResumeError, match="headers differs"):
        list(merge(prepare(recipe), store, resume=True))


def test_the_same_content_in_another_file_is_resumed(recipe: Recipe, tmp_path):
    """As after ``rsync -t`` to a new disk, or ``cp -p`` back from a backup."""
    expected = merged_content(recipe, tmp_path / "whole")
    store = tmp_path / "store"
    stopped_merge(prepare(recipe), store, 3)
    file = tmp_path / "two" / "model.safetensors"
    shutil.copy2(file, file.with_name("copy"))
    file.with_name("copy").replace(file)
    file.chmod(0o640)
    list(merge(prepare(recipe), store, resume=True))
    assert content(store) == expected
    lines = [json.loads(line) for line in (store / JOURNAL).read_text().splitlines()]
    assert sum("tensor" in line for line in lines) == len(NAMES)


@pytest.mark.parametrize("change", [retuned, flipped], ids=lambda change: change.__name__)
def test_a_change_during_the_merge_is_found_at_its_end(
    change: Callable[[Path], None], recipe: Recipe, tmp_path
):
    events = merge(prepare(recipe), tmp_path / "store")
    for event in events:
        if isinstance(event, TensorFinished) and event.done == 4:
            break
    unseen(tmp_path / "two" / "model.safetensors", change)
    with pytest.raises(FileChangedError):
        list(events)


def test_a_new_link_during_the_merge_is_no_change(recipe: Recipe, tmp_path):
    expected = merged_content(recipe, tmp_path / "whole")
    events = merge(prepare(recipe), tmp_path / "store")
    next(events)
    file = tmp_path / "two" / "model.safetensors"
    os.link(file, file.with_name("backup"))
    list(events)
    assert content(tmp_path / "store") == expected


def test_a_survey_of_unknown_inputs_is_made_again(recipe: Recipe, tmp_path):
    recipe = recipe_over(
        recipe.base_model, [e.model for e in recipe.models], merge_method="tall_masks"
    )
    store = tmp_path / "store"
    expected = merged_content(recipe, tmp_path / "whole")
    stopped_merge(prepare(recipe), store, 1)
    (store / JOURNAL).write_text("")
    if (store / SURVEY).exists():
        (store / SURVEY).write_text((store / SURVEY).read_text().replace("1", "7"))
    list(merge(prepare(recipe), store, resume=True))
    assert content(store) == expected
