"""The window. Only this package imports PySide6 and pyqtgraph; it imports no torch."""
