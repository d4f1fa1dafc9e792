"""Spectra, subspaces and distributions of a layer, against NumPy in float64."""

import dataclasses
import os
import pickle
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from ace_gui.engine.contract.events import JobDone
from ace_gui.engine.contract.findings import (
    ExpertSpectra,
    LayerDistribution,
    LayerSpectrum,
    LayerSubspaces,
)
from ace_gui.engine.contract.jobs import DistributionJob, SpectrumJob, SubspacesJob
from ace_gui.engine.contract.plan import Disposition
from ace_gui.engine.inspecting.layer_context import InspectionCache
from ace_gui.engine.inspecting.layer_spectra import BINS, distribution, overlap, spectrum, subspaces
from ace_gui.engine.inspecting.statistics import analyse
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.runner import Runner
from ace_gui.engine.service import safe_steps
from ace_gui.engine.streaming import PART_ELEMENTS
from ace_gui.errors import MethodError, NonFiniteError
from ace_gui.recipe.values import NonFinite
from tests.helpers.ace_oracle import ace_oracle
from tests.helpers.merges import deltas_of, leading_vectors, row_named, singular_values
from tests.helpers.models import Family, gpt2_family, roberta_family
from tests.helpers.recipes import recipe_of

CPU = torch.device("cpu")
UP = "layer.1.intermediate.dense.weight"
ACE = {"epsilon": 1e-3, "tau": 0.0}


@pytest.fixture(scope="module")
def prepared(roberta: Family) -> Prepared:
    return prepare(recipe_of(roberta, parameters=ACE))


def answer(steps: Iterator[object]) -> object:
    """The one thing that a look says, at its end."""
    *pauses, last = steps
    assert all(pause is None for pause in pauses)
    return last


def said(prepared: Prepared, ending: str, cache: InspectionCache) -> list[object]:
    """What a look at spectra says, without its pauses."""
    steps = spectrum(prepared, row_named(prepared, ending), CPU, cache)
    return [step for step in steps if step is not None]


def look(prepared: Prepared, ending: str, cache: InspectionCache) -> LayerSpectrum:
    layer = said(prepared, ending, cache)[-1]
    assert isinstance(layer, LayerSpectrum)
    return layer


def test_spectra_are_those_of_the_experts_and_of_the_oracle(
    prepared: Prepared, cache: InspectionCache
):
    row = row_named(prepared, UP)
    layer = look(prepared, UP, cache)
    deltas = deltas_of(prepared, row)
    assert list(layer.experts) == list(deltas)
    for name, delta in deltas.items():
        np.testing.assert_allclose(layer.experts[name], singular_values(delta), rtol=1e-5)
    oracle = ace_oracle(np.stack(list(deltas.values())), **ACE)
    assert layer.preliminary is not None
    largest = layer.merged[0]
    for values, exact in ((layer.preliminary, oracle.preliminary), (layer.merged, oracle.merged)):
        np.testing.assert_allclose(values, singular_values(exact), rtol=1e-4, atol=1e-6 * largest)
    assert layer.report.gamma == pytest.approx(oracle.gamma)
    assert layer.report.delta_norm == pytest.approx(np.linalg.norm(oracle.merged), rel=1e-5)


def test_the_experts_come_first_where_the_merge_is_not_remembered(
    prepared: Prepared, cache: InspectionCache
):
    first, last = said(prepared, UP, cache)
    assert isinstance(first, ExpertSpectra)
    assert isinstance(last, LayerSpectrum)
    assert first.name == last.name
    assert first.experts == last.experts
    (again,) = said(prepared, UP, cache)
    assert isinstance(again, LayerSpectrum)
    linear = dataclasses.replace(prepared.plan.recipe, merge_method="linear", parameters={})
    before, _ = said(prepare(linear), UP, cache)
    assert isinstance(before, ExpertSpectra)
    for name, values in first.experts.items():
        assert np.array_equal(before.experts[name], values)


def test_a_transposed_matrix_is_looked_at_as_it_is_merged(tmp_path, cache: InspectionCache):
    prepared = prepare(recipe_of(gpt2_family(tmp_path / "gpt2", experts=2), parameters=ACE))
    row = row_named(prepared, "h.0.mlp.c_fc.weight")
    oracle = ace_oracle(np.stack(list(deltas_of(prepared, row).values())), **ACE)
    layer = look(prepared, row.name, cache)
    np.testing.assert_allclose(
        layer.merged, singular_values(oracle.merged), rtol=1e-4, atol=1e-6 * layer.merged[0]
    )


def test_another_recipe_computes_only_the_merge_again(
    prepared: Prepared, cache: InspectionCache, monkeypatch
):
    before = look(prepared, UP, cache)
    computed = []
    real = torch.linalg.eigvalsh
    monkeypatch.setattr(torch.linalg, "eigvalsh", lambda m: computed.append(m) or real(m))
    assert np.array_equal(look(prepared, UP, cache).merged, before.merged)
    assert not computed, "all of it was remembered"
    changed = dataclasses.replace(prepared.plan.recipe, parameters={"epsilon": 1.0, "tau": 9.0})
    after = look(prepare(changed), UP, cache)
    assert len(computed) == 1, "the merged delta, which was not refined"
    assert not np.allclose(after.merged, before.merged)
    assert after.experts.keys() == before.experts.keys()


def test_two_looks_at_one_tensor_share_its_merge(
    prepared: Prepared, cache: InspectionCache, tmp_path
):
    look(prepared, UP, cache)
    latest = cache.latest[1]
    row = row_named(prepared, UP)
    answer(subspaces(prepared, row, CPU, cache))
    assert cache.latest[1] is latest
    fresh = answer(subspaces(prepared, row, CPU, InspectionCache(tmp_path / "other")))
    shared = answer(subspaces(prepared, row, CPU, cache))
    assert np.array_equal(shared.alignment, fresh.alignment)
    look(prepared, "layer.0.intermediate.dense.weight", cache)
    assert cache.latest[1] is not latest


def test_an_expert_that_changes_on_disk_is_looked_at_again(tmp_path, cache: InspectionCache):
    family = roberta_family(tmp_path / "models", experts=2)
    before = look(prepare(recipe_of(family)), UP, cache)
    file = family.experts["task0"] / "model.safetensors"
    tensors = {name: 1.5 * tensor for name, tensor in load_file(file).items()}
    save_file(tensors, file, {"format": "pt"})
    os.utime(file, ns=(1, 1))
    after = look(prepare(recipe_of(family)), UP, cache)
    assert not np.allclose(after.experts["task0"], before.experts["task0"])
    assert np.array_equal(after.experts["task1"], before.experts["task1"])


def test_a_look_pauses_after_every_expert_and_can_be_left(
    prepared: Prepared, cache: InspectionCache
):
    row = row_named(prepared, UP)
    for steps in (spectrum(prepared, row, CPU, cache), subspaces(prepared, row, CPU, cache)):
        assert next(steps) is None
        steps.close()
    steps = spectrum(prepared, row, CPU, cache)
    assert any(isinstance(step, ExpertSpectra) for step in steps)
    steps.close()
    assert cache.latest is None, "nothing was merged after the experts"
    assert sum(subspace is None for subspace in subspaces(prepared, row, CPU, cache)) >= len(
        row.experts
    )


def test_a_vector_has_no_spectrum(prepared: Prepared, cache: InspectionCache):
    row = row_named(prepared, "layer.1.intermediate.dense.bias")
    with pytest.raises(MethodError, match="choose a matrix"):
        answer(spectrum(prepared, row, CPU, cache))
    with pytest.raises(MethodError, match="choose another tensor"):
        answer(distribution(prepared, dataclasses.replace(row, experts=()), cache))


def test_subspaces_align_and_overlap_as_numpy_says(prepared: Prepared, cache: InspectionCache):
    row = row_named(prepared, UP)
    spaces = answer(subspaces(prepared, row, CPU, cache))
    deltas = deltas_of(prepared, row)
    assert spaces.rank == 2, "5 % of 32, rounded up"
    for a, first in enumerate(deltas.values()):
        for b, second in enumerate(deltas.values()):
            left_vectors, _ = leading_vectors(first, 2)
            right, _ = leading_vectors(second, 2)
            expected = np.linalg.norm(left_vectors.T @ right) ** 2 / 2
            assert spaces.overlap[a, b] == pytest.approx(expected, abs=1e-6)
    oracle = ace_oracle(np.stack(list(deltas.values())), **ACE)
    before, after = (leading_vectors(m, 3) for m in (oracle.preliminary, oracle.merged))
    assert spaces.alignment is not None
    assert spaces.alignment_right is not None
    for cosines, side in ((spaces.alignment, 0), (spaces.alignment_right, 1)):
        expected = np.abs((before[side] * after[side]).sum(axis=0))
        np.testing.assert_allclose(cosines[:3], expected, atol=1e-4)
    again = answer(subspaces(prepared, row, CPU, cache))
    assert np.array_equal(again.overlap, spaces.overlap)
    assert np.array_equal(again.alignment, spaces.alignment)


def test_a_method_without_a_preliminary_solution_has_no_alignment(
    roberta: Family, cache: InspectionCache
):
    prepared = prepare(recipe_of(roberta, merge_method="linear"))
    spaces = answer(subspaces(prepared, row_named(prepared, UP), CPU, cache))
    assert spaces.alignment is None
    assert spaces.overlap.shape == (3, 3)
    assert look(prepared, UP, cache).preliminary is None


def test_overlap_counts_the_directions_that_all_have():
    eye = torch.eye(6, dtype=torch.float64)
    overlaps, rank = overlap([eye[:, :3], eye[:, 1:3], eye[:, :0]])
    assert rank == 2
    assert overlaps[:2, :2].tolist() == [[1.0, 0.5], [0.5, 1.0]]
    assert np.isnan(overlaps[2]).all()
    assert np.isnan(overlaps[:, 2]).all()


def test_distributions_are_numpys_histograms(prepared: Prepared, cache: InspectionCache):
    row = row_named(prepared, UP)
    histogram = answer(distribution(prepared, row, cache))
    np.testing.assert_array_equal(histogram.edges, -histogram.edges[::-1])
    assert len(histogram.edges) == BINS + 1
    for name, delta in deltas_of(prepared, row).items():
        counts, _ = np.histogram(delta, histogram.edges)
        assert np.abs(histogram.counts[name] - counts).sum() <= 2, "an entry on an edge at most"
        assert histogram.counts[name].sum() + histogram.outside[name] == delta.size
        assert histogram.means[name] == pytest.approx(delta.mean(), abs=1e-9)
        assert histogram.deviations[name] == pytest.approx(delta.std())
        fourth = (((delta - delta.mean()) / delta.std()) ** 4).mean()
        assert histogram.excess[name] == pytest.approx(fourth - 3, rel=1e-5, abs=1e-5)
    largest = max(np.abs(delta).max() for delta in deltas_of(prepared, row).values())
    assert histogram.edges[-1] == pytest.approx(largest), "less than five deviations"
    again = answer(distribution(prepared, row, cache))
    assert all(
        np.array_equal(again.counts[name], histogram.counts[name]) for name in histogram.counts
    )
    assert again.outside == histogram.outside


def test_large_tensors_are_counted_in_parts(tmp_path, cache: InspectionCache):
    rows = PART_ELEMENTS // 1024 + 3
    generator = torch.Generator().manual_seed(0)
    base = {"layer.0.dense.weight": torch.randn(rows, 1024, generator=generator)}
    tuned = {name: 1.01 * value for name, value in base.items()}
    family = Family(base=tmp_path / "base", experts={"a": tmp_path / "a"})
    for folder, tensors in ((family.base, base), (family.experts["a"], tuned)):
        folder.mkdir()
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    prepared = prepare(recipe_of(family))
    (row,) = prepared.plan.rows
    steps = list(distribution(prepared, row, cache))
    assert steps.count(None) == 4, "two passes over two parts"
    histogram = steps[-1]
    delta = deltas_of(prepared, row)["a"]
    assert histogram.deviations["a"] == pytest.approx(delta.std())
    assert histogram.outside["a"] == (np.abs(delta) > histogram.edges[-1]).sum()
    (statistics,) = [event.statistics for event in analyse(prepared)]
    assert statistics.energies["a"] == pytest.approx((delta**2).sum())


def test_a_tensor_that_no_expert_changes_has_bins(tmp_path, cache: InspectionCache):
    family = Family(base=tmp_path / "base", experts={"a": tmp_path / "a"})
    for folder in (family.base, family.experts["a"]):
        folder.mkdir()
        save_file({"layer.0.dense.weight": torch.ones(3, 4)}, folder / "model.safetensors")
    prepared = prepare(recipe_of(family))
    histogram = answer(distribution(prepared, prepared.plan.rows[0], cache))
    assert histogram.edges[-1] > 0
    assert histogram.counts["a"].sum() == 12
    assert np.isnan(histogram.excess["a"])


def test_the_analysis_has_cosines_of_the_task_vectors(prepared: Prepared):
    merged = [row for row in prepared.plan.rows if row.disposition == Disposition.MERGED]
    by_name = {event.statistics.name: event.statistics for event in analyse(prepared)}
    for row in merged:
        flat = np.stack([delta.ravel() for delta in deltas_of(prepared, row).values()])
        norms = np.linalg.norm(flat, axis=1)
        expected = flat @ flat.T / np.outer(norms, norms)
        np.testing.assert_allclose(by_name[row.name].cosines, expected, atol=1e-12)
        assert list(by_name[row.name].energies.values()) == pytest.approx(norms**2)


def test_the_engine_answers_every_kind_of_look_with_plain_values(
    prepared: Prepared, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    recipe = prepared.plan.recipe
    row = row_named(prepared, UP)
    runner = Runner()
    for job, kind in (
        (SpectrumJob(recipe=recipe, row=row, device="cpu"), LayerSpectrum),
        (SubspacesJob(recipe=recipe, row=row, device="cpu"), LayerSubspaces),
        (DistributionJob(recipe=recipe, row=row), LayerDistribution),
    ):
        *before, reply, end = safe_steps(job, runner)
        assert all(step is None or isinstance(step, ExpertSpectra) for step in before)
        assert isinstance(end, JobDone)
        assert isinstance(reply, kind)
        assert pickle.loads(pickle.dumps(reply)).name == row.name
    assert list(tmp_path.rglob("*.safetensors"))


def test_an_expert_with_nan_is_left_out_of_a_look_as_of_a_merge(tmp_path, cache: InspectionCache):
    family = roberta_family(tmp_path / "models", experts=3)
    file = family.experts["task1"] / "model.safetensors"
    tensors = load_file(file)
    name = next(name for name in tensors if name.endswith(UP))
    tensors[name][0, 0] = float("nan")
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(NonFiniteError):
        look(prepare(recipe_of(family)), UP, cache)
    skipping = prepare(recipe_of(family, non_finite=NonFinite.SKIP_EXPERT))
    assert list(look(skipping, UP, cache).experts) == ["task0", "task2"]
    keeping = prepare(recipe_of(family, non_finite=NonFinite.KEEP_BASE))
    with pytest.raises(MethodError, match="base's tensor is kept"):
        look(keeping, UP, cache)
