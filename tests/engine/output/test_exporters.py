"""The forms of a merge on disk: a class for each, and models of single experts as one of them."""

from pathlib import Path

import pytest

import ace_gui
from ace_gui.engine.output.exporters import EXPORTERS, ThroughModel
from ace_gui.errors import WorkbenchError
from ace_gui.recipe.output_forms import Output
from tests.helpers.models import Family
from tests.helpers.recipes import recipe_of


def test_each_form_has_its_class_and_options_that_the_window_can_show():
    assert list(EXPORTERS) == list(Output)
    for form, exporter in EXPORTERS.items():
        assert exporter.output is form
        assert isinstance(exporter, ThroughModel) is form.traits.through_model
        usual = form.traits.export()
        for option in form.options:
            assert option.label
            assert option.shown(usual) in (*option.choices, option.default)
            assert option.edited(usual, option.shown(usual), usual) == usual


@pytest.mark.parametrize("form", [form for form in Output if form is not Output.MODEL])
@pytest.mark.parametrize("option", ["evaluate", "complete_heads"])
def test_what_only_a_model_has_is_refused(form: Output, option: str, gpt2: Family, tmp_path: Path):
    recipe = recipe_of(gpt2, merge_method="emr", output=form)
    with pytest.raises(WorkbenchError, match=f"needs a whole model, not {form.traits.noun}"):
        ace_gui.merge(recipe, tmp_path / "out", **{option: True})
    assert not (tmp_path / "out").exists()
