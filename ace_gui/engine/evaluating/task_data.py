"""The data of a task: tables, pictures, examples, checks of their cells, and the labels of heads.

Pictures are checked and decoded by Pillow, with a limit on the unpacked size.
"""

from __future__ import annotations

import hashlib
import io
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.errors import TaskError
from ace_gui.formatting import listing, path_text, quoted_value
from ace_gui.recipe.task_kinds import CHOICES, IMAGE, LABEL, PAIR, TEXT, TOKENS, Metric, TaskKind
from ace_gui.recipe.values import Task, unnamed_label

ROW_BYTES: Final = 4_000_000
"""Largest row of text; an encyclopedia's longest article has two million characters."""

FILE_BYTES: Final = 2_000_000_000
"""Most bytes of one file that are held in memory."""

Row = tuple[str, tuple[Any, ...]]
"""Its location in the file for messages ("row 12"), and its values in the requested order."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """``rows``: a function from columns to the rows with only these, in the file's order.

    ``names``: by column, the names of its numbers. ``files``: all files read. ``rows`` raises
    TaskError if a row cannot be read; ``open_table`` adds the check of the columns.
    """

    path: Path
    columns: tuple[str, ...]
    rows: Callable[[Sequence[str]], Iterator[Row]]
    files: tuple[Path, ...]
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)


def refused(
    path: Path, sentence: str, row: str = "", details: object = "", *, setting: str = ""
) -> TaskError:
    """The error with ``sentence`` about a file, or a row in it."""
    if row:
        at = f"{path_text(path)}, {row}"
    else:
        at = path_text(path)
    error = TaskError(f"{at}: {sentence}", path=path, key=row or None, details=str(details))
    error.setting = setting
    return error


def require_columns(
    path: Path, columns: Sequence[str], required: Sequence[str], role: str = ""
) -> None:
    """Raise TaskError if a wanted column is missing. ``role``: theirs in the task."""
    for name in required:
        if name not in columns:
            present = ", ".join(map(repr, columns[:20]))
            sentence = f"There is no column {name!r}; there are {present}."
            raise refused(path, sentence, setting=role)


MOST_PIXELS: Final = 50_000_000
FORMATS: Final = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""Supported formats. Pillow knows more, but some of these start other programs."""

_DEEP: Final = "Its grey has 32 bits, whose white level is unknown; write it with 8 or 16 bits."

SUFFIXES: Final = frozenset(
    (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
)


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
            formats = ", ".join(FORMATS)
            raise self._refused(f"This is no picture ({formats}).", error) from None
        # Decoders raise errors of any type.
        except Exception as error:
            raise self._refused("The picture is damaged.", error) from None

    def digest(self) -> str:
        """SHA-256 of the file, the bytes or the pixels. Raises TaskError."""
        if isinstance(self.given, np.ndarray):
            hasher = hashlib.sha256(repr(self.given.shape).encode())
            hasher.update(np.ascontiguousarray(self.given).data)
            return hasher.hexdigest()
        try:
            if isinstance(self.given, Path):
                content = self.given.read_bytes()
            else:
                content = self.given
        except OSError as error:
            raise self._refused("The picture cannot be read.", error) from None
        return hashlib.sha256(content).hexdigest()

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
    if image.mode in {"L", "RGB", "RGBA"}:
        return image
    return image.convert("RGB")


def picture_of(table: Path, row: str, value: Any) -> Picture:
    """A picture from a cell: a file name relative to the table, bytes, or pixels.

    Raises TaskError.
    """
    if isinstance(value, dict):  # the form used by ``datasets``
        value = value.get("bytes") or value.get("path")
    if isinstance(value, str):
        if table.is_dir():
            folder = table
        else:
            folder = table.parent
        try:
            path = (folder / value).resolve()
            is_inside = path.is_relative_to(folder.resolve())
            is_file = path.is_file()
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
    folders = [entry for entry in path.iterdir() if entry.is_dir()]
    classes = sorted(folder for folder in folders if folder.name[0] not in "._")
    pairs = []
    for folder in classes:
        entries = sorted(entry for entry in folder.iterdir() if entry.is_file())
        files = [entry for entry in entries if entry.suffix.lower() in SUFFIXES]
        if not files:
            raise refused(folder, "There are no pictures in this folder of a class.")
        pairs += [(file, folder.name) for file in files]

    def rows(columns: Sequence[str]) -> Iterator[Row]:
        for file, name in pairs:
            values = {IMAGE: file, LABEL: name}
            yield f"{name}/{file.name}", tuple(values[column] for column in columns)

    everything = tuple(file for file, _ in pairs)
    return Table(path=path, columns=(IMAGE, LABEL), rows=rows, files=everything)


@dataclass(frozen=True, kw_only=True)
class Example:
    """``row``: its row in the data.

    ``inputs``: the model's inputs by role: texts, tokens, a picture. ``label``: the right answer,
    as in the data.
    """

    row: str
    inputs: Mapping[str, Any]
    label: Any = None


class Half(Enum):
    """Disjoint halves of a task's examples: one for searching values, one for the final score."""

    SEARCHED = 0
    REPORTED = 1


@dataclass(frozen=True, kw_only=True)
class TaskData:
    """A task with its examples and inferred settings."""

    task: Task
    """As it was given."""
    kind: TaskKind
    """Its kind."""
    metric: Metric
    """Its metric."""
    columns: Mapping[str, tuple[str, ...]]
    """The columns used, by role."""
    table: Table
    """Its data."""
    examples: tuple[Example, ...]
    """Those that count."""

    @property
    def name(self) -> str:
        """The task's name."""
        return self.task.title

    @property
    def label_names(self) -> Sequence[str]:
        """The names of the numbers in the label column, if known."""
        return self.table.names.get(self.columns.get(LABEL, ("",))[0], ())

    def content(self) -> str:
        """SHA-256 of the examples, pictures included.

        A file's modification time may not show a change. Raises TaskError if a picture can no
        longer be read.
        """
        digest = hashlib.sha256(repr(tuple(self.label_names)).encode("utf-8", "surrogatepass"))
        for example in self.examples:
            inputs = dict(example.inputs)
            for role, value in example.inputs.items():
                if isinstance(value, Picture):
                    inputs[role] = value.digest()
            text = repr((example.row, inputs, example.label))
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
        return digest.hexdigest()


Cell = Callable[[Any], Any]
"""Checks a value and returns it as the example has it.

Raises ValueError with what is wanted, and the value.
"""


def text_cell(value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ValueError("a text", value)
    return value


def texts_cell(value: Any) -> tuple[str, ...]:
    """Several texts: the words of a sentence, or the choices of a question."""
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        value = value["text"]  # choices with letters
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("a list of texts", value)
    return tuple(map(text_cell, value))


def number_cell(value: Any) -> float:
    """A finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError("a number", value)
    return number


def label_cell(value: Any) -> Any:
    """A label: a text or a number."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return value
    raise ValueError("a label", value)


def labels_cell(value: Any) -> tuple[Any, ...]:
    """A label for each word."""
    if not isinstance(value, list | tuple):
        raise ValueError("a label for each word", value)
    return tuple(map(label_cell, value))


INPUT_CELLS: Final[Mapping[str, Cell]] = {
    TEXT: text_cell,
    PAIR: text_cell,
    CHOICES: texts_cell,
    TOKENS: texts_cell,
}
"""The check of each role but the label, whose check depends on the kind, and pictures."""


def checked_cell(check: Cell, table: Table, row: str, column: str, value: Any) -> Any:
    """The value as an example has it. Raises TaskError."""
    try:
        return check(value)
    except ValueError as error:
        expected, actual = error.args
        sentence = f"The column {column!r} has {quoted_value(actual)}, not {expected}."
        raise refused(table.path, sentence, row) from None


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The labels of a head. ``ids``: their indices by each name that data may use.

    ``allowed``: indices that can be answers, in order.
    """

    ids: Mapping[str, int]
    allowed: tuple[int, ...]

    def index_of(self, value: object, names: Sequence[str] = ()) -> int | None:
        """The head's index of an example's label; None for a label that the head lacks.

        ``names``: the names of the numbers in its column.
        """
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int | str):
            return None
        if isinstance(value, int) and 0 <= value < len(names):
            named = self.ids.get(names[value].casefold())
            if named is not None:
                value = named
        if isinstance(value, str):
            index = self.ids.get(value.strip().casefold())
        else:
            index = value
        if index is None and isinstance(value, str):
            index = whole_number(value)
        if index in self.allowed:
            return index
        return None


def whole_number(text: str) -> int | None:
    """The value of a text of one to nine digits; None for any other text."""
    digits = text.strip()
    if digits.isascii() and digits.isdigit() and len(digits) < 10:
        return int(digits)
    return None


def head_labels(config: Mapping[str, Any]) -> list[str]:
    """The labels of a config's head, by index. Two if the config does not define them."""
    label_names = config.get("id2label")
    if isinstance(label_names, Mapping):
        try:
            named = {int(index): str(name) for index, name in label_names.items()}
            return [named[index] for index in range(len(named))]
        except (ValueError, KeyError):
            pass
    count = config.get("num_labels", 2)
    if not (isinstance(count, int) and 0 < count < 1_000_000):
        count = 2
    return [unnamed_label(index) for index in range(count)]


def labels_of(task: Task, config: Mapping[str, Any]) -> Labels:
    """The labels of a head that belong to the task. Raises TaskError."""
    names = head_labels(config)
    ids = {name.casefold(): index for index, name in enumerate(names)}
    everything = tuple(range(len(names)))
    if not task.labels:
        return Labels(ids=ids, allowed=everything)
    labels = [label.casefold() for label in task.labels]
    if all(label in ids for label in labels):
        return Labels(ids=ids, allowed=tuple(ids[label] for label in labels))
    if len(labels) == len(names):
        return Labels(ids={label: n for n, label in enumerate(labels)}, allowed=everything)
    unknown = [label for label in task.labels if label.casefold() not in ids]
    raise TaskError(
        f"{task.title}: the labels {listing(unknown)} are not among the head's, {listing(names)}; "
        "name some of these, or all of them in the data's words and the head's order.",
        key="labels",
    )


def answer_labels(task: Task, config: Mapping[str, Any]) -> list[str]:
    """What each label of a head is called in answers: in the data's words if the task has them.

    A prefix common to all labels of the task is removed (``digits/7``: 7). Raises TaskError.
    """
    names = head_labels(config)
    if len(task.labels) == len(names):
        names = list(task.labels)
    prefixes = {names[index].rpartition("/")[0] for index in labels_of(task, config).allowed}
    if len(prefixes) == 1:
        shared = f"{prefixes.pop()}/"
    else:
        shared = ""
    return [name.removeprefix(shared) for name in names]


COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    TEXT: (
        *("text", "sentence", "sentence1", "premise", "question1", "question", "query", "content"),
        *("review", "prompt", "input", "inputs", "source", "document", "context", "ctx", "goal"),
    ),
    PAIR: ("text_pair", "pair", "sentence2", "hypothesis", "question2", "sentence", "passage"),
    LABEL: (
        *("label", "labels", "target", "targets", "score", "class", "answer", "answerkey"),
        *("output", "outputs", "summary", "translation", "completion"),
        *("ner_tags", "pos_tags", "tags", "y"),
    ),
    IMAGE: ("image", "images", "img", "picture", "file", "file_name", "path", "pixels", "x"),
    CHOICES: ("choices", "endings", "options", "answers"),
    TOKENS: ("tokens", "words"),
}
"""Common column names by role; the first that exists is used."""


def usual_column(role: str, columns: Sequence[str]) -> str | None:
    """The first column with a common name of a role."""
    lower = {column.lower(): column for column in reversed(columns)}
    return next((lower[name] for name in COLUMNS[role] if name in lower), None)
