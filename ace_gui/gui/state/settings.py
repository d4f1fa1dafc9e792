"""Settings that persist between runs. Only this module uses QSettings."""

from __future__ import annotations

import json
from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings

from ace_gui.gui.state.recent_project import RecentProject
from ace_gui.gui.theme import Scheme
from ace_gui.paths import MERGES, cache_root

RECENT = 9
_DIGITS = 18  # for the largest number stored


class Settings:
    """Layout, recent files, colours, device and more, under the application's name."""

    def __init__(self) -> None:
        self._store = QSettings()

    @property
    def geometry(self) -> QByteArray:
        """The result of saveGeometry; empty at the first start."""
        return self._bytes("window/geometry")

    @geometry.setter
    def geometry(self, state: QByteArray) -> None:
        self._store.setValue("window/geometry", state)

    def layout(self, name: str) -> QByteArray:
        """State of the splitter or header with this object name; empty if never saved."""
        return self._bytes(f"layout/{name}")

    def save_layout(self, name: str, state: QByteArray) -> None:
        """Save the state of a splitter or header by its object name."""
        self._store.setValue(f"layout/{name}", state)

    def forget_layout(self) -> None:
        """Restore the initial layout."""
        self._store.remove("layout")

    @property
    def recent(self) -> tuple[Path, ...]:
        """Recent recipes, the latest first."""
        paths = map(Path, self._texts("recent"))
        recipes = (p for p in paths if p.is_absolute() and p.suffix in (".yaml", ".yml"))
        return tuple(recipes)[:RECENT]

    def remember(self, recipe: Path) -> None:
        """Move a recipe to the front of the recent ones."""
        path = recipe.absolute()
        others = [str(other) for other in self.recent if other != path]
        self._store.setValue("recent", [str(path), *others][:RECENT])

    @property
    def recent_projects(self) -> tuple[RecentProject, ...]:
        """The recent recipes with their recorded state."""
        noted = self._noted()
        return tuple(RecentProject.from_record(path, noted.get(str(path))) for path in self.recent)

    def note(self, project: RecentProject) -> None:
        """Record the state of a recent project when it is closed."""
        noted = {**self._noted(), str(project.path.absolute()): project.record()}
        kept = {str(path): noted.get(str(path)) for path in self.recent}
        self._store.setValue("recent-projects", json.dumps(kept))

    def _noted(self) -> dict[str, object]:
        try:
            noted = json.loads(str(self._store.value("recent-projects", "")))
        except (ValueError, RecursionError):
            return {}
        return noted if isinstance(noted, dict) else {}

    def replace_recent(self, gone: Path, found: Path) -> None:
        """Replace the path of a recent recipe that was moved."""
        paths = [str(found.absolute() if path == gone else path) for path in self.recent]
        self._store.setValue("recent", list(dict.fromkeys(paths)))

    def folder(self, purpose: str) -> Path | None:
        """The last folder of a file dialog for this purpose, or None."""
        stored = self._store.value(f"folders/{purpose}")
        return Path(stored) if isinstance(stored, str) and stored else None

    def remember_folder(self, purpose: str, folder: Path) -> None:
        """Save the folder where the next file dialog for this purpose starts."""
        self._store.setValue(f"folders/{purpose}", str(folder))

    @property
    def scheme(self) -> Scheme:
        """``system``, ``light`` or ``dark``."""
        match self._store.value("window/scheme"):
            case "light":
                return "light"
            case "dark":
                return "dark"
        return "system"

    @scheme.setter
    def scheme(self, scheme: Scheme) -> None:
        self._store.setValue("window/scheme", scheme)

    @property
    def device(self) -> str:
        """The last device: ``auto`` or an engine's device name."""
        return str(self._store.value("engine/device", "auto"))

    @device.setter
    def device(self, device: str) -> None:
        self._store.setValue("engine/device", device)

    @property
    def memory_bytes(self) -> int | None:
        """A merge's memory limit; None: all free memory."""
        return self._number("engine/memory") or None

    @memory_bytes.setter
    def memory_bytes(self, limit: int | None) -> None:
        self._store.setValue("engine/memory", str(limit or ""))

    @property
    def threads(self) -> int | None:
        """The engine's thread count; None: the engine decides."""
        return self._number("engine/threads") or None

    @threads.setter
    def threads(self, count: int | None) -> None:
        self._store.setValue("engine/threads", str(count or 0))

    @property
    def scratch(self) -> Path | None:
        """The folder for merges before export; None: the user's cache."""
        return self._path("engine/scratch")

    @scratch.setter
    def scratch(self, folder: Path | None) -> None:
        others = [str(each) for each in self._scratches() if each != folder]
        self._store.setValue("engine/scratches", [*([str(folder)] if folder else []), *others])
        self._store.setValue("engine/scratch", str(folder or ""))

    @property
    def merge_folders(self) -> tuple[Path, ...]:
        """Every folder that may contain merges: the current one, then former ones."""
        cache = cache_root()
        indices = [self.scratch or cache, cache, *self._scratches()]
        return tuple(dict.fromkeys(index / MERGES for index in indices))

    def _scratches(self) -> list[Path]:
        return [Path(text) for text in self._texts("engine/scratches")]

    @property
    def font_scale(self) -> int:
        """Font size in percent of the system's."""
        return self._number("window/letters") or 100

    @font_scale.setter
    def font_scale(self, percent: int) -> None:
        self._store.setValue("window/letters", str(percent))

    @property
    def export_folder(self) -> Path | None:
        """The proposed export folder; None: the last one used."""
        return self._path("folders/export")

    @export_folder.setter
    def export_folder(self, folder: Path | None) -> None:
        self._store.setValue("folders/export", str(folder or ""))

    @property
    def days_kept(self) -> int:
        """Days to keep finished merges; 0: until they are deleted."""
        return self._number("runs/days")

    @days_kept.setter
    def days_kept(self, days: int) -> None:
        self._store.setValue("runs/days", str(days))

    @property
    def notifies(self) -> bool:
        """Whether the end of long work is notified on the desktop."""
        return str(self._store.value("window/notifies", "true")) == "true"

    @notifies.setter
    def notifies(self, on: bool) -> None:
        self._store.setValue("window/notifies", "true" if on else "false")

    @property
    def pictures_on_white(self) -> bool:
        """Whether plots are exported in the light colours, whatever the window's scheme."""
        # an INI file contains text
        return str(self._store.value("pictures/white", "false")) == "true"

    @pictures_on_white.setter
    def pictures_on_white(self, on: bool) -> None:
        self._store.setValue("pictures/white", "true" if on else "false")

    @property
    def picture_format(self) -> str:
        """The size and the font of saved plots, as text; empty if never chosen."""
        return str(self._store.value("pictures/format", ""))

    @picture_format.setter
    def picture_format(self, text: str) -> None:
        self._store.setValue("pictures/format", text)

    def _texts(self, key: str) -> list[str]:
        stored = self._store.value(key, [])
        if isinstance(stored, str):  # a list with one element is read back as that element
            stored = [stored]
        return (
            [each for each in stored if isinstance(each, str)] if isinstance(stored, list) else []
        )

    def _number(self, key: str) -> int:
        stored = str(self._store.value(key, ""))  # an INI file contains text
        return int(stored) if stored.isdecimal() and len(stored) <= _DIGITS else 0

    def _path(self, key: str) -> Path | None:
        stored = str(self._store.value(key, ""))
        return Path(stored) if stored else None

    def _bytes(self, key: str) -> QByteArray:
        value = self._store.value(key)
        return value if isinstance(value, QByteArray) else QByteArray()
