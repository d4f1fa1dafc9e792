"""All preferences; changes apply at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QSize
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFormLayout,
    QHBoxLayout,
    QPushButton,
    QSizePolicy,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from ace_gui.gui.control.preferences import FONT_SCALES, Preferences
from ace_gui.gui.widgets.files.file_dialogs import ask_folders
from ace_gui.gui.widgets.labels.plain_label import ElidedLabel, heading, muted_label
from ace_gui.gui.widgets.layout.arrangement import Column, scroll_area
from ace_gui.paths import merges_folder

_LINES: Final = QSize(36, 42)  # in text lines: width and height
_OF_SCREEN: Final = 0.92
_GIGABYTE: Final = 1_000_000_000
_SCHEMES: Final = (
    ("system", "Same as system"),
    ("light", "Light"),
    ("dark", "Dark"),
)
_KEPT: Final = (
    (0, "Until I delete them"),
    (7, "A week"),
    (30, "30 days"),
    (90, "90 days"),
)


class PreferencesDialog(QDialog):
    """A window of its own, so that the effect of a preference is visible."""

    def __init__(self, preferences: Preferences, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._preferences = preferences
        self.setWindowTitle("Preferences")
        wanted = _LINES * self.fontMetrics().height()
        self.resize(wanted.boundedTo(self.screen().availableSize() * _OF_SCREEN))
        page = Column()
        self._rows = QVBoxLayout(page)
        self._rows.setSpacing(8)
        self._add_computing()
        self._add_looks()
        self._add_files()
        self._rows.addStretch(1)
        area = scroll_area("Preferences", self)
        area.setWidget(page)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(area, 1)
        layout.addWidget(buttons)

    def _add_computing(self) -> None:
        preferences, settings = self._preferences, self._preferences.settings
        form = self._section("Computing")
        devices = {settings.device: settings.device, "auto": "The fastest available"}
        devices |= dict(preferences.devices())
        self.device = _choice("Device", devices, settings.device, preferences.choose_device)
        form.addRow("Device", self.device)
        self.threads = QSpinBox(self)
        self.threads.setAccessibleName("Threads")
        self.threads.setToolTip(
            "Processors that the engine uses. Fewer leave more for other programs."
        )
        self.threads.setRange(0, preferences.most_threads)
        self.threads.setSpecialValueText("All")
        self.threads.setValue(settings.threads or 0)
        self.threads.setKeyboardTracking(False)
        self.threads.valueChanged.connect(lambda count: preferences.use_threads(count or None))
        form.addRow("Threads", self.threads)
        self.memory = QDoubleSpinBox(self)
        self.memory.setAccessibleName("Memory for merging")
        self.memory.setToolTip("If one tensor needs more, the checks report it before the merge.")
        self.memory.setRange(
            0.0, max(preferences.most_memory, settings.memory_bytes or 0) / _GIGABYTE
        )
        self.memory.setDecimals(1)
        self.memory.setSuffix(" GB")
        self.memory.setSpecialValueText("All free memory")
        self.memory.setValue((settings.memory_bytes or 0) / _GIGABYTE)
        self.memory.setKeyboardTracking(False)
        self.memory.valueChanged.connect(
            lambda count: preferences.limit_memory(round(count * _GIGABYTE) or None)
        )
        form.addRow("Memory for merging", self.memory)
        self.scratch = _Folder(
            "Scratch folder",
            "scratch",
            settings.scratch,
            lambda: f"{merges_folder()} (default)",
            preferences.use_scratch,
        )
        form.addRow("Scratch folder", self.scratch)
        self._note("Merges wait there until they are exported; they are as large as the model.")

    def _add_looks(self) -> None:
        preferences, settings = self._preferences, self._preferences.settings
        form = self._section("Appearance")
        schemes = dict(_SCHEMES)
        self.scheme = _choice("Colours", schemes, settings.scheme, preferences.choose_scheme)
        form.addRow("Colours", self.scheme)
        sizes = {percent: f"{percent} %" for percent in FONT_SCALES}
        self.font_scale = _choice("Text size", sizes, settings.font_scale, preferences.enlarge)
        form.addRow("Text size", self.font_scale)

    def _add_files(self) -> None:
        preferences, settings = self._preferences, self._preferences.settings
        form = self._section("Files and messages")
        self.exports = _Folder(
            "Export folder",
            "exports",
            settings.export_folder,
            lambda: "Last export folder",
            preferences.export_to,
        )
        form.addRow("Export folder", self.exports)
        kept = dict(_KEPT)
        self.kept = _choice("Keep runs", kept, settings.days_kept, preferences.keep_runs)
        self.kept.setToolTip("Older ones are removed when the program starts.")
        form.addRow("Keep runs", self.kept)
        self.notify = QCheckBox("Notify me when long work ends", self)
        self.notify.setToolTip("A desktop notification, if the window is not in front.")
        self.notify.setChecked(settings.notifies)
        self.notify.toggled.connect(preferences.notify)
        form.addRow("", self.notify)

    def _section(self, title: str) -> QFormLayout:
        self._rows.addWidget(heading(title, self))
        form = QFormLayout()
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        self._rows.addLayout(form)
        return form

    def _note(self, text: str) -> None:
        self._rows.addWidget(muted_label(text, self))
        self._rows.addSpacing(12)


class _Folder(QWidget):
    """A folder, or a default without one. ``use`` is called with a Path or None."""

    def __init__(
        self,
        name: str,
        purpose: str,
        folder: Path | None,
        otherwise: Callable[[], str],
        use: Callable[[Path | None], object],
    ) -> None:
        super().__init__()
        self._name, self._purpose = name, purpose
        self._otherwise, self._use = otherwise, use
        self.shown = ElidedLabel(self)
        self.choose = QPushButton("Choose…", self)
        self.choose.setAccessibleName(f"Choose: {name}")
        self.choose.clicked.connect(lambda _=False: self._ask())
        self.reset = QPushButton("Default", self)
        self.reset.setProperty("kind", "ghost")
        self.reset.setAccessibleName(f"Default: {name}")
        self.reset.clicked.connect(lambda _=False: self.take(None))
        for button in (self.choose, self.reset):
            button.setAutoDefault(False)
        row = QHBoxLayout()
        row.addWidget(self.choose)
        row.addWidget(self.reset)
        row.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 4, 0, 0)
        column.setSpacing(4)
        column.addWidget(self.shown)
        column.addLayout(row)
        self._show(folder)

    def take(self, folder: Path | None) -> None:
        """Use this folder from now on."""
        self._use(folder)
        self._show(folder)

    def _ask(self) -> None:
        ask_folders(self, self._name, self._purpose, lambda paths: self.take(paths[0]))

    def _show(self, folder: Path | None) -> None:
        self.shown.set_full_text(str(folder) if folder is not None else self._otherwise())
        self.shown.setAccessibleName(f"{self._name}: {self.shown.whole}")
        self.reset.setEnabled(folder is not None)


def _choice(
    name: str, titles: Mapping[Any, str], chosen: object, use: Callable[..., object]
) -> QComboBox:
    """A box of titles by value."""
    box = QComboBox()
    box.setAccessibleName(name)
    for value, title in titles.items():
        box.addItem(title, value)
    box.setCurrentIndex(box.findData(chosen))
    # the font size can change
    box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
    box.activated.connect(lambda _: use(box.currentData()))
    return box
