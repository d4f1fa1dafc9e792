"""Walk through the window and print what is wrong: ``python -m tests.walk --size 1366x768``.

A line a fault, with the states in which it is seen; the exit status is 1 where there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from PySide6.QtCore import QSize
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from ace_gui.gui.app import make_application
from ace_gui.gui.picture import Studio
from ace_gui.gui.theme import current_theme, set_scheme
from ace_gui.paths import Sample
from tests.helpers.windows import keep_settings_in
from tests.walk.faults import look_at
from tests.walk.states import States

ENLARGED_AT = "merged"  # with --late
BODY = 9.75  # points: what the window writes in at 100 %
TURN = 60  # ms that a state is given to be laid out and painted
PATIENCE = 8  # times that much, where something is wrong: some panels take several turns


class Walk:
    """Looks at every state in each scheme; ``faults`` has the faults and where each is seen."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.size = QSize(*options.size)
        self.faults: dict[str, list[str]] = defaultdict(list)
        self.looks = 0
        application = make_application()
        font = application.font()
        font.setPointSizeF(BODY * (1 if options.late else options.font / 100))
        application.setFont(font)
        self.studio = Studio(options.scheme[0])
        self.window = self.studio.window
        self.window.resize(self.size)

    def run(self) -> None:
        try:
            states = States(self.studio, self.options.recipe).all(brief=self.options.brief)
            for state in states:
                self.look(*(state if isinstance(state, tuple) else (state, self.window)))
        finally:
            self.studio.close()

    def look(self, name: str, root: QWidget) -> None:
        """At the window, a dialog or a menu, in the scheme that is shown first."""
        options = self.options
        if options.late and name == ENLARGED_AT:
            self.window.preferences.enlarge(options.font)
        for scheme in sorted(options.scheme, key=lambda s: (s == "dark") != current_theme().dark):
            set_scheme(scheme)
            picture, faults = self.settled(root)
            self.looks += 1
            for fault in faults:
                if fault not in self.faults:
                    sys.stderr.write(f"{name}: {fault}\n")
                self.faults[fault].append(f"{name} ({scheme})")
            if options.pictures is not None:
                plain = re.sub(r"[^\w%'-]+", "-", name)
                file = f"{plain}-{self.size.width()}-{options.font}-{scheme}.png"
                picture.save(str(options.pictures / file))

    def settled(self, root: QWidget) -> tuple[QImage, list[str]]:
        """A picture, and the faults that stay."""
        stay: list[str] | None = None
        for _ in range(PATIENCE):
            QTest.qWait(TURN)
            while not self.window.centralWidget().updatesEnabled():
                QTest.qWait(TURN)  # the colours of the other scheme are on their way
            picture, faults = look_at(root, self.size)
            stay = [fault for fault in faults if stay is None or fault in stay]
            if not stay:
                break
        return picture, stay


def use_folder(folder: Path, screen: tuple[int, int] | None) -> None:
    """Settings and kept files in a folder; with ``screen`` on a screen of that size for Qt's
    platform without one."""
    os.environ["LC_ALL"] = "en.UTF-8"
    keep_settings_in(folder)
    for kind in ("CACHE", "DATA", "STATE"):
        os.environ[f"XDG_{kind}_HOME"] = str(folder)
    if screen is not None:
        display = {"name": "walk", "x": 0, "y": 0, "width": screen[0], "height": screen[1]}
        file = folder / "screen.json"
        file.write_text(json.dumps({"screens": [display]}), encoding="utf-8")
        os.environ["QT_QPA_PLATFORM"] = f"offscreen:configfile={file}"


def main() -> int:
    """Read the command line, walk, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    size = lambda text: tuple(map(int, text.split("x")))  # noqa: E731
    parser.add_argument("--size", type=size, default=(1366, 768), help="of screen or window")
    parser.add_argument("--font", type=int, default=100, help="percent")
    parser.add_argument("--display", action="store_true", help="on the display that there is")
    parser.add_argument("--scheme", nargs="+", choices=("light", "dark"), default=["light"])
    parser.add_argument("--brief", action="store_true", help="only states that come quickly")
    parser.add_argument("--late", action="store_true", help="enlarge the font of an open window")
    parser.add_argument("--recipe", type=Path, default=Sample.IMAGES.recipe)
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        use_folder(Path(name), None if options.display else options.size)
        if options.pictures is not None:
            options.pictures.mkdir(parents=True, exist_ok=True)
        walk = Walk(options)
        walk.run()
    for fault, seen in sorted(walk.faults.items(), key=lambda pair: -len(pair[1])):
        print(f"{fault}\n    in: {seen[0]}" + f" and {len(seen) - 1} more" * (len(seen) > 1))
    at = f"{walk.size.width()}x{walk.size.height()}, font at {options.font} %"
    print(f"{len(walk.faults)} faults at {at}, in {walk.looks} looks")
    return int(bool(walk.faults))


if __name__ == "__main__":
    sys.exit(main())
