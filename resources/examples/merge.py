"""Merge a base and its experts into a folder that transformers loads."""

import ace_gui
from ace_gui.paths import Sample

recipe = ace_gui.Recipe.load(Sample.IMAGES.recipe)  # or your own recipe file, or a mapping
result = ace_gui.merge(recipe, "merged", device="cpu")
print(result.folder, result.files)
for warning in result.warnings:
    print(warning)
