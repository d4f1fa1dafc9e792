"""The panels of the Layers workspace, with a finished merge."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtWidgets import QScrollArea

from ace_gui.engine.contract.figures.findings import LayerDistribution, LayerSubspaces
from ace_gui.gui.panels.layer.one_plot_panels import DistributionPanel, SpectraPanel
from ace_gui.gui.panels.layer.subspaces_panel import SubspacesPanel, SubspaceView
from ace_gui.gui.picture import Studio
from ace_gui.gui.plots.one_layer.spectrum_curves import Quantity
from ace_gui.gui.shell.layout.cards import INSPECTOR, LAYERS, VIEWS
from ace_gui.gui.widgets.layout.folding import Folding
from tests.walk.states.doing import Step, each_tab, turn_to


def panels(studio: Studio) -> Iterator[Step]:
    """A panel alone, the left column, the table without a row."""
    window, workspace = studio.window, studio.window.workspace
    workspace.cards.bring(LAYERS)
    workspace.cards.toggle_maximised()
    yield "a panel alone", window
    workspace.cards.toggle_maximised()
    workspace.layers.text.setText("nothing is called so")
    yield "no row is found", window
    workspace.layers.text.setText("")
    workspace.layers.show_only(1)
    yield "all tensors", window
    workspace.layers.show_only(0)
    yield from _left_column(studio)


def _left_column(studio: Studio) -> Iterator[Step]:
    window, left = studio.window, studio.window.workspace.left
    folded = left.is_folded
    left.fold(False)
    for folding in window.workspace.method.findChildren(Folding):
        folding.unfold()
    yield "more options", window
    for area in left.findChildren(QScrollArea):
        for share in (0.5, 1.0):
            bar = area.verticalScrollBar()
            bar.setValue(round(share * bar.maximum()))
            yield f"the left column, scrolled to {share:.0%}", window
    left.fold(not folded)
    yield "the left column, the other way", window
    left.fold(folded)


def all_tabs(studio: Studio) -> Iterator[Step]:
    """Every tab of both panels, and values tried under What if."""
    window, workspace = studio.window, studio.window.workspace
    workspace.cards.bring(INSPECTOR)
    yield from each_tab("inspector", workspace.inspector.tabs, window)
    workspace.cards.bring(VIEWS)
    what_if = window.what_if
    what_if.try_parameter("epsilon", 1e-3)
    what_if.try_parameter("k_frac", 0.1)
    studio.wait(lambda: what_if.new is not None, window.session.results.findings.changed)
    yield from each_tab("all layers", workspace.heterogeneity.tabs, window)
    what_if.back()


def looks_at_a_layer(studio: Studio) -> Iterator[Step]:
    """Every choice of what is drawn of one layer."""
    window, session = studio.window, studio.window.session
    workspace, known = window.workspace, studio.window.session.results.findings
    workspace.cards.bring(INSPECTOR)
    tabs, name = workspace.inspector.tabs, session.selection or ""
    spectra = turn_to(tabs, SpectraPanel)
    assert isinstance(spectra, SpectraPanel)
    for quantity in Quantity:
        spectra.plot.quantity.choose(quantity)
        yield f"spectrum: {quantity.name.lower()}", window
    spectra.plot.quantity.choose(Quantity.VALUE)
    subspaces, key = turn_to(tabs, SubspacesPanel), session.draft.recipe_key()
    assert isinstance(subspaces, SubspacesPanel)
    studio.wait(lambda: known.get(LayerSubspaces, name, key) is not None, known.changed)
    for view_choice in SubspaceView:
        subspaces.view_choice.choose(view_choice)
        yield f"subspaces: {view_choice.name.lower()}", window
    turn_to(tabs, DistributionPanel)
    models = session.draft.models_key()
    studio.wait(lambda: known.get(LayerDistribution, name, models) is not None, known.changed)
    yield "distribution", window
    tabs.setCurrentIndex(0)
