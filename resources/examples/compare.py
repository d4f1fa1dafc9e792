"""Compare methods on the recipe's tasks, then the values of one parameter."""

import ace_gui
from ace_gui.paths import Sample

by_method = ace_gui.compare(Sample.IMAGES.recipe, methods=["recommended", "linear"], device="cpu")
for row in by_method.rows:
    print(row.title, row.error or row.mean.score)
by_value = ace_gui.compare(
    Sample.IMAGES.recipe, parameter="scaling", values=[0.8, 1.0], device="cpu"
)
print([(row.parameters["scaling"], row.mean.score) for row in by_value.rows])
