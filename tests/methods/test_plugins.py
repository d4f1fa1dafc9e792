"""Methods from outside: of a file of one's own, of a package, and what is wrong with others."""

import json
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from ace_gui.engine.capabilities import method_info
from ace_gui.errors import MethodError
from ace_gui.methods import METHODS, Merged, families, plugins
from ace_gui.methods.registry import register_method
from tests.helpers.command import ace_gui
from tests.helpers.registry import own_registry

EXAMPLE = Path(__file__).parents[1] / "helpers" / "own_method.py"
"""Not imported here: that would register its method for every test."""


@pytest.fixture(autouse=True)
def registered_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is gone after it."""
    with own_registry():
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a person's own methods."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(plugins, "methods_folder", lambda: tmp_path / "methods")
    (tmp_path / "methods").mkdir()
    return tmp_path / "methods"


def test_the_example_is_short() -> None:
    lines = EXAMPLE.read_text().splitlines()
    assert len(lines) <= 35


def test_a_file_of_ones_own_is_found(folder: Path) -> None:
    shutil.copy(EXAMPLE, folder / "median.py")
    assert plugins.load_plugins() == ()
    assert METHODS["median"].title == "Median"
    assert [method.name for method in families()["Your own"]] == ["median"]
    info = method_info("median")
    assert [field.name for field in info.fields] == ["scaling"]
    assert info.family == "Your own"


def models(folder: Path) -> Path:
    torch.manual_seed(0)
    for name in ("base", "a", "b", "c"):
        (folder / name).mkdir()
        save_file({"layer.weight": torch.randn(4, 6)}, folder / name / "model.safetensors")
    recipe = {
        "merge_method": "median",
        "base_model": "base",
        "models": [{"model": name} for name in "abc"],
        "parameters": {"scaling": 0.5},
        "schema": 1,
    }
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe))
    return file


def test_it_merges_is_listed_compared_and_reported_by_the_command_line(tmp_path: Path) -> None:
    own = tmp_path / "config" / "ace-workbench" / "methods"
    own.mkdir(parents=True)
    shutil.copy(EXAMPLE, own / "median.py")
    recipe, place = models(tmp_path), {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    out = tmp_path / "out"
    found = ace_gui("merge", recipe, "--out", out, **place)
    assert found.returncode == 0, found.stderr
    read = {
        name: load_file(tmp_path / name / "model.safetensors")["layer.weight"]
        for name in ("base", "a", "b", "c")
    }
    deltas = torch.stack([read[name] - read["base"] for name in "abc"])
    expected = read["base"] + 0.5 * deltas.median(dim=0).values
    merged = load_file(out / "model.safetensors")["layer.weight"]
    torch.testing.assert_close(merged, expected)
    assert "median" in ace_gui("methods", **place).stdout
    assert "Factor on the median" in ace_gui("methods", "median", **place).stdout
    table = tmp_path / "table.json"
    found = ace_gui("compare", recipe, "--methods", "median,linear", "--json", table, **place)
    assert found.returncode == 0, found.stderr
    assert "median" in json.dumps(json.loads(table.read_text()))
    found = ace_gui("report", recipe, "--out", tmp_path / "report.html", **place)
    assert found.returncode == 0, found.stderr
    assert "Median" in (tmp_path / "report.html").read_text()


def test_an_installed_package_offers_one(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    point = EntryPoint(name="median", value="tests.helpers.own_method", group="ace_gui.methods")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point])
    monkeypatch.delitem(sys.modules, "tests.helpers.own_method", raising=False)
    assert plugins.load_plugins() == ()
    assert "median" in METHODS
    sys.modules.pop("tests.helpers.own_method")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise RuntimeError('broken')", "RuntimeError: broken"),
        ("import no_such_module", "no_such_module"),
        ("this is no Python", "SyntaxError"),
    ],
)
def test_a_broken_plugin_is_said_and_does_no_harm(folder: Path, text: str, said: str) -> None:
    (folder / "bad.py").write_text(text)
    (problem,) = plugins.load_plugins()
    assert said in problem
    assert "bad.py" in problem


def median(deltas, weights, parameters, **_: object) -> Merged:
    raise AssertionError("never merged by")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "ace"}, "already"),
        ({"name": "Two words"}, "cannot name"),
        ({"name": ""}, "cannot name"),
        ({"name": "x", "parameters": int}, "frozen dataclass"),
    ],
)
def test_what_cannot_be_registered_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(MethodError, match=said):
        register_method(title="T", summary="S", **options)(median)
