"""Methods from outside: of a file of one's own, of a package, and what is wrong with others."""

import json
import math
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import ace_gui as workbench
from ace_gui.engine.capabilities import method_info
from ace_gui.engine.inspecting.layer_context import InspectionCache, InspectionContext
from ace_gui.engine.merging.merge_manifest import make_manifest
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import MethodError
from ace_gui.methods import METHODS, Diagnostics, Merged, families, plugins
from ace_gui.methods.method import Kind
from ace_gui.methods.registry import register_method
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.command import ace_gui, ace_gui_process
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


def test_it_merges_is_listed_compared_and_reported_by_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods_folder = tmp_path / "config" / "ace-workbench" / "methods"
    methods_folder.mkdir(parents=True)
    shutil.copy(EXAMPLE, methods_folder / "median.py")
    recipe = models(tmp_path)
    home = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    out = tmp_path / "out"
    process = ace_gui_process("merge", recipe, "--out", out, **home)
    assert process.returncode == 0, process.stderr
    read = {
        name: load_file(tmp_path / name / "model.safetensors")["layer.weight"]
        for name in ("base", "a", "b", "c")
    }
    deltas = torch.stack([read[name] - read["base"] for name in "abc"])
    expected = read["base"] + 0.5 * deltas.median(dim=0).values
    merged = load_file(out / "model.safetensors")["layer.weight"]
    torch.testing.assert_close(merged, expected)
    assert "median" in ace_gui_process("methods", "--all", **home).stdout
    monkeypatch.setenv("XDG_CONFIG_HOME", home["XDG_CONFIG_HOME"])
    with own_registry():
        assert plugins.load_plugins() == ()
        assert "Factor on the median" in ace_gui("methods", "median").stdout
        table = tmp_path / "table.json"
        page = tmp_path / "report.html"
        for words in (
            ("compare", recipe, "--methods", "median,linear", "--json", table),
            ("report", recipe, "--out", page),
        ):
            process = ace_gui(*words)
            assert process.returncode == 0, process.stderr
    assert "median" in json.dumps(json.loads(table.read_text()))
    assert "Median" in page.read_text()


def test_what_was_made_by_another_source_of_a_method_is_not_used_again(
    folder: Path, tmp_path: Path
) -> None:
    file = folder / "median.py"
    recipe = models(tmp_path)
    cpu = torch.device("cpu")

    def results(source: str) -> tuple[Any, str]:
        file.write_text(source)
        with own_registry():
            assert plugins.load_plugins() == ()
            prepared = prepare(load_recipe(recipe))
            file.write_text("written after it was read")
            manifest = make_manifest(prepared, cpu, None, as_output=True)
            cache = InspectionCache(tmp_path / "cache")
            context = InspectionContext(prepared, prepared.plan.rows[0], cpu, cache)
            return manifest, context.merge_key("merge")

    source = EXAMPLE.read_text()
    first, key = results(source)
    again, same_key = results(source)
    assert (first.differences(again), key) == ([], same_key)
    edited, other_key = results(source.replace("parameters.scaling *", "2 *"))
    assert first.differences(edited) == ["the method median (changed since)"]
    assert key != other_key


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
        ("import sys; sys.exit(0)", "SystemExit"),
        ("while True: pass", "TimeoutError"),
        ("import time; time.sleep(60)", "TimeoutError"),
        ("this is no Python", "SyntaxError"),
    ],
)
def test_a_broken_plugin_is_said_and_does_no_harm(
    folder: Path, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "PATIENCE", 0.2)
    (folder / "bad.py").write_text(text)
    (problem,) = plugins.load_plugins()
    assert said in problem
    assert "bad.py" in problem


@pytest.mark.parametrize("text", ["while True: pass", "while True: [x for x in range(9)]"])
@pytest.mark.parametrize("alarm", [True, False])
def test_an_endless_plugin_is_stopped_in_any_thread_and_without_an_alarm(
    folder: Path, text: str, alarm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "PATIENCE", 0.2)
    if not alarm:
        monkeypatch.delattr(signal, "SIGALRM")
    (folder / "bad.py").write_text(text)
    with ThreadPoolExecutor(1) as pool:
        (problem,) = pool.submit(plugins.load_plugins).result(20)
        assert "TimeoutError" in problem
        assert pool.submit(sum, range(99)).result(20) == 4851  # the thread goes on
    if not alarm:
        (problem,) = plugins.load_plugins()
        assert "TimeoutError" in problem


def median(deltas, weights, parameters, **_: object) -> Merged:
    """What stands at its place in a list: never merged by, but for what is returned."""
    return Merged(delta=torch.stack(list(deltas)).median(dim=0).values)


RETURNED: dict[str, tuple[Callable[[torch.Tensor], object], str]] = {
    "nothing": (lambda _: None, "NoneType"),
    "a bare tensor": (lambda d: d, "Merged"),
    "a dictionary": (lambda d: {"delta": d}, "dict"),
    "a number": (lambda _: Merged(delta=1.0), "float"),  # type: ignore[arg-type]
    "an array": (lambda d: Merged(delta=d.numpy()), "ndarray"),  # type: ignore[arg-type]
    "one row": (lambda d: Merged(delta=d[:1]), "shape"),
    "a scalar": (lambda d: Merged(delta=d.sum()), "shape"),
    "one more dimension": (lambda d: Merged(delta=d[None]), "shape"),
    "another order": (lambda d: Merged(delta=d[..., None].mT), "shape"),
    "no entries": (lambda d: Merged(delta=d[:0]), "shape"),
    "half": (lambda d: Merged(delta=d.half()), "float16"),
    "bfloat16": (lambda d: Merged(delta=d.bfloat16()), "bfloat16"),
    "integers": (lambda d: Merged(delta=d.long()), "int64"),
    "bool": (lambda d: Merged(delta=d > 0), "bool"),
    "complex": (lambda d: Merged(delta=d.cfloat()), "complex64"),
    "sparse": (lambda d: Merged(delta=d.to_sparse()), "dense"),
    "meta": (lambda d: Merged(delta=d.to("meta")), "meta"),
    "NaN": (lambda d: Merged(delta=d * math.nan), "range"),
    "Inf": (lambda d: Merged(delta=d / 0), "range"),
    "beyond float32": (lambda d: Merged(delta=d.double() * 1e60), "range"),
    "a short preliminary": (lambda d: Merged(delta=d, preliminary=d[:1]), "preliminary"),
    "no diagnostics": (lambda d: Merged(delta=d, diagnostics={}), "diagnostics"),  # type: ignore[arg-type]
    "no vote": (lambda d: Merged(delta=d, vote=1), "vote"),  # type: ignore[arg-type]
    "energies of others": (lambda d: reported(d, energies=(1.0,)), "energies"),
    "energies that are NaN": (lambda d: reported(d, energies=(math.nan,) * 3), "energies"),
    "traces of others": (lambda d: reported(d, traces=(1.0,) * 4), "traces"),
    "an expert left out who is not": (lambda d: reported(d, left_out=(3,)), "left_out"),
    "notes that are one text": (lambda d: reported(d, notes="Note."), "notes"),
    "a gamma that is a tensor": (lambda d: reported(d, gamma=d.sum()), "gamma"),
    "another signature": (lambda _: median(1), "TypeError"),  # type: ignore[call-arg, arg-type]
    "another argument": (lambda d: Merged(detla=d), "detla"),  # type: ignore[call-arg]
    "a missing attribute": (lambda d: d.no_such, "no_such"),
    "wrong shapes": (lambda d: d.reshape(7, 999), "RuntimeError"),
    "an index beyond": (lambda _: (0,)[3], "IndexError"),
    "a failed assertion": (lambda _: assert_false(), "AssertionError"),
    "the end of the program": (lambda _: sys.exit(0), "SystemExit"),
}


def reported(delta: torch.Tensor, **figures: Any) -> Merged:
    return Merged(delta=delta, diagnostics=Diagnostics(**figures))


def assert_false() -> None:
    raise AssertionError


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("what", RETURNED)
def test_what_a_method_returns_is_checked(what: str, kind: Kind, tmp_path: Path) -> None:
    make, said = RETURNED[what]

    @register_method(name="own", title="T", summary="S", kind=kind)
    def user_method(deltas, weights, parameters, **_: object) -> Any:
        return make(deltas[0].clone())

    with pytest.raises(MethodError, match=said) as caught:
        workbench.merge(by_own_method(tmp_path), tmp_path / "out", device="cpu")
    assert caught.value.tensor == "layer.weight"
    assert "`layer.weight`" in caught.value.sentence
    if said != "range":
        assert "`own`" in caught.value.sentence
        assert "test_plugins.py" in caught.value.sentence
    assert not (tmp_path / "out").exists()


def by_own_method(folder: Path) -> dict[str, object]:
    models(folder)
    experts = [{"model": str(folder / name)} for name in "abc"]
    return {"schema": 1, "merge_method": "own", "base_model": f"{folder}/base", "models": experts}


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize(
    "make",
    [torch.Tensor.double, lambda d: d.requires_grad_(), torch.Tensor.contiguous],
    ids=["float64", "with a gradient", "as it is"],
)
def test_what_a_method_may_return(
    make: Callable[[torch.Tensor], torch.Tensor], kind: Kind, tmp_path: Path
) -> None:
    @register_method(name="own", title="T", summary="S", kind=kind)
    def user_method(deltas, weights, parameters, **_: object) -> Merged:
        return Merged(delta=make(deltas[0].clone()))

    workbench.merge(by_own_method(tmp_path), tmp_path / "out", device="cpu")
    merged = load_file(tmp_path / "out" / "model.safetensors")["layer.weight"]
    expert = load_file(tmp_path / "a" / "model.safetensors")["layer.weight"]
    torch.testing.assert_close(merged, expert)


def test_a_cell_run_twice_replaces_its_method() -> None:
    for title in ("First", "Second"):
        register_method(name="own", title=title, summary="S", family=title, replace=True)(median)
    assert METHODS["own"].title == "Second"
    offered = [method.title for methods in families().values() for method in methods]
    assert offered.count("Second") == 1
    assert "First" not in offered
    with pytest.raises(MethodError, match="replace=True"):
        register_method(name="own", title="T", summary="S")(median)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "ace"}, "already"),
        ({"name": "ace", "replace": True}, "already"),
        ({"name": 3}, "cannot name"),
        ({"name": "x", "kind": "rows"}, "entry, row, tensor, matrix"),
        ({"name": "x", "kind": None}, "known"),
        ({"name": "x", "least": "two"}, "least"),
        ({"name": "x", "seeded": "yes"}, "seeded"),
        ({"name": "x", "formula": 3}, "formula"),
        ({"name": "x", "seedd": True}, "seedd"),
        ({"name": "Two words"}, "cannot name"),
        ({"name": ""}, "cannot name"),
        ({"name": "x", "parameters": int}, "frozen dataclass"),
    ],
)
def test_what_cannot_be_registered_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(MethodError, match=said):
        register_method(title="T", summary="S", **options)(median)


@pytest.mark.parametrize(
    "function",
    [
        lambda: None,
        lambda deltas: None,
        lambda deltas, weights, parameters: None,
        lambda deltas, weights, parameters, extra, **context: None,
        lambda deltas, weights, parameters, *, random_key: None,
        lambda *, deltas, weights, parameters, **context: None,
        3,
    ],
)
def test_another_signature_is_refused_at_once(function: Any) -> None:
    with pytest.raises(MethodError, match=r"`x`.*context"):
        register_method(name="x", title="T", summary="S")(function)
    assert "x" not in METHODS
