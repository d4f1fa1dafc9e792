"""Every example script runs as it is, in an empty folder."""

import runpy
from pathlib import Path

import pytest

import ace_gui
from ace_gui.paths import resource_path
from tests.helpers.registry import own_registry

EXAMPLES = sorted(resource_path("examples").glob("*.py"))


def test_there_are_eight() -> None:
    assert len(EXAMPLES) == 8


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs(
    script: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with own_registry():
        runpy.run_path(str(script), run_name="__main__")
        printed = capsys.readouterr().out
        if script.stem == "plugin_package":
            runpy.run_path(str(tmp_path / "my-methods" / "my_methods" / "__init__.py"))
            assert "half" in [method.name for method in ace_gui.list_methods()]
    assert printed.strip()
    assert "nan" not in printed
