"""The local Hugging Face cache, offered by name, without the network."""

import os
import shutil
import socket
from pathlib import Path

import pytest

from ace_gui.checkpoints import open_checkpoint
from ace_gui.checkpoints.hub_cache import cached_models
from tests.helpers.checkpoints import save_model, small_tensors

COMMITS = ("a" * 40, "b" * 40)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(socket, "socket", None)
    return tmp_path / "hub"


def cache_model(cache: Path, repo: str, commit: str, ref: str = "", weights: bool = True) -> Path:
    """A revision as huggingface_hub lays it out: links from a snapshot into the blobs."""
    home = cache / repo
    snapshot = home / "snapshots" / commit
    for folder in (home / "blobs", home / "refs", snapshot):
        folder.mkdir(parents=True, exist_ok=True)
    save_model(cache.with_name("plain"), small_tensors())
    for file in cache.with_name("plain").iterdir():
        if weights or file.suffix == ".json":
            blob = home / "blobs" / f"{commit[:4]}{file.name}"
            shutil.copy(file, blob)
            (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))
    if ref:
        (home / "refs" / ref).write_text(commit)
    return snapshot


def test_models_are_listed_by_name_and_can_be_opened(cache: Path):
    snapshot = cache_model(cache, "models--org--expert", COMMITS[0], "main")
    cache_model(cache, "models--gpt2", COMMITS[1])
    cache_model(cache, "models--org--tokenizer-only", COMMITS[0], "main", weights=False)
    cache_model(cache, "datasets--org--data", COMMITS[0], "main")
    first, second = cached_models(cache)
    assert (first.name, first.revision) == ("gpt2", "b" * 8)
    assert (second.name, second.revision, second.folder) == ("org/expert", "main", snapshot)
    assert second.bytes == sum(file.stat().st_size for file in snapshot.iterdir())
    assert set(open_checkpoint(second.folder).tensors) == set(small_tensors())


def test_a_pipeline_is_listed_though_its_weights_lie_in_its_parts(cache: Path):
    snapshot = cache / "models--org--sd/snapshots" / COMMITS[0]
    save_model(snapshot / "unet", small_tensors())
    (snapshot / "model_index.json").write_text('{"unet": ["diffusers", "UNet2DModel"]}')
    assert [model.name for model in cached_models(cache)] == ["org/sd"]
    assert set(open_checkpoint(snapshot).parts) == {"unet"}


def test_revisions_newest_first(cache: Path):
    old = cache_model(cache, "models--org--m", COMMITS[0], "v1")
    cache_model(cache, "models--org--m", COMMITS[1], "main")
    for file in old.iterdir():
        os.utime(file, (1, 1))
    assert [model.revision for model in cached_models(cache)] == ["main", "v1"]


def test_missing_and_corrupt_caches(cache: Path):
    assert cached_models(cache) == ()
    cache.write_text("not a folder")
    assert cached_models(cache) == ()
    cache.unlink()
    cache_model(cache, "models--org--good", COMMITS[0], "main")
    (cache / "models--org--no-snapshots").mkdir()
    (cache / "nonsense").mkdir()
    broken = cache_model(cache, "models--org--broken", COMMITS[1], "main")
    shutil.rmtree(broken.parent.parent / "blobs")
    assert [model.name for model in cached_models(cache)] == ["org/good"]
    (cache / "models--org--good" / "refs" / "main").write_bytes(b"\xff\xfe")
    assert cached_models(cache) == ()
