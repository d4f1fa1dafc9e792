"""Asks for the size and the font of a picture before it is saved."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QSpinBox,
    QWidget,
)

from ace_gui.gui.plots.frame.export_image import PNG_DOTS, PictureFormat
from ace_gui.gui.widgets.labels.plain_label import muted_label


class PictureDialog(QDialog):
    """``use`` is called with the chosen format. It proposes the one that was used last."""

    def __init__(self, use: Callable[[PictureFormat], object], parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Save picture")
        last = PictureFormat.remembered()
        self.across, self.down = _number(last.width, " mm", 300), _number(last.height, " mm", 300)
        self.points = _number(last.points, " pt", 24, least=4)
        self.typeface = QComboBox(self)
        self.typeface.addItems(["Sans serif", "Serif"])
        self.typeface.setCurrentIndex(int(last.serif))
        self.data = QCheckBox("Save the data as CSV next to it", self)
        self.data.setChecked(last.with_data)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        save = buttons.addButton("Save picture…", QDialogButtonBox.ButtonRole.AcceptRole)
        save.setDefault(True)
        form = QFormLayout(self)
        form.addRow("&Width", self.across)
        form.addRow("&Height", self.down)
        form.addRow("&Font size", self.points)
        form.addRow("&Typeface", self.typeface)
        form.addRow(self.data)
        form.addRow(muted_label(f"PNG: {PNG_DOTS} dots an inch; SVG and PDF: lines and text."))
        form.addRow(buttons)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self.finished.connect(self.deleteLater)
        self.accepted.connect(lambda: use(self._remember()))

    def _remember(self) -> PictureFormat:
        chosen = PictureFormat(
            self.across.value(),
            self.down.value(),
            self.points.value(),
            bool(self.typeface.currentIndex()),
            self.data.isChecked(),
        )
        chosen.remember()
        return chosen


def _number(value: int, unit: str, most: int, least: int = 30) -> QSpinBox:
    box = QSpinBox()
    box.setRange(least, most)
    box.setSuffix(unit)
    box.setValue(value)
    return box
