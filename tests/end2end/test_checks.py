"""The checks as ``inspect`` tells them, on models that do not quite fit each other."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from tests.helpers.models import gpt2_family


def test_inspect_warns_of_what_does_not_fit(tmp_path: Path) -> None:
    family = gpt2_family(tmp_path / "models", experts=2)
    odd, twin = family.experts["task0"], tmp_path / "twin"
    config = json.loads((odd / "config.json").read_text())
    (odd / "config.json").write_text(json.dumps({**config, "layer_norm_epsilon": 0.5}))
    shutil.copytree(family.experts["task1"], twin)
    recipe = tmp_path / "recipe.yaml"
    models = [{"model": str(path)} for path in (odd, family.experts["task1"], twin)]
    recipe.write_text(
        yaml.safe_dump({"merge_method": "ace", "base_model": str(family.base), "models": models})
    )
    command = [sys.executable, "-m", "ace_gui", "inspect", str(recipe)]
    done = subprocess.run(
        [*command, "--json", str(tmp_path / "i.json")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning: Configuration, task0: Its norm epsilon differs" in done.stdout
    assert "Warning: Duplicates, twin: Probably the same weights as task1" in done.stdout
    content = json.loads((tmp_path / "i.json").read_text())
    assert content["layers"]
    found = {(check["title"], check["subject"]): check for check in content["checks"]}
    assert found["Configuration", "task0"]["verdict"] == "warning"
    assert "layer_norm_epsilon" in found["Configuration", "task0"]["details"]
    assert {check["verdict"] for check in content["checks"]} >= {"warning", "note", "ok"}
    assert any(title == "Distance from the base" for title, _ in found)
