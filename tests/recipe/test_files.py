from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.errors import RecipeError
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.model_paths import CONFIG_BYTES, base_config
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe
from ace_gui.recipe.values import model_name

MINIMAL = "base_model: base\nmodels: [{model: a}]\n"

REFUSED = {
    "empty": ("", "not a recipe"),
    "list": ("- 1", "not a recipe"),
    "no base": ("models: [{model: a}]", "'base_model' is missing"),
    "no models": ("base_model: x\nmodels: []", "list at least one model"),
    "models of the wrong kind": ("base_model: x\nmodels: 3", "'models' is 3"),
    "unknown key": (MINIMAL + "paramters: {}", "did you mean 'parameters'"),
    "unknown nested key": (
        "base_model: x\nmodels: [{model: a, parameters: {wieght: 1}}]",
        "'models[0].parameters.wieght'; did you mean 'weight'",
    ),
    "repeated key": (MINIMAL + "base_model: y", "appears twice"),
    "bad dtype": (MINIMAL + "out_dtype: int8", "must be one of 'float32'"),
    "weight is not a number": (
        "base_model: x\nmodels: [{model: a, parameters: {weight: .nan}}]",
        "weight",
    ),
    "alias within itself": (MINIMAL + "parameters: &p {a: *p}", "not valid YAML"),
    "alias of nothing": (MINIMAL + "parameters: *p", "not valid YAML"),
    "deep": ("{" * 5000, "not valid YAML"),
    "key that is a list": (MINIMAL + "parameters: {[1]: 2}", "a key is a list"),
    "boolean as text": (MINIMAL + "schema: 1\nmerge_method: ace\nchat_template: true", "in quotes"),
    "role of a column as a key": (
        MINIMAL + "tasks: [{data: d, choices: [yes, no]}]",
        "columns: {choices: NAME}",
    ),
    "two spellings of a key": (MINIMAL + "parameters: {1: 2, '1': 3}", "appears twice"),
    "python object": ("base_model: !!python/object/apply:os.getcwd []", "not valid YAML"),
}


def write(folder: Path, text: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("text", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals_name_the_file_and_the_key(tmp_path, text: str, expected: str):
    path = write(tmp_path, text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert expected in caught.value.sentence
    assert str(path) in caught.value.sentence
    assert "\n" not in caught.value.sentence


def test_missing_file_and_binary_file(tmp_path):
    with pytest.raises(RecipeError, match="not a file"):
        load_recipe(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\x80\x00")
    with pytest.raises(RecipeError, match="not text"):
        load_recipe(tmp_path / "binary.yaml")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_file_of_windows_editors_is_named_by_its_encoding(tmp_path, encoding: str):
    content = MINIMAL.encode(encoding)
    marks = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
    (tmp_path / "wide.yaml").write_bytes(marks.get(encoding, b"") + content)
    with pytest.raises(RecipeError, match=r"UTF-16.*UTF-8"):
        load_recipe(tmp_path / "wide.yaml")


def test_relative_paths_are_taken_from_the_recipes_folder(tmp_path):
    recipe = load_recipe(write(tmp_path, MINIMAL))
    assert recipe.base_model == tmp_path / "base"
    assert recipe.models == (ModelEntry(model=tmp_path / "a"),)
    assert (recipe.merge_method, recipe.scope, recipe.out_dtype) == ("ace", "default", None)


@pytest.mark.parametrize("text", ["1e-5", "1.0e-5", "1E-05", "0.00001"])
def test_scientific_notation_is_a_number_with_or_without_a_dot(tmp_path, text: str):
    recipe = load_recipe(write(tmp_path, f"{MINIMAL}parameters: {{epsilon: {text}}}"))
    assert recipe.parameters["epsilon"] == pytest.approx(1e-5)


def test_experts_of_one_name_are_told_apart():
    entries = (
        ModelEntry(model=Path("x/a")),
        ModelEntry(model=Path("y/a")),
        ModelEntry(model=Path("z/v1.5")),
        ModelEntry(model=Path("z/b.safetensors")),
        ModelEntry(model=Path("z/c"), name="named"),
    )
    names = Recipe(base_model=Path("base"), models=entries).expert_names
    assert names == ("a-1", "a-2", "v1.5", "b", "named")


@settings(max_examples=60)
@given(
    names=st.lists(st.from_regex(r"[a-z]{1,8}(\.[0-9])?", fullmatch=True), min_size=1, unique=True),
    weight=st.floats(-4, 4),
    epsilon=st.floats(1e-12, 1),
    seed=st.integers(0, 2**63 - 1),
)
def test_what_is_written_is_read_back(
    tmp_path_factory, names: list[str], weight: float, epsilon: float, seed: int
):
    """Whatever its numbers and names; ``test_recipe_fields`` has every key."""
    folder = tmp_path_factory.mktemp("recipes")
    recipe = Recipe(
        base_model=folder / "models" / "base",
        models=tuple(ModelEntry(model=folder / name, weight=weight) for name in names),
        parameters={"epsilon": epsilon, "tau": 0.3},
        seed=seed,
    )
    path = write(folder, dump_recipe(recipe, folder))
    assert load_recipe(path) == recipe


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
def test_a_model_is_called_what_people_call_it(path: str, name: str):
    assert model_name(Path(path)) == name
    recipe = Recipe(base_model=Path("/base"), models=(ModelEntry(model=Path(path)),))
    assert recipe.expert_names == (name,)


def test_models_of_the_cache_keep_their_names_in_a_file(tmp_path):
    snapshots = tmp_path / "models--org--sst2" / "snapshots"
    entries = tuple(ModelEntry(model=snapshots / commit) for commit in (COMMIT, COMMIT[::-1]))
    recipe = Recipe(base_model=tmp_path / "base", models=entries)
    (tmp_path / "recipe.yaml").write_text(dump_recipe(recipe, tmp_path))
    assert load_recipe(tmp_path / "recipe.yaml").expert_names == ("sst2-1", "sst2-2")


def test_what_a_base_config_holds(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}', encoding="utf-8")
    assert base_config(tmp_path) == {"model_type": "gpt2"}


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff\xfe",
        b"[1, 2]",
        b"[" * 100_000,
        b'{"model_type": "gpt2"}' + b" " * CONFIG_BYTES,
        None,
    ],
    ids=["cut short", "no text", "no mapping", "nested too deeply", "too large", "none"],
)
def test_what_cannot_be_read_holds_nothing(tmp_path, content: bytes | None):
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    assert base_config(tmp_path) == {}
