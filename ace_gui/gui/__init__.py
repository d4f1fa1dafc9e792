"""The window. The only room that imports PySide6 and pyqtgraph; it imports no torch."""
