"""The report of a merge: one HTML file that needs nothing else.

``gather`` has the engine look at everything, ``figures`` and ``tables`` draw and tabulate it,
``page`` puts it together.
"""
