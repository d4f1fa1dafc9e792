"""Tensors that hold several matrices: each is merged for itself and put back in its place."""

from math import prod

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from ace_gui.architecture.traits import Fusion, Role, TensorTraits
from ace_gui.engine.contract.events import MergeStarted, TensorFinished
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL, reports
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.split_rows import split_row
from ace_gui.engine.streaming import Assembly, of_row
from tests.helpers.ace_oracle import ace_oracle
from tests.helpers.adapters import factors, save_adapter
from tests.helpers.merges import merged_tensors
from tests.helpers.models import Family, gpt2_family, gpt_oss_family, neox_family
from tests.helpers.recipes import recipe_of, recipe_over

ROLES = (Role.QUERY, Role.KEY, Role.VALUE)


def row_of(shape: tuple[int, ...]) -> PlanRow:
    return PlanRow(
        name="w",
        role="query+key+value",
        shape=shape,
        dtype="F32",
        disposition=Disposition.MERGED,
        reason="matrix",
    )


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], TensorTraits]:
    """Stacked or not, fused or not, either way round."""
    shares = tuple((role, draw(st.integers(1, 3))) for role in ROLES[: draw(st.integers(2, 3))])
    fusion = Fusion(shares=shares)
    outputs = fusion.period * draw(st.integers(1, 3))
    inputs = draw(st.integers(1, 4))
    turned = draw(st.booleans())
    stack = draw(st.booleans())
    shape: tuple[int, ...] = (inputs, outputs) if turned else (outputs, inputs)
    if stack:
        shape = (draw(st.integers(1, 3)), *shape)
    traits = TensorTraits(
        role=Role.QKV,
        matrix=True,
        transposed=turned,
        stack=stack,
        fusion=fusion if draw(st.booleans()) else None,
    )
    return shape, traits


@given(layouts(), st.data())
@settings(max_examples=200)
def test_parts_hold_every_element_once_and_come_back_in_place(
    layout: tuple[tuple[int, ...], TensorTraits], data: st.DataObject
):
    shape, traits = layout
    tensor = torch.arange(prod(shape), dtype=torch.float32).reshape(shape)
    flat = tensor.reshape(-1)
    rows = split_row(row_of(shape), traits, split_fused=True)

    def read(part: tuple[int, int] | None) -> torch.Tensor:
        return tensor if part is None else flat[part[0] : part[1]].clone()

    assembly = Assembly()
    written = torch.full_like(flat, -1)
    end = 0
    for row in rows:
        matrix = of_row(row, None, read)
        assert matrix.shape == row.shape
        start = data.draw(st.integers(0, matrix.numel()))
        stop = data.draw(st.integers(start, matrix.numel()))
        assert torch.equal(of_row(row, (start, stop), read), matrix.reshape(-1)[start:stop])
        if row.part is None:
            written = matrix.reshape(-1)
            end = len(flat)
            continue
        assert row.tensor_shape == shape
        stretch = assembly.add(row.part, matrix.reshape(-1))
        if stretch is not None:
            assert row.part.start == end  # pieces of a tensor are written in order
            end = row.part.start + len(stretch)
            written[row.part.start : end] = stretch
        assert row.ends_tensor == (row is rows[-1])
    assert torch.equal(written, flat)
    assert end == len(flat)
    assert len({row.name for row in rows}) == len(rows)


def test_without_the_choice_a_fused_matrix_stays_whole():
    fusion = Fusion(shares=((Role.QUERY, 2), (Role.KEY, 2)))
    traits = TensorTraits(role=Role.QKV, matrix=True, fusion=fusion)
    row = row_of((4, 3))
    assert split_row(row, traits, split_fused=False) == (row,)


# Whole merges


def prepared_of(family: Family, **keys: object) -> Prepared:
    return prepare(recipe_of(family, **keys))


@pytest.fixture(scope="module")
def families(tmp_path_factory) -> dict[str, Family]:
    folder = tmp_path_factory.mktemp("families")
    return {
        "gpt2": gpt2_family(folder / "gpt2"),
        "neox": neox_family(folder / "neox"),
        "gpt_oss": gpt_oss_family(folder / "gpt_oss"),
    }


def matrices(family: str, weight: torch.Tensor) -> list[torch.Tensor]:
    """The matrices in a tensor, outputs × inputs, as the model's own code takes them apart."""
    if family == "gpt2":  # Conv1D: inputs × (query, key, value)
        return list(weight.T.chunk(3))
    if family == "neox":  # heads × (query, key, value) × head size
        return [part.reshape(-1, 32) for part in weight.reshape(4, 3, 8, 32).unbind(1)]
    # MLP experts × inputs × outputs, gate and up in turns
    return [part for matrix in weight for part in (matrix.T[::2], matrix.T[1::2])]


FUSED = {
    "gpt2": "transformer.h.0.attn.c_attn.weight",
    "neox": "gpt_neox.layers.0.attention.query_key_value.weight",
    "gpt_oss": "model.layers.0.mlp.experts.gate_up_proj",
}


def require_close_to_oracle(
    result: list[torch.Tensor], base: list[torch.Tensor], experts: list[list[torch.Tensor]]
) -> None:
    for index, weight in enumerate(base):
        deltas = [(expert[index] - weight).double().numpy() for expert in experts]
        expected = ace_oracle(np.stack(deltas), epsilon=1e-3, tau=0.3, k_frac=0.3).merged
        delta = (result[index] - weight).double().numpy()
        error = np.linalg.norm(delta - expected)
        assert error <= 1e-5 * np.linalg.norm(expected) + 1e-6 * np.linalg.norm(weight.numpy())


@pytest.mark.parametrize("name", FUSED)
def test_each_part_equals_the_oracle(families: dict[str, Family], name: str, tmp_path):
    family = families[name]
    prepared = prepared_of(family, split_fused=True, parameters={"epsilon": 1e-3})
    result = merged_tensors(prepared, tmp_path / "store")
    base = load_file(family.base / "model.safetensors")
    experts = [load_file(path / "model.safetensors") for path in family.experts.values()]
    tensor = FUSED[name]
    require_close_to_oracle(
        matrices(name, result[tensor]),
        matrices(name, base[tensor]),
        [matrices(name, expert[tensor]) for expert in experts],
    )
    assert {key: tensor.shape for key, tensor in result.items()} == {
        key: tensor.shape for key, tensor in base.items()
    }
    reported = reports(tmp_path / "store")
    assert reported.keys() == {row.name for row in prepared.plan.rows if row.in_base}


def test_stacked_experts_are_merged_one_by_one_without_being_asked(
    families: dict[str, Family], tmp_path
):
    family = families["gpt_oss"]
    prepared = prepared_of(family, parameters={"epsilon": 1e-3})
    names = [row.name for row in prepared.plan.rows]
    for index in range(3):
        assert f"{FUSED['gpt_oss']}[{index}]" in names
        assert f"model.layers.0.mlp.experts.down_proj[{index}]" in names
    result = merged_tensors(prepared, tmp_path / "store")
    base = load_file(family.base / "model.safetensors")
    experts = [load_file(path / "model.safetensors") for path in family.experts.values()]
    for tensor in (FUSED["gpt_oss"], "model.layers.0.mlp.experts.down_proj"):
        require_close_to_oracle(
            [matrix.T for matrix in result[tensor]],
            [matrix.T for matrix in base[tensor]],
            [[matrix.T for matrix in expert[tensor]] for expert in experts],
        )


@pytest.mark.parametrize("method", ["linear", "task_arithmetic"])
def test_entrywise_methods_do_not_mind_the_split(
    families: dict[str, Family], method: str, tmp_path
):
    family = families["neox"]
    expected = merged_tensors(prepared_of(family, merge_method=method), tmp_path / "whole")
    prepared = prepared_of(family, merge_method=method, split_fused=True)
    split = merged_tensors(prepared, tmp_path / "split")
    assert expected.keys() == split.keys()
    assert all(torch.equal(tensor, split[name]) for name, tensor in expected.items())


@pytest.mark.parametrize("stop_in", ["query", "key", "value"])
def test_a_merge_stopped_between_parts_resumes_to_the_same_bits(
    families: dict[str, Family], stop_in: str, tmp_path
):
    prepared = prepared_of(families["gpt2"], split_fused=True)
    expected = merged_tensors(prepared, tmp_path / "whole")
    events = merge(prepared, tmp_path / "store")
    for event in events:
        name = f"{FUSED['gpt2']}[{stop_in}]"
        if isinstance(event, TensorFinished) and event.report.name == name:
            break
    events.close()
    resumed = list(merge(prepared, tmp_path / "store", resume=True))
    assert isinstance(resumed[0], MergeStarted)
    index = [row.name for row in prepared.plan.rows].index(f"{FUSED['gpt2']}[query]")
    assert resumed[0].done == (index + 3 if stop_in == "value" else index)
    last = [event for event in resumed if isinstance(event, TensorFinished)][-1]
    assert (last.done, last.bytes_done) == (last.total, resumed[0].bytes_total)
    again = load_file(tmp_path / "store" / MODEL / "model.safetensors")
    assert all(torch.equal(tensor, again[name]) for name, tensor in expected.items())


def test_an_adapter_changes_each_part(families: dict[str, Family], tmp_path):
    base = families["gpt2"].base
    low_rank = factors("transformer.h.0.attn.c_attn", 96, 32)
    adapter = save_adapter(tmp_path / "a", low_rank, fan_in_fan_out=True)
    recipe = recipe_over(base, [adapter], split_fused=True)
    result = merged_tensors(prepare(recipe), tmp_path / "store")
    start = load_file(base / "model.safetensors")[FUSED["gpt2"]]
    a, b = low_rank.values()
    expected = start + (4 * b @ a).T  # alpha / rank; one expert: its own change
    assert torch.allclose(result[FUSED["gpt2"]], expected, atol=1e-5)


def test_the_authors_scopes_split_too_but_average_stacks(families: dict[str, Family]):
    plan = prepared_of(families["gpt2"], split_fused=True, scope="authors-gpt2").plan
    parts = [row for row in plan.rows if row.tensor == FUSED["gpt2"]]
    assert [(row.role, row.transposed) for row in parts] == [
        ("query", False),
        ("key", False),
        ("value", False),
    ]
    plan = prepared_of(families["gpt_oss"], split_fused=True, scope="authors-llama").plan
    (stack,) = [row for row in plan.rows if row.tensor == FUSED["gpt_oss"]]
    assert (stack.part, stack.disposition) == (None, Disposition.AVERAGED)


def test_sizes_of_the_parts_add_up(families: dict[str, Family]):
    for family in families.values():
        unsplit = prepared_of(family).plan
        split = prepared_of(family, split_fused=True).plan
        assert split.bytes_to_write == unsplit.bytes_to_write
        assert [r.tensor for r in split.rows if r.ends_tensor] == [
            r.tensor for r in unsplit.rows if r.ends_tensor
        ]
