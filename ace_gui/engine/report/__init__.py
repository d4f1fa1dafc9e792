"""The report of a merge: one HTML file without external resources.

``gather`` collects the engine's results, ``figures`` and ``tables`` draw and tabulate them,
``page`` assembles the page.
"""
