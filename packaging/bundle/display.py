"""A virtual display of X, and what is to be seen on it. Needs Xvfb."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import TracebackType

import numpy as np
from PySide6.QtGui import QGuiApplication, QImage
from shiboken6 import delete

SIZE = (1440, 900)
_DRAWN = 64  # colours; an empty window has a few, drawn text far more
_STEP = 7  # every so many pixels are enough to count colours


class Display:
    """A display of its own for the time of a ``with`` block; one a process, for Qt's sake."""

    name: str

    def __enter__(self) -> Display:
        read, write = os.pipe()
        size = f"{SIZE[0]}x{SIZE[1]}x24"
        self._server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(write), "-screen", "0", size, "-nolisten", "tcp"],
            pass_fds=(write,),
            stderr=subprocess.DEVNULL,
        )
        os.close(write)
        with os.fdopen(read) as answer:
            self.name = f":{answer.readline().strip()}"
        os.environ["DISPLAY"] = self.name
        self._app = QGuiApplication(["display", "-platform", "xcb"])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        delete(self._app)  # before its server goes
        self._server.terminate()
        self._server.wait()

    def is_drawn(self) -> bool:
        """Whether there is more to see than an empty window."""
        image = self._image()
        pixels = np.frombuffer(image.constBits(), np.uint32)
        return np.unique(pixels[::_STEP]).size >= _DRAWN

    def take(self, file: Path) -> None:
        """Write a picture of the whole display."""
        if not self._image().save(str(file)):
            raise OSError(f"{file} cannot be written")

    def _image(self) -> QImage:
        picture = self._app.primaryScreen().grabWindow(0)
        return picture.toImage().convertToFormat(QImage.Format.Format_RGB32)
