"""The views of all layers: what is known is drawn and tabulated, what is chosen is chosen."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QPainter, QPixmap

from ace_gui.engine.contract.findings import LayerStatistics
from ace_gui.engine.contract.health import by_scale_alone as by_scale_of_one
from ace_gui.engine.contract.health import gamma_unreliable
from ace_gui.engine.contract.plan import RowOverride
from ace_gui.gui.models.layer_figures import LayerFigures
from ace_gui.gui.panels.all_layers import HeterogeneityPanel, LayersView
from ace_gui.gui.plots.frame.canvas import block_spans
from ace_gui.gui.plots.frame.export_image import PictureFormat, grab_plot
from ace_gui.gui.plots.gamma_map_plot import NO_BLOCKS, RoleMapPlot
from ace_gui.gui.plots.gamma_plot import NEAR_POLE, POLE_TIP, EnergiesAlongPlot, GammaPlot
from ace_gui.gui.plots.layers_plot import block_of
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.theme import DARK
from ace_gui.linalg.heterogeneity import heterogeneous_by_scale
from ace_gui.recipe.overrides import Override
from tests.gui.fakes import (
    BASE,
    COLA,
    GAMMAS,
    ROWS,
    SST2,
    TWO,
    adopt_two,
    layer_figures,
    plan,
    recipe,
    record_gammas,
)
from tests.helpers.windows import in_view

PARTS = ("query", "key", "MLP up")
BLOCKS = [block for block in range(4) for _ in PARTS]
ROLES = list(PARTS) * 4
NAMES = [f"layers.{block}.{role.replace(' ', '_')}.weight" for block in range(4) for role in PARTS]
GAMMA = np.geomspace(0.01, 1.0, len(NAMES))
ENERGIES = np.column_stack([GAMMA, 2 * GAMMA])
LAYERS = layer_figures(NAMES, ROLES, BLOCKS, gamma=GAMMA, energies=ENERGIES)
COLOURS = {"cola": "expert 0", "sst2": "expert 1"}


pytestmark = pytest.mark.usefixtures("light")


displayed = partial(in_view, width=700, height=320)


@pytest.fixture
def role_map(qtbot) -> RoleMapPlot:
    plot = displayed(qtbot, RoleMapPlot())
    plot.show_layers(LAYERS)
    return plot


@pytest.fixture
def energies(qtbot) -> EnergiesAlongPlot:
    plot = displayed(qtbot, EnergiesAlongPlot())
    plot.show_layers(LAYERS, COLOURS)
    return plot


# γ near its pole


def test_the_pole_of_gamma_is_marked_and_explained(qtbot):
    plot = displayed(qtbot, GammaPlot())
    means = LAYERS.mean_log_L.copy()
    means[-1] = 0.1
    plot.show_layers(replace(LAYERS, mean_log_L=means))
    (x,), _ = plot.items["crossed"].scatter.getData()
    assert x == len(NAMES) - 1
    assert NEAR_POLE in [entry.label for entry in plot.legend.entries()]
    plot.select(NAMES[-1])
    assert POLE_TIP in plot.caption.full_text
    plot.show_layers(LAYERS)
    assert NEAR_POLE not in [entry.label for entry in plot.legend.entries()]


@pytest.mark.parametrize("tau", [0.3, 0.04, 5.0, math.inf])
def test_plots_mark_the_same_layers_as_the_table(qtbot, tau):
    generator = np.random.default_rng(2)
    count = len(NAMES)
    figures = replace(
        LAYERS,
        gamma_L=generator.lognormal(0, 2, count),
        mean_log_L=generator.normal(0, 0.5, count),
    )
    statistics = [
        LayerStatistics(name=name, energies={}, gamma=float(gamma), mean_log_energy=float(mean))
        for name, gamma, mean in zip(NAMES, figures.gamma_L, figures.mean_log_L, strict=True)
    ]
    marked = {layer.name for layer in statistics if gamma_unreliable(layer, tau)}
    along = displayed(qtbot, GammaPlot())
    by_role = displayed(qtbot, RoleMapPlot())
    for plot in (along, by_role):
        plot.set_tau(tau)
        plot.show_layers(figures)
    crossed, _ = along.items["crossed"].scatter.getData()
    assert {NAMES[int(x)] for x in crossed} == marked
    cells = by_role.items["cross"].scatter.getData() if "cross" in by_role.items else ((), ())
    marked_cells = {
        by_role.name_at(by_role._cell(int(y), int(x))) for x, y in zip(*cells, strict=True)
    }
    assert marked_cells == {name for name in marked if by_role.row_of(name) is not None}
    for name in NAMES:
        along.select(name)
        assert ("units of the weights" in along.caption.full_text) == (name in marked)


@pytest.mark.parametrize("gamma", [3e-7, 1e-9, 4e-12, 0.0])
def test_a_small_gamma_is_drawn_where_it_is_and_zero_at_the_edge(qtbot, gamma):
    plot = displayed(qtbot, GammaPlot())
    values = LAYERS.gamma_L.copy()
    values[0] = gamma
    plot.show_layers(replace(LAYERS, gamma_L=values))
    curves = [curve for curve in plot.spec.curves if len(curve.y)]
    points = [point for curve in curves for point in zip(*plot.drawn(curve), strict=True)]
    heights = [y for x, y in points if x == 0]
    low = plot.canvas.getViewBox().viewRange()[1][0]
    if gamma:
        assert np.log10(gamma) == pytest.approx(max(heights))
        assert low < np.log10(gamma)
    else:
        assert "1 with γ = 0, at the lower edge" in plot.title.full_text


def test_all_layers_and_one_layer_have_one_rule():
    generator = np.random.default_rng(1)
    gammas = generator.lognormal(-1, 1, 200)
    means = generator.normal(0, 2, 200)
    together = heterogeneous_by_scale(gammas, means, 0.3)
    for gamma, mean, is_by_scale in zip(gammas, means, together, strict=True):
        layer = LayerStatistics(name="l", energies={}, gamma=float(gamma), mean_log_energy=mean)
        assert by_scale_of_one(layer, 0.3) == is_by_scale
    assert 0 < together.sum() < 200


# The map


def test_a_cell_a_layer_and_a_dot_above_tau(role_map):
    role_map.set_tau(float(GAMMA[8]))
    colours = role_map.cells.colours
    assert colours.shape == (len(PARTS), 4, 4)
    lightness = colours[..., :3].mean(axis=2).T.ravel().tolist()
    assert lightness == sorted(lightness)  # as γ, from the first block to the last
    x, y = role_map.items["dot"].getOriginalDataset()
    assert set(zip(x, y, strict=True)) == {(3, 0), (3, 1), (3, 2)}
    assert [entry.label for entry in role_map.legend.entries()] == ["heterogeneous: γ > τ"]
    role_map.set_tau(float("inf"))
    assert not role_map.legend.entries()


def test_the_title_of_the_colours_is_upright_beside_their_numbers(role_map):
    role_map.show_layers(replace(LAYERS, gamma_L=np.linspace(0.2, 0.6, len(NAMES))))
    texts = [
        graphic for graphic in role_map.canvas.scene().items() if hasattr(graphic, "toPlainText")
    ]
    (title,) = (text for text in texts if text.toPlainText().strip() == "γ")
    assert not title.sceneTransform().isRotating()
    assert role_map.canvas.sceneRect().contains(title.sceneBoundingRect())


def test_arrow_keys_move_from_cell_to_cell(role_map, qtbot):
    role_map.select("layers.1.key.weight")
    moves = [
        (Qt.Key.Key_Right, "layers.2.key.weight"),
        (Qt.Key.Key_Down, "layers.2.MLP_up.weight"),
        (Qt.Key.Key_Down, "layers.2.MLP_up.weight"),  # the last row
        (Qt.Key.Key_Left, "layers.1.MLP_up.weight"),
        (Qt.Key.Key_Up, "layers.1.key.weight"),
    ]
    for key, name in moves:
        qtbot.keyClick(role_map, key)
        assert role_map.selected == name


def test_clicking_a_cell_selects_its_layer(role_map, qtbot):
    view = role_map.canvas.getViewBox()
    position = role_map.canvas.mapFromScene(view.mapViewToScene(QPointF(2, 1)))
    with qtbot.waitSignal(role_map.layer_selected) as chosen:
        qtbot.mouseClick(role_map.canvas.viewport(), Qt.MouseButton.LeftButton, pos=position)
    assert chosen.args == ["layers.2.key.weight"]


def test_the_maps_table_has_a_row_a_block(role_map):
    block, *roles = role_map.columns()
    assert list(block.values) == [0, 1, 2, 3]
    table = np.column_stack([column.values for column in roles])
    np.testing.assert_array_equal(table, GAMMA.reshape(4, 3))
    assert role_map.row_of("layers.3.key.weight") == 3


def test_layers_without_a_block_are_told_of_and_equal_roles_told_apart(qtbot):
    plot = displayed(qtbot, RoleMapPlot())
    names = ["wte.weight", "h.0.attn.q.weight", "h.0.cross.q.weight"]
    roles = ["embedding", "query", "query"]
    plot.show_layers(layer_figures(names, roles, [None, 0, 0], gamma=(9.0, 0.1, 0.2)))
    assert plot._labels == ("query: attn.q", "query: cross.q")
    assert "1 outside the blocks" in plot.title.full_text
    assert plot.cells.colours.shape[1] == 1
    plot.show_layers(layer_figures(names[:1], ["embedding"], [None]))
    assert plot.message() == NO_BLOCKS


# Energies


def test_a_curve_an_expert_with_lines_within_one_role(energies):
    curve = energies.items["sst2"]
    np.testing.assert_allclose(curve.getOriginalDataset()[1], np.log10(2 * GAMMA))
    assert curve.opts["pen"] is None
    energies.role.setCurrentText("key")
    np.testing.assert_allclose(curve.getOriginalDataset()[1], np.log10(2 * GAMMA[1::3]))
    assert curve.opts["pen"] is not None
    assert energies.name_at(2) == "layers.2.key.weight"
    assert energies.row_of("layers.2.query.weight") is None


def test_a_long_legend_leaves_room_for_the_title(energies):
    names = [f"an expert of a long name {n}" for n in range(8)]
    values = np.column_stack([GAMMA] * len(names))
    layers = replace(LAYERS, energies_LT=values)
    energies.show_layers(layers, dict.fromkeys(names, "expert 0"))
    energies.activate_layout()
    assert energies.title.text() == "8 experts in 12 matrices"


def test_a_layer_stays_selected_while_another_role_is_shown(energies):
    energies.select(NAMES[0])
    energies.role.setCurrentText("key")
    assert energies.selected is None
    energies.role.setCurrentText("All roles")
    assert energies.selected == NAMES[0]


def test_zero_energies_are_not_on_a_logarithmic_axis(energies):
    values = np.column_stack([GAMMA, np.zeros(len(NAMES))])
    values[0, 0] = np.nan
    energies.show_layers(replace(LAYERS, energies_LT=values), COLOURS)
    assert np.isnan(energies.items["sst2"].getOriginalDataset()[1]).all()
    energies.log_box.setChecked(False)
    assert (energies.items["sst2"].getOriginalDataset()[1] == 0).all()
    assert np.isnan(energies.columns()[2].values[0])


def test_experts_keep_their_hue_in_the_dark(energies):
    energies.set_theme(DARK)
    assert [entry.colour for entry in energies.legend.entries()] == list(DARK.expert_colours[:2])


# All of them


def test_every_block_is_drawn_in_one_range_in_one_picture(qtbot, energies, tmp_path):
    gammas = displayed(qtbot, GammaPlot())
    gammas.show_layers(LAYERS)
    for plot in (gammas, energies):
        grid = plot.by_block()
        qtbot.addWidget(grid)
        up = plot.canvas.getViewBox().viewRange()[1]
        assert [panel.title.full_text for panel in grid.panels] == [f"Block {b}" for b in range(4)]
        for panel in grid.panels:
            assert panel.canvas.getViewBox().viewRange()[1] == pytest.approx(up)
        grab_plot(grid, tmp_path / "blocks.svg", PictureFormat(width=170, height=120))
        drawing = (tmp_path / "blocks.svg").read_text(encoding="utf-8")
        assert all(text in drawing for text in ("Block 3", "query", "MLP up"))
        titles = (tmp_path / "blocks.csv").read_text(encoding="utf-8").splitlines()[0]
        assert titles.split(",")[:2] == ["layer", "role"]
    third = grid.panels[2].items["sst2"].getOriginalDataset()
    np.testing.assert_array_equal(third[0], [0, 1, 2])
    np.testing.assert_allclose(third[1], np.log10(2 * GAMMA[6:9]))


def test_blocks_start_where_the_number_changes():
    assert block_spans([None, 0, 0, 1, None]) == [((0.5, 2.5), "0"), ((2.5, 4.5), "1")]
    assert block_of("h.12.attn.weight") == 12
    assert block_of("wte.weight") is None


def test_many_figures_are_shown_at_once(panel, session, qtbot, monkeypatch):
    drawn: list[LayerFigures] = []
    monkeypatch.setattr(panel.plot, "show_layers", lambda figures, _: drawn.append(figures))
    record_gammas(session, GAMMAS)
    assert not drawn
    qtbot.waitUntil(lambda: len(drawn) == 1)
    (figures,) = drawn
    assert dict(zip(figures.names, figures.gamma_L, strict=True)) == GAMMAS
    np.testing.assert_array_equal(figures.energies_LT, [[1.0, 2.0]] * 3)


@pytest.fixture
def panel(session, qtbot) -> HeterogeneityPanel:
    panel = in_view(qtbot, HeterogeneityPanel(session), width=900, height=320)
    adopt_two(session)
    record_gammas(session, GAMMAS)
    session.finish_analysis()
    return panel


def turn_to(panel: HeterogeneityPanel, index: int, qtbot) -> LayersView:
    panel.tabs.setCurrentIndex(index)
    view = panel.tabs.current
    qtbot.waitUntil(view.isVisible)
    assert isinstance(view, LayersView)
    return view


@pytest.mark.parametrize("index", range(3))
def test_every_view_follows_the_session_and_leads_it(panel, session, index, qtbot):
    view = turn_to(panel, index, qtbot)
    assert view.plot.message() is None
    session.select("layer.2.q")
    assert view.plot.selected == "layer.2.q"
    view.view.show_table(True)
    assert view.view.table.selectionModel().hasSelection()
    view.view.table.selectRow(0)  # a block in the map, else a layer
    in_map = isinstance(view.plot, RoleMapPlot)
    assert session.selection == ("layer.2.q" if in_map else "layer.0.q")
    view.view.show_table(False)
    view.plot.layer_selected.emit("layer.10.q")
    assert session.selection == "layer.10.q"
    view.plot.grab()


OVERRIDES = {
    "lower τ": {"tau": 0.05},
    "higher τ": {"tau": 0.7},
    "no τ": {"variant": "automatic"},
}


@pytest.mark.parametrize("dragged", [None, 0.95, 0.01])
@pytest.mark.parametrize("values", OVERRIDES.values(), ids=OVERRIDES)
def test_views_use_the_threshold_of_an_override_as_the_table_does(
    panel, session, values, dragged, qtbot
):
    rule = Override(role="query", parameters=values)
    parameters = {"tau": 0.3, **values}
    override = RowOverride(method="ace", parameters=parameters, weights=(1.0, 1.0), rules=(0,))
    rows = tuple(replace(row, override=override) if row.role == "query" else row for row in ROWS)
    planned = plan(recipe(COLA, SST2, overrides=(rule,)), rows=rows)
    session.adopt(replace(TWO, overrides=(rule,)), planned)
    record_gammas(session, GAMMAS)
    session.finish_analysis()
    if dragged is not None:
        session.draft.preview_tau(dragged)
    layers = {row.name: session.layers.tau(row) for row in session.layers.merged}
    expected = {name for name, tau in layers.items() if GAMMAS[name] > tau}
    along, by_role = (turn_to(panel, index, qtbot).plot for index in (0, 1))
    panel.grab()
    filled = [curve for curve in along.spec.curves if curve.key.endswith("γ > τ")]
    assert {along.name_at(index) for curve in filled for index in curve.indices} == expected
    (regimes,) = [column.values for column in along.spec.columns() if column.title == "regime"]
    for name, regime in zip(along._names, regimes, strict=True):
        default_regime = "–" if math.isinf(layers[name]) else "homogeneous"
        assert regime == ("heterogeneous" if name in expected else default_regime)
    (dots,) = [curve for curve in by_role.spec.curves if curve.key == "dot"]
    cells = zip(dots.x, dots.y, strict=True)
    assert {by_role.name_at(by_role._cell(int(y), int(x))) for x, y in cells} == expected
    assert "with a τ from an override" in along.title.full_text


def test_a_view_that_was_hidden_catches_up(panel, session, qtbot):
    view = turn_to(panel, 1, qtbot)
    turn_to(panel, 2, qtbot)
    session.select("layer.0.q")
    assert view.plot.selected != "layer.0.q"
    panel.tabs.setCurrentIndex(1)
    assert view.plot.selected == "layer.0.q"


def test_gamma_stays_under_a_method_without_a_threshold(panel, session, qtbot):
    inputs = Inputs(base=BASE, method="linear").with_experts([COLA, SST2])
    session.adopt(inputs, plan(recipe(COLA, SST2, merge_method="linear"), parameters={}))
    record_gammas(session, GAMMAS)
    session.finish_analysis()
    for index in range(3):
        assert turn_to(panel, index, qtbot).plot.message() is None
    plot = panel.plot
    panel.tabs.setCurrentIndex(0)
    assert plot.tau == math.inf


@pytest.mark.parametrize("low", [0.147, 0.02, 1e-5])
def test_the_scale_of_the_map_has_two_numbers_at_least(role_map, low):
    role_map.set_tau(math.inf)
    role_map.show_layers(replace(LAYERS, gamma_L=np.linspace(low, 2.2 * low, len(NAMES))))
    items = role_map.canvas.scene().items()
    (bar,) = [item for item in items if isinstance(item, pg.ColorBarItem)]
    (ticks,) = bar.axis._tickLevels
    assert len({text for _, text in ticks}) >= 2


def test_nothing_is_drawn_anew_without_news(panel, session, qtbot):
    for index in range(3):
        plot = turn_to(panel, index, qtbot).plot
        drawn: list[int] = []
        plot.changed.connect(lambda drawn=drawn: drawn.append(1))
        session.layers.learnt.emit("")  # as at the end of a merge
        assert not drawn
        session.layers.statistics["layer.2.q"] = replace(
            session.layers.statistics["layer.2.q"],
            gamma=0.01 * (index + 1),
            energies={"cola": index + 9.0},
        )
        session.layers.learnt.emit("")
        assert drawn


@pytest.mark.parametrize("tau", [0.3, 0.123])
def test_the_scale_of_the_map_has_room_for_tau_beside_its_title(role_map, tau):
    role_map.set_tau(tau)
    role_map.grab()
    items = role_map.canvas.scene().items()
    (bar,) = [item for item in items if isinstance(item, pg.ColorBarItem)]
    title = bar.axis.label.mapRectToParent(bar.axis.label.boundingRect())
    paper = QPixmap(10, 10)
    painter = QPainter(paper)
    painter.setFont(bar.axis.style["tickFont"] or role_map.font())
    *_, texts = bar.axis.generateDrawSpecs(painter)
    painter.end()
    assert any("τ" in text for *_, text in texts)
    assert not any(title.intersects(rect) for rect, *_ in texts)
