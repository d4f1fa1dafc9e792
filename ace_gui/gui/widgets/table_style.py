"""How the window's tables look."""

from __future__ import annotations

from PySide6.QtWidgets import QAbstractItemView, QTableView


def plain_rows(table: QTableView, *, padding: int) -> None:
    """Rows chosen whole, without grid and numbers, ``padding`` pixels higher than their text."""
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setShowGrid(False)
    table.setTabKeyNavigation(False)
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(table.fontMetrics().height() + padding)
    table.horizontalHeader().setHighlightSections(False)
