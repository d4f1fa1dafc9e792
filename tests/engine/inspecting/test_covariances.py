"""ACE's covariances beside the measured ones, against NumPy; on the command line and in Python."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import ace_gui
from ace_gui.engine.calibrating.statistics_folder import Statistics
from ace_gui.engine.contract.events import CovariancesCompared
from ace_gui.engine.contract.findings import LayerCovariances
from ace_gui.engine.contract.jobs import CovariancesJob, LayerCovariancesJob, PlanJob
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.inspecting import compare_covariances
from ace_gui.engine.inspecting.compare_covariances import cosine, overlap
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.runner import Runner
from ace_gui.errors import TaskError
from ace_gui.methods.shared.measured import Need
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.calibrated_models import bert_family, measured
from tests.helpers.command import ace_gui as run


def test_figures_of_known_matrices():
    first = torch.diag(torch.tensor([3.0, 1.0, 0.0]))
    second = torch.diag(torch.tensor([1.0, 3, 0]))
    first = first.double()
    second = second.double()
    assert cosine(first, 5 * first) == pytest.approx(1)
    assert cosine(first, second) == pytest.approx(6 / 10)
    spread = [np.diag(m.numpy() - np.eye(3) * 4 / 3) for m in (first, second)]
    expected = spread[0] @ spread[1] / (np.linalg.norm(spread[0]) * np.linalg.norm(spread[1]))
    assert cosine(first, second, centred=True) == pytest.approx(expected)
    assert cosine(torch.eye(3).double(), second, centred=True) == 0
    bases = [torch.linalg.eigh(matrix).eigenvectors for matrix in (first, second)]
    assert overlap(*(basis[:, -1:] for basis in bases)) == pytest.approx(0)
    assert overlap(*(basis[:, -2:] for basis in bases)) == pytest.approx(1)


def test_the_command_and_python_give_each_matrix_of_each_expert(own_cache):
    file = bert_family(own_cache)
    matches = ace_gui.inspect(file, covariances=True, device="cpu").covariances
    assert {match.expert for match in matches} == {"two", "three"}
    done = run("inspect", file, "--covariances", "--json", own_cache / "figures.json")
    assert done.returncode == 0, done.stderr
    records = json.loads((own_cache / "figures.json").read_text())["covariances"]
    assert [(r["name"], r["expert"], r["cosine"]) for r in records] == [
        (m.name, m.expert, m.cosine) for m in matches
    ]
    assert "other experts" in done.stdout


def test_spectra_and_whose_inputs_they_are(own_cache, monkeypatch):
    """As the window asks: nothing is measured by a look at one layer, and all is remembered."""
    file = bert_family(own_cache)
    runner = Runner()
    recipe = load_recipe(file)
    name = "bert.encoder.layer.1.output.dense.weight"
    job = CovariancesJob(recipe=recipe, first=name, device="cpu")
    (plan,) = [
        event.plan for event in steps_of(PlanJob(recipe=recipe), runner) if event is not None
    ]
    (row,) = [row for row in plan.rows if row.name == name]
    assert not looks(runner, recipe, row)
    events = [e for e in steps_of(job, runner) if isinstance(e, CovariancesCompared)]
    assert [event.done for event in events] == list(range(1, events[-1].total + 1))
    layer = events[0].layer
    assert layer.name == name
    assert len({e.layer.name for e in events if e.layer is not None}) == len(events)
    _check_against_numpy(layer, own_cache, measured(file, Need.INPUTS)[1])
    monkeypatch.setattr(compare_covariances, "_pair", None)  # nothing is computed again
    (again,) = looks(Runner(), recipe, row)
    assert again.matches == layer.matches
    assert np.array_equal(again.centred_TT, layer.centred_TT)


def looks(runner: Runner, recipe: Recipe, row: PlanRow) -> list[LayerCovariances]:
    job = LayerCovariancesJob(recipe=recipe, row=row, device="cpu")
    return [event for event in steps_of(job, runner) if isinstance(event, LayerCovariances)]


def _check_against_numpy(
    layer: LayerCovariances, folder: Path, statistics: tuple[Statistics, ...]
) -> None:
    weights = [
        load_file(folder / model / "model.safetensors")[layer.name].double().numpy()
        for model in ("base", "two", "three")
    ]
    proxies = []
    inputs = []
    for weight, measurement in zip(weights[1:], statistics, strict=True):
        change = weight - weights[0]
        change -= change.mean(axis=0)
        proxies.append(change.T @ change / np.trace(change.T @ change))
        centre = measurement.read(f"{layer.name}.centre").double().numpy()
        covariance = measurement.read(layer.name).double().numpy() - np.outer(centre, centre)
        inputs.append(covariance / np.trace(covariance))
    assert layer.experts == ("two", "three")
    for t, (proxy, own_inputs) in enumerate(zip(proxies, inputs, strict=True)):
        values, vectors = np.linalg.eigh(own_inputs)
        match = layer.matches[t]
        k = len(values) // 8
        norms = float(np.linalg.norm(proxy) * np.linalg.norm(own_inputs))
        assert match.cosine == pytest.approx(float((proxy * own_inputs).sum()) / norms, rel=1e-5)
        shared = np.linalg.norm(np.linalg.eigh(proxy)[1][:, -k:].T @ vectors[:, -k:]) ** 2 / k
        assert (match.overlap, match.chance) == pytest.approx((shared, k / len(values)), rel=1e-4)
        assert match.centred == layer.centred_TT[t, t]
        assert match.others == layer.centred_TT[t, 1 - t]
        for partner, others_inputs in enumerate(inputs):
            flat = [m - np.eye(len(m)) * np.trace(m) / len(m) for m in (proxy, others_inputs)]
            product = (flat[0] * flat[1]).sum() / np.prod([np.linalg.norm(m) for m in flat])
            assert layer.centred_TT[t, partner] == pytest.approx(float(product), rel=1e-4)


def test_bad_data_are_not_told_of_by_a_look_at_one_layer(tmp_path):
    file = bert_family(tmp_path)
    runner = Runner()
    recipe = load_recipe(file)
    (plan,) = [
        event.plan for event in steps_of(PlanJob(recipe=recipe), runner) if event is not None
    ]
    row = next(row for row in plan.rows if row.role == "query")
    (tmp_path / "two-inputs.csv").write_text("nothing,here\n")
    assert not looks(runner, recipe, row)
    with pytest.raises(TaskError):
        list(steps_of(CovariancesJob(recipe=recipe, device="cpu"), runner))
