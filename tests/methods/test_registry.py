import dataclasses
import math
import re
from typing import Any

import pytest
from typer.testing import CliRunner

from ace_gui.cli.commands import app
from ace_gui.engine.capabilities import method_info
from ace_gui.errors import RecipeError
from ace_gui.methods import METHODS, checked_parameters, get_method, parameter_fields
from ace_gui.methods.ace import AceParameters, ace
from ace_gui.methods.method import Kind, MergeMethod
from ace_gui.methods.shared.experts import Merged
from ace_gui.methods.shared.kit import parameter


@dataclasses.dataclass(frozen=True, kw_only=True)
class EveryKind:
    """A parameter of each kind."""

    share: float = parameter(0.5, label="", help="", low=0.0, high=1.0)
    count: int = parameter(3, label="", help="", low=1)
    exact: bool = parameter(True, label="", help="")
    mode: str = parameter("sum", label="", help="", choices=("sum", "mean"))
    free: float = parameter(0.0, label="", help="")


def never(*_: Any, **__: Any) -> Merged:
    raise AssertionError


SAMPLE = MergeMethod(
    name="sample",
    title="",
    summary="",
    formula="",
    citation="",
    parameters=EveryKind,
    merge=never,
    kind=Kind.ENTRY,
)


SOURCES = {
    ("adarank", "steps"): 10_000,
    ("adarank", "patience"): 0,
    ("adamerging", "patience"): 0,
    ("concrete", "patience"): 0,
    ("wemoe", "patience"): 0,
    ("smile", "rank"): 128,
    ("smile", "gate_rank"): 1,
    ("esm", "scaling"): 0.82,
    ("esm", "eigenvalue_power"): 0,
    ("fisher", "floor"): 1e-6,
    ("fr_merging", "coefficients"): "equal",
    ("free_merging", "cutoff"): 0.3,
    ("localize_stitch_few_shot", "sparsity"): 10,
    ("tall_masks", "mask_threshold"): 0.6,
    ("consensus_ta", "mask_threshold"): 0.6,
}
"""What papers or published codes have where a default is another."""


@pytest.mark.parametrize(("method", "name"), SOURCES)
def test_other_defaults_than_the_sources_are_listed_with_their_reason(
    method: str, name: str
) -> None:
    declared = next(field for field in method_info(method).fields if field.name == name)
    assert declared.default != SOURCES[method, name]
    assert declared.differs
    assert declared.help.endswith(declared.differs)
    printed = " ".join(CliRunner().invoke(app, ["methods", method]).output.split())
    _, _, listed = printed.partition("Defaults that differ from the sources")
    assert " ".join(declared.differs.split()) in listed
    assert listed.count(f" {name} = ") == 1


def test_ace_comes_first_and_names_match() -> None:
    assert next(iter(METHODS)) == "ace"
    assert all(name == method.name for name, method in METHODS.items())


def test_fields_follow_the_dataclass() -> None:
    fields = parameter_fields(SAMPLE)
    assert [field.name for field in fields] == ["share", "count", "exact", "mode", "free"]
    assert [field.kind for field in fields] == ["float", "int", "bool", "str", "float"]
    assert [field.default for field in fields] == [0.5, 3, True, "sum", 0.0]
    assert fields[3].choices == ("sum", "mean")


def test_helps_of_fields_have_names_of_code_only_in_backticks() -> None:
    for method in METHODS.values():
        for field in parameter_fields(method):
            words = re.sub(r"`[^`]*`", "", field.help)
            assert not re.search(r"\w_\w", words), (method.name, field.name, words)


def test_a_known_name_gives_its_method() -> None:
    assert get_method("ace").merge is ace


def test_an_unknown_method_names_the_closest_or_all() -> None:
    with pytest.raises(RecipeError) as caught:
        get_method("task_aritmetic")
    assert caught.value.key == "merge_method"
    assert "Did you mean 'task_arithmetic'?" in caught.value.sentence
    assert len(caught.value.sentence) < 100
    with pytest.raises(RecipeError, match="no merge method 'zzz'") as caught:
        get_method("zzz")
    assert all(name in caught.value.sentence for name in METHODS)


def test_missing_values_are_the_defaults_and_whole_numbers_will_do() -> None:
    parameters = checked_parameters(get_method("ace"), {"scaling": 2, "epsilon": 1e-3})
    assert parameters == AceParameters(scaling=2.0, epsilon=1e-3)
    assert isinstance(parameters.scaling, float)


def test_an_unknown_parameter_names_the_closest() -> None:
    with pytest.raises(RecipeError, match="Did you mean 'epsilon'") as caught:
        checked_parameters(get_method("ace"), {"epsilom": 1.0})
    assert caught.value.key == "epsilom"
    with pytest.raises(RecipeError, match="it has: filter_wise"):
        checked_parameters(get_method("model_stock"), {"scaling": 1.0})


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (
            "share",
            "0.5",
            "`share` must be a number, not '0.5'; it must be at least 0 and at most 1",
        ),
        ("share", True, "must be a number"),
        ("share", None, "must be a number"),
        ("share", [0.5], "must be a number"),
        ("share", -0.1, "at least 0 and at most 1"),
        ("share", 1.5, "at least 0 and at most 1"),
        ("share", math.nan, "at least 0"),
        ("share", 10**400, "at most 1"),
        ("free", math.inf, "must be a number"),
        ("free", 10**400, "must be a number"),
        ("count", 2.0, "must be a whole number"),
        ("count", False, "must be a whole number"),
        ("count", 0, "at least 1"),
        ("exact", 1, "must be true or false"),
        ("mode", "max", "one of: sum, mean"),
        ("mode", 3, "must be text"),
    ],
)
def test_a_wrong_value_names_the_key_and_the_range(key: str, value: object, words: str) -> None:
    with pytest.raises(RecipeError) as caught:
        checked_parameters(SAMPLE, {key: value})
    assert caught.value.key == key
    assert key in caught.value.sentence
    assert words in caught.value.sentence


def test_an_open_end_is_excluded() -> None:
    with pytest.raises(RecipeError, match="greater than 0 and at most 1"):
        checked_parameters(get_method("ace"), {"epsilon": 0.0})
    assert checked_parameters(get_method("ace"), {"epsilon": 1e-300}).epsilon == 1e-300
