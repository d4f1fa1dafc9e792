"""Pictures: found, checked and decoded by Pillow, with a limit on the unpacked size."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.engine.evaluating.data.table import Row, Table, refused
from ace_gui.errors import TaskError

MOST_PIXELS: Final = 50_000_000
FORMATS: Final = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""Supported formats. Pillow knows more, but some of these start other programs."""

_DEEP: Final = "Its grey has 32 bits, whose white level is unknown; write it with 8 or 16 bits."

SUFFIXES: Final = frozenset(
    (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
)
IMAGE, LABEL = "image", "label"


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture that is not decoded yet. ``given``: its file, its bytes, or its pixels.

    Pixels: H × W or H × W × C, uint8. ``table`` and ``row``: its origin.
    """

    table: Path
    row: str
    given: Path | bytes | NDArray[np.uint8]

    def opened(self, *, small: bool = False) -> Any:
        """The decoded Pillow picture, with 1, 3 or 4 channels. Raises TaskError.

        ``small``: only for a check, for which a JPEG need not be decoded in full size.
        """
        from PIL import Image, UnidentifiedImageError

        if isinstance(self.given, np.ndarray):
            return Image.fromarray(self.given)
        source = self.given if isinstance(self.given, Path) else io.BytesIO(self.given)
        large = f"The picture has more than {MOST_PIXELS / 1e6:g} million pixels; make it smaller."
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about malformed metadata
                image = Image.open(source, formats=FORMATS)
                with image:
                    if image.width * image.height > MOST_PIXELS:
                        raise self._refused(large)
                    if small:
                        image.draft(None, (16, 16))
                    image.load()
                    if image.mode == "F" or (image.mode == "I" and image.format == "TIFF"):
                        raise self._refused(_DEEP)
                    return _plain(image)
        except TaskError:
            raise
        except Image.DecompressionBombError as error:
            raise self._refused(large, error) from None
        except UnidentifiedImageError as error:
            known = ", ".join(FORMATS)
            raise self._refused(f"This is no picture ({known}).", error) from None
        # Decoders raise errors of any type.
        except Exception as error:
            raise self._refused("The picture is damaged.", error) from None

    def digest(self) -> str:
        """SHA-256 of the file, the bytes or the pixels. Raises TaskError."""
        if isinstance(self.given, np.ndarray):
            found = hashlib.sha256(repr(self.given.shape).encode())
            found.update(np.ascontiguousarray(self.given).data)
            return found.hexdigest()
        try:
            own = self.given.read_bytes() if isinstance(self.given, Path) else self.given
        except OSError as error:
            raise self._refused("The picture cannot be read.", error) from None
        return hashlib.sha256(own).hexdigest()

    def _refused(self, sentence: str, details: object = "") -> TaskError:
        if isinstance(self.given, Path):
            return refused(self.given, sentence, details=details)
        return refused(self.table, sentence, self.row, details)


def _plain(image: Any) -> Any:
    """Convert palettes and similar modes to colours; grey and colour pictures stay.

    Grey of 16 bits is scaled to 8: Pillow would clip it to white.
    """
    if image.mode.startswith("I"):
        from PIL import Image

        grey_HW = np.asarray(image).astype(np.int64)
        return Image.fromarray((grey_HW >> 8).clip(0, 255).astype(np.uint8))
    return image if image.mode in {"L", "RGB", "RGBA"} else image.convert("RGB")


def picture_of(table: Path, row: str, value: Any) -> Picture:
    """A picture from a cell: a file name relative to the table, bytes, or pixels.

    Raises TaskError.
    """
    if isinstance(value, dict):  # the form used by ``datasets``
        value = value.get("bytes") or value.get("path")
    if isinstance(value, str):
        folder = table if table.is_dir() else table.parent
        try:
            path = (folder / value).resolve()
            is_inside, is_file = path.is_relative_to(folder.resolve()), path.is_file()
        except (OSError, ValueError, RuntimeError) as error:  # not a valid file name
            why = getattr(error, "strerror", None) or error
            sentence = f"The picture {value[:80]!r} cannot be found: {why}."
            raise refused(table, sentence, row) from None
        if not is_inside:
            raise refused(table, f"The picture {value!r} lies outside of the data's folder.", row)
        if not is_file:
            raise refused(table, f"There is no picture {value!r} in the folder of the data.", row)
        value = path
    if isinstance(value, np.ndarray):
        fits = value.dtype == np.uint8 and (value.ndim == 2 or value.shape[2:] in {(3,), (4,)})
        if not fits:
            sentence = f"Pixels must be uint8, height × width or with 3 colours, not {value.shape}."
            raise refused(table, sentence, row)
    if not isinstance(value, Path | bytes | np.ndarray):
        raise refused(table, "There is no picture.", row)
    return Picture(table=table, row=row, given=value)


def folder_table(path: Path) -> Table:
    """A folder with one folder of pictures for each class, named after it."""
    classes = sorted(each for each in path.iterdir() if each.is_dir() and each.name[0] not in "._")
    found = {
        each.name: sorted(f for f in each.iterdir() if f.suffix.lower() in SUFFIXES and f.is_file())
        for each in classes
    }
    for name, files in found.items():
        if not files:
            raise refused(path / name, "There are no pictures in this folder of a class.")
    pairs = [(file, name) for name, files in found.items() for file in files]

    def rows(wanted: Sequence[str]) -> Iterator[Row]:
        for file, name in pairs:
            values = {IMAGE: file, LABEL: name}
            yield f"{name}/{file.name}", tuple(values[column] for column in wanted)

    everything = tuple(file for file, _ in pairs)
    return Table(path=path, columns=(IMAGE, LABEL), rows=rows, files=everything)
