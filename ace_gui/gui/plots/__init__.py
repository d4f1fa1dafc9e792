"""The plots: heterogeneity along the model, spectra, energies."""

import PySide6.QtCore  # noqa: F401  (pyqtgraph takes the binding that is imported already)
