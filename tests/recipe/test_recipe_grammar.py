"""Whatever stands in a recipe file, it is a recipe or a RecipeError of one sentence, and soon."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ace_gui.engine.planning.overridden_rows import check_overrides
from ace_gui.errors import RecipeError
from ace_gui.methods.registry import checked_parameters, get_method
from ace_gui.recipe.overrides import Override, check_blocks
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.mergekit_files import DEPARTS, REFUSED, SAME

SECONDS = 10.0
OWN: dict[str, Any] = {
    "schema": 1,
    "merge_method": "ties",
    "base_model": "base",
    "models": [{"model": "a", "name": "x", "parameters": {"weight": 0.5}}, {"model": "b"}],
    "parameters": {"density": 0.5, "trim": "tensor"},
    "scope": "default",
    "seed": 3,
    "overrides": [
        {"role": "query", "blocks": "1-3", "parameters": {"density": 0.1}},
        {"pattern": "*mlp*", "weights": {"x": 0.1}, "experts": {"b": {"density": 0.2}}},
    ],
}
DOCUMENTS = [OWN, *SAME.values(), *DEPARTS.values(), *REFUSED.values()]
WILD: list[Any] = [
    None, True, False, 0, -1, 1.5, 1e300, -1e300, 10**400, -(10**4000), "", "x", "*", "a" * 3000,
    "~nosuchuser/x", "\x00", "\x1b[31m", "https://x/y", "org/name@rev", "a+b", "1-", "9-1", "[",
    float("nan"), float("inf"), [], [[]], [0.1, "x"], {}, {"value": 1}, [{"value": [1, 0]}],
    [1, 0], {"filter": "x", "value": []},
    {"model": "a", "lora": "b"}, [None], {"a": {"b": {"c": 1}}},
]  # fmt: skip


def places(value: object, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a document."""
    members = list(value.items()) if isinstance(value, dict) else []
    members = list(enumerate(value)) if isinstance(value, list) else members
    for key, inner in members:
        yield (*at, key)
        yield from places(inner, (*at, key))


def changed(document: Any, at: tuple[Any, ...], value: object) -> Any:
    copy = json.loads(json.dumps(document))
    inner = copy
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return copy


def tried(path: Path) -> None:
    """Read it, and check what can be checked without models."""
    start = time.thread_time()
    sentence = ""
    try:
        recipe = load_recipe(path)
        method = get_method(recipe.merge_method)
        checked_parameters(method, recipe.parameters)
        check_overrides(recipe)
    except RecipeError as error:
        sentence = error.sentence
    assert time.thread_time() - start < SECONDS
    assert len(sentence) < 3000
    assert sentence.isprintable()


def as_yaml(value: object) -> str:
    """JSON, which is YAML but for the numbers that JSON has not."""
    return (
        json.dumps(value)
        .replace("NaN", ".nan")
        .replace("-Infinity", "-.inf")
        .replace("Infinity", ".inf")
    )


quick = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(data=st.data())
def test_a_wild_value_anywhere(tmp_path, data: st.DataObject):
    document = data.draw(st.sampled_from(DOCUMENTS))
    at = data.draw(st.sampled_from(list(places(document))))
    path = tmp_path / "recipe.yaml"
    path.write_text(as_yaml(changed(document, at, data.draw(st.sampled_from(WILD)))))
    tried(path)


@pytest.mark.long
def test_every_wild_value_everywhere(tmp_path):
    path = tmp_path / "recipe.yaml"
    for document in DOCUMENTS:
        for at in places(document):
            for value in WILD:
                path.write_text(as_yaml(changed(document, at, value)))
                tried(path)


@quick
@given(data=st.data())
def test_bytes_changed_anywhere(tmp_path, data: st.DataObject):
    content = bytearray(as_yaml(data.draw(st.sampled_from(DOCUMENTS))).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(content) - 1))
        length = data.draw(st.integers(0, 8))
        content[index : index + length] = data.draw(st.binary(max_size=6))
    path = tmp_path / "recipe.yaml"
    path.write_bytes(bytes(content))
    tried(path)


def nested(opening: str, closing: str = "") -> bytes:
    return (opening * 100_000 + closing * 100_000).encode()


MONSTERS = {
    "deep lists": nested("["),
    "deep mappings": nested("{a: "),
    "deep blocks": b"".join(b" " * n + b"a:\n" for n in range(1000)),
    "aliases that double": b"a: &a [x, x]\n"
    + b"".join(
        f"{n}: &{n} [*{p}, *{p}]\n".encode() for p, n in zip("abcdefghi", "bcdefghij", strict=True)
    ),
    "merge keys": b"a: &a {x: 1}\n<<: *a\n",
    "many documents": b"---\na: 1\n" * 5000,
    "5000 digits": b"schema: 1\nbase_model: b\nmodels: [{model: a}]\nseed: " + b"9" * 5000,
    "sexagesimal": b"base_model: b\nmodels: [{model: a}]\nseed: " + b"1:" * 3000 + b"1",
    "a byte order mark": b"\xef\xbb\xbfbase_model: b\nmodels: [{model: a}]\n",
    "UTF-16": "base_model: b\nmodels: [{model: a}]\n".encode("utf-16"),
    "Latin-1": "base_model: modèle\nmodels: [{model: a}]\n".encode("latin-1"),
    "lone surrogates": b'base_model: "\\ud800"\nmodels: [{model: "\\udfff"}]\n',
    "control characters": b"base_model: \x1b[31m\nmodels: [{model: a}]\n",
    "NULs": b"\0" * 4000,
    "one long line": b"a" * 999_000,
    "many keys": b"".join(f"k{n}: 1\n".encode() for n in range(40_000)),
    "many experts": b"base_model: b\nmodels:\n" + b"- model: a\n" * 20_000,
    "tags": b"base_model: !!binary AAAA\nmodels: !!set {a}\n",
    "a date": b"base_model: 2001-99-99\nmodels: [{model: 2001-01-01}]\n",
    "only a comment": b"# nothing\n",
}


@pytest.mark.parametrize("content", MONSTERS.values(), ids=MONSTERS)
def test_monsters(tmp_path, content: bytes):
    path = tmp_path / "recipe.yaml"
    path.write_bytes(content)
    tried(path)


def test_a_recipe_in_utf_8_with_its_mark_is_read(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_bytes(MONSTERS["a byte order mark"])
    assert load_recipe(path).base_model == tmp_path / "b"


@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_a_config_that_never_ends_is_not_read(tmp_path, kind: str):
    config = tmp_path / "base" / "config.json"
    config.parent.mkdir()
    if kind == "a pipe":
        os.mkfifo(config)
    else:
        config.symlink_to("/dev/zero")
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(SAME["ties, gradients and filters"]))
    with pytest.raises(RecipeError, match="number of blocks"):
        load_recipe(path)


@pytest.mark.parametrize("blocks", [10**9, -1, 10**400, True, "3"])
def test_a_config_with_a_wild_number_of_blocks(tmp_path, blocks: object):
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text(json.dumps({"num_hidden_layers": blocks}))
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(SAME["ties, gradients and filters"]))
    tried(path)


@pytest.mark.parametrize("pattern", ["*a" * 499 + "b", "[" * 1000, "*" * 1000, "?*" * 500])
def test_a_pattern_that_could_take_for_ever_does_not(pattern: str):
    start = time.thread_time()
    Override(pattern=pattern).holds_for("a" * 3000, "query", 1)
    assert time.thread_time() - start < 1.0


@pytest.mark.parametrize(
    "blocks",
    ["9" * 5000, "1-" + "9" * 5000, "1," * 100_000, " " * 100_000 + "x", "1" + " " * 99_999],
)
def test_blocks_that_could_take_for_ever_do_not(blocks: str):
    start = time.thread_time()
    with pytest.raises(ValueError, match="must"):
        check_blocks(blocks)
    assert time.thread_time() - start < 1.0
