"""The plots: what is set is drawn, what is done by hand is told."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, Qt
from PySide6.QtGui import (
    QFontMetricsF,
    QGuiApplication,
    QHelpEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPixmap,
)
from PySide6.QtWidgets import QApplication, QLabel, QToolTip

# isort: split
import pyqtgraph as pg

from ace_gui.engine.contract.findings import (
    ExpertSpectra,
    LayerReport,
    LayerSpectrum,
    Regime,
)
from ace_gui.engine.contract.plan import ROLE_FAMILIES
from ace_gui.errors import OutputError
from ace_gui.formatting import number_text
from ace_gui.gui.plots.frame import base_plot
from ace_gui.gui.plots.frame.base_plot import Plot
from ace_gui.gui.plots.frame.canvas import QuantityAxis, block_spans, with_equal_decimals
from ace_gui.gui.plots.frame.export_image import (
    PIXELS_A_POINT,
    PictureDialog,
    PictureFormat,
    copy_plot,
    grab_plot,
)
from ace_gui.gui.plots.frame.items import Points
from ace_gui.gui.plots.frame.legend import CaptionLabel
from ace_gui.gui.plots.frame.spec import PlotAxis
from ace_gui.gui.plots.gamma_plot import EMPTY, GammaPlot, two_digits
from ace_gui.gui.plots.merge_plots import (
    KeptEnergyPlot,
    LearningPlot,
    MergeBars,
    MergePoint,
    MergeScatter,
    ScoreBarsPlot,
    ScoreGroup,
)
from ace_gui.gui.plots.one_layer_plots import AlignmentPlot, EnergiesPlot
from ace_gui.gui.plots.spectrum_plot import AFTER, BEFORE, Quantity, SpectrumPlot
from ace_gui.gui.state.known_scores import ScoreFigure
from ace_gui.gui.theme import DARK, LIGHT, Face, apply_theme, face, set_scheme
from tests.gui.fakes import layer_figures
from tests.gui.plots.drawn import DRAWN
from tests.helpers.windows import in_view, items_of

NAMES = [f"model.layers.{b}.{part}.weight" for b in range(3) for part in ("q_proj", "up_proj")]
ROLES = ["query", "MLP up"] * 3
BLOCKS = [0, 0, 1, 1, 2, 2]
GAMMAS = dict(zip(NAMES, [0.01, 0.2, 0.5, 0.04, 3.0, 0.31], strict=True))
LAYERS = layer_figures(NAMES, ROLES, BLOCKS, gamma=list(GAMMAS.values()))
COLOURS = {name: f"expert {index}" for index, name in enumerate("abc")}


pytestmark = pytest.mark.usefixtures("light")


displayed = partial(in_view, width=420, height=380)


@pytest.fixture
def plot(qtbot) -> GammaPlot:
    widget = in_view(qtbot, GammaPlot(), width=700, height=300)
    widget.show_layers(LAYERS)
    return widget


@pytest.fixture
def spectra(qtbot) -> SpectrumPlot:
    return displayed(qtbot, SpectrumPlot())


@pytest.fixture
def energies(qtbot) -> EnergiesPlot:
    return displayed(qtbot, EnergiesPlot())


def gammas(changes: dict[str, float]) -> np.ndarray:
    return np.array(list({**GAMMAS, **changes}.values()))


def drawn(plot: GammaPlot) -> dict[int, tuple[str, bool, float]]:
    """Family, whether filled, and height of each drawn layer, by its index."""
    return {
        int(x): (family, heterogeneous, float(y))
        for family in ROLE_FAMILIES
        for heterogeneous in (False, True)
        for scatter in [symbols(plot, family, heterogeneous)]
        if scatter.isVisible()
        for x, y in zip(*scatter.getData(), strict=True)
    }


def symbols(plot: GammaPlot, family: str, heterogeneous: bool) -> pg.ScatterPlotItem:
    return plot.items[f"{family}: γ > τ" if heterogeneous else family].scatter


def texts(plot: Plot) -> list[pg.TextItem]:
    return items_of(plot, pg.TextItem)


def at(plot: GammaPlot, index: int, gamma: float) -> QPoint:
    """The pixel of the canvas where ``gamma`` of layer ``index`` stands."""
    view = plot.canvas.getViewBox()
    height = np.log10(gamma) if plot.log_box.isChecked() else gamma
    position = view.mapViewToScene(QPointF(index, height))
    return plot.canvas.mapFromScene(position)


def spectrum(*, refined: bool = True, **changes) -> LayerSpectrum:
    sigma = np.geomspace(1.0, 1e-4, 20)
    values = {
        "name": "model.layers.0.q_proj.weight",
        "experts": {"a": sigma * 0.5, "b": sigma * 0.7, "c": sigma * 0.2},
        "preliminary": sigma,
        "merged": sigma + 0.1 if refined else sigma.copy(),
        "report": LayerReport(
            name="model.layers.0.q_proj.weight",
            gamma=0.41 if refined else 0.02,
            regime=Regime.HETEROGENEOUS if refined else Regime.HOMOGENEOUS,
            ridge_mass=4.2e-5,
        ),
    }
    return LayerSpectrum(**{**values, **changes})


# Numbers and axes


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.3, "0.30"),
        (0.0, "0"),
        (12.34, "12"),
        (4.2e-5, "4.2×10⁻⁵"),
        (-0.5, "−0.50"),
        (7.1e12, "7.1×10¹²"),
        (0.0996, "0.10"),
        (float("inf"), "∞"),
    ],
)
def test_numbers_are_written_for_people(value, text):
    assert number_text(value) == text


def test_a_log_axis_has_lines_only_where_it_has_numbers(qapp):
    axis = QuantityAxis("left")
    axis.logarithmic = True
    axis.setRange(-2, 1)
    (spacing, decades), (_, minor) = axis.tickValues(-2, 1, 300)
    assert decades == [-2, -1, 0, 1]
    assert axis.tickStrings(decades, 1, spacing) == ["0.01", "0.1", "1", "10"]
    assert not minor  # a line that has no number says nothing
    axis.setRange(-2, -1)
    (_, (minor)) = axis.tickValues(-2, -1, 300)[1]
    assert np.log10(0.05) in minor
    axis.setRange(-12, 2)  # a long axis has powers of ten, and not a label for each
    (spacing, decades), (_, between) = axis.tickValues(-12, 2, 120)
    assert len(decades) * 18 <= 120
    assert set(decades) | set(between) == set(range(-12, 3))
    assert "10⁻¹²" in axis.tickStrings(decades, 1, spacing)


def test_a_low_plot_gives_the_title_of_its_axis_to_the_data(qtbot):
    plot = SpectrumPlot()
    qtbot.addWidget(plot)
    experts = {"cola": np.geomspace(1, 0.01, 20)}
    plot.show_experts(ExpertSpectra(name="q", experts=experts), COLOURS, awaited=False)
    plot.resize(400, 600)
    plot.show()
    label = plot.canvas.getAxis("bottom").label
    assert label.isVisible()
    plot.resize(400, 160)
    qtbot.waitUntil(lambda: not label.isVisible())
    plot.resize(400, 600)
    qtbot.waitUntil(label.isVisible)


@pytest.mark.parametrize("width", [620, 1400])
@pytest.mark.parametrize(("values", "least"), [((0.475, 0.775, 0.9), 18), ((0.875, 0.9, 0.89), 6)])
def test_bars_have_their_numbers_unless_those_cover_others(qtbot, width, values, least):
    bars = in_view(qtbot, ScoreBarsPlot(), width=width, height=500)
    figures = tuple(ScoreFigure(value=value) for value in values)  # of base, merge and expert
    groups = [ScoreGroup(title=f"task {n}", bars=figures) for n in range(6)]
    bars.show_scores(groups, "ACE-Merging", "accuracy")
    qtbot.waitUntil(lambda: len(texts(bars)) >= least)
    written = {number.toPlainText() for number in texts(bars)}
    assert f"{values[1]:.3f}"[1:] in written
    rects = [number.sceneBoundingRect().adjusted(4, 4, -4, -4) for number in texts(bars)]
    assert not any(a.intersects(b) for a, b in combinations(rects, 2))


def test_the_numbers_of_the_outermost_bars_are_not_cut(qtbot):
    bars = in_view(qtbot, ScoreBarsPlot(), width=300, height=500)
    groups = [ScoreGroup(title=f"task {n}", bars=(ScoreFigure(value=0.5),) * 3) for n in range(6)]
    bars.show_scores(groups, "ACE-Merging", "accuracy")
    qtbot.waitUntil(lambda: bool(texts(bars)))
    view_rect = bars.canvas.getViewBox().sceneBoundingRect()
    width = QFontMetricsF(face(Face.CAPTION)).horizontalAdvance(".500")
    for bar in bars.spec.bars:
        middle = bars.canvas.getViewBox().mapViewToScene(QPointF(bar.group + bar.offset, 0.5)).x()
        assert view_rect.left() <= middle - width / 2
        assert middle + width / 2 <= view_rect.right()


@pytest.mark.parametrize(("low", "high"), [(0, 2.5), (0, 3e-5), (0, 4e6)])
def test_a_linear_axis_tells_its_ticks_apart_without_prefixes(qapp, low, high):
    axis = QuantityAxis("left")
    axis.setRange(low, high)
    spacing, values = axis.tickValues(low, high, 300)[0]
    texts = axis.tickStrings(values, axis.autoSIPrefixScale * axis.scale, spacing)
    assert len(set(texts)) == len(texts)
    assert not any("e" in text for text in texts)


@pytest.mark.parametrize(("low", "high"), [(0.99, 1.01), (1, 2), (0.98, 7.06), (1, 48), (1, 4096)])
def test_an_axis_that_counts_has_whole_numbers_only(qapp, low, high):
    axis = QuantityAxis("bottom")
    axis.declare(PlotAxis(title="step", counts=True), logarithmic=False)
    axis.setRange(low, high)
    positions = [value for _, values in axis.tickValues(low, high, 900) for value in values]
    assert positions
    assert all(value == round(value) for value in positions)


@pytest.mark.parametrize("kind", [LearningPlot, KeptEnergyPlot, SpectrumPlot, AlignmentPlot])
def test_steps_ranks_and_indices_are_counted(qtbot, kind):
    plot = displayed(qtbot, DRAWN[kind][0]())
    assert plot.spec.x.counts


@pytest.mark.parametrize(
    ("labels", "equal"),
    [
        (["0.8", "0.85", "1", "0"], ["0.80", "0.85", "1.00", "0"]),
        (["1", "2", "10"], ["1", "2", "10"]),
        (["7.5", "10"], ["7.5", "10"]),
        (["−0.5", "2×10⁻⁵", "1"], ["−0.5", "2×10⁻⁵", "1.0"]),
        ([], []),
    ],
)
def test_the_numbers_of_an_axis_have_as_many_decimals_each(labels, equal):
    assert with_equal_decimals(labels) == equal


def test_bars_have_as_many_digits_each(qtbot):
    bars = displayed(qtbot, MergeBars())
    shares = [0.84, 0.735, 1.0]
    points = [MergePoint(f"merge {n}", share, 0.5) for n, share in enumerate(shares)]
    bars.show_merges("mean score", points)
    assert [bar.text for bar in bars.spec.bars] == ["0.840", "0.735", "1.00"]


def test_every_line_of_the_grid_has_its_number(qtbot):
    plot = in_view(qtbot, MergeScatter(), width=600, height=400)
    plot.show_merges("mean", [MergePoint(f"merge {n}", n, n / 9) for n in range(3)], "norm")
    axis = plot.canvas.getAxis("left")
    paper = QPixmap(10, 10)
    painter = QPainter(paper)
    specs = axis.generateDrawSpecs(painter)
    painter.end()
    _, ticks, texts = specs
    heights = {round(rect.center().y()) for rect, *_ in texts}
    assert len(heights) >= 3
    assert {round(start.y()) for _, start, _ in ticks} == heights


# Heterogeneity


def test_a_message_takes_the_place_of_a_plot(qtbot, plot, spectra, energies):
    def draw():
        plot.show_layers(LAYERS)
        spectra.show_spectrum(spectrum(), COLOURS)
        energies.show_energies("layer", {"a": 0.0}, COLOURS)

    assert displayed(qtbot, GammaPlot()).message() == EMPTY
    energies.show_energies("layer", {}, {})
    assert energies.message()
    for widget in (plot, spectra, energies):
        draw()
        assert widget.message() is None
        assert all(action.isEnabled() for action in widget.actions())
        assert set(widget.actions()) <= set(widget.picture_button.menu().actions())
        widget.clear("A bias has none.")
        assert widget.message() == widget.accessibleDescription() == "A bias has none."
        parts = (widget.canvas, widget.legend, widget.picture_button)
        assert not any(part.isVisible() for part in parts)
        assert not any(action.isEnabled() for action in widget.actions())
        assert not widget.columns()
        draw()
        assert widget.canvas.isVisible()


@pytest.mark.parametrize("tau", [0.3, 0.04])
def test_layers_are_filled_above_tau_and_coloured_by_family(plot, tau):
    plot.set_tau(tau)
    points = drawn(plot)
    for index, (name, gamma) in enumerate(GAMMAS.items()):
        family, filled, height = points[index]
        assert family == ("attention" if "q_proj" in name else "MLP")
        assert filled == (gamma > tau)
        assert height == pytest.approx(np.log10(gamma))
    above = sum(gamma > tau for gamma in GAMMAS.values())
    assert f"{above} of 6 matrices are heterogeneous" in plot.accessibleDescription()
    assert plot.threshold.pill.format == f"τ {tau:.3f}"
    plot.show_layers(replace(LAYERS, gamma_L=gammas({NAMES[0]: np.nan})))
    assert set(drawn(plot)) == {1, 2, 3, 4, 5}
    assert "1 without γ" in plot.title.full_text


def test_two_thousand_layers_are_a_dozen_items(plot):
    names = [f"layers.{i}.q" for i in range(2000)]
    gamma = np.linspace(0.01, 1.0, 2000)
    plot.show_layers(layer_figures(names, ["query"] * 2000, range(2000), gamma=gamma))
    assert len(drawn(plot)) == 2000
    assert len(plot.items) < 16  # items, however many layers
    plot.select("layers.7.q")
    assert "path" not in plot.items, "a line through so many takes half a second"


@pytest.mark.parametrize("logarithmic", [True, False])
def test_zero_and_infinite_gamma_stay_on_the_plot(qtbot, plot, logarithmic):
    plot.log_box.setChecked(logarithmic)
    extreme = {NAMES[0]: 0.0, NAMES[1]: float("inf"), NAMES[2]: 1e-300}
    plot.show_layers(replace(LAYERS, gamma_L=gammas(extreme)))
    assert NAMES[1] in {NAMES[i] for i, (_, up, _) in drawn(plot).items() if up}
    low, high = plot.canvas.getViewBox().viewRange()[1]
    heights = [height for _, _, height in drawn(plot).values()]
    assert all(low <= height <= high for height in heights)
    assert high - low < 20
    plot.grab()
    plot.set_tau(0.0)  # on the lower edge
    assert plot.threshold.value() == pytest.approx(plot.threshold.maxRange[0])
    assert all(filled for index, (_, filled, _) in drawn(plot).items() if index)


def drag_tau(plot: GammaPlot, to: float, qtbot, *, release: bool = True) -> None:
    viewport = plot.canvas.viewport()
    start = at(plot, 1, plot.tau)
    end = at(plot, 1, to)
    qtbot.mouseMove(viewport, start)
    qtbot.mousePress(viewport, Qt.MouseButton.LeftButton, pos=start)
    for step in range(1, 6):
        # mouse moves with the button held: qtbot sends them without
        position = start + (end - start) * step / 5
        _move_held(viewport, position)
        qtbot.wait(15)  # the scene passes over moves that come faster than a screen shows them
    if release:
        qtbot.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=end)


def _move_held(viewport, point: QPoint) -> None:
    button = Qt.MouseButton.LeftButton
    none = Qt.KeyboardModifier.NoModifier
    where = QPointF(point)
    event = QMouseEvent(
        QEvent.Type.MouseMove,
        where,
        QPointF(viewport.mapToGlobal(point)),
        Qt.MouseButton.NoButton,
        button,
        none,
    )
    QGuiApplication.sendEvent(viewport, event)


@pytest.mark.parametrize("logarithmic", [True, False])
def test_dragging_the_line_moves_tau(qtbot, plot, logarithmic):
    plot.log_box.setChecked(logarithmic)
    moved: list[float] = []
    committed: list[float] = []
    plot.tau_changed.connect(moved.append)
    plot.tau_committed.connect(committed.append)
    drag_tau(plot, 1.0, qtbot, release=False)
    assert moved
    assert not committed
    assert plot.tau == moved[-1] == two_digits(moved[-1])
    qtbot.mouseRelease(plot.canvas.viewport(), Qt.MouseButton.LeftButton, pos=at(plot, 1, plot.tau))
    assert committed == [plot.tau]
    assert plot.tau == pytest.approx(1.0, rel=0.2)


def test_clicking_a_symbol_selects_its_layer(qtbot, plot):
    position = at(plot, 4, GAMMAS[NAMES[4]])
    with qtbot.waitSignal(plot.layer_selected) as chosen:
        qtbot.mouseClick(plot.canvas.viewport(), Qt.MouseButton.LeftButton, pos=position)
    assert chosen.args == [NAMES[4]]
    assert plot.selected == NAMES[4]
    assert "γ = 3.00 · heterogeneous · query" in plot.caption.full_text
    signals = (plot.layer_selected, plot.tau_changed, plot.tau_committed)
    far = at(plot, 0, GAMMAS[NAMES[4]])
    with contextlib.ExitStack() as stack:
        for signal in signals:  # neither far from all symbols nor from outside
            stack.enter_context(qtbot.assertNotEmitted(signal))
        qtbot.mouseClick(plot.canvas.viewport(), Qt.MouseButton.LeftButton, pos=far)
        plot.select(NAMES[2])
        plot.set_tau(0.7)
    assert (plot.selected, plot.tau) == (NAMES[2], 0.7)
    plot.select("not.shown")
    assert plot.selected is None


def test_values_under_a_resting_pointer_stay(qtbot, plot):
    """Qt asks for a tooltip of its own when the pointer rests, which would hide what is shown."""
    point = at(plot, 2, 0.5)
    hover(plot, point)
    said = QToolTip.text()
    assert said
    viewport = plot.canvas.viewport()
    event = QHelpEvent(QEvent.Type.ToolTip, point, viewport.mapToGlobal(point))
    QApplication.sendEvent(viewport, event)
    qtbot.wait(400)  # a tooltip that is to be hidden stays for 300 ms
    assert QToolTip.isVisible()
    assert QToolTip.text() == said
    QToolTip.hideText()
    qtbot.waitUntil(lambda: not QToolTip.isVisible())


def hover(plot: Plot, point: QPoint) -> None:
    """Move the pointer to this pixel of the canvas."""
    plot.canvas.scene().sigMouseMoved.emit(plot.canvas.mapToScene(point))


def on_curve(plot: SpectrumPlot, key: str, index: int) -> QPoint:
    """The pixel of the canvas where a curve has its value of ``index``, from 1."""
    value = QPointF(index, curve(plot, key)[1][index - 1])
    return plot.canvas.mapFromScene(plot.canvas.getViewBox().mapViewToScene(value))


def test_the_values_of_all_curves_under_the_pointer_are_shown(qtbot, spectra):
    spectra.show_spectrum(spectrum(), COLOURS)
    spectra.legend.chip("expert b").click()
    hover(spectra, on_curve(spectra, "expert c", 5))
    place, *said = QToolTip.text().splitlines()
    assert place == "i = 5"
    names = {line.partition(":")[0] for line in said}
    on = {c.label for c in spectra.curves() if spectra.legend.is_on(c.key)}
    assert names == on
    assert "b" not in names
    (line,) = [line for line in said if line.startswith("c: ")]
    assert line == f"c: {number_text(float(spectrum().experts['c'][4]), 3)}"
    assert {plotted.opacity() for plotted in spectra.items.values()} != {1.0}
    QApplication.sendEvent(spectra.canvas, QEvent(QEvent.Type.Leave))
    assert {plotted.opacity() for plotted in spectra.items.values()} == {1.0}, (
        "no curve stays faded"
    )
    QToolTip.hideText()
    qtbot.waitUntil(lambda: not QToolTip.isVisible())


def quantity_of(plot: Plot) -> QLabel:
    """The title of the vertical axis, above the plot."""
    return next(label for label in plot.findChildren(QLabel) if label.text() == plot.spec.y.title)


def test_a_picture_has_the_axiss_name_and_no_hint(qtbot, plot):
    for chosen in (None, NAMES[2]):
        plot.select(chosen)
        visible = plot.caption.isVisible(), quantity_of(plot).isVisible()
        plot.show_as_picture(True)
        assert quantity_of(plot).isVisible()
        assert quantity_of(plot).text() == "γ"
        captions = [label for label in plot.findChildren(CaptionLabel) if label.isVisible()]
        assert any(label.full_text == plot.caption.full_text for label in captions) == bool(chosen)
        plot.show_as_picture(False)
        assert (plot.caption.isVisible(), quantity_of(plot).isVisible()) == visible == (True, False)


def places(plot: GammaPlot) -> list[QPointF]:
    """Where the symbols are in the scene."""
    to_scene = plot.canvas.getViewBox().mapViewToScene
    return [to_scene(QPointF(x, y)) for x, (_, _, y) in drawn(plot).items()]


@pytest.mark.parametrize("logarithmic", [True, False])
@pytest.mark.parametrize("width", [500, 700, 1100])
def test_neither_the_pill_nor_what_is_said_covers_a_symbol(qtbot, width, logarithmic):
    plot = in_view(qtbot, GammaPlot(), width=300, height=300)
    plot.show_layers(LAYERS)
    plot.log_box.setChecked(logarithmic)
    plot.resize(width, 300)
    QApplication.processEvents()
    for gamma in GAMMAS.values():  # the line goes through every symbol once
        plot.set_tau(gamma)
        for name in NAMES:
            plot.select(name)
            plot.grab()
            pill = plot.threshold.pill.mapRectToScene(plot.threshold.pill.boundingRect())
            (name_item,) = texts(plot)
            said = name_item.mapRectToScene(name_item.boundingRect())
            for box in (pill, said):
                assert not any(box.contains(symbol) for symbol in places(plot)), (gamma, name)
            assert not said.intersects(pill)
            assert not said.top() < pill.center().y() < said.bottom(), "the line is not through it"
            assert plot.canvas.getViewBox().sceneBoundingRect().contains(said)


def test_arrows_walk_the_layers_and_with_control_move_tau(qtbot, plot):
    reported: list[str] = []
    plot.layer_selected.connect(reported.append)
    keys = Qt.Key
    control = Qt.KeyboardModifier.ControlModifier
    with qtbot.waitSignals([plot.tau_changed, plot.tau_committed]):
        qtbot.keyClick(plot, keys.Key_Up, control)
    assert plot.tau == 0.31
    for _ in range(2):
        qtbot.keyClick(plot, keys.Key_Down, control)
    assert plot.tau == 0.29
    assert plot.selected is None
    for key in (keys.Key_Right, keys.Key_Down, keys.Key_Left, keys.Key_End, keys.Key_Right):
        qtbot.keyClick(plot, key)
    assert reported == [NAMES[0], NAMES[1], NAMES[0], NAMES[-1], NAMES[-1]]


def test_another_width_and_the_same_layers_again_keep_the_zoom_and_the_selection(plot):
    view = plot.canvas.getViewBox()
    view.setXRange(1, 5, padding=0)
    plot.select(NAMES[3])
    before = view.viewRange()[0]
    plot.resize(500, 300)
    QApplication.processEvents()
    assert view.viewRange()[0] == pytest.approx(before)
    plot.show_layers(layer_figures(NAMES, ROLES, BLOCKS))
    assert view.viewRange()[0] == pytest.approx(before)
    assert plot.selected == NAMES[3]
    assert not drawn(plot)


def test_blocks_are_named_below_their_middles(plot):
    axis = plot.canvas.getAxis("bottom")
    levels = axis.tickValues(-1, 6, 600)
    middles = [value for _, values in levels for value in values]
    assert middles == [0.5, 2.5, 4.5]
    assert axis.tickStrings(middles, 1, 1.0) == [
        "Block 0",
        "Block 1",
        "Block 2",
    ]
    axis.tickValues(-1, 6, 120)
    assert axis.tickStrings(middles, 1, 1.0) == ["0", "1", "2"]
    assert block_spans([0, 0, 1, 1, 1]) == [((-0.5, 1.5), "0"), ((1.5, 4.5), "1")]
    assert block_spans([]) == []


# Spectrum


def curve(plot: SpectrumPlot, key: str) -> tuple[np.ndarray, np.ndarray]:
    return plot.items[key].getOriginalDataset()


def test_every_curve_is_drawn_in_its_style(spectra):
    spectra.show_spectrum(spectrum(), COLOURS)
    x, y = curve(spectra, BEFORE)
    assert x[0] == 1
    np.testing.assert_allclose(y, np.log10(spectrum().preliminary))
    pens = {key: plotted.opts["pen"] for key, plotted in spectra.items.items()}
    assert pens[BEFORE].style() == Qt.PenStyle.DashLine
    assert pens[BEFORE].color().name() == LIGHT.base
    assert pens[AFTER].color().name() == LIGHT.merged
    assert pens[AFTER].style() == Qt.PenStyle.SolidLine
    assert pens[AFTER].widthF() > 1.3 * pens["expert a"].widthF()
    for name, colour in COLOURS.items():
        assert pens[f"expert {name}"].color().name() == LIGHT.colour(colour)
    again = {name: f"expert {5 * index}" for index, name in enumerate(COLOURS)}
    spectra.show_spectrum(spectrum(), again)
    pens = [spectra.items[f"expert {name}"].opts["pen"] for name in COLOURS]
    assert len({pen.color().name() for pen in pens}) == 1
    assert len({pen.style() for pen in pens}) == len(COLOURS), "they differ in style"


def test_the_refined_values_are_marked_and_counted(spectra):
    sigma = np.geomspace(1.0, 1e-4, 20)
    after = np.concatenate([sigma[:6] + 0.2, sigma[6:]])
    spectra.show_spectrum(spectrum(preliminary=sigma, merged=after), COLOURS)
    assert spectra.title.full_text == "model.layers.0.q_proj.weight"
    assert "heterogeneous" in spectra.caption.full_text
    assert "first 6 of 20" in spectra.caption.full_text
    (mark,) = [item for item in items_of(spectra, pg.InfiniteLine) if item.isVisible()]
    assert mark.value() == 6.5
    assert mark.label.format == "refined: first 6"
    assert "γ" not in spectra.caption.full_text, "the head above says it"


def test_a_layer_says_whether_it_was_refined(spectra):
    spectra.show_spectrum(spectrum(refined=False), COLOURS)
    assert "homogeneous: no refinement, before = after" in spectra.caption.full_text
    shaped = spectrum(refined=False)
    shaped = replace(shaped, unshaped=shaped.merged, merged=2 * shaped.merged)
    spectra.show_spectrum(shaped, COLOURS)
    assert "no refinement" in spectra.caption.full_text
    assert "before = after" not in spectra.caption.full_text, "they differ by their singular values"
    assert BEFORE not in spectra.items
    tiny = np.geomspace(1e-9, 1e-12, 5)
    spectra.show_spectrum(spectrum(preliminary=tiny, merged=tiny * 1.5), COLOURS)
    assert BEFORE in spectra.items, "a small refinement of small values"
    report = LayerReport(name="x")
    spectra.show_spectrum(spectrum(preliminary=None, report=report), COLOURS)
    assert BEFORE not in spectra.items, "the method has no preliminary solution"
    assert "refinement" not in spectra.caption.full_text
    assert spectra.legend.entries()[0].label == "merged"


@pytest.mark.parametrize("quantity", Quantity)
@pytest.mark.parametrize("logarithmic", [True, False])
@pytest.mark.parametrize("rank", [1, 8, 64])
def test_the_spectra_of_low_rank_changes_use_the_whole_width(spectra, rank, logarithmic, quantity):
    """Zeros, and the rounding errors that a computed spectrum has in their place, are left out."""
    generator = np.random.default_rng(0)
    rounding = np.sort(generator.uniform(0, 1e-9, 64))[::-1]
    values = np.where(np.arange(64) < rank, np.geomspace(3.0, 1.0, 64), rounding)
    spectra.log_box.setChecked(logarithmic)
    spectra.quantity.choose(quantity)
    experts = dict.fromkeys(COLOURS, values)
    spectra.show_spectrum(spectrum(preliminary=values, merged=values, experts=experts), COLOURS)
    low, high = spectra.canvas.getViewBox().viewRange()[0]
    assert (low, high) == pytest.approx((1, max(rank, 2)), abs=0.6)
    cut = 64 - rank
    assert ("not drawn" in spectra.caption.full_text) == (
        cut > 0 and quantity is not Quantity.ENERGY
    )
    assert len(spectra.columns()[0].values) == 64, "the table has all"


SIGMA = np.geomspace(2.0, 1e-3, 20)
MERGES = {
    "nothing refined": (SIGMA, SIGMA, None, 1),
    "shaped": (SIGMA**0.5, SIGMA, SIGMA, 2),
    "refined invisibly, and shaped": (SIGMA**0.5, SIGMA * (1 + 1e-6), SIGMA, 2),
    "shorter, and shaped": (SIGMA**0.5, np.pad(SIGMA, (0, 5)), SIGMA, 2),
    "refined": (SIGMA + 0.2, SIGMA, None, 2),
    "refined, and shaped": (SIGMA**0.5, SIGMA, SIGMA + 0.2, 3),
}


@pytest.mark.parametrize("case", MERGES)
def test_no_curve_of_a_merge_is_drawn_twice(spectra, case):
    merged, before, alone, count = MERGES[case]
    layer = replace(spectrum(preliminary=before, merged=merged), unshaped=alone)
    spectra.show_spectrum(layer, COLOURS)
    curves = [curve for curve in spectra.curves() if not curve.key.startswith("expert")]
    assert len(curves) == count


@pytest.mark.parametrize("logarithmic", [True, False])
def test_zeros_and_denormals_do_not_break_the_axis(spectra, logarithmic):
    sigma = np.array([1.0, 0.1, 1e-12, 5e-324, 0.0])
    spectra.log_box.setChecked(logarithmic)
    spectra.show_spectrum(spectrum(experts={"a": sigma}), COLOURS)
    low, high = spectra.canvas.getViewBox().viewRange()[1]
    assert np.isfinite([low, high]).all()
    said = "3 values not drawn: zero but for rounding (below 10⁻⁷ of the largest)"
    assert (said in spectra.caption.full_text) == logarithmic
    if logarithmic:
        assert high - low < 12
        np.testing.assert_array_equal(np.isnan(curve(spectra, "expert a")[1]), sigma < 1e-7)
    spectra.grab()


def test_the_legend_switches_curves_off_and_remembers(qtbot, spectra):
    spectra.show_spectrum(spectrum(), COLOURS)
    qtbot.mouseClick(spectra.legend.chip("expert b"), Qt.MouseButton.LeftButton)
    assert not spectra.items["expert b"].isVisible()
    assert spectra.items["expert a"].isVisible()
    spectra.show_spectrum(spectrum(refined=False), COLOURS)
    assert not spectra.items["expert b"].isVisible()
    qtbot.keyClick(spectra.legend.chip("expert b"), Qt.Key.Key_Space)
    assert spectra.items["expert b"].isVisible()


def test_busy_is_said_only_after_a_while(qtbot, spectra):
    said = spectra.message()
    spectra.set_busy(True)
    assert spectra.message() == said
    qtbot.waitUntil(lambda: spectra.message() == "Computing…", timeout=2000)
    spectra.show_spectrum(spectrum(), COLOURS)
    assert spectra.message() is None
    spectra.set_busy(False)
    spectra.set_busy(True)
    spectra.set_busy(False)
    qtbot.wait(300)
    assert not spectra.busy.isVisible()


def test_the_experts_are_drawn_while_their_merge_is_on_its_way(qtbot, spectra):
    layer = spectrum()
    spectra.set_busy(True)
    spectra.show_experts(ExpertSpectra(name=layer.name, experts=layer.experts), COLOURS)
    assert [c.key for c in spectra.curves()] == [f"expert {name}" for name in layer.experts]
    assert len(spectra.columns()) == 1 + len(layer.experts)
    assert not spectra.busy.isVisible()
    qtbot.waitUntil(spectra.busy.isVisible, timeout=2000)
    assert [e.label for e in spectra.legend.entries()] == ["merged", *layer.experts]
    spectra.canvas.getViewBox().setXRange(2, 9, padding=0)
    spectra.show_spectrum(layer, COLOURS)
    assert not spectra.busy.isVisible()
    assert [c.key for c in spectra.curves()][:2] == [AFTER, BEFORE]
    assert spectra.canvas.getViewBox().viewRange()[0] == pytest.approx([2, 9]), "still zoomed"


def test_a_merge_of_higher_rank_than_its_experts_is_drawn_to_its_own_end(spectra):
    low = {name: values[:4] for name, values in spectrum().experts.items()}
    layer = spectrum(experts=low)
    spectra.show_experts(ExpertSpectra(name=layer.name, experts=low), COLOURS)
    view = spectra.canvas.getViewBox()
    assert view.viewRange()[0] == pytest.approx([1, 4])
    spectra.show_spectrum(layer, COLOURS)
    assert view.viewRange()[0] == pytest.approx([1, len(layer.merged)])


def test_a_merge_stays_drawn_until_another_of_the_same_experts_is_there(spectra):
    layer = spectrum()
    copies = {name: values.copy() for name, values in layer.experts.items()}
    spectra.show_spectrum(layer, COLOURS)
    spectra.show_experts(ExpertSpectra(name=layer.name, experts=copies), COLOURS)
    assert spectra.curves()[0].key == AFTER
    for experts in ({"c": copies["c"]}, {name: 2 * values for name, values in copies.items()}):
        spectra.show_spectrum(layer, COLOURS)
        spectra.show_experts(ExpertSpectra(name=layer.name, experts=experts), COLOURS)
        assert spectra.curves()[0].key.startswith("expert ")
    spectra.show_spectrum(layer, COLOURS)
    spectra.show_experts(ExpertSpectra(name=layer.name, experts=copies), COLOURS, awaited=False)
    assert spectra.curves()[0].key.startswith("expert "), "no merge is on its way"


def test_two_layers_are_drawn_in_one_range(spectra):
    spectra.show_spectrum(spectrum(), COLOURS)
    view = spectra.canvas.getViewBox()
    before = view.viewRange()[1]
    higher = spectrum(name="another", merged=50 * spectrum().merged)
    (hold,) = [action for action in spectra.actions() if "vertical range" in action.text()]
    hold.trigger()
    spectra.show_spectrum(higher, COLOURS)
    assert view.viewRange()[1] == before
    hold.trigger()
    spectra.fit()
    assert view.viewRange()[1][1] > before[1]


def test_a_click_draws_no_frame_around_the_plot_and_tab_does(qtbot, spectra):
    spectra.show_spectrum(spectrum(), COLOURS)
    spectra.activateWindow()
    seen = {}
    for reason in (Qt.FocusReason.MouseFocusReason, Qt.FocusReason.TabFocusReason):
        spectra.clearFocus()
        spectra.setFocus(reason)
        qtbot.waitUntil(spectra.hasFocus)
        seen[reason] = spectra.grab().toImage().pixelColor(0, 200).name()
    assert list(seen.values()) == [LIGHT.card, LIGHT.accent]


# Energies


def test_a_bar_for_each_expert(energies):
    energies.show_energies("layer", {"a": 0.5, "b": 2.0, "c": 0.0}, COLOURS)
    (bars,) = items_of(energies, pg.BarGraphItem)
    assert list(bars.opts["width"]) == [0.5, 2.0, 0.0]
    assert [brush.color().name() for brush in bars.opts["brushes"]] == list(
        LIGHT.expert_colours[:3]
    )
    assert energies.title.full_text == "layer"
    assert energies.caption.full_text == "the energy of b is 4.0 times that of a"
    assert "c 0" in energies.accessibleDescription()
    energies.log_box.setChecked(True)  # dots, and none for zero
    (dots,) = items_of(energies, pg.ScatterPlotItem)
    x, y = dots.getData()
    np.testing.assert_allclose(x, np.log10([0.5, 2.0]))
    assert list(y) == [0, 1]
    energies.grab()


# What is painted


def painted(qtbot, scatter: pg.ScatterPlotItem) -> QImage:
    """A picture of the item after its style and its points were changed twice."""
    canvas = pg.PlotWidget()
    qtbot.addWidget(canvas)
    canvas.resize(200, 120)
    canvas.addItem(scatter)
    canvas.setRange(xRange=(0, 4), yRange=(0, 4), padding=0)
    scatter.setData(x=[1, 2], y=[1, 2], size=9, symbol="s")
    scatter.setPen(pg.mkPen("#aa0000", width=2))
    scatter.setBrush(pg.mkBrush("#0000aa"))
    canvas.grab()
    scatter.setData(x=[1, np.nan, 3], y=[3, 1, 2], size=7, symbol="t1")
    scatter.setBrush(pg.mkBrush("#00aa00"))
    scatter.setData(x=[1, 2, 3], y=[3, np.nan, 2], size=7, symbol="t1")  # they only move
    return canvas.grab().toImage()


def test_points_look_as_those_of_pyqtgraph_and_are_made_anew_for_another_look(qtbot):
    picture = painted(qtbot, Points())
    reference = painted(qtbot, pg.ScatterPlotItem())
    assert picture == reference
    colours = {picture.pixelColor(x, y).name() for x in range(200) for y in range(120)}
    assert {"#00aa00", "#aa0000"} <= colours
    assert "#0000aa" not in colours
    points = Points()
    look = {"size": 9, "symbol": "s"}
    points.setData(x=[1, 2], y=[1, 2], **look)
    before = points.data
    points.setData(x=[2, 3], y=[4, 5], **look)
    assert points.data is before
    assert [list(axis) for axis in points.getData()] == [[2, 3], [4, 5]]
    for changed in ({"x": [2], "y": [4], **look}, {"x": [2], "y": [4], **look, "size": 5}):
        points.setData(**changed)
        assert points.data is not before
        before = points.data


@pytest.mark.parametrize("name", ["plot", "spectra"])
def test_a_change_of_the_view_is_painted_once(qtbot, request, name):
    widget = request.getfixturevalue(name)
    if name == "spectra":
        widget.show_spectrum(spectrum(), COLOURS)
    qtbot.wait(20)
    painted = []

    class PaintWatch(QObject):
        def eventFilter(self, watched, event):
            if event.type() == QEvent.Type.Paint:
                painted.append(watched)
            return False

    watch = PaintWatch()
    widget.canvas.viewport().installEventFilter(watch)
    widget.canvas.getViewBox().setXRange(1, 4)
    qtbot.wait(50)
    assert len(painted) == 1


# Themes, pictures, menus


def test_a_theme_changes_every_pen(plot, spectra, energies):
    spectra.show_spectrum(spectrum(), COLOURS)
    energies.show_energies("layer", {"a": 0.5, "b": 2.0}, COLOURS)
    for widget in (plot, spectra, energies):
        widget.set_theme(DARK)
        assert widget.canvas.getAxis("left").textPen().color().name() == DARK.text3
        assert widget.canvas.backgroundBrush().color().name() == DARK.card
    assert plot.threshold.pen.color().name() == DARK.text
    attention = symbols(plot, "attention", True)
    assert attention.opts["brush"].color().name() == DARK.accent
    assert spectra.items[AFTER].opts["pen"].color().name() == DARK.text
    assert spectra.items["expert a"].opts["pen"].color().name() == DARK.expert_colours[0]
    assert (
        items_of(energies, pg.BarGraphItem)[0].opts["brushes"][1].color().name()
        == DARK.expert_colours[1]
    )


def test_plots_follow_the_applications_scheme(qapp, qtbot, plot):
    apply_theme(qapp)
    for scheme, theme in (("dark", DARK), ("light", LIGHT)):
        set_scheme(scheme)
        qtbot.waitUntil(lambda theme=theme: plot.theme is theme)


def test_a_copied_picture_has_twice_the_pixels(plot):
    copy_plot(plot)
    image = QGuiApplication.clipboard().image()
    assert image.width() == plot.width() * PIXELS_A_POINT
    assert image.pixelColor(2, 2).name() == LIGHT.card


@pytest.mark.parametrize("name", ["plot", "spectra", "energies"])
def test_a_picture_for_a_paper_has_its_size_and_its_data(request, tmp_path, name):
    widget = request.getfixturevalue(name)
    if name == "spectra":
        widget.show_spectrum(spectrum(), COLOURS)
    elif name == "energies":
        widget.show_energies("layer", {"a": 0.5, "b": 2.0}, COLOURS)
    widget.grab()
    widget.fit()
    QApplication.processEvents()  # the axis is as wide as its numbers now
    before = widget.grab().toImage()
    form = PictureFormat(width=86, height=60, points=7, serif=True)
    for ending in ("png", "svg", "pdf"):
        grab_plot(widget, tmp_path / f"picture.{ending}", form)
    image = QImage(str(tmp_path / "picture.png"))
    assert abs(image.width() / 300 * 25.4 - 86) < 0.3
    assert abs(image.height() / 300 * 25.4 - 60) < 0.3
    assert abs(image.dotsPerMeterX() * 0.0254 - 300) < 1
    drawing = (tmp_path / "picture.svg").read_text(encoding="utf-8")
    families = re.findall('<text[^>]*font-family="([^"]*)"', drawing)
    assert families
    assert all("Serif" in family for family in families)
    titles = (tmp_path / "picture.csv").read_text(encoding="utf-8").splitlines()[0]
    assert titles.count(",") >= 1
    assert widget.grab().toImage() == before, "the window shows it as before"


def test_the_format_of_a_picture_is_asked_for_and_remembered(qtbot, plot):
    for serif, points in ((0, 8), (1, 6)):
        used: list[PictureFormat] = []
        dialog = PictureDialog(used.append, plot, plot)
        assert dialog.points.value() == 8
        dialog.points.setValue(points)
        dialog.typeface.setCurrentIndex(serif)
        dialog.accept()
        assert used == [PictureFormat(points=points, serif=bool(serif))]
    assert PictureFormat.remembered() == used[0]


@pytest.mark.parametrize("name", ["gamma.gif", "gamma", "missing/gamma.png", "missing/gamma.svg"])
def test_a_picture_that_cannot_be_written_is_an_error(tmp_path, plot, name):
    with pytest.raises(OutputError) as caught:
        grab_plot(plot, tmp_path / name, PictureFormat())
    assert Path(name).name in caught.value.sentence
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("width", [400, 105])
def test_a_title_that_does_not_fit_is_elided(qtbot, width):
    axis = QuantityAxis("bottom")
    canvas = pg.PlotWidget(axisItems={"bottom": axis})
    in_view(qtbot, canvas, width=width, height=300)
    axis.declare(PlotAxis(title="heterogeneity γ"), logarithmic=False)
    assert axis.label.toPlainText().strip().endswith("…" if width == 105 else "γ")
    assert axis.label.boundingRect().width() <= axis.size().width()


def test_curves_are_named_at_their_ends_without_one_name_over_another(qtbot, spectra):
    spectra.resize(500, 400)
    spectra.show_spectrum(spectrum(), COLOURS)
    spectra.grab()
    named = spectra.ends.rects()
    assert {label.key for label, _ in named} == {c.key for c in spectra.curves()}
    assert {"before", "after"} < {label.text for label, _ in named}
    for (_, above), (_, below) in pairwise(named):
        assert above.bottom() <= below.top() + 0.01
    hidden = spectra.curves()[-1].key
    spectra.ends.clicked.emit(hidden)
    assert not spectra.items[hidden].isVisible()


@pytest.mark.parametrize("logarithmic", [True, False])
def test_curves_of_low_rank_are_named_where_they_end(qtbot, spectra, logarithmic):
    spectra.resize(500, 400)
    spectra.log_box.setChecked(logarithmic)
    rank = 8
    is_in = np.arange(64) < rank
    values = {name: np.where(is_in, 1.0 + n / 50, 0.0) for n, name in enumerate("abc")}
    merged = np.geomspace(3.0, 0.5, 64)
    spectra.show_spectrum(spectrum(preliminary=None, merged=merged, experts=values), COLOURS)
    spectra.grab()
    view = spectra.canvas.getViewBox()
    named = spectra.inner_ends.rects()
    assert {label.text for label, _ in named} == set(values)
    assert not {label.text for label, _ in spectra.ends.rects()} & set(values)
    end = view.mapFromView(QPointF(rank, 0)).x()
    for label, room in named:
        assert 0 < room.left() - end < 20
        assert view.rect().contains(room), label.text
    for (_, above), (_, below) in pairwise(named):
        assert above.bottom() <= below.top() + 0.01
    spectra.inner_ends.clicked.emit(named[0][0].key)
    assert not spectra.items[named[0][0].key].isVisible()


def test_the_menu_of_a_plot_saves_its_data(qtbot, spectra, monkeypatch):
    spectra.show_spectrum(spectrum(), COLOURS)
    saved = []
    monkeypatch.setattr(base_plot, "save_table", lambda *arguments: saved.append(arguments))
    actions = {action.text(): action for action in spectra.picture_button.menu().actions()}
    actions["Save data as CSV…"].trigger()
    ((_, name, columns),) = saved
    assert name == spectra.accessibleName()
    assert [column.title for column in columns] == [column.title for column in spectra.columns()]


def test_without_a_threshold_there_is_no_line(qtbot):
    plot = GammaPlot()
    qtbot.addWidget(plot)
    plot.show()
    plot.set_tau(float("inf"))
    plot.show_layers(layer_figures(("a", "b"), ("query", "key"), (0, 0), gamma=(0.1, 5.0)))
    assert not plot.threshold.isVisible()
    assert "treated alike" in plot.accessibleDescription()
    assert "τ" not in plot.caption.full_text
    QApplication.processEvents()
    low = plot.canvas.getViewBox().viewRange()[0][0]
    plot.keyPressEvent(
        QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_Up, Qt.KeyboardModifier.ControlModifier)
    )
    assert plot.tau == float("inf")
    plot.set_tau(0.3)
    assert plot.threshold.isVisible()
    plot.select(None)
    assert "τ" in plot.caption.full_text
    assert plot.canvas.getViewBox().viewRange()[0][0] < low, "the pill has room"


def test_names_of_points_are_whole_after_a_change_of_the_width(qtbot):
    plot = MergeScatter()
    points = [MergePoint(f"a merge with the name {n}", 0.2 * n, n, n == 2) for n in range(3)]
    plot.show_merges("mean", points)
    in_view(qtbot, plot, width=330, height=300)
    view = plot.canvas.getViewBox()

    def are_whole() -> bool:
        names = [text_item for text_item in items_of(plot, pg.TextItem) if text_item.isVisible()]
        boxes = [name.mapRectToScene(name.boundingRect()) for name in names]
        return bool(boxes) and all(map(view.sceneBoundingRect().contains, boxes))

    qtbot.waitUntil(are_whole)
