"""The report of a merge: one HTML file without external resources.

``page`` gathers the engine's results and assembles the page; ``report_figures`` and
``report_tables`` show them.
"""
