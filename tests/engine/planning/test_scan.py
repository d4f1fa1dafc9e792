"""What is found in a folder of models, and which of them seems to be the base."""

import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from ace_gui.engine.contract.events import ModelsFound
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.scan import scan
from ace_gui.recipe import ModelEntry, Recipe
from tests.helpers.checkpoints import save_model, small_tensors
from tests.helpers.models import Family, gpt2_family, roberta_family


@pytest.fixture(scope="module")
def family(tmp_path_factory) -> Family:
    return roberta_family(tmp_path_factory.mktemp("models"), experts=2)


def models_in(*paths: Path, base: Path | None = None) -> ModelsFound:
    *_, last = scan(paths, base)
    assert isinstance(last, ModelsFound)
    return last


def test_the_base_is_found_among_its_experts(family: Family):
    models = models_in(family.base.parent)
    assert {model.path for model in models.models} == {family.base, *family.experts.values()}
    assert models.base is not None
    assert models.models[models.base].path == family.base
    assert models.alike[models.base] == frozenset(range(3))
    assert models.models[models.base].architecture == "RobertaForMaskedLM"
    assert all(model.bytes > 0 and not model.problem for model in models.models)


def test_the_open_model_is_the_base_wherever_it_lies(family: Family, tmp_path):
    copy = tmp_path / "elsewhere" / "mine"
    shutil.copytree(family.base, copy)
    models = models_in(*family.experts.values(), base=copy)
    assert models.base == 0
    assert models.models[0].path == copy
    assert len(models.models) == 3


def test_what_cannot_be_opened_says_why_and_what_differs_does_not_fit(family: Family, tmp_path):
    stranger = gpt2_family(tmp_path / "gpt2", experts=1)
    broken = tmp_path / "gpt2" / "broken"
    broken.mkdir()
    (broken / "model.safetensors").touch()
    models = models_in(family.base, stranger.base, broken)
    assert "0 bytes" in models.models[2].problem
    assert [sorted(alike) for alike in models.alike] == [[0], [1], []]


def test_the_base_is_whom_the_others_name(family: Family, tmp_path):
    for name, source in (("one", family.base), ("two", family.base)):
        shutil.copytree(source, tmp_path / name)
    assert models_in(tmp_path).base is None, "nothing says which it is"
    config = json.loads((tmp_path / "one/config.json").read_text())
    config["_name_or_path"] = "someone/two"
    (tmp_path / "one/config.json").write_text(json.dumps(config))
    models = models_in(tmp_path)
    assert models.base is not None
    assert models.models[models.base].path == tmp_path / "two"


def test_a_folder_without_models_has_none(tmp_path):
    (tmp_path / "notes").mkdir()
    assert models_in(tmp_path).models == ()


def cache_model(cache: Path, repository: str, commit: str, weights: bool = True) -> Path:
    """A revision as huggingface_hub lays it out: links from a snapshot into the blobs."""
    home = cache / repository
    snapshot = home / "snapshots" / commit
    for folder in (home / "blobs", home / "refs", snapshot):
        folder.mkdir(parents=True, exist_ok=True)
    save_model(cache.with_name("plain"), small_tensors())
    for file in cache.with_name("plain").iterdir():
        if weights or file.suffix == ".json":
            blob = home / "blobs" / f"{commit[:4]}{file.stem}"
            shutil.copy(file, blob)
            (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))
    (home / "refs" / "main").write_text(commit)
    return snapshot


def test_the_hugging_face_cache_is_a_folder_of_models(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "socket", None)
    cache = tmp_path / "hub"
    assert models_in(cache).models == ()
    expert = cache_model(cache, "models--org--expert", "a" * 40)
    base = cache_model(cache, "models--org--expert-base", "b" * 40)
    cache_model(cache, "models--org--tokenizer-only", "a" * 40, weights=False)
    (cache / "datasets--org--data" / "snapshots" / ("a" * 40)).mkdir(parents=True)
    (cache / "models--org--no-snapshots").mkdir()
    pipeline = cache / "models--org--sd/snapshots" / ("c" * 40)
    save_model(pipeline / "unet", small_tensors())
    (pipeline / "model_index.json").write_text('{"unet": ["diffusers", "UNet2DModel"]}')
    broken = cache_model(cache, "models--org--broken", "b" * 40)
    shutil.rmtree(broken.parent.parent / "blobs")
    models = models_in(cache)
    listed = {model.path: model for model in models.models}
    model_paths = {path for path, model in listed.items() if not model.problem}
    assert model_paths == {base, expert, pipeline}
    assert listed[expert].bytes > 0
    assert models.base is not None
    assert models.models[models.base].path == base, "its name on the hub says so"
    entries = (ModelEntry(model=expert),)
    plan = prepare(Recipe(base_model=base, models=entries)).plan
    assert (plan.base.name, plan.experts[0].name) == ("expert-base", "expert")
