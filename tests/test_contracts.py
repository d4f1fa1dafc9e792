"""The boundaries between the rooms hold, as written in pyproject.toml and as they run."""

import subprocess
import sys
from pathlib import Path

from importlinter.api import read_configuration
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).parents[1]


def test_import_contracts_hold() -> None:
    configuration = ROOT / "pyproject.toml"
    assert len(read_configuration(str(configuration))["contracts_options"]) == 5
    status = lint_imports(config_filename=str(configuration), no_cache=True)
    assert status == EXIT_STATUS_SUCCESS


def test_the_window_and_its_values_load_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; import ace_gui.gui.app, ace_gui.gui.shell.main_window, ace_gui.cli.commands; "
        "heavy = {'torch', 'transformers', 'safetensors', 'pydantic', 'yaml'} & set(sys.modules); "
        "print(*sorted(heavy))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []
