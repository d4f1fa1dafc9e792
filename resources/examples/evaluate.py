"""Score the base and every expert on a few examples of each task."""

import ace_gui
from ace_gui.paths import Sample

found = ace_gui.evaluate(Sample.IMAGES.recipe, limit=20, device="cpu")
for score in found.scores:
    print(score.model, score.task, score.metric, round(score.score, 3))
