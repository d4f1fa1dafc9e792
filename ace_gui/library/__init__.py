"""The library: the package's functions for Python programs, without a window.

Every function takes a recipe as the path of a recipe file, as a mapping with the same keys, or as a
``Recipe``. ``progress`` is called with each of the engine's events. Errors are those of
``ace_gui.errors``.
"""
