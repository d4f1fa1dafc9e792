"""Writes figures as PDF, SVG or PNG, with the values they show as a table beside them."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ace_gui.errors import OutputError, RecipeError
from ace_gui.figures.charts import COLUMNS, Panel, data_of
from ace_gui.figures.drawing import drawn, style
from ace_gui.figures.sheet import Sheet
from ace_gui.formatting import csv_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH: Final = 300
"""Of a PNG file."""

MARKS: Final = {".pdf": b"%PDF-", ".svg": b"<?xml", ".png": b"\x89PNG"}
"""How the files of each kind begin."""

TABLE_MARK: Final = ",".join(COLUMNS).encode()
"""How the table of data begins."""

_NO_ROOM: Final = "constrained_layout not applied"
"""How matplotlib's warning begins."""

_LINES: Final = 2.5
"""Least height of axes, in the size of their letters."""

_METADATA: Final[dict[str, dict[str, Any]]] = {
    ".pdf": {"Creator": "ACE workbench", "Producer": None, "CreationDate": None},
    ".svg": {"Creator": "ACE workbench", "Date": None},
    ".png": {"Software": "ACE workbench"},
}


def require_kind(file: Path) -> str:
    """The ending of a figure's file. Raises OutputError for one that cannot be written."""
    ending = file.suffix.lower()
    if ending not in MARKS:
        raise OutputError(
            f"A figure is written as {', '.join(MARKS)}; give {file.name} one of these endings.",
            path=file,
        )
    return ending


def table_beside(file: Path) -> Path:
    """The file with the values that a figure shows."""
    return file.with_suffix(".csv")


def files_of(file: Path) -> tuple[Path, Path]:
    """The figure, and the table of its data."""
    return file, table_beside(file)


def picture(
    panels: Sequence[Panel],
    sheet: Sheet,
    ending: str,
    dots_per_inch: float = DOTS_PER_INCH,
    *,
    page: str | None = None,
) -> bytes:
    """The content of a figure's file: ``.pdf``, ``.svg`` or ``.png``.

    ``page``: the name of an SVG in a page among others. Its letters stay text in the page's font,
    and what its parts are called is like nothing in the others. Raises RecipeError for panels that
    do not fit on the sheet.
    """
    import matplotlib as mpl

    content = io.BytesIO()
    settings: Any = style(sheet)
    if page is not None:
        settings |= {"svg.fonttype": "none", "svg.hashsalt": page}
    with mpl.rc_context(settings), _fitting(panels, sheet):
        figure = drawn(panels, sheet)
        figure.savefig(
            content,
            format=ending.removeprefix("."),
            dpi=dots_per_inch,
            metadata=_METADATA[ending],
        )
        _require_height(figure, panels, sheet)
    return content.getvalue()


@contextmanager
def _fitting(panels: Sequence[Panel], sheet: Sheet) -> Iterator[None]:
    """Turn matplotlib's warning that there is no room into a RecipeError."""
    with warnings.catch_warnings():
        # A letter that the font has not is drawn as an empty box.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        warnings.filterwarnings("error", message=_NO_ROOM, category=UserWarning)
        try:
            yield
        except UserWarning as warning:
            raise _no_room(panels, sheet, str(warning)) from None


def _require_height(figure: Figure, panels: Sequence[Panel], sheet: Sheet) -> None:
    """Refuse a laid out figure with axes so low that their numbers cover each other."""
    for axes in figure.axes:
        points = 72 * figure.get_figheight() * axes.get_position().height
        if points < _LINES * sheet.points and axes.get_label() != "<colorbar>":
            raise _no_room(panels, sheet, f"Axes are {points:.0f} points high.")


def _no_room(panels: Sequence[Panel], sheet: Sheet, details: str) -> RecipeError:
    size = f"{sheet.width:g} × {sheet.tall(panels):g} mm"
    return RecipeError(
        f"The panels do not fit on {size} with letters of {sheet.points:g} points; make "
        "it larger, the letters smaller, or choose fewer panels.",
        key="height",
        details=details,
    )


def table(panels: Sequence[Panel]) -> str:
    """The values that a figure shows, as CSV, one line each."""
    return csv_text([COLUMNS, *(astuple(datum) for datum in data_of(panels))])
