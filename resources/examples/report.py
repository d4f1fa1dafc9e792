"""Write one HTML file about a merge, and see how far the merged model is from its base."""

import ace_gui
from ace_gui.paths import Sample

folder = Sample.IMAGES.recipe.parent
models = [{"model": str(folder / "experts" / name)} for name in ("digits", "shapes")]
recipe = {"merge_method": "ace", "base_model": str(folder / "base"), "models": models, "schema": 1}
print(ace_gui.report(recipe, "report.html", device="cpu"))
merged = ace_gui.merge(recipe, "merged", device="cpu").folder
for role in ace_gui.diff(folder / "base", merged).by_role:
    print(role.name, role.relative)
