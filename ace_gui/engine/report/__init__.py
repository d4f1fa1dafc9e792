"""The report of a merge: one HTML file without external resources.

``gather`` collects the engine's results, ``report_plots`` and ``report_tables`` show
them, ``page`` assembles the page.
"""
