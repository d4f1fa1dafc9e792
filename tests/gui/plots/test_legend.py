"""The legend of a plot."""

from __future__ import annotations

import os

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEvent, QObject
from shiboken6 import isValid

# isort: split
from ace_gui.gui.plots.frame.legend import Chip, Legend, LegendEntry


class AsLaidOut(QObject):
    """Sets the entries of a legend when a chip is shown, as a plot that is laid out then."""

    def __init__(self, legend: Legend, entries: tuple[LegendEntry, ...]) -> None:
        super().__init__()
        self.legend = legend
        self.entries = entries

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Show and isinstance(watched, Chip):
            self.legend.set_entries(self.entries)
        return False


def test_entries_that_are_set_while_others_are_shown(qtbot, qapp):
    first = tuple(LegendEntry(key=key, label=key, colour="ink") for key in "ab")
    for nested in (first, first[::-1], first[:1]):
        legend = Legend(toggles=True)
        qtbot.addWidget(legend)
        legend.show()
        plot = AsLaidOut(legend, nested)
        qapp.installEventFilter(plot)
        legend.set_entries(first)
        qapp.removeEventFilter(plot)
        qtbot.wait(10)  # what was replaced is deleted
        assert legend.entries() == nested
        chips = legend.findChildren(Chip)
        assert {chip.entry for chip in chips} == set(nested)
        assert all(map(isValid, chips))
        assert legend.sizeHint().width() > 0
