"""``python -m ace_gui.gui.picture RECIPE FILE.png``, or ``RECIPE FOLDER --scheme light``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ace_gui.errors import WorkbenchError
from ace_gui.gui.picture import take_picture, take_pictures
from ace_gui.gui.picture.panels import take_panel_pictures


def main() -> int:
    """One picture of the merged recipe, or with a scheme one of every state of the window."""
    parser = argparse.ArgumentParser(prog="python -m ace_gui.gui.picture")
    parser.add_argument("recipe", type=Path)
    parser.add_argument("place", type=Path, help="a PNG file, or with --scheme a folder")
    parser.add_argument("--scheme", choices=("light", "dark"))
    parser.add_argument("--panels", action="store_true", help="of the looks at one layer instead")
    arguments = parser.parse_args()
    try:
        if arguments.scheme is None:
            take_picture(arguments.recipe, arguments.place)
        elif arguments.panels:
            take_panel_pictures(arguments.recipe, arguments.place, arguments.scheme)
        else:
            take_pictures(arguments.recipe, arguments.place, arguments.scheme)
    except WorkbenchError as error:
        sys.stderr.write(f"{error.sentence}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
