"""A method of one's own with a survey: the one of the page, as a file in the person's folder."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import ace_gui as workbench
from ace_gui.engine import streaming
from ace_gui.engine.capabilities import method_info
from ace_gui.engine.merging import surveying
from ace_gui.errors import MethodError, RecipeError
from ace_gui.methods import METHODS, Merged, MethodSurvey, plugins, trim_survey
from ace_gui.methods.method import Kind
from ace_gui.methods.registry import added_sources, register_method
from ace_gui.methods.shared.survey import (
    RankSurvey,
    Stage,
    SumSurvey,
    SurveyContext,
    norms_survey,
)
from ace_gui.paths import resource_path
from tests.helpers.command import ace_gui
from tests.helpers.registry import own_registry

SHAPES = {"a.weight": (7, 9), "b.weight": (5, 4), "b.bias": (5,)}
NAMES = ("base", "one", "two", "three")


@pytest.fixture(autouse=True)
def registered_here() -> Iterator[None]:
    """What a test registers is gone after it."""
    with own_registry():
        yield


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The method of the page is a file in the folder of a person's own methods."""
    page = resource_path("help/library.md").read_text("utf-8")
    (block,) = [text for text in re.findall(r"```python\n(.*?)```", page, re.S) if "Survey" in text]
    code, merge, _ = block.partition("ace_gui.merge(")
    assert merge
    folder = tmp_path / "config" / "ace-workbench" / "methods"
    folder.mkdir(parents=True)
    first = "import torch\nfrom ace_gui import Merged, register_method\n"
    (folder / "largest.py").write_text(first + code)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert plugins.load_plugins() == ()


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe for three experts whose changes of two tensors differ in size by far."""
    torch.manual_seed(0)
    for name in NAMES:
        (tmp_path / name).mkdir()
        tensors = {key: torch.randn(shape) for key, shape in SHAPES.items()}
        tensors["b.weight"] *= 10
        save_file(tensors, tmp_path / name / "model.safetensors")
    keys = {
        "schema": 1,
        "merge_method": "largest_changes",
        "base_model": "base",
        "models": [{"model": "one"}, {"model": "two", "parameters": {"weight": 0.5}}],
        "parameters": {"density": 0.3},
    }
    file = tmp_path / "recipe.yaml"
    file.write_text(json.dumps(keys))
    return file


def merged(recipe: Path, name: str = "out", **keys: object) -> dict[str, torch.Tensor]:
    document = {**json.loads(recipe.read_text()), **keys}
    file = recipe.with_name(f"{name}.yaml")
    file.write_text(json.dumps(document))
    workbench.merge(file, recipe.with_name(name), device="cpu")
    return load_file(recipe.with_name(name) / "model.safetensors")


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors are surveyed and merged in several parts."""
    monkeypatch.setattr(streaming, "PART_ELEMENTS", 8)
    monkeypatch.setattr(surveying, "PASS_ELEMENTS", 8)


@pytest.mark.usefixtures("example")
def test_its_parameters_are_in_form_help_and_json(tmp_path: Path) -> None:
    (field,) = method_info("largest_changes").fields
    assert (field.name, field.label, field.high) == ("density", "Density", 1.0)
    printed = ace_gui("methods", "largest_changes").stdout
    assert "Share of the changes to add." in printed
    file = tmp_path / "methods.json"
    assert ace_gui("methods", "--all", "--json", file).returncode == 0
    (record,) = [
        record
        for record in json.loads(file.read_text())["methods"]
        if record["name"] == "largest_changes"
    ]
    assert "density" in json.dumps(record)


@pytest.mark.usefixtures("example")
def test_it_merges_by_the_threshold_of_the_whole_model(recipe: Path) -> None:
    states = [load_file(recipe.with_name(name) / "model.safetensors") for name in NAMES[:3]]
    expected = dict(states[0])
    for state, weight in zip(states[1:], (1.0, 0.5), strict=True):
        changes = {name: state[name] - states[0][name] for name in SHAPES}
        sizes = torch.cat([change.abs().ravel() for change in changes.values()])
        least = sizes.sort(descending=True).values[int(0.3 * len(sizes)) - 1]
        for name, change in changes.items():
            expected[name] = expected[name] + weight * change * (change.abs() >= least)
    tensors = merged(recipe)
    for name, tensor in expected.items():
        torch.testing.assert_close(tensors[name], tensor)


@pytest.mark.usefixtures("example")
def test_streamed_in_parts_it_is_the_same(recipe: Path, request: pytest.FixtureRequest) -> None:
    expected = merged(recipe, "whole")
    request.getfixturevalue("small_parts")
    for name, tensor in merged(recipe, "parts").items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.usefixtures("example")
def test_its_parameters_may_not_differ_between_experts(recipe: Path) -> None:
    object.__setattr__(METHODS["largest_changes"], "for_one_expert", ("density",))
    rules = [{"pattern": "*", "experts": {"one": {"density": 0.5}}}]
    with pytest.raises(RecipeError, match="parameters of one expert only where"):
        merged(recipe, overrides=rules)


def clipped(deltas: Any, weights: Any, parameters: Any, findings: Any, **_: object) -> Merged:
    """Each change, divided by what a second survey found after a first one."""
    total = torch.zeros_like(deltas[0])
    for delta, norm in zip(deltas, findings["clipped norm"], strict=True):
        total += delta.clamp(-1, 1) / norm
    return Merged(delta=total)


def norms_of_small(context: SurveyContext) -> SumSurvey:
    """Depends on the findings of the first survey, for each of the experts."""
    limits = context.findings["norm"]

    def figures(deltas: Sequence[torch.Tensor], _start: int) -> Iterator[tuple[float]]:
        for delta, limit in zip(deltas, limits, strict=True):
            yield (float(delta.clamp(-limit, limit).double().square().sum()),)

    return SumSurvey(
        len(limits), 1, figures, lambda sums: {"clipped norm": tuple(value for (value,) in sums)}
    )


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("over", ["model", "tensor"])
@pytest.mark.parametrize("after", [{}, {"scale": 2.0}], ids=["in parts", "whole"])
def test_surveys_of_either_range_run_in_order(
    after: dict[str, float], over: str, kind: Kind, recipe: Path, request: pytest.FixtureRequest
) -> None:
    surveys = (
        MethodSurvey(
            survey=lambda context: norms_survey(len(context.parameters)), over=over, finds=("norm",)
        ),
        MethodSurvey(survey=norms_of_small, over=over, finds=("clipped norm",)),
    )
    options = {"title": "T", "summary": "S", "kind": kind, "surveys": surveys}
    register_method(name="own", **options)(clipped)
    keys = {"merge_method": "own", "parameters": {}, "after": after}
    expected = merged(recipe, "whole", **keys)
    request.getfixturevalue("small_parts")
    for name, tensor in merged(recipe, "parts", **keys).items():
        torch.testing.assert_close(tensor, expected[name])
    states = [load_file(recipe.with_name(name) / "model.safetensors") for name in NAMES[:3]]
    names = [name for name in SHAPES if kind is not Kind.MATRIX or "weight" in name]
    for name in names:
        total = torch.zeros_like(states[0][name])
        for state in states[1:]:
            change = state[name] - states[0][name]
            read = [name] if over == "tensor" else names
            squares = [(state[key] - states[0][key]).square().sum() for key in read]
            total += change.clamp(-1, 1) / sum(squares)
        if total.ndim == 2:  # of which the steps after the method are
            total *= after.get("scale", 1.0)
        torch.testing.assert_close(expected[name] - states[0][name], total, rtol=1e-4, atol=1e-5)


def nothing(context: SurveyContext) -> RankSurvey:
    """Finds another name than the one that is declared below."""
    return trim_survey([0.5 for _ in context.parameters])


@pytest.mark.parametrize(
    ("declaration", "said"),
    [
        (lambda: MethodSurvey(survey=nothing, finds=("x",), over="layer"), "model or tensor"),
        (lambda: MethodSurvey(survey=nothing, finds="threshold"), "tuple of names"),  # type: ignore[arg-type]
        (lambda: MethodSurvey(survey=nothing, finds=("x",), uses=("share",)), "`share`"),
        (lambda: nothing, "`surveys`"),
    ],
)
def test_a_wrong_declaration_is_refused(declaration: Any, said: str) -> None:
    with pytest.raises(MethodError, match=said):
        register_method(name="own", title="T", summary="S", surveys=(declaration(),))(clipped)


@pytest.mark.parametrize("over", ["model", "tensor"])
def test_findings_that_are_not_as_declared_are_refused(over: str, recipe: Path) -> None:
    survey = MethodSurvey(survey=nothing, over=over, finds=("limit",))
    options = {"title": "T", "summary": "S", "kind": "entry", "surveys": (survey,)}
    register_method(name="own", **options)(clipped)
    with pytest.raises(MethodError, match="must find `limit` for each of 2 experts"):
        merged(recipe, merge_method="own", parameters={})


def fails(*_: object) -> Any:
    """What a mistake does, wherever a survey calls it."""
    return 1 / 0


FAILING: dict[str, Callable[[SurveyContext], Any]] = {
    "the function": fails,
    "the range": lambda _: None,
    "what it returns": lambda _: 3,
    "the values": lambda _: RankSurvey(2, Stage(names=("x",), values=fails, ranks=lambda _: (1,))),
    "the figures": lambda _: SumSurvey(2, 1, fails, lambda _: {"x": (1.0, 1.0)}),
    "the findings": lambda _: SumSurvey(2, 1, lambda deltas, _: [[1.0] for _ in deltas], fails),
}


@pytest.mark.parametrize("over", ["model", "tensor"])
@pytest.mark.parametrize("what", FAILING)
def test_a_mistake_in_a_survey_is_one_sentence(what: str, over: Any, recipe: Path) -> None:
    if what == "the range":
        over = fails
    survey = MethodSurvey(survey=FAILING[what], over=over, finds=("x",))
    options = {"title": "T", "summary": "S", "kind": "entry", "surveys": (survey,)}
    register_method(name="own", **options)(clipped)
    with pytest.raises(MethodError, match="of a survey") as caught:
        merged(recipe, merge_method="own", parameters={})
    assert "test_own_surveys.py" in caught.value.sentence
    assert not recipe.with_name("out").exists()


def test_a_changed_survey_makes_the_merge_another(recipe: Path, tmp_path: Path) -> None:
    digests = set()
    for share in ("0.5", "0.4"):
        file = tmp_path / f"surveys{share}.py"
        file.write_text(f"def survey(known):\n    return {share}\n")
        names: dict[str, Any] = {}
        exec(compile(file.read_text(), str(file), "exec"), names)
        survey = MethodSurvey(survey=names["survey"], finds=("x",))
        options = {"title": "T", "summary": "S", "surveys": (survey,), "replace": True}
        register_method(name="own", **options)(clipped)
        digests.add(added_sources(["own"])["own"])
    assert len(digests) == 2
