"""The Hugging Face cache as the engine tells of it, without the network."""

import pickle
import socket
from pathlib import Path

import pytest
from huggingface_hub import constants

from ace_gui.engine.contract.events import CachedModelsFound
from ace_gui.engine.contract.jobs import CachedModelsJob
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.service.runner import Runner
from ace_gui.recipe import ModelEntry, Recipe
from tests.helpers.checkpoints import save_model, small_tensors


def test_what_is_found_can_be_merged_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socket", None)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    for number, name in enumerate(("models--org--base", "models--org--expert")):
        commit = str(number) * 40
        save_model(tmp_path / name / "snapshots" / commit, small_tensors())
        (tmp_path / name / "refs").mkdir()
        (tmp_path / name / "refs" / "main").write_text(commit)
    (found,) = CachedModelsJob().steps(Runner())
    assert isinstance(found, CachedModelsFound)
    assert found.folder == tmp_path
    assert pickle.loads(pickle.dumps(found)) == found
    base, expert = found.models
    assert (base.name, expert.name) == ("org/base", "org/expert")
    entries = (ModelEntry(model=expert.folder),)
    plan = prepare(Recipe(base_model=base.folder, models=entries)).plan
    assert (plan.base.name, plan.experts[0].name) == ("base", "expert")
