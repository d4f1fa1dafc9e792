"""Take the pictures of the real window that the README shows.

    python packaging/pictures/take_pictures.py [--out resources/screenshots]

Drives the window through the sample project, in light and in dark, and writes one PNG a situation.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from functools import partial
from pathlib import Path

from layer_panels import take_panel_pictures
from ridge import take_ridge_pictures
from states import take_pictures
from tutorial import take_tutorial_pictures

from ace_gui.paths import resource_path


def main() -> None:
    """Read the command line and take the pictures."""
    parser = argparse.ArgumentParser(description="Take pictures of the window at work.")
    parser.add_argument("--out", type=Path, default=Path("resources/screenshots"))
    parser.add_argument("--recipe", type=Path, default=resource_path("sample/sample.yaml"))
    parser.add_argument("--scheme", choices=("light", "dark"), help="these colours only")
    parser.add_argument("--panels", action="store_true", help="of the panels of one layer instead")
    parser.add_argument("--ridge", action="store_true", help="of ACE's variants and the cap")
    parser.add_argument("--tutorial", action="store_true", help="its steps, numbered")
    parser.add_argument("--size", default="1440x900", help="of the window, with --ridge")
    parser.add_argument("--font", type=int, default=100, help="percent, with --ridge")
    arguments = parser.parse_args()
    take = take_panel_pictures if arguments.panels else take_pictures
    if arguments.tutorial:
        take = take_tutorial_pictures
    if arguments.ridge:
        width, height = map(int, arguments.size.split("x"))
        take = partial(take_ridge_pictures, size=(width, height), font=arguments.font)
    with tempfile.TemporaryDirectory(prefix="ace-pictures-") as folder:
        _show_nothing_of_a_person(folder)
        for scheme in (arguments.scheme,) if arguments.scheme else ("light", "dark"):
            for picture in take(arguments.recipe, arguments.out, scheme):
                print(picture)


def _show_nothing_of_a_person(folder: str) -> None:
    """No recent project, setting or earlier session is in a picture."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        os.environ[name] = folder


if __name__ == "__main__":
    main()
