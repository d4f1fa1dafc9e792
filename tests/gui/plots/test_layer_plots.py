"""The plots of the inspector's panels: numbers as computed here in float64, shown and exported."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtGui import QImage
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ace_gui.engine.contract.findings import (
    LayerDistribution,
    LayerReport,
    LayerSpectrum,
    LayerSubspaces,
)
from ace_gui.gui.panels.layer_panels import figure_rows
from ace_gui.gui.plots.frame.bars_and_cells import ink_on
from ace_gui.gui.plots.frame.base_plot import Plot
from ace_gui.gui.plots.frame.export_image import PictureFormat, grab_plot
from ace_gui.gui.plots.gamma_plot import GammaPlot
from ace_gui.gui.plots.merge_plots import ScoreBarsPlot, ScoreGroup
from ace_gui.gui.plots.one_layer_plots import (
    GAUSSIAN,
    GAUSSIAN_TAIL,
    LEFT,
    RIGHT,
    AlignmentPlot,
    ExpertMatrixPlot,
    HistogramPlot,
    agreement,
    cell_colour,
    expected_counts,
    pair_text,
    tail_share,
)
from ace_gui.gui.plots.spectrum_plot import (
    AFTER,
    BEFORE,
    Quantity,
    SpectrumPlot,
    spec_of_spectrum,
)
from ace_gui.gui.state.known_scores import ScoreFigure
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import DARK, LIGHT, set_scheme
from tests.gui.fakes import layer_figures
from tests.gui.test_theme import DEFICIENCIES, oklab
from tests.helpers.contrast import contrast, linear
from tests.helpers.windows import in_view, items_of

LAYER = "model.layers.0.q_proj.weight"
EXPERTS = ("cola", "mnli", "rte")
COLOURS = {name: f"expert {index}" for index, name in enumerate(EXPERTS)}
both_themes = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])


@pytest.fixture(autouse=True)
def light(qapp) -> object:
    set_scheme("light")
    yield
    Settings().pictures_on_white = False
    set_scheme("system")


displayed = partial(in_view, width=460, height=400)


def spectrum(seed: int = 0) -> LayerSpectrum:
    random = np.random.default_rng(seed)
    sigmas = [np.sort(random.exponential(size=24))[::-1] for _ in range(5)]
    return LayerSpectrum(
        name=LAYER,
        experts=dict(zip(EXPERTS, sigmas[:3], strict=True)),
        preliminary=sigmas[3],
        merged=sigmas[4],
        report=LayerReport(name=LAYER),
    )


def distribution(seed: int = 0) -> LayerDistribution:
    random = np.random.default_rng(seed)
    edges = np.linspace(-4, 4, 162)
    entries = {name: random.normal(0.1, 0.5 + 0.4 * t, 5000) for t, name in enumerate(EXPERTS)}
    counts = {name: np.histogram(x, edges)[0] for name, x in entries.items()}
    return LayerDistribution(
        name=LAYER,
        edges=edges,
        counts=counts,
        outside={name: x.size - int(counts[name].sum()) for name, x in entries.items()},
        means={name: float(x.mean()) for name, x in entries.items()},
        deviations={name: float(x.std()) for name, x in entries.items()},
        excess=dict.fromkeys(entries, 0.0),
    )


COSINES = np.array([[1, 0.31, -0.2], [0.31, 1, np.nan], [-0.2, np.nan, 1]])


# Spectra


@pytest.fixture
def spectra(qtbot) -> SpectrumPlot:
    plot = displayed(qtbot, SpectrumPlot())
    plot.show_spectrum(spectrum(), COLOURS)
    return plot


def heights(plot: SpectrumPlot, key: str) -> np.ndarray:
    return plot.items[key].getOriginalDataset()[1]


def test_relative_values_and_cumulative_energy_are_those_of_the_spectrum(spectra):
    sigma = spectrum().merged
    spectra.log_box.setChecked(False)
    spectra.quantity.choose(Quantity.RELATIVE)
    np.testing.assert_allclose(heights(spectra, AFTER), sigma / sigma[0])
    spectra.quantity.choose(Quantity.ENERGY)
    cumulative = [float((sigma[:i] ** 2).sum() / (sigma**2).sum()) for i in range(1, 25)]
    np.testing.assert_allclose(heights(spectra, AFTER), cumulative)
    spectra.log_box.setChecked(True)  # shares are never logarithmic
    np.testing.assert_allclose(heights(spectra, AFTER), cumulative)


def test_marks_stand_where_a_merge_reaches_90_95_and_99_percent(spectra):
    spectra.quantity.choose(Quantity.ENERGY)
    energy = np.cumsum(spectrum().preliminary ** 2) / (spectrum().preliminary ** 2).sum()
    x, y = spectra.items[f"{BEFORE}: reached"].getData()
    first = [int(np.argmax(energy >= share)) for share in (0.90, 0.95, 0.99)]
    assert list(x) == [i + 1 for i in first]
    np.testing.assert_allclose(y, energy[first])
    spectra.legend.chip(BEFORE).click()
    assert not spectra.items[f"{BEFORE}: reached"].isVisible()
    spectra.quantity.choose(Quantity.VALUE)
    assert f"{BEFORE}: reached" not in spectra.items


def test_names_of_the_marks_are_above_all_curves_or_hidden(spectra, qtbot):
    spectra.quantity.choose(Quantity.ENERGY)
    lines = [line for line in items_of(spectra, pg.InfiniteLine) if line.isVisible()]
    assert {0.9, 0.95, 0.99} <= {line.value() for line in lines}
    (label,) = [line.label for line in lines if getattr(line, "label", None)]
    assert label.toPlainText() == "90 · 95 · 99 %"
    box = spectra.canvas.getViewBox()
    rect = box.mapFromItemToView(label, label.boundingRect()).boundingRect()
    assert rect.bottom() <= box.viewRect().bottom(), "it is whole"
    assert rect.center().y() > 1
    size = spectra.size()
    spectra.resize(size.width(), 130)
    qtbot.waitUntil(lambda: not label.isVisible())
    spectra.resize(size)
    qtbot.waitUntil(label.isVisible)


def test_two_merges_of_a_layer_lie_over_one_another(spectra):
    spectra.show_comparison(spectrum(0), spectrum(1), labels=("now", "tried"))
    labels = [curve.label for curve in spectra.curves()]
    assert labels == ["tried", "tried, before (W_pre)", "now", "now, before (W_pre)"]
    assert [curve.end for curve in spectra.curves()] == ["tried", "before", "now", "before"]
    styles = {(c.colour, c.style) for c in spectra.curves()}
    assert len(styles) == 4
    np.testing.assert_array_equal(spectra.curves()[2].y, spectrum(0).merged)


def test_a_pair_of_any_lengths_has_a_table_and_zeros_are_shown_in_every_quantity(spectra):
    spectra.show_pair("layer", "how far", {"one": np.array([3.0, 2, 1]), "two": np.array([1.0])})
    i, first, second = spectra.columns()
    assert list(i.values) == [1, 2, 3]
    assert list(first.values) == [3, 2, 1]
    np.testing.assert_array_equal(second.values, [1, np.nan, np.nan])
    spectra.show_pair("layer", "", dict.fromkeys(("one", "two"), np.zeros(5)))
    for quantity in Quantity:
        spectra.quantity.choose(quantity)
        spectra.grab()
    assert spectra.message() is None


def test_the_figures_are_those_of_their_definitions(spectra):
    rows = {row.title: row for row in figure_rows(spectra.curves())}
    sigma = spectrum().merged
    share = sigma / sigma.sum()
    expected = {
        "energy in top 5 %": (sigma[:2] ** 2).sum() / (sigma**2).sum(),
        "effective rank": np.exp(-(share * np.log(share)).sum()),
        "stable rank": (sigma**2).sum() / sigma[0] ** 2,
        "condition number": sigma[0] / sigma[-1],
        "nuclear norm": sigma.sum(),
        "Frobenius norm": np.sqrt((sigma**2).sum()),
    }
    for title, value in expected.items():
        assert rows[title].values[0] == pytest.approx(value, rel=1e-12), title
        assert rows[title].tip
    energy = np.cumsum(sigma**2) / (sigma**2).sum()
    for percent in (90, 95, 99):
        counted = rows[f"directions for {percent} %"].values[0]
        assert counted == np.argmax(energy >= percent / 100) + 1


# Alignment


def test_alignment_of_both_sides_is_drawn_and_told(qtbot):
    plot = displayed(qtbot, AlignmentPlot())
    left_cosines = np.array([1.0, 0.95, 0.2])
    right_cosines = np.array([0.9, 0.8, 0.1])
    subspaces = LayerSubspaces(
        name=LAYER,
        experts=EXPERTS,
        alignment=left_cosines,
        alignment_right=right_cosines,
        overlap=np.eye(3),
        rank=2,
    )
    plot.show_alignment(subspaces)
    for side, values in ((LEFT, left_cosines), (RIGHT, right_cosines)):
        x, y = plot.items[side].getOriginalDataset()
        assert list(x) == [1, 2, 3]
        np.testing.assert_array_equal(y, values)
    assert ": 2 of 3;" in plot.caption.full_text
    assert plot.columns()[0].title == "i"
    styles = [entry.style for entry in plot.legend.entries()]
    assert styles[0] != styles[1]
    plot.show_alignment(replace(subspaces, alignment=None, alignment_right=None))
    assert "no preliminary solution" in str(plot.message())


# Matrices


@pytest.fixture
def matrix(qtbot) -> ExpertMatrixPlot:
    plot = displayed(qtbot, ExpertMatrixPlot("Cosines"))
    plot.show_matrix(LAYER, EXPERTS, COSINES, meaning="cosine")
    return plot


def test_every_cell_has_its_number_unless_it_is_too_small(qtbot, matrix):
    written = [number.toPlainText() for number in items_of(matrix, pg.TextItem)]
    assert written == ["1", ".31", "−.20", ".31", "1", "–", "−.20", "–", "1"]
    texts = {0.314: ".31", -0.02: "−.02", 0.999: "1", -0.001: "0"}
    assert [pair_text(value) for value in texts] == list(texts.values())
    matrix.resize(120, 400)
    qtbot.waitUntil(lambda: not items_of(matrix, pg.TextItem))


def test_a_matrix_is_a_table_and_says_who_agrees(matrix):
    experts, *columns = matrix.columns()
    assert tuple(experts.values) == EXPERTS
    assert [column.title for column in columns] == list(EXPERTS)
    np.testing.assert_array_equal(np.array([c.values for c in columns]), COSINES)
    expected = "cola and mnli agree most (0.31), cola and rte least (−0.20)."
    assert matrix.caption.full_text == expected
    assert expected in matrix.accessibleDescription()
    assert agreement(EXPERTS, np.full((3, 3), np.nan)) == ""
    assert agreement(EXPERTS[:1], np.ones((1, 1))) == ""
    assert agreement(EXPERTS[:2], np.array([[1, 0.5], [0.5, 1]])) == "cola and mnli: 0.50."


@both_themes
def test_cells_tell_their_order_by_lightness(theme):
    for deficiency, sign in product(DEFICIENCIES.values(), (1, -1)):
        shares = np.linspace(0, sign, 9)
        seen = [oklab(deficiency @ linear(cell_colour(share, theme)))[0] for share in shares]
        steps = [(b - a) * (1 if theme.dark else -1) for a, b in pairwise(seen)]
        assert min(steps) > 0.02


@both_themes
def test_numbers_are_readable_on_their_cells(theme):
    for share in np.linspace(-1, 1, 41):
        colour = cell_colour(float(share), theme)
        assert contrast(ink_on(colour), colour) >= 4.5, share


# Distributions


@pytest.fixture
def histogram(qtbot) -> HistogramPlot:
    plot = displayed(qtbot, HistogramPlot())
    plot.show_distribution(distribution(), COLOURS)
    return plot


def test_counts_are_drawn_as_steps(histogram):
    counts = distribution().counts["mnli"]
    histogram.log_box.setChecked(False)
    x, y = histogram.items["expert mnli"].getOriginalDataset()
    np.testing.assert_array_equal(y[::2], counts)
    np.testing.assert_array_equal(y[1::2], counts)
    np.testing.assert_array_equal(x[::2], distribution().edges[:-1])
    histogram.log_box.setChecked(True)
    y = histogram.items["expert mnli"].getOriginalDataset()[1]
    np.testing.assert_allclose(y[::2][counts > 0], np.log10(counts[counts > 0]))
    assert np.isnan(y[::2][counts == 0]).all()


def test_the_gaussian_has_the_experts_own_mean_and_deviation(histogram):
    layer = distribution()
    histogram.log_box.setChecked(False)
    x, y = histogram.items["Gaussian cola"].getOriginalDataset()
    mean = layer.means["cola"]
    deviation = layer.deviations["cola"]
    density = np.exp(-(((x - mean) / deviation) ** 2) / 2) / (deviation * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(y, 5000 * density * np.diff(layer.edges), atol=0.3)
    histogram.legend.chip(GAUSSIAN).click()
    visible = {key for key, bars in histogram.items.items() if bars.isVisible()}
    assert visible == {f"expert {name}" for name in layer.counts}
    unchanged = replace(layer, deviations=dict.fromkeys(EXPERTS, 0.0))
    histogram.show_distribution(unchanged, COLOURS)
    assert np.isnan(histogram.items["Gaussian cola"].getOriginalDataset()[1]).all()
    histogram.grab()


def test_expected_counts_are_the_gaussians():
    edges = np.array([-np.inf, 0.5, np.inf])
    np.testing.assert_allclose(expected_counts(edges, 1000, 0.5, 2.0), [500, 500])
    within = expected_counts(np.array([-3.0, 3.0]), 1, 0.0, 1.0)
    assert within[0] == pytest.approx(1 - GAUSSIAN_TAIL)
    assert pytest.approx(0.0026998, rel=1e-4) == GAUSSIAN_TAIL


def test_the_tail_share_is_that_of_the_entries():
    entries = np.random.default_rng(3).standard_t(4, 200_000)
    mean = float(entries.mean())
    deviation = float(entries.std())
    edges = np.linspace(-5 * deviation, 5 * deviation, 162)
    counts = np.histogram(entries, edges)[0]
    outside = entries.size - int(counts.sum())
    true = float((np.abs(entries - mean) > 3 * deviation).mean())
    share = tail_share(edges, counts, outside, mean, deviation)
    assert share == pytest.approx(true, rel=0.03)
    assert share > 3 * GAUSSIAN_TAIL
    assert np.isnan(tail_share(edges, counts, outside, mean, 2 * deviation))  # bins end too early
    assert np.isnan(tail_share(edges, counts, 0, 0.0, 0.0))


# Pictures


def plots(qtbot: QtBot) -> list[Plot]:
    spectra = SpectrumPlot()
    matrix = ExpertMatrixPlot("Cosines")
    histogram = HistogramPlot()
    gammas = GammaPlot()
    scores = ScoreBarsPlot()
    every = [spectra, matrix, histogram, gammas, scores]
    for plot in every:
        displayed(qtbot, plot)
    spectra.show_spectrum(spectrum(), COLOURS)
    matrix.show_matrix(LAYER, EXPERTS, COSINES, meaning="cosine")
    histogram.show_distribution(distribution(), COLOURS)
    names = LAYER, "model.layers.1.q_proj.weight"
    gammas.show_layers(layer_figures(names, ("query", "query"), (0, 1), gamma=(0.1, 0.5)))
    bars = tuple(ScoreFigure(value=value, error=0.02) for value in (0.5, 0.8, 0.9))
    scores.show_scores([ScoreGroup(title="cola", bars=bars)], "merged", "accuracy")
    return every


def test_every_kind_of_picture_is_well_formed(qtbot, tmp_path):
    for index, plot in enumerate(plots(qtbot)):
        for ending in ("png", "svg", "pdf"):
            grab_plot(plot, tmp_path / f"{index}.{ending}", PictureFormat())
        assert not QImage(str(tmp_path / f"{index}.png")).isNull()
        drawing = ElementTree.parse(tmp_path / f"{index}.svg").getroot()
        assert drawing.tag.endswith("svg")
        assert not list(drawing.iter("{http://www.w3.org/2000/svg}image"))
        assert QSvgRenderer(str(tmp_path / f"{index}.svg")).isValid()
        document = (tmp_path / f"{index}.pdf").read_bytes()
        assert document.startswith(b"%PDF-1.")
        assert document.rstrip().endswith(b"%%EOF")
        assert document.count(b"/Type /Page\n") + document.count(b"/Type /Page ") == 1
        assert b"/Subtype /Image" not in document


def test_pictures_of_a_dark_window_can_be_on_white(qtbot, tmp_path):
    set_scheme("dark")
    for plot in plots(qtbot):
        plot.set_theme(DARK)
        if plot.canvas.getViewBox().state["mouseEnabled"][0]:
            plot.canvas.getViewBox().setXRange(1, 2, padding=0)
        plot.grab()
        QApplication.processEvents()  # the axis is as wide as its numbers now
        before = plot.grab().toImage()
        seen = plot.canvas.getViewBox().viewRange()
        grab_plot(plot, tmp_path / "dark.png", PictureFormat())
        assert QImage(str(tmp_path / "dark.png")).pixelColor(2, 2).name() == DARK.card
        Settings().pictures_on_white = True
        grab_plot(plot, tmp_path / "white.png", PictureFormat())
        assert QImage(str(tmp_path / "white.png")).pixelColor(2, 2).name() == LIGHT.card
        Settings().pictures_on_white = False
        assert plot.theme is DARK
        assert plot.canvas.getViewBox().viewRange() == seen  # nor is a zoom undone
        assert plot.grab().toImage() == before


def test_the_spectrum_before_and_after_other_singular_values_are_drawn():
    plain = spectrum()
    shaped = replace(plain, unshaped=plain.merged**2)
    drawn = spec_of_spectrum(shaped, COLOURS).curves
    curves = {curve.label: curve for curve in drawn}
    assert np.array_equal(curves["merged"].y, shaped.merged)
    assert np.array_equal(curves["method alone"].y, shaped.merged**2)
    assert curves["method alone"].style != curves["merged"].style
    unrefined = replace(shaped, preliminary=shaped.unshaped)
    labels = [curve.label for curve in spec_of_spectrum(unrefined, COLOURS).curves]
    assert labels == ["merged", "method alone", *EXPERTS]
