"""Imports what the empty window does not need, while the person looks at it."""

from __future__ import annotations

from importlib import import_module

from PySide6.QtCore import QObject, QThread


class Preload(QThread):
    """A thread that imports the workspace with its plots; ``finished`` when it is there."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)

    def run(self) -> None:
        """Import."""
        import_module("ace_gui.gui.shell.workspace")
