"""Walk through the window and print what is wrong: ``python -m tests.walk --size 1366x768``.

    python -m tests.walk [--size 1366x768] [--font 150] [--scheme light dark]
                         [--late] [--display] [--pictures FOLDER]

On a screen of that size, or with ``--display`` in a window of that size on the one there is; with
letters of so many percent from the start, or as a preference that is changed while the window is
open (``--late``). A line a fault, with the states in which it is seen; the exit status is 1 where
there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

SIZES = ((1280, 720), (1366, 768), (1600, 1000), (2560, 1440))
FONTS = (100, 150, 200)
CHANGES = "merged"  # the state in which letters become larger
_BODY = 9.75  # points: what the window writes in at 100 %
_TURN = 60  # ms that a state is given to be laid out and painted
_PATIENCE = 8  # times that much, where something is wrong


def walk(
    size: tuple[int, int],
    font: int,
    schemes: list[str],
    recipe: Path,
    pictures: Path | None,
    *,
    brief: bool = False,
    late: bool = False,
) -> tuple[dict[str, list[str]], list[str]]:
    """The faults with the states in which each is seen, and all states that were looked at.

    ``brief``: without states that have to be computed; ``late``: the letters become so large once
    something is merged.
    """
    from PySide6.QtCore import QEventLoop, QSize, QTimer
    from PySide6.QtGui import QImage
    from PySide6.QtWidgets import QWidget

    from ace_gui.gui.app import make_application
    from ace_gui.gui.picture import Studio
    from ace_gui.gui.theme import current_theme, set_scheme
    from tests.walk.look import look_at
    from tests.walk.states import states

    application = make_application()
    letters = application.font()
    letters.setPointSizeF(_BODY * (1 if late else font / 100))
    application.setFont(letters)
    studio = Studio(schemes[0])
    found: dict[str, list[str]] = defaultdict(list)
    seen: list[str] = []

    def turn() -> None:
        loop = QEventLoop()
        QTimer.singleShot(_TURN, loop.quit)
        loop.exec()

    def settled(root: QWidget) -> tuple[QImage | None, list[str]]:
        """A picture, and the faults that stay: some panels are laid out in several turns."""
        turn()
        while not studio.window.centralWidget().updatesEnabled():
            turn()  # the colours of the other scheme are on their way
        for _ in range(_PATIENCE):
            picture, faults = look_at(root, QSize(*size))
            if not faults:
                break
            turn()
        return picture, faults

    def look(step: tuple[str, QWidget]) -> None:
        state, root = step
        if late and state == CHANGES:
            studio.window.preferences.enlarge(font)
        if current_theme().dark != (schemes[0] == "dark"):
            schemes.reverse()  # begin with the colours that are shown: changing them takes longest
        for scheme in schemes:
            set_scheme(scheme)
            picture, faults = settled(root)
            seen.append(state)
            for fault in faults:
                if fault not in found:
                    sys.stderr.write(f"{state}: {fault}\n")
                found[fault].append(f"{state} ({scheme})" if len(schemes) > 1 else state)
            if pictures is not None and picture is not None:
                name = state.replace(": ", "-").replace(" ", "-").replace(",", "")
                picture.save(str(pictures / f"{name}-{size[0]}-{font}-{scheme}.png"))

    studio.window.resize(*size)
    try:
        for step in states(studio, recipe, look, brief=brief):
            look(step)
    finally:
        studio.close()
    return found, seen


def use_screen(size: tuple[int, int], folder: Path) -> None:
    """A screen of this size for Qt's platform without one."""
    screen = {"name": "walk", "x": 0, "y": 0, "width": size[0], "height": size[1]}
    file = folder / "screen.json"
    file.write_text(json.dumps({"screens": [screen]}), encoding="utf-8")
    os.environ["QT_QPA_PLATFORM"] = f"offscreen:configfile={file}"


def main() -> int:
    """Read the command line, walk, and print."""
    from ace_gui.paths import resource_path
    from tests.helpers.windows import keep_settings_in

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", default="1366x768")
    parser.add_argument("--font", type=int, default=100, help="percent")
    parser.add_argument("--display", action="store_true", help="on the display that there is")
    parser.add_argument("--scheme", nargs="+", choices=("light", "dark"), default=["light"])
    parser.add_argument("--brief", action="store_true", help="only states that come quickly")
    parser.add_argument("--late", action="store_true", help="enlarge the letters of an open window")
    parser.add_argument("--recipe", type=Path, default=resource_path("sample/sample.yaml"))
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    with tempfile.TemporaryDirectory() as name:
        if not options.display:
            use_screen((width, height), Path(name))
        os.environ["LC_ALL"] = "en.UTF-8"
        keep_settings_in(Path(name))
        for kind in ("CACHE", "DATA", "STATE"):
            os.environ[f"XDG_{kind}_HOME"] = name
        if options.pictures is not None:
            options.pictures.mkdir(parents=True, exist_ok=True)
        found, states = walk(
            (width, height),
            options.font,
            options.scheme,
            options.recipe,
            options.pictures,
            brief=options.brief,
            late=options.late,
        )
    for fault, seen in sorted(found.items(), key=lambda pair: -len(pair[1])):
        more = f" and {len(seen) - 1} more" if len(seen) > 1 else ""
        print(f"{fault}\n    in: {seen[0]}{more}")
    looked = f"{len(states)} looks at {len(set(states))} states"
    print(f"{len(found)} faults at {options.size}, letters at {options.font} %, in {looked}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
