"""Every look at one layer of eight experts, from real files through the real engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ace_gui.gui.panels.layer.subspaces_panel import Look
from ace_gui.gui.plots.spectrum_curves import Quantity
from tests.helpers.glue_family import glue_family

SCRIPT = Path(__file__).parents[2] / "packaging/pictures/take_pictures.py"
PNG = b"\x89PNG\r\n\x1a\n"


def test_every_panel_has_its_picture(tmp_path: Path) -> None:
    recipe = glue_family(tmp_path / "models", blocks=1, width=32)
    own = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    pictures = tmp_path / "pictures"
    places = ["--recipe", str(recipe), "--out", str(pictures)]
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), *places, "--scheme", "dark", "--panels"],
        env={**os.environ, **own, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    expected = {
        *(f"spectrum-{quantity.name.lower()}" for quantity in Quantity),
        *(f"subspaces-{look.name.lower()}" for look in Look),
        *("distribution", "energies", "compare", "window"),
    }
    assert {file.stem for file in pictures.iterdir()} == {f"{name}-dark" for name in expected}
    assert all(file.read_bytes().startswith(PNG) for file in pictures.iterdir())
