"""The application's icon in the sizes and formats that desktops ask for, from one drawing."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QByteArray, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

DRAWING = Path(__file__).resolve().parents[2] / "resources" / "icons" / "app.svg"
SIZES = (16, 22, 24, 32, 48, 64, 128, 256, 512)
_WINDOWS = 256  # Windows scales it down


def write_hicolor(folder: Path, name: str, *, drawing: Path = DRAWING) -> None:
    """The icon theme's folders ``16x16/apps/NAME.png`` and so on, and ``scalable``."""
    for size in SIZES:
        _save(drawn(size, drawing), folder / f"{size}x{size}" / "apps" / f"{name}.png")
    scalable = folder / "scalable" / "apps" / f"{name}.svg"
    scalable.parent.mkdir(parents=True, exist_ok=True)
    scalable.write_bytes(drawing.read_bytes())


def write_ico(file: Path) -> None:
    """For Windows."""
    _save(drawn(_WINDOWS), file)


def write_iconset(folder: Path) -> None:
    """For macOS, whose ``iconutil`` makes one file of the folder; it must end in .iconset."""
    for size in (16, 32, 128, 256, 512):
        _save(drawn(size), folder / f"icon_{size}x{size}.png")
        _save(drawn(2 * size), folder / f"icon_{size}x{size}@2x.png")


def drawn(size: int, drawing: Path = DRAWING) -> QImage:
    """The drawing, ``size`` by ``size`` pixels, on a transparent ground."""
    image = QImage(size, size, QImage.Format.Format_ARGB32)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    QSvgRenderer(QByteArray(drawing.read_bytes())).render(painter)
    painter.end()
    return image


def _save(image: QImage, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if not image.save(str(file)):
        raise OSError(f"{file} cannot be written")
