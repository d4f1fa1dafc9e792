"""Pictures of the panels that look closely at one layer, and of two merges compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QWidget
from tabs import compare_merges, turn_to

from ace_gui.engine.contract.findings import LayerDistribution, LayerSubspaces
from ace_gui.gui.panels.layer.distribution_panel import DistributionPanel
from ace_gui.gui.panels.layer.energies_panel import EnergiesPanel
from ace_gui.gui.panels.layer.spectra_panel import SpectraPanel
from ace_gui.gui.panels.layer.subspaces_panel import Look, SubspacesPanel
from ace_gui.gui.picture import Studio
from ace_gui.gui.plots.spectrum_curves import Quantity
from ace_gui.gui.theme import Scheme

_Take = Callable[[str, QWidget], None]


def take_panel_pictures(recipe: Path, folder: Path, scheme: Scheme) -> list[Path]:
    """A picture of every look at the most heterogeneous layer. Raises WorkbenchError."""
    folder.mkdir(parents=True, exist_ok=True)
    studio = Studio(scheme)
    taken: list[Path] = []

    def take(name: str, widget: QWidget) -> None:
        studio.settle()
        taken.append(studio.take(widget, folder / f"{name}-{scheme}.png"))

    try:
        studio.open(recipe)
        studio.select_most_heterogeneous()
        _spectra(studio, take)
        _subspaces(studio, take)
        _distribution(studio, take)
        inspector = studio.window.workspace.inspector
        turn_to(inspector.tabs, EnergiesPanel)
        take("energies", inspector)
        _compare(studio, take)
    finally:
        studio.close()
    return taken


def _spectra(studio: Studio, take: _Take) -> None:
    inspector = studio.window.workspace.inspector
    panel = turn_to(inspector.tabs, SpectraPanel)
    assert isinstance(panel, SpectraPanel)
    for quantity in Quantity:
        panel.plot.quantity.choose(quantity)
        take(f"spectrum-{quantity.name.lower()}", inspector)
    panel.plot.quantity.choose(Quantity.VALUE)


def _subspaces(studio: Studio, take: _Take) -> None:
    session, inspector = studio.window.session, studio.window.workspace.inspector
    panel = turn_to(inspector.tabs, SubspacesPanel)
    assert isinstance(panel, SubspacesPanel)
    name, key = session.selection or "", session.draft.recipe_key()
    known = session.results.findings
    studio.wait(lambda: known.get(LayerSubspaces, name, key) is not None, known.changed)
    for look in Look:
        panel.look.choose(look)
        take(f"subspaces-{look.name.lower()}", inspector)


def _distribution(studio: Studio, take: _Take) -> None:
    session, inspector = studio.window.session, studio.window.workspace.inspector
    turn_to(inspector.tabs, DistributionPanel)
    name, key = session.selection or "", session.draft.models_key()
    known = session.results.findings
    studio.wait(lambda: known.get(LayerDistribution, name, key) is not None, known.changed)
    take("distribution", inspector)


def _compare(studio: Studio, take: _Take) -> None:
    window = studio.window
    studio.merge()
    compare_merges(studio)
    take("compare", window.workspace.comparison)
    window.workspace.show_space(0)
    turn_to(window.workspace.inspector.tabs, SpectraPanel)
    take("window", window)
