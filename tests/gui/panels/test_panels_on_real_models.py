"""What the panels show of real files is what NumPy computes of them in float64."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.events import Event, Job, LayerAnalysed
from ace_gui.engine.contract.figures.findings import (
    LayerDistribution,
    LayerSpectrum,
    LayerSubspaces,
)
from ace_gui.engine.contract.jobs import AnalyseJob, DistributionJob, SpectrumJob, SubspacesJob
from ace_gui.engine.contract.plan import PlanRow
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.service.runner import Runner
from ace_gui.gui.panels.layer.one_plot_panels import DistributionPanel, SpectraPanel
from ace_gui.gui.panels.layer.subspaces_panel import SubspacesPanel, SubspaceView
from ace_gui.gui.plots.one_layer.spectrum_curves import AFTER
from ace_gui.gui.state.chosen.inputs import Inputs
from ace_gui.gui.state.session import Session
from tests.helpers.inspected import deltas_of, row_named, singular_values
from tests.helpers.models import roberta_family
from tests.helpers.recipes import recipe_of
from tests.helpers.windows import in_view

ENDING = "layer.1.intermediate.dense.weight"
PLOTTED = 1e-5  # relative; a pixel of a plot is a thousand times wider


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Three small RoBERTas and their base, planned."""
    return prepare(recipe_of(roberta_family(tmp_path_factory.mktemp("roberta"))))


@pytest.fixture
def opened(session: Session, prepared: Prepared) -> Session:
    """The session with that plan and the layer selected."""
    session.adopt(Inputs.from_recipe(prepared.plan.recipe), prepared.plan)
    session.select(row_named(prepared, ENDING).name)
    return session


@pytest.fixture
def row(prepared: Prepared) -> PlanRow:
    return row_named(prepared, ENDING)


def answer(job: Job, kind: type) -> list[Event]:
    return [event for event in job.steps(Runner()) if isinstance(event, kind)]


shown = partial(in_view, width=480, height=560)


def test_spectra_and_their_figures(
    qtbot: QtBot, opened: Session, prepared: Prepared, row: PlanRow
) -> None:
    (found,) = answer(SpectrumJob(recipe=prepared.plan.recipe, row=row), LayerSpectrum)
    opened.results.findings.record(opened.draft.recipe_key(), found)  # type: ignore[arg-type]
    panel = shown(qtbot, SpectraPanel(opened))
    assert isinstance(panel, SpectraPanel)
    curves = {curve.key: curve.y for curve in panel.plot.curves()}
    titles = [column.title for column in panel.sheet.columns]
    figures = {
        column.title: dict(zip(panel.sheet.columns[0].values, column.values, strict=True))
        for column in panel.sheet.columns[1:]
    }
    for name, delta in deltas_of(prepared, row).items():
        sigma = singular_values(delta)
        scale = PLOTTED * sigma[0]
        np.testing.assert_allclose(curves[f"expert {name}"], sigma, rtol=0, atol=scale)
        assert name in titles
        shares = sigma / sigma.sum()
        expected = {
            "energy in top 5 %": (sigma[:2] ** 2).sum() / (sigma**2).sum(),
            "effective rank": np.exp(-(shares * np.log(shares)).sum()),
            "stable rank": (delta**2).sum() / sigma[0] ** 2,
            "nuclear norm": sigma.sum(),
            "Frobenius norm": np.linalg.norm(delta),
        }
        for title, value in expected.items():
            assert figures[name][title] == pytest.approx(value, rel=PLOTTED), (name, title)
    merged = curves[AFTER]
    assert found.report.delta_norm == pytest.approx(np.linalg.norm(merged), rel=PLOTTED)  # type: ignore[union-attr]


def test_cosines_of_the_layer_and_of_the_model(
    qtbot: QtBot, opened: Session, prepared: Prepared, row: PlanRow
) -> None:
    for event in answer(AnalyseJob(recipe=prepared.plan.recipe), LayerAnalysed):
        opened.layers.record_statistics(event.statistics)  # type: ignore[union-attr]
    opened.finish_analysis()
    panel = shown(qtbot, SubspacesPanel(opened))
    assert isinstance(panel, SubspacesPanel)
    panel.view_choice.choose(SubspaceView.COSINES)
    layer = [delta.ravel() for delta in deltas_of(prepared, row).values()]
    shown_TT = np.array([column.values for column in panel.cosines.columns()[1:]])
    np.testing.assert_allclose(shown_TT, cosines(layer), atol=PLOTTED)
    panel.view_choice.choose(SubspaceView.MODEL)
    rows = [other for other in prepared.plan.rows if other.name in opened.layers.statistics]
    whole = [deltas_of(prepared, other) for other in rows]
    flat = [np.concatenate([found[name].ravel() for found in whole]) for name in whole[0]]
    shown_TT = np.array([column.values for column in panel.cosines.columns()[1:]])
    np.testing.assert_allclose(shown_TT, cosines(flat), atol=PLOTTED)
    assert f"Over {len(rows)} tensors." in panel.cosines.caption.whole


def cosines(flat: list[np.ndarray]) -> np.ndarray:
    units = np.array([vector / np.linalg.norm(vector) for vector in flat])
    return units @ units.T


def test_overlaps_of_the_experts(
    qtbot: QtBot, opened: Session, prepared: Prepared, row: PlanRow
) -> None:
    (found,) = answer(SubspacesJob(recipe=prepared.plan.recipe, row=row), LayerSubspaces)
    opened.results.findings.record(opened.draft.recipe_key(), found)  # type: ignore[arg-type]
    panel = shown(qtbot, SubspacesPanel(opened))
    assert isinstance(panel, SubspacesPanel)
    panel.view_choice.choose(SubspaceView.OVERLAP)
    k = int(np.ceil(0.05 * min(row.shape)))
    bases = [np.linalg.svd(delta)[0][:, :k] for delta in deltas_of(prepared, row).values()]
    expected = [[np.linalg.norm(a.T @ b) ** 2 / k for b in bases] for a in bases]
    shown_TT = np.array([column.values for column in panel.overlap.columns()[1:]])
    np.testing.assert_allclose(shown_TT, expected, atol=PLOTTED)


def test_distributions(qtbot: QtBot, opened: Session, prepared: Prepared, row: PlanRow) -> None:
    (found,) = answer(DistributionJob(recipe=prepared.plan.recipe, row=row), LayerDistribution)
    opened.results.findings.record(opened.draft.models_key(), found)  # type: ignore[arg-type]
    panel = shown(qtbot, DistributionPanel(opened))
    assert isinstance(panel, DistributionPanel)
    low, high, *counts = panel.plot.columns()
    figures = {column.title: column.values for column in panel.sheet.columns[1:]}
    for column, (name, delta) in zip(counts, deltas_of(prepared, row).items(), strict=True):
        assert column.title == name
        edges = np.append(low.values, high.values[-1])
        np.testing.assert_array_equal(column.values, np.histogram(delta, edges)[0])
        assert figures[name][0] == pytest.approx(delta.mean(), rel=PLOTTED, abs=1e-9)
        assert figures[name][1] == pytest.approx(delta.std(), rel=PLOTTED)
        beyond = np.abs(delta - delta.mean()) > 3 * delta.std()
        fourth = (((delta - delta.mean()) / delta.std()) ** 4).mean()
        assert figures[name][2] == pytest.approx(fourth - 3, rel=PLOTTED, abs=PLOTTED)
        assert figures[name][3] == pytest.approx(beyond.mean(), abs=1e-3)
