"""Write a package that adds a method to every installation into which it is installed.

`pip install ./my-methods` makes the method known to the window, the command line and the library.
"""

from pathlib import Path

PROJECT = """\
[project]
name = "my-methods"
version = "1.0"
dependencies = ["ace-workbench"]

[project.entry-points."ace_gui.methods"]
half = "my_methods"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
"""
MODULE = '''\
"""Methods of mine."""

import ace_gui


@ace_gui.register_method(
    name="half", title="Half", summary="Half of the mean change.", kind="entry"
)
def half(deltas, weights, parameters, **context):
    return ace_gui.Merged(delta=sum(deltas) / (2 * len(deltas)))
'''

folder = Path("my-methods")
(folder / "my_methods").mkdir(parents=True)
(folder / "pyproject.toml").write_text(PROJECT)
(folder / "my_methods" / "__init__.py").write_text(MODULE)
print(f"pip install ./{folder}")
