"""Take the pictures of the real window that the README shows: python packaging/take_pictures.py

Drives the window through the sample project, in light and in dark, and writes one PNG a situation.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ace_gui.gui.picture import take_pictures
from ace_gui.paths import resource_path


def main() -> None:
    """Read the command line and take the pictures."""
    parser = argparse.ArgumentParser(description="Take pictures of the window at work.")
    parser.add_argument("--out", type=Path, default=Path("resources/screenshots"))
    parser.add_argument("--recipe", type=Path, default=resource_path("sample/sample.yaml"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        for picture in take_pictures(arguments.recipe, arguments.out, scheme):
            print(picture)


if __name__ == "__main__":
    main()
