"""Whatever field a recipe has: files, the window, resuming and remembered answers heed it.

No field is named where it could be asked for by its type, so a new one is tried as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
import torch
import yaml
from pydantic import TypeAdapter

from ace_gui.engine.inspecting.layer_context import _IN_ROWS, InspectionCache, InspectionContext
from ace_gui.engine.merging.merge_manifest import Manifest
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import RecipeError
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.state.session import Session
from ace_gui.recipe import ModelEntry, Override, Recipe
from ace_gui.recipe.mergekit.writing import _EXPRESSED, dump_mergekit
from ace_gui.recipe.overrides import traits_of
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe
from ace_gui.recipe.values import Choices, TokenSource
from tests.helpers.merges import row_named
from tests.helpers.models import roberta_family
from tests.helpers.recipes import recipe_of

RULE = Override(role="query", disposition="base")
BY_NAME: dict[str, Any] = {
    "blocks": "4-7",
    "layers": (0, 8),
    "overrides": (RULE,),
    "tokens": {"<t>": TokenSource(zero=True)},
    "models": (ModelEntry(model=Path("/models/other"), name="x", weight=0.5),),
}
"""Where not any value of the type will do."""


def plain_recipe() -> Recipe:
    entries = (ModelEntry(model=Path("/models/a")), ModelEntry(model=Path("/models/b")))
    return Recipe(base_model=Path("/models/base"), models=entries)


def another(kind: Any, value: Any) -> Any:
    """A value of this type that is not ``value``."""
    inner = [get_arg for get_arg in get_args(kind) if get_arg is not NoneType]
    if get_origin(kind) in {Union, UnionType}:
        return another(inner[0], value)
    if get_origin(kind) is Literal:
        return next(candidate for candidate in inner if candidate != value)
    if get_origin(kind) is tuple:
        return tuple(another(part, None) for part in inner if part is not Ellipsis)
    if get_origin(kind) is Mapping:
        return {"x": another(inner[1], None)}
    if is_dataclass(kind):
        return kind(**{field.name: other_value(kind, field) for field in fields(kind)})
    if issubclass(kind, StrEnum):
        return next(member for member in kind if member != value)
    if kind is Path:
        return Path("/models/another")
    if kind is str:
        return "other"
    return not value if kind is bool else kind(value or 0) + kind(1)


def other_value(kind: Any, field: Field[Any]) -> Any:
    """A value of the field that is not its default."""
    if field.name in BY_NAME:
        return BY_NAME[field.name]
    return another(get_type_hints(kind)[field.name], field.default)


def of(kind: type) -> list[Any]:
    """The fields of a class that decide a merge."""
    return [pytest.param(field, id=field.name) for field in fields(kind) if field.compare]


def changed(field: Field[Any]) -> Recipe:
    """The plain recipe with another value of one field."""
    return replace(plain_recipe(), **{field.name: other_value(Recipe, field)})


@pytest.mark.parametrize("field", of(Recipe))
def test_a_file_says_it_and_nothing_of_the_others(field, tmp_path):
    recipe = changed(field)
    file = tmp_path / "recipe.yaml"
    file.write_text(dump_recipe(recipe, tmp_path))
    assert load_recipe(file) == recipe != plain_recipe()
    always = {"schema", *(f.name for f in fields(Recipe) if traits_of(f).always)}
    assert yaml.safe_load(file.read_text()).keys() == {*always, "base_model", "models", field.name}


@pytest.mark.parametrize("field", of(ModelEntry))
def test_a_file_says_it_of_an_expert(field, tmp_path):
    entry = replace(plain_recipe().models[0], **{field.name: other_value(ModelEntry, field)})
    recipe = replace(plain_recipe(), models=(entry,))
    file = tmp_path / "recipe.yaml"
    file.write_text(dump_recipe(recipe, tmp_path))
    assert load_recipe(file) == recipe
    assert Inputs.from_recipe(recipe).recipe() == recipe


@pytest.mark.parametrize("field", of(Override))
def test_a_file_says_it_of_a_rule(field, tmp_path):
    rule = replace(
        Override(role="key", disposition="average"), **{field.name: other_value(Override, field)}
    )
    recipe = replace(plain_recipe(), overrides=(rule,))
    file = tmp_path / "recipe.yaml"
    file.write_text(dump_recipe(recipe, tmp_path))
    assert load_recipe(file) == recipe


@pytest.mark.parametrize("field", of(Recipe))
def test_the_window_keeps_it_and_shows_a_merge_of_another_value_as_outdated(field):
    session = Session()
    recipe = changed(field)
    session.draft.keep(Inputs.from_recipe(plain_recipe()))
    run = MergeRun(
        recipe=plain_recipe(),
        parameters=session.draft.resolved_parameters(),
        store=Path("/cache/store"),
    )
    session.results.start_merge(run)
    assert session.merge_is_current
    session.draft.keep(Inputs.from_recipe(recipe))
    assert session.draft.inputs.recipe() == recipe
    assert not session.merge_is_current
    session.draft.keep(Inputs.from_recipe(plain_recipe()))
    assert session.merge_is_current


@pytest.mark.parametrize("field", of(Choices))
def test_statistics_are_forgotten_where_it_changes_the_task_vectors(field):
    assert (changed(field).of_task_vectors() != plain_recipe().of_task_vectors()) == (
        traits_of(field).task_vectors
    )


@pytest.mark.parametrize("field", of(Recipe))
def test_an_unfinished_merge_of_another_value_is_not_resumed(field):
    now = manifest(changed(field))
    before = manifest(plain_recipe())
    on_disk = TypeAdapter(Manifest)
    differences = on_disk.validate_json(on_disk.dump_json(before)).differences(now)
    changes_nothing = field.name == "check"  # it only tries the merge
    assert differences == ([] if changes_nothing else ["recipe"])
    assert on_disk.validate_json(on_disk.dump_json(now)).differences(now) == []


def manifest(recipe: Recipe) -> Manifest:
    return Manifest(
        recipe=recipe, parameters={}, inputs=(), input_folders=(), expert_classes=(), rows=(),
        headers="", dtypes={}, stems={}, shard_bytes=1, device="cpu", threads=1, side_by_side=1,
    )  # fmt: skip


@pytest.mark.parametrize("field", of(Choices))
def test_mergekit_is_told_it_or_it_is_refused(field, tmp_path):
    if field.name in _EXPRESSED:
        return
    recipe = replace(changed(field), merge_method="linear")
    with pytest.raises(RecipeError, match=r"mergekit"):
        dump_mergekit(recipe, {"normalize": True, "base_weight": 0.0}, tmp_path)


def test_answers_are_remembered_apart_for_each_value_that_rows_do_not_tell(tmp_path):
    family = roberta_family(tmp_path)
    prepared = prepare(recipe_of(family))
    row = row_named(prepared, "layer.0.attention.self.query.weight")
    keys = set()
    apart = [field for field in fields(Choices) if field.name not in _IN_ROWS]
    changes = [{}, *({field.name: other_value(Recipe, field)} for field in apart)]
    for change in changes:
        recipe = replace(prepared.plan.recipe, **change)
        of_this = replace(prepared, plan=replace(prepared.plan, recipe=recipe))
        context = InspectionContext(
            of_this, row, torch.device("cpu"), InspectionCache(tmp_path / "cache")
        )
        keys.add(context.merge_key("spectrum"))
    assert len(keys) == len(changes) >= 2


@pytest.mark.parametrize("field", fields(Choices), ids=lambda field: field.name)
def test_what_is_known_of_task_vectors_can_be_found_whatever_is_chosen(field):
    recipe = replace(plain_recipe(), **{field.name: other_value(Choices, field)})
    key = Inputs.from_recipe(recipe).task_vectors
    assert {key: field.name}[Inputs.from_recipe(recipe).task_vectors] == field.name
