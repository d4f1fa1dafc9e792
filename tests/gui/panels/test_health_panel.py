"""The health of the layers, in the table and for the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt

from ace_gui.engine.contract.findings import LayerReport, LayerStatistics, Regime
from ace_gui.gui.models.layer_columns import HEALTH, REGIME, Column
from ace_gui.gui.models.layer_figures import Healths
from ace_gui.gui.models.layers_model import LayersModel
from ace_gui.gui.panels.checks_and_health import HealthPanel
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.session import Session
from tests.gui.fakes import BASE, adopt_two
from tests.helpers.windows import in_view

SICK = "layer.10.q"
FINE = "layer.0.q"
POLE = "layer.2.q"
WARNING = "Something is wrong here. Raise epsilon."


def start(session: Session) -> None:
    """Begin a merge of what is chosen."""
    draft = session.draft
    parameters = draft.resolved_parameters()
    run = MergeRun(recipe=draft.inputs.recipe(), parameters=parameters, store=BASE)
    session.results.start_merge(run)


@pytest.fixture
def healths(session) -> Iterator[Healths]:
    healths = Healths(session)
    adopt_two(session)
    for name, gamma, mean in ((SICK, 0.1, -3.0), (FINE, 0.1, -3.0), (POLE, 0.9, 0.2)):
        energies = {"cola": 1.0, "sst2": 2.0}
        session.layers.record_statistics(
            LayerStatistics(name=name, energies=energies, gamma=gamma, mean_log_energy=mean)
        )
    start(session)
    session.record_report(LayerReport(name=SICK, gamma=0.1, warnings=(WARNING,)))
    session.finish_analysis()
    yield healths
    healths.deleteLater()


@pytest.fixture
def model(session, healths) -> Iterator[LayersModel]:
    model = LayersModel(session, healths)
    yield model
    model.deleteLater()


@pytest.fixture
def panel(session, healths, qtbot) -> HealthPanel:
    return in_view(qtbot, HealthPanel(session, healths), width=900, height=260)


def cell(model: LayersModel, name: str, column: Column, role: int) -> object:
    return model.index_of(name, column.index).data(role)


def test_the_automatic_variant_is_offered_where_the_published_one_misbehaves(panel, session, qtbot):
    """For those layers, or for all; nothing is offered while all is well."""
    panel.refresh()
    assert not panel.offer.isVisible()
    reported = LayerReport(
        name=SICK, regime=Regime.HETEROGENEOUS, refinement_cosine=-0.4, refinement_ratio=0.5
    )
    session.record_report(reported)
    panel.refresh()
    assert panel.offer.isVisible()
    assert "1 layer" in panel.offered.text()
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        panel.for_these.click()
    (rule,) = signal.args[0].overrides
    assert rule.parameters == {"variant": "automatic"}
    rows = session.layers.rows
    ruled = [row.name for row in rows if rule.holds_for(row.name, row.role, row.block)]
    assert ruled == [SICK]
    with qtbot.waitSignal(session.inputs_wanted) as signal:
        panel.for_all.click()
    assert signal.args[0].touched == {"variant": "automatic"}
    assert signal.args[0].overrides == session.draft.inputs.overrides


def test_warnings_have_an_icon_a_number_and_a_sentence(model):
    display = Qt.ItemDataRole.DisplayRole
    icon = Qt.ItemDataRole.DecorationRole
    assert cell(model, SICK, HEALTH, display) == "1"
    assert cell(model, SICK, HEALTH, icon) is not None
    assert WARNING in cell(model, SICK, HEALTH, Qt.ItemDataRole.ToolTipRole)
    spoken = cell(model, SICK, HEALTH, Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == f"warning {WARNING}"
    assert cell(model, FINE, HEALTH, display) == "✓"
    assert cell(model, FINE, HEALTH, icon) is None
    assert cell(model, "head", HEALTH, display) == "–"


def test_gamma_near_its_pole_is_marked_in_the_table(model, session):
    assert cell(model, POLE, REGIME, Qt.ItemDataRole.DisplayRole) == "by scale alone"
    spoken = cell(model, POLE, REGIME, Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "heterogeneous by scale alone"
    session.draft.preview_tau(1.0)
    assert cell(model, POLE, REGIME, Qt.ItemDataRole.DisplayRole) == "homogeneous"


def test_the_worst_come_first_and_the_unknown_last(model):
    model.sort(HEALTH.index, Qt.SortOrder.AscendingOrder)
    names = [layer.row.name for layer in model.shown]
    assert set(names[:2]) == {SICK, POLE}
    assert names[2] == FINE


def test_a_report_counts_only_while_the_merge_is_current(healths, session):
    before = healths.of(SICK)
    assert before.findings
    assert healths.of(SICK) is before  # remembered
    session.draft.set_parameter("epsilon", 1e-3)
    assert not healths.of(SICK).findings


def test_the_tab_counts_the_layers_with_a_warning(loaded, qtbot):
    tabs = loaded.workspace.heterogeneity.tabs

    def titles() -> list[str]:
        return [tabs.tabText(index) for index in range(tabs.count())]

    assert "Health" in titles()
    session = loaded.session
    start(session)
    for name in (SICK, FINE):
        session.record_report(LayerReport(name=name, gamma=0.1, warnings=(WARNING,)))
    qtbot.waitUntil(lambda: "Health (2)" in titles())
    assert not tabs.tabIcon(titles().index("Health (2)")).isNull()
    session.results.start_merge(None)
    qtbot.waitUntil(lambda: "Health" in titles())
    assert tabs.tabIcon(titles().index("Health")).isNull()


def test_the_summary_names_the_worst_layers_and_leads_to_them(panel, session):
    assert "3 tensors" in panel.summary.text() or "Of 3" in panel.summary.text()
    links = {row.link.text(): row.link for row in panel.worst.rows}
    assert set(links) == {"…10.q", "…2.q"}
    links["…10.q"].click()
    assert session.selection == SICK
    assert [name for name, link in links.items() if link.font().bold()] == ["…10.q"]


def test_a_sound_model_says_so_without_an_empty_table(panel, session, qtbot):
    session.results.start_merge(None)
    pole = session.layers.statistics[POLE]
    session.layers.record_statistics(replace(pole, mean_log_energy=-9.0, gamma=0.01))
    qtbot.waitUntil(lambda: "Nothing out of the ordinary" in panel.summary.text())
    assert not panel.worst.rows
