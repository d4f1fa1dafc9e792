"""ACE's covariances beside the measured ones, against NumPy; on the command line and in Python."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import ace_gui
from ace_gui.linalg.agreement import cosine, leading_directions, overlap
from ace_gui.methods.shared.measured import Need
from tests.helpers.calibrated_models import bert_family, measured
from tests.helpers.command import ace_gui as run


def test_figures_of_known_matrices() -> None:
    one, other = torch.diag(torch.tensor([3.0, 1.0, 0.0])), torch.diag(torch.tensor([1.0, 3, 0]))
    one, other = one.double(), other.double()
    assert cosine(one, 5 * one) == pytest.approx(1)
    assert cosine(one, other) == pytest.approx(6 / 10)
    spread = [np.diag(m.numpy() - np.eye(3) * 4 / 3) for m in (one, other)]
    expected = spread[0] @ spread[1] / (np.linalg.norm(spread[0]) * np.linalg.norm(spread[1]))
    assert cosine(one, other, centred=True) == pytest.approx(expected)
    assert cosine(torch.eye(3).double(), other, centred=True) == 0
    first, second = leading_directions(one, 1), leading_directions(other, 1)
    assert overlap(first, second) == pytest.approx(0)
    assert overlap(leading_directions(one, 2), leading_directions(other, 2)) == pytest.approx(1)


def test_it_compares_each_matrix_of_each_expert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = bert_family(tmp_path)
    found = ace_gui.inspect(file, covariances=True, device="cpu").covariances
    _, statistics = measured(file, Need.INPUTS)
    name = "bert.encoder.layer.1.intermediate.dense.weight"
    weights = [
        load_file(tmp_path / model / "model.safetensors")[name].double().numpy()
        for model in ("base", "two", "three")
    ]
    (match,) = [each for each in found if each.name == name and each.expert == "two"]
    change = weights[1] - weights[0]
    change -= change.mean(axis=0)
    proxy = change.T @ change
    covariances = []
    for own in statistics:
        centre = own.read(f"{name}.centre").double().numpy()
        covariances.append(own.read(name).double().numpy() - np.outer(centre, centre))
    flat = [matrix - np.eye(16) * np.trace(matrix) / 16 for matrix in (proxy, *covariances)]
    product = float((proxy * covariances[0]).sum())
    norms = float(np.linalg.norm(proxy) * np.linalg.norm(covariances[0]))
    assert match.cosine == pytest.approx(product / norms, rel=1e-5)
    for value, other in ((match.centred, flat[1]), (match.others, flat[2])):
        norms = float(np.linalg.norm(flat[0]) * np.linalg.norm(other))
        assert value == pytest.approx(float((flat[0] * other).sum()) / norms, rel=1e-4)
    bases = [np.linalg.eigh(matrix)[1][:, -2:] for matrix in (proxy, covariances[0])]
    assert match.overlap == pytest.approx(np.linalg.norm(bases[0].T @ bases[1]) ** 2 / 2, rel=1e-4)
    assert match.chance == 2 / 16
    done = run("inspect", file, "--covariances", "--json", tmp_path / "figures.json", seconds=300)
    assert done.returncode == 0, done.stderr
    records = json.loads((tmp_path / "figures.json").read_text())["covariances"]
    assert {(r["name"], r["expert"]) for r in records} == {(m.name, m.expert) for m in found}
    assert "other experts" in done.stdout
