"""Choose a parameter on one half of the data; the score is measured on the other half."""

import ace_gui
from ace_gui.paths import Sample

tuned = ace_gui.tune(Sample.IMAGES.recipe, {"scaling": (0.8, 1.2)}, merges=2, limit=20)
print(tuned.recipe.parameters, [score.score for score in tuned.result.scores])
tuned.recipe.save("tuned.yaml")
