"""All preferences; changes apply at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from PySide6.QtWidgets import QCheckBox, QSizePolicy, QWidget

from ace_gui.caches import CACHES, Cache
from ace_gui.errors import WorkbenchError
from ace_gui.formatting import human_bytes
from ace_gui.gui.control.background import Background
from ace_gui.gui.control.persistence import FONT_SCALES, Preferences
from ace_gui.gui.dialogs.dialog import Dialog
from ace_gui.gui.widgets.controls import Choice, amount_field, count_field, named, push_button
from ace_gui.gui.widgets.file_dialogs import ask_folders
from ace_gui.gui.widgets.form import Form
from ace_gui.gui.widgets.labels import ElidedLabel, heading, muted_label
from ace_gui.gui.widgets.layout import across, down, scroll_area
from ace_gui.paths import merges_folder

_GIGABYTE: Final = 1_000_000_000
_SCHEMES: Final = {"system": "Same as system", "light": "Light", "dark": "Dark"}
_KEPT: Final = {0: "Until I delete them", 7: "A week", 30: "30 days", 90: "90 days"}


class PreferencesDialog(Dialog):
    """All preferences, in a window of its own, so that the effect of a change is visible."""

    def __init__(self, preferences: Preferences, parent: QWidget | None = None) -> None:
        super().__init__("Preferences", parent)
        self._preferences = preferences
        self._background = Background()
        self._form = Form()
        self._add_computing()
        self._add_looks()
        self._add_files()
        self._add_caches()
        self.fill((scroll_area("Preferences", self._form), 1))
        self.fit(36, 33, lines=True)

    def _add_computing(self) -> None:
        preferences = self._preferences
        settings = self._preferences.settings
        self._add_heading("Computing")
        devices = {settings.device: settings.device, "auto": "The fastest available"}
        devices |= dict(preferences.devices())
        self.device = _choice("Device", devices, settings.device, preferences.choose_device)
        most = preferences.most_threads
        now = settings.threads or 0
        self.threads = count_field("Threads", most, value=now, special="All")
        self.threads.setKeyboardTracking(False)
        self.threads.valueChanged.connect(lambda count: preferences.use_threads(count or None))
        now_bytes = settings.memory_bytes or 0
        limits = 0.0, max(preferences.most_memory, now_bytes) / _GIGABYTE, now_bytes / _GIGABYTE
        name = "Memory for merging"
        special = "All free memory"
        self.memory = amount_field(name, *limits, suffix=" GB", special=special)
        self.memory.setKeyboardTracking(False)
        limit = preferences.limit_memory
        self.memory.valueChanged.connect(lambda n: limit(round(n * _GIGABYTE) or None))
        default = f"{merges_folder()} (default)"
        use = preferences.use_scratch
        self.scratch = _Folder("Scratch folder", "scratch", settings.scratch, default, use)
        self._add("Device", self.device)
        tip = "Processors that the engine uses. Fewer leave more for other programs."
        self._add("Threads", self.threads, tip)
        tip = "If one tensor needs more, the checks report it before the merge."
        self._add("Memory for merging", self.memory, tip)
        tip = "Merges wait there until they are exported; they are as large as the model."
        self._add("Scratch folder", self.scratch, tip)

    def _add_looks(self) -> None:
        preferences = self._preferences
        settings = self._preferences.settings
        self._add_heading("Appearance")
        use = preferences.choose_scheme
        self.scheme = _choice("Colours", _SCHEMES, settings.scheme, use)
        sizes = {percent: f"{percent} %" for percent in FONT_SCALES}
        self.font_scale = _choice("Text size", sizes, settings.font_scale, preferences.enlarge)
        self._add("Colours", self.scheme)
        self._add("Text size", self.font_scale)

    def _add_files(self) -> None:
        settings = self._preferences.settings
        self._add_heading("Files and messages")
        folder = settings.export_folder
        use = partial(setattr, settings, "export_folder")
        self.exports = _Folder("Export folder", "exports", folder, "Last export folder", use)
        keep = partial(setattr, settings, "days_kept")
        self.keep_days = _choice("Keep runs", _KEPT, settings.days_kept, keep)
        self.notify = QCheckBox("when long work ends", self)
        self.notify.setChecked(settings.notifies)
        self.notify.toggled.connect(partial(setattr, settings, "notifies"))
        self._add("Export folder", self.exports)
        self._add("Keep runs", self.keep_days, "Older ones are removed when the program starts.")
        tip = "A desktop notification, if the window is not in front."
        self._add("Notify me", self.notify, tip)

    def _add_caches(self) -> None:
        self._add_heading("Kept to save time")
        self.caches = {cache.name: _CacheRow(cache, self._background) for cache in CACHES}
        for cache in CACHES:
            self._add(cache.title, self.caches[cache.name], str(cache.folder()))

    def _add_heading(self, text: str) -> None:
        title = heading(text)
        title.setContentsMargins(0, 10, 0, 0)  # px: apart from the section above
        self._form.add_row("", title)

    def _add(self, label: str, field: QWidget, tip: str = "") -> None:
        self._form.add_row(label, named(field, label, tip), tip)


class _CacheRow(QWidget):
    """The size of a cache, and a button that empties it. Both read the disk in the background."""

    def __init__(self, cache: Cache, background: Background) -> None:
        super().__init__()
        self._cache = cache
        self._background = background
        self.amount = muted_label("…")
        tip = "What it held is made again when it is needed, which may take as long as before."
        self.button = push_button("Empty", self.empty, name=f"Empty: {cache.title}", tip=tip)
        self.button.setEnabled(False)
        self.setLayout(across((self.amount, 1), self.button))
        background.ask(cache.bytes, self._show)

    def empty(self) -> None:
        """Remove everything in it."""
        self.button.setEnabled(False)
        self._background.ask(self._emptied, self._show)

    def _emptied(self) -> int | str:
        """The bytes that are left, or why they cannot be removed."""
        try:
            self._cache.empty()
        except WorkbenchError as error:
            return error.sentence
        return self._cache.bytes()

    def _show(self, result: int | str) -> None:
        """``result``: bytes, or a sentence about a failure."""
        failed = isinstance(result, str)
        if failed:
            text = "Cannot be emptied"
        else:
            text = human_bytes(int(result))
        if failed:
            reason = str(result)
        else:
            reason = ""
        self.amount.setText(text)
        self.amount.setToolTip(reason)
        self.amount.setAccessibleName(f"{self._cache.title}: {reason or text}")
        self.button.setEnabled(failed or result != 0)


class _Folder(QWidget):
    """A field for a folder, or for a default. ``use`` is called with the Path or None."""

    def __init__(
        self,
        name: str,
        purpose: str,
        folder: Path | None,
        otherwise: str,
        use: Callable[[Path | None], object],
    ) -> None:
        super().__init__()
        self._name = name
        self._otherwise = otherwise
        self._use = use
        self.size_label = ElidedLabel()
        take = self.take
        ask = partial(ask_folders, self, name, purpose, lambda paths: take(paths[0]))
        self.choose = push_button("Choose…", ask, name=f"Choose: {name}")
        name = f"Default: {name}"
        self.reset = push_button("Default", lambda: take(None), kind="ghost", name=name)
        buttons = across(self.choose, self.reset, None)
        self.setLayout(down(self.size_label, buttons, margins=(0, 4, 0, 0), gap=4))
        self._show(folder)

    def take(self, folder: Path | None) -> None:
        self._use(folder)
        self._show(folder)

    def _show(self, folder: Path | None) -> None:
        self.size_label.set_full_text(str(folder) if folder is not None else self._otherwise)
        self.size_label.setAccessibleName(f"{self._name}: {self.size_label.full_text}")
        self.reset.setEnabled(folder is not None)


def _choice(
    name: str, titles: Mapping[Any, str], chosen: object, use: Callable[..., object]
) -> Choice:
    """A choice of titles by value."""
    choice = Choice(name, titles)
    if chosen in titles:
        choice.choose(chosen)
    # the font size can change
    choice.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
    choice.chosen.connect(lambda: use(choice.current))
    return choice
