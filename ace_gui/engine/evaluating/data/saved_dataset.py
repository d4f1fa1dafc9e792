"""Tables from folders saved by ``datasets``: Arrow files, which are read on demand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ace_gui.engine.evaluating.data.table import Row, Table, columns_at, refused
from ace_gui.offline import go_offline

STATE: Final = "state.json"
SPLITS: Final = "dataset_dict.json"
_AT_ONCE: Final = 64


def saved_table(path: Path) -> Table:
    """A saved dataset. If it has several splits, the path must name one of them."""
    if (path / SPLITS).is_file():
        splits = sorted(each.parent.name for each in path.glob(f"*/{STATE}"))
        if len(splits) != 1:
            split_names = ", ".join(splits)
            raise refused(path, f"Name the folder of one of the splits in it: {split_names}.")
        path = path / splits[0]
    files = _files(path)
    dataset = _loaded(path)
    columns = tuple(dataset.column_names)
    names = {c: f.names for c, f in dataset.features.items() if type(f).__name__ == "ClassLabel"}

    def rows(wanted: Sequence[str]) -> Iterator[Row]:
        columns_at(path, columns, wanted)
        number = 0
        chosen = dataset.select_columns(list(dict.fromkeys(wanted)))
        try:
            for batch in chosen.iter(_AT_ONCE):
                for values in zip(*(batch[name] for name in wanted), strict=True):
                    number += 1
                    yield f"row {number}", values
        except (ValueError, OSError) as error:  # Arrow's errors are these
            raise refused(path, "The data are damaged.", f"row {number + 1}", error) from None

    return Table(path=path, columns=columns, rows=rows, files=files, names=names)


def _files(path: Path) -> tuple[Path, ...]:
    """All files read. Raises TaskError if the dataset refers to a file outside of its folder."""
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        named = [path / each["filename"] for each in state["_data_files"]]
        outside = [each for each in named if not each.resolve().is_relative_to(path.resolve())]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise refused(
            path, "This saved dataset cannot be read; save it again.", "", error
        ) from None
    if outside:
        name = outside[0].name
        raise refused(path, f"The dataset names the file {name!r} outside of its folder: refused.")
    return tuple(sorted({*named, *(file for file in path.iterdir() if file.is_file())}))


def _loaded(path: Path) -> Any:
    """The dataset with undecoded pictures.

    The library would decode them without a limit, or download them.
    """
    go_offline()
    import datasets

    try:
        found = datasets.load_from_disk(str(path), keep_in_memory=False).with_format(None)
        for column, feature in found.features.items():
            if isinstance(feature, datasets.Image | datasets.Audio):
                found = found.cast_column(column, type(feature)(decode=False))
        return found
    # The library fails on invalid files with errors of any type.
    except Exception as error:
        raise refused(
            path, "This saved dataset cannot be read; save it again.", "", error
        ) from None
