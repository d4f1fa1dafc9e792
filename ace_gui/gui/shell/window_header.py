"""The header: menus, workspaces and the main button."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QMenuBar, QWidget

from ace_gui.gui.shell.primary_area import PrimaryArea
from ace_gui.gui.theme import icon
from ace_gui.gui.widgets.fields.segments import Segments
from ace_gui.gui.widgets.labels.icon_label import IconLabel

HEIGHT: Final = 48
WORKSPACES: Final = (  # title and tooltip, in the order of the pages of ``Workspace``
    ("Layers", "The model's tensors, with details of each"),
    ("Scores", "Scores of the models on your own tasks"),
    ("Compare", "Comparison of finished merges, and of methods"),
)
_BRAND: Final = 22  # px
_BETWEEN: Final = 58  # px: margins and gaps


class Header(QWidget):
    """The header. ``workspaces`` has one segment per page of the window."""

    def __init__(self, index: PrimaryArea, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.primary = index
        self.menu_bar = QMenuBar(self)
        self.workspaces = Segments("Workspaces", self)
        for title, tip in WORKSPACES:
            self.workspaces.add(title, tip)
        self._brand = IconLabel(_BRAND, icon("brand", "accent"), self)
        left = QHBoxLayout()
        left.setSpacing(8)
        left.addWidget(self._brand)
        left.addWidget(self.menu_bar, 1, Qt.AlignmentFlag.AlignVCenter)
        middle = Qt.AlignmentFlag.AlignVCenter
        row = self._grid = QGridLayout(self)
        row.setContentsMargins(16, 0, 12, 0)
        row.setHorizontalSpacing(12)
        row.addLayout(left, 0, 0)
        self._two_rows = False
        self._place_workspaces()
        row.addWidget(index, 0, 2, middle | Qt.AlignmentFlag.AlignRight)
        row.setColumnStretch(0, 1)
        row.setColumnStretch(2, 1)
        self.setMinimumHeight(HEIGHT)

    def event(self, event: QEvent) -> bool:
        handled = super().event(event)
        if event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self._fit()
        return handled

    def _fit(self) -> None:
        """Replace text by symbols where there is little room."""
        room = self.width() - self.menu_bar.sizeHint().width()
        room -= self._brand.width() + _BETWEEN
        room_left = room - self.workspaces.sizeHint().width()
        two_rows = room_left < self.primary.needed(2)
        if two_rows != self._two_rows:
            self._two_rows = two_rows
            self._place_workspaces()
        room = room if two_rows else room_left
        self.primary.set_compact(sum(room < self.primary.needed(brief) for brief in (0, 1)))

    def _place_workspaces(self) -> None:
        """Place the segments between the menus and the main button, or in a second row."""
        centred = Qt.AlignmentFlag.AlignCenter
        if self._two_rows:
            self._grid.addWidget(self.workspaces, 1, 0, 1, 3, centred)
        else:
            self._grid.addWidget(self.workspaces, 0, 1, centred)
