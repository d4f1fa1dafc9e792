"""What must hold of every method in the registry."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ace_gui.errors import MethodError
from ace_gui.linalg import products
from ace_gui.methods import METHODS, MergeMethod, checked_parameters, parameter_fields
from ace_gui.methods.method import Kind
from ace_gui.methods.shared.draws import seed_of
from ace_gui.methods.shared.experts import SURPLUS, Merged, Vote, vectors_for
from ace_gui.methods.shared.survey import (
    Findings,
    Range,
    Survey,
    SurveyContext,
    context_after,
    findings_in_passes,
)
from tests.helpers.method_cases import (
    Array,
    context,
    experts,
    matrix_cases,
    measured_with,
    merged,
    needs_data,
    random_key,
    run,
    surveyed_model,
    tensor_cases,
)
from tests.helpers.method_oracles import relative_error

CASES = tensor_cases()
every = pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
ORDERED = {"slerp", "nuslerp"}
IN_MODULES = {"smile"}
"""Methods that leave matrices as they are, and all of the experts in modules."""

SEEDED = {"dare_linear", "dare_ties", "della", "della_linear", "knots_dare_ties"}


def accepted_deltas(method: MergeMethod[Any], deltas: Array) -> Array:
    return deltas[: method.most]


def cases_of(method: MergeMethod[Any]) -> dict[str, Array]:
    cases = matrix_cases() if method.kind is Kind.MATRIX else CASES
    if method.name in ORDERED:
        return {name: deltas for name, deltas in cases.items() if len(deltas) > 1}
    if method.name in {"karcher", "multislerp"}:
        return {name: deltas for name, deltas in cases.items() if name != "opposed"}
    return cases


@every
def test_it_is_documented(method: MergeMethod[Any]) -> None:
    assert method.title
    assert method.summary.endswith(".")
    assert method.formula.removeprefix("merged matrix: ").startswith("W = ")
    assert "arXiv:" in method.citation
    for field in parameter_fields(method):
        assert field.label
        assert field.help.endswith(".")


@every
def test_its_ranges_hold_its_defaults_and_presets_and_refuse_what_is_outside(
    method: MergeMethod[Any],
) -> None:
    for field in parameter_fields(method):
        for value in (field.default, *(value for _, value in field.presets)):
            assert getattr(checked_parameters(method, {field.name: value}), field.name) == value
        assert field.kind in {"bool", "str"} or None not in {
            field.low,
            field.high,
        }


@every
def test_the_ends_of_every_range_merge(method: MergeMethod[Any]) -> None:
    deltas = accepted_deltas(method, CASES["wide"])
    for field in parameter_fields(method):
        low = field.low
        high = field.high
        if field.name in {"steps", "iterations"}:
            high = 3
        ends = field.choices or [True, False]
        if low is not None:
            ends = [high, low + (1e-3 if field.low_open else 0)]
        dropping = method.name in {"della", "della_linear"}
        options = {"epsilon": 0.0} if dropping and field.name == "density" else {}
        if dropping and field.name == "epsilon":
            ends = [0.0, 0.499]
        for end in ends:
            assert run(method.name, deltas, **options, **{field.name: end}).delta.isfinite().all()


@every
def test_the_result_is_float32_in_the_same_shape(method: MergeMethod[Any]) -> None:
    for name, deltas in cases_of(method).items():
        delta = run(method.name, accepted_deltas(method, deltas)).delta
        assert delta.dtype == torch.float32, name
        assert delta.shape == deltas.shape[1:], name
        assert delta.is_contiguous(), name


@every
def test_experts_that_changed_nothing_give_nothing(method: MergeMethod[Any]) -> None:
    task_vector = merged(method.name, accepted_deltas(method, CASES["all-zero"]))
    assert not task_vector.any()


@every
def test_empty_tensors_stay_empty(method: MergeMethod[Any]) -> None:
    for shape in ((0, 3), (3, 0)):
        outcome = run(method.name, accepted_deltas(method, np.zeros((2, *shape))))
        assert outcome.delta.shape == shape


@every
def test_a_zero_expert_beside_others_does_no_harm(method: MergeMethod[Any]) -> None:
    first, nothing, second = CASES["one-zero"]
    deltas = np.array([first + second, nothing, first])
    task_vector = merged(method.name, accepted_deltas(method, deltas))
    norms = np.linalg.norm(deltas.reshape(len(deltas), -1), axis=1)
    assert np.linalg.norm(task_vector) <= 2 * norms.sum()
    assert task_vector.any() or method.name in IN_MODULES


@every
def test_the_order_of_the_experts_does_not_matter(method: MergeMethod[Any]) -> None:
    if method.name in ORDERED:
        turned = merged(method.name, CASES["wide"][1::-1])
        assert relative_error(turned, merged(method.name, CASES["wide"][:2])) < 1e-6
        return
    parameters = checked_parameters(method, {})
    for name, deltas in cases_of(method).items():
        tensors = [torch.tensor(delta, dtype=torch.float32) for delta in deltas]
        weights = [1.0 + 0.1 * t for t in range(len(tensors))]
        order = np.random.default_rng(3).permutation(len(tensors))
        here = random_key(len(tensors))
        there = replace(here, experts=tuple(here.experts[t] for t in order))
        turned = [tensors[t] for t in order]
        counts = [weights[t] for t in order]
        if len(tensors) > (method.most or len(tensors)):
            continue
        outcome = method.merge(tensors, weights, parameters, **context(method, tensors))
        again = context(method, turned) | ({"random_key": there} if method.seeded else {})
        turned_outcome = method.merge(turned, counts, parameters, **again)
        error = relative_error(
            turned_outcome.delta.double().numpy(), outcome.delta.double().numpy()
        )
        assert error < 1e-6, name


@every
def test_the_task_vectors_are_left_as_they_were(method: MergeMethod[Any]) -> None:
    tensors = [torch.tensor(delta).float() for delta in accepted_deltas(method, CASES["square"])]
    doubles = [tensor.double() for tensor in tensors]
    for deltas in (tensors, doubles):
        before = [delta.clone() for delta in deltas]
        extra = context(method, deltas)
        method.merge(deltas, [2.0] * len(deltas), checked_parameters(method, {}), **extra)
        assert all(torch.equal(delta, two) for delta, two in zip(deltas, before, strict=True))


@every
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_non_finite_task_vector_is_named(method: MergeMethod[Any], bad: float) -> None:
    deltas = accepted_deltas(method, CASES["square"][:2]).copy()
    count = len(deltas)
    deltas[-1, 3, 4] = bad
    with pytest.raises(MethodError, match=f"Task vector {count} of {count} holds NaN or Inf"):
        run(method.name, deltas)


@every
def test_what_cannot_be_merged_is_refused(method: MergeMethod[Any]) -> None:
    for deltas, weights, words in (
        (np.zeros((0, 2, 2)), [], "nothing to merge"),
        (np.ones((2, 2, 2)), [1.0], "2 experts but 1 weights"),
        (np.ones((2, 2, 2)), [1.0, math.nan], "NaN or infinite"),
    ):
        with pytest.raises(MethodError, match=words):
            run(method.name, deltas, weights=weights)
    if method.most == 1:
        return
    shapes = [torch.ones(2, 2), torch.ones(2, 3)]
    extra = context(method, [torch.ones(2, 2)] * 2)
    with pytest.raises(MethodError, match="Task vector 2 has shape") as caught:
        method.merge(shapes, [1.0, 1.0], checked_parameters(method, {}), **extra)
    assert caught.value.shapes == {"first": (2, 2), "expert 2": (2, 3)}


@every
def test_matrix_methods_refuse_other_tensors(method: MergeMethod[Any]) -> None:
    cases = ("vector",) if needs_data(method) else ("scalar", "vector", "convolution")
    for case in cases if method.kind is Kind.MATRIX else ():
        with pytest.raises(MethodError, match="merges matrices"):
            run(method.name, CASES[case])


@every
@pytest.mark.parametrize("shape", [(60, 200), (200, 120)])
def test_by_either_library_and_in_parts_it_is_the_same(
    method: MergeMethod[Any], shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    deltas = accepted_deltas(method, experts(3, *shape))
    monkeypatch.setattr(products, "uses_numpy", lambda: False)
    expected = merged(method.name, deltas)
    monkeypatch.setattr(products, "uses_numpy", lambda: True)
    monkeypatch.setattr(products, "LONGEST_PART", 64)  # no multiple of it is a border of a block
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert relative_error(merged(method.name, deltas), expected) < 1e-5


@every
def test_entrywise_methods_give_the_same_in_parts(method: MergeMethod[Any]) -> None:
    if method.kind is not Kind.ENTRY:
        return
    cases = accepted_deltas(method, CASES["square"])
    deltas = [torch.tensor(case).float().reshape(-1) for case in cases]
    weights = [1.0] * len(cases)
    extra = context(method, deltas)
    parameters = checked_parameters(method, {})
    expected = method.merge(deltas, weights, parameters, **extra).delta
    parts = list(zip(*(delta.split(100) for delta in deltas), strict=True))
    findings = extra.get("findings") or {}
    here = extra.get("random_key")

    def carry_out(survey: Survey) -> Findings:
        def measured() -> Iterator[torch.Tensor]:
            for number, part in enumerate(parts):
                vectors = vectors_for(survey, part, extra["base"].split(100)[number])
                yield survey.measure(range(len(part)), vectors, 100 * number)

        return findings_in_passes(survey, measured)

    by_expert = [parameters] * len(deltas)
    before = SurveyContext(
        parameters=by_expert, weights=weights, findings=findings, random_key=here
    )
    surveys = method.surveys_over(Range.TENSOR, parameters)
    all_findings = context_after(surveys, before, carry_out).findings

    def merged(findings: Findings) -> list[Merged]:
        pieces = []
        for number, part in enumerate(parts):
            reported: dict[str, Any] = extra | _measured(method, part) | {"findings": findings}
            reported["base"] = extra["base"].split(100)[number]
            if here is not None:
                reported["random_key"] = replace(here, start=100 * number)
            pieces.append(method.merge(part, weights, parameters, **reported))
        return pieces

    votes = sum((piece.vote for piece in merged(all_findings)), Vote())
    assert method.votes or votes == Vote()
    decided = {SURPLUS: (votes.surplus,) * len(deltas)} if method.votes else {}
    joined = [piece.delta for piece in merged({**all_findings, **decided})]
    # Coefficients of SCE are sums over the tensor, which round differently in parts.
    close = 1e-6 if method.name == "sce" else 0
    torch.testing.assert_close(torch.cat(joined), expected, rtol=close, atol=0)


def _measured(method: MergeMethod[Any], part: Sequence[torch.Tensor]) -> dict[str, Any]:
    need = method.need(checked_parameters(method, {}))
    return {} if need is None else {"measured": measured_with(need, part)}


@every
def test_a_method_that_needs_data_says_so_without(method: MergeMethod[Any]) -> None:
    tensors = [torch.tensor(delta).float() for delta in accepted_deltas(method, CASES["square"])]
    if method.need(checked_parameters(method, {})) is None:
        assert "measured" not in context(method, tensors)
        return
    extra = context(method, tensors) | {"measured": None}
    with pytest.raises(MethodError, match="needs data: give every expert a task"):
        method.merge(tensors, [1.0] * 5, checked_parameters(method, {}), **extra)
    measured = context(method, tensors[:2])["measured"]
    with pytest.raises(MethodError, match="not belong to these 5 experts"):
        method.merge(tensors, [1.0] * 5, checked_parameters(method, {}), measured=measured)


@every
def test_a_survey_of_the_model_uses_the_parameters_that_are_declared(
    method: MergeMethod[Any],
) -> None:
    tensors = [torch.tensor(delta).float() for delta in accepted_deltas(method, CASES["square"])]
    if not method.surveys:
        return
    over_model = {"trim": "model", "norms": "model", "variant": "layer-wise++"}
    fields = {field.name: field for field in parameter_fields(method)}
    choices = {name: value for name, value in over_model.items() if name in fields}
    surveys = method.surveys_over(Range.MODEL, checked_parameters(method, choices))
    if not surveys:
        return
    used = {name for survey in surveys for name in survey.uses or fields}

    def findings_with(**parameters: object) -> Findings | None:
        checked = checked_parameters(method, {**choices, **parameters})
        return surveyed_model(method, checked, [tensors])

    for name, field in fields.items():
        alternatives = field.choices or ([not field.default] if field.kind == "bool" else [1])
        same = all(
            findings_with(**{name: alternative}) == findings_with() for alternative in alternatives
        )
        assert same == (name not in used), name


@every
def test_a_survey_is_asked_for_where_it_is_missing(method: MergeMethod[Any]) -> None:
    tensors = [torch.tensor(delta).float() for delta in accepted_deltas(method, CASES["square"])]
    extra = context(method, tensors)
    if "findings" not in extra or extra.pop("findings") is None:
        return
    if method.learning is not None:  # which has used it by now
        return
    with pytest.raises(MethodError, match="survey of the whole model; run one first"):
        method.merge(tensors, [1.0] * 5, checked_parameters(method, {}), **extra)
    foreign_findings = {"findings": {"threshold": (1.0,)}}
    with pytest.raises(MethodError, match="does not have these 5 experts"):
        method.merge(
            tensors, [1.0] * 5, checked_parameters(method, {}), **extra, **foreign_findings
        )


@every
def test_only_seeded_methods_depend_on_the_place(method: MergeMethod[Any]) -> None:
    assert method.seeded == (method.name in SEEDED)
    deltas = [torch.tensor(delta).float() for delta in accepted_deltas(method, CASES["square"])]
    weights = [1.0] * len(deltas)
    parameters = checked_parameters(method, {})
    extra = context(method, deltas)
    extra.pop("random_key", None)
    if not method.seeded:
        assert method.merge(deltas, weights, parameters, **extra).delta.shape == (24, 24)
        return
    with pytest.raises(MethodError, match="draws random numbers"):
        method.merge(deltas, weights, parameters)
    results = [
        method.merge(deltas, weights, parameters, random_key=here).delta
        for here in (
            random_key(5),
            random_key(5),
            random_key(5, seed=1),
            random_key(5, tensor="other"),
        )
    ]
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert not torch.equal(results[0], results[3])


@pytest.mark.parametrize("names", [("a",), ("a", "a"), ("a", "b", "c")])
def test_a_place_must_name_every_expert_apart(names: tuple[str, ...]) -> None:
    method = METHODS["dare_linear"]
    with pytest.raises(MethodError, match="a distinct name for each of 2 experts"):
        method.merge(
            [torch.ones(2)] * 2,
            [1.0, 1.0],
            method.parameters(),
            random_key=replace(random_key(0), experts=names),
        )


def test_seeds_do_not_depend_on_process_or_platform() -> None:
    """BLAKE2b with eight bytes of digest, over seed, expert and tensor, halved."""
    text = b"7\0expert-1\0layer.weight"
    expected = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") // 2
    assert seed_of(random_key(2, seed=7), 1) == expected
    assert len({seed_of(random_key(3, seed), t) for seed in range(50) for t in range(3)}) == 150
