"""The engine: plan, analyse, merge, inspect and export, in a process of its own.

``plan``, ``events``, ``jobs``, ``process`` and what computes with their values alone (``checks``,
``fit``, ``health``, ``similarity``, ``spectral_figures``) import neither torch nor transformers, so
the window can use them; everything else in this room may.
"""
