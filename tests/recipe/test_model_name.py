from pathlib import Path

import pytest

from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe
from ace_gui.recipe.values import NonFinite, model_name

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/models/cola", "cola"),
        ("/models/cola.safetensors", "cola"),
        (f"/hub/models--org--sst-2/snapshots/{COMMIT}", "sst-2"),
        (f"/hub/models--gpt2/snapshots/{COMMIT}", "gpt2"),
        (f"/hub/elsewhere/snapshots/{COMMIT}", COMMIT),
        ("/models--org--x/other/run", "run"),
    ],
)
def test_a_model_is_called_what_people_call_it(path: str, name: str) -> None:
    assert model_name(Path(path)) == name
    recipe = Recipe(base_model=Path("/base"), models=(ModelEntry(model=Path(path)),))
    assert recipe.expert_names == (name,)


def test_models_of_the_cache_keep_their_names_in_a_file(tmp_path: Path) -> None:
    snapshots = tmp_path / "models--org--sst2" / "snapshots"
    entries = tuple(ModelEntry(model=snapshots / commit) for commit in (COMMIT, COMMIT[::-1]))
    recipe = Recipe(base_model=tmp_path / "base", models=entries)
    (tmp_path / "recipe.yaml").write_text(dump_recipe(recipe, tmp_path))
    assert load_recipe(tmp_path / "recipe.yaml").expert_names == ("sst2-1", "sst2-2")


@pytest.mark.parametrize("choice", NonFinite)
def test_what_becomes_of_nan_and_inf_is_in_the_file(choice: NonFinite, tmp_path: Path) -> None:
    entries = (ModelEntry(model=tmp_path / "a"),)
    recipe = Recipe(base_model=tmp_path / "base", models=entries, non_finite=choice)
    text = dump_recipe(recipe, tmp_path)
    assert ("non_finite" in text) == (choice is not NonFinite.STOP)
    (tmp_path / "recipe.yaml").write_text(text)
    assert load_recipe(tmp_path / "recipe.yaml") == recipe
