"""Settings that stay between runs, and the recent projects. Only this module uses QSettings."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from PySide6.QtCore import QByteArray, QSettings

from ace_gui.gui.state.results import mean_score
from ace_gui.gui.state.session import Session
from ace_gui.gui.theme import Scheme
from ace_gui.paths import MERGES, cache_root

_KINDS: Final[dict[str, type | tuple[type, ...]]] = {
    "architecture": str,
    "method": str,
    "colours": list,
    "bytes": int,
    "is_merged": bool,
    "is_exported": bool,
    "mean": float,
    "left": (int, float),
}
_LARGEST: Final = 2.0**50
"""Limit of times in seconds since 1970 and of bytes; larger values mean a damaged record."""


@dataclass(frozen=True, kw_only=True)
class RecentProject:
    """A recent project. Fields keep their defaults without a record."""

    path: Path
    """Its recipe."""
    architecture: str = ""
    """For people."""
    method: str = ""
    """The method's title."""
    colours: tuple[int, ...] = ()
    """Palette indices of its experts."""
    bytes: int = 0
    """Of all its models."""
    is_merged: bool = False
    """Whether it has a merge."""
    is_exported: bool = False
    """Whether a merge was exported."""
    mean: float | None = None
    """The score of its merge; None if it was not scored."""
    left: float = 0.0
    """The time of closing, in seconds since 1970."""

    @classmethod
    def of(cls, session: Session, path: Path) -> RecentProject:
        """The record of the open project, whose recipe is in ``path``."""
        draft = session.draft
        plan = session.draft.plan
        merge = session.results.merge
        if plan is not None:
            models = (plan.base, *plan.experts)
        else:
            models = ()
        if session.results.is_merged:
            finished = merge
        else:
            finished = None
        return cls(
            path=path,
            architecture=plan.base.architecture if plan is not None else "",
            method=draft.label,
            colours=tuple(expert.colour for expert in draft.planned.experts),
            bytes=sum(model.bytes for model in models),
            is_merged=finished is not None,
            is_exported=finished is not None and finished.exported,
            mean=mean_score(finished) if finished is not None else None,
            left=time.time(),
        )

    @classmethod
    def from_record(cls, path: Path, record: object) -> RecentProject:
        """The project of a stored ``record``, without its invalid values."""
        if isinstance(record, dict):
            fields = record
        else:
            fields = {}
        values: dict[str, Any] = {
            name: fields[name]
            for name, kind in _KINDS.items()
            if isinstance(fields.get(name), kind)
        }
        for name in ("left", "bytes"):
            if not 0 <= values.get(name, 0) < _LARGEST:
                del values[name]
        colours = (index for index in values.pop("colours", ()) if isinstance(index, int))
        return cls(path=path, colours=tuple(colours), **values)

    def record(self) -> dict[str, object]:
        fields = asdict(self)
        del fields["path"]
        return fields


RECENT = 9
_T = TypeVar("_T")
_DIGITS = 18  # for the largest number stored
_SCHEMES: Final[dict[str, Scheme]] = {"light": "light", "dark": "dark"}


class _Setting(Generic[_T]):
    """A value that is stored as text. ``read`` gets "" if nothing was stored."""

    def __init__(self, key: str, read: Callable[[str], _T]) -> None:
        self._key = key
        self._read = read

    def __get__(self, settings: Settings, _: type[Settings]) -> _T:
        return self._read(str(settings.store.value(self._key, "")))

    def __set__(self, settings: Settings, value: _T) -> None:
        settings.store.setValue(self._key, "" if value is None else str(value))


def _number(text: str) -> int:
    if text.isdecimal() and len(text) <= _DIGITS:
        return int(text)
    return 0


def _path(text: str) -> Path | None:
    if text:
        return Path(text)
    return None


class Settings:
    """Layout, recent files, colours, device and more, under the application's name.

    ``device``: ``auto`` or an engine's device name. ``memory_bytes``: a merge's memory limit, None
    for all free memory. ``threads``: of the engine, None: it decides. ``scratch``: the folder for
    merges before export, None: the user's cache. ``font_scale``: percent of the system's.
    ``export_folder``: proposed for exports, None: the last one. ``days_kept``: how long finished
    merges stay, 0: until they are deleted. ``notifies``: whether the end of long work
    is notified on the desktop. ``pictures_on_white``: whether plots are exported in the light
    colours, whatever the window's scheme. ``picture_format``: the size and the font of saved plots.
    """

    scheme = _Setting("window/scheme", lambda text: _SCHEMES.get(text, "system"))
    device = _Setting("engine/device", lambda text: text or "auto")
    memory_bytes = _Setting("engine/memory", lambda text: _number(text) or None)
    threads = _Setting("engine/threads", lambda text: _number(text) or None)
    font_scale = _Setting("window/font_scale", lambda text: _number(text) or 100)
    export_folder = _Setting("folders/export", _path)
    scratch = _Setting("engine/scratch", _path)
    days_kept = _Setting("runs/days", _number)
    notifies = _Setting("window/notifies", lambda text: text.lower() in ("", "true"))
    pictures_on_white = _Setting("pictures/white", lambda text: text.lower() == "true")
    picture_format = _Setting("pictures/format", str)

    def __init__(self) -> None:
        self.store = QSettings()

    @property
    def geometry(self) -> QByteArray:
        """The result of saveGeometry; empty at the first start."""
        return self._bytes("window/geometry")

    @geometry.setter
    def geometry(self, state: QByteArray) -> None:
        self.store.setValue("window/geometry", state)

    def layout(self, name: str) -> QByteArray:
        """State of the splitter or header with this object name; empty if never saved."""
        return self._bytes(f"layout/{name}")

    def save_layout(self, name: str, state: QByteArray) -> None:
        self.store.setValue(f"layout/{name}", state)

    @property
    def recent(self) -> tuple[Path, ...]:
        """Recent recipes, the latest first."""
        paths = map(Path, self._texts("recent"))
        recipes = (p for p in paths if p.is_absolute() and p.suffix in (".yaml", ".yml"))
        return tuple(recipes)[:RECENT]

    def remember(self, recipe: Path) -> None:
        """Move a recipe to the front of the recent ones."""
        path = recipe.absolute()
        further = [str(path_before) for path_before in self.recent if path_before != path]
        self.store.setValue("recent", [str(path), *further][:RECENT])

    @property
    def recent_projects(self) -> tuple[RecentProject, ...]:
        """The recent recipes with their recorded state."""
        noted = self._noted()
        return tuple(RecentProject.from_record(path, noted.get(str(path))) for path in self.recent)

    def note(self, project: RecentProject) -> None:
        """Record the state of a recent project when it is closed."""
        noted = {**self._noted(), str(project.path.absolute()): project.record()}
        notes = {str(path): noted.get(str(path)) for path in self.recent}
        self.store.setValue("recent-projects", json.dumps(notes))

    def _noted(self) -> dict[str, object]:
        try:
            noted = json.loads(str(self.store.value("recent-projects", "")))
        except (ValueError, RecursionError):
            return {}
        if isinstance(noted, dict):
            return noted
        return {}

    def replace_recent(self, gone: Path, moved: Path) -> None:
        paths = [str(moved.absolute() if path == gone else path) for path in self.recent]
        self.store.setValue("recent", list(dict.fromkeys(paths)))

    def folder(self, purpose: str) -> Path | None:
        """The last folder of a file dialog for this purpose, or None."""
        stored = self.store.value(f"folders/{purpose}")
        if isinstance(stored, str) and stored:
            return Path(stored)
        return None

    def remember_folder(self, purpose: str, folder: Path) -> None:
        """Save the folder where the next file dialog for this purpose starts."""
        self.store.setValue(f"folders/{purpose}", str(folder))

    def use_scratch(self, folder: Path | None) -> None:
        """Set ``scratch``. Its former values stay in ``merge_folders``."""
        further = [text for text in self._texts("engine/scratches") if text != str(folder)]
        self.store.setValue("engine/scratches", [*([str(folder)] if folder else []), *further])
        self.scratch = folder

    @property
    def merge_folders(self) -> tuple[Path, ...]:
        """Every folder that may contain merges: the current one, then former ones."""
        cache = cache_root()
        folders = [self.scratch or cache, cache, *map(Path, self._texts("engine/scratches"))]
        return tuple(dict.fromkeys(folder / MERGES for folder in folders))

    def _texts(self, key: str) -> list[str]:
        stored = self.store.value(key, [])
        if isinstance(stored, str):  # a list with one element is read back as that element
            stored = [stored]
        if isinstance(stored, list):
            return [text for text in stored if isinstance(text, str)]
        return []

    def _bytes(self, key: str) -> QByteArray:
        value = self.store.value(key)
        if isinstance(value, QByteArray):
            return value
        return QByteArray()
