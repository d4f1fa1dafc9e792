import time
from dataclasses import replace
from pathlib import Path

import pytest

from ace_gui.gui.state.draft import Inputs
from ace_gui.recipe.new_recipes import recipe_for
from ace_gui.recipe.recommended import NAME
from tests.gui.fakes import BASE, COLA, SST2, recipe


def test_a_recipe_survives_the_way_through_the_window():
    original = recipe(COLA, SST2, parameters={"tau": 0.5}, scope="authors-vit")
    assert Inputs.from_recipe(original).recipe() == original


def test_an_expert_keeps_its_colour_when_another_leaves():
    inputs = Inputs(base=BASE).with_experts([COLA, SST2]).without_experts([0])
    assert [expert.colour for expert in inputs.experts] == [1]
    again = inputs.with_experts([COLA])
    assert [expert.colour for expert in again.experts] == [1, 0]


def test_only_touched_parameters_enter_the_recipe_and_each_method_keeps_its_own():
    inputs = Inputs(base=BASE, method="ace").with_parameter("tau", 0.5)
    linear = Inputs(base=BASE, method="linear", parameters=inputs.parameters)
    assert inputs.recipe().parameters == {"tau": 0.5}
    assert linear.recipe().parameters == {}
    assert inputs.with_parameter("tau", None).recipe().parameters == {}


def test_without_a_base_there_is_no_recipe():
    with pytest.raises(ValueError, match="base"):
        Inputs(base=None).with_experts([Path("x")]).recipe()


def test_many_experts_cost_time_in_proportion_to_their_number():
    """With time for each pair, these would take minutes."""
    paths = [Path(f"/models/{index % 3}/model.safetensors") for index in range(20_000)]
    started = time.process_time()
    many = Inputs(base=Path("/models/base")).with_experts(paths)
    assert len(set(many.names)) == len({expert.colour for expert in many.experts}) == 20_000
    assert time.process_time() - started < 8


def test_a_new_project_starts_with_the_merge_that_the_command_line_recommends(session, tmp_path):
    base = tmp_path / "base"
    expert = tmp_path / "expert"
    inputs = replace(session.draft.inputs, base=base).with_experts([expert])
    assert inputs.is_recommended
    assert inputs.recipe() == recipe_for(str(base), [str(expert)])


@pytest.mark.parametrize("name", ["ace", "ties"])
def test_another_method_than_the_recommended_merge_starts_with_its_own_defaults(name):
    start = replace(Inputs(), base=Path("/models/base")).recommended()
    chosen = start.with_method(name)
    assert not chosen.is_recommended
    assert chosen == replace(Inputs(), base=start.base, method=name)
    assert chosen.with_method(NAME) == start


def test_what_a_person_set_stays_with_another_method():
    start = Inputs().recommended().with_parameter("alpha", 0.5)
    chosen = start.with_method("ties")
    assert chosen == replace(start, method="ties")
    assert chosen.with_method("ace").touched["alpha"] == 0.5
