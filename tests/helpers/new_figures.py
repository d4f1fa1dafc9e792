"""Figures of a layer that the program does not have, and the window with one of them.

``python -m tests.helpers.new_figures NAME`` declares one as a change of the program would, before
the window is imported, and prints what a table of layers then shows of it as JSON.
"""

from __future__ import annotations

import json
import sys

from ace_gui.engine.contract import declared_figures
from ace_gui.engine.contract.declared_figures import DeclaredFigure
from ace_gui.engine.contract.findings import LayerReport, LayerStatistics

BEFORE_A_MERGE = DeclaredFigure(
    name="mean_log_energy",
    title="Mean ln E",
    meaning="Mean of the logarithms of the experts' energies.",
    of_statistics=lambda statistics: statistics.mean_log_energy,
)
OF_A_MERGE = DeclaredFigure(
    name="departures",
    title="Departures",
    meaning="Number of notes on departures from the published procedure.",
    of_report=lambda report: float(len(report.notes)),
)
NEW_FIGURES = (BEFORE_A_MERGE, OF_A_MERGE)
LAYER = "layer.0.q"
STATISTICS = LayerStatistics(name=LAYER, energies={"cola": 1.0, "sst2": 2.0}, mean_log_energy=-8.5)
REPORT = LayerReport(name=LAYER, notes=("One.", "Two.", "Three."))


def in_the_window(figure: DeclaredFigure) -> dict[str, object]:
    """What the layers table shows of a figure: heading, tooltips, the cell, and CSV."""
    from PySide6.QtCore import Qt

    from ace_gui.gui.app import make_application
    from ace_gui.gui.models.figures_model import rows_of
    from ace_gui.gui.models.layer_columns import COLUMNS, exported
    from ace_gui.gui.models.layer_figures import Healths
    from ace_gui.gui.models.layers_model import LayersModel
    from ace_gui.gui.panels.all_layers import FIGURES, figure_text
    from ace_gui.gui.state.activity import MergeRun
    from ace_gui.gui.state.session import Session
    from tests.gui.fakes import BASE, adopt_two

    _application = make_application()
    session = Session()
    model = LayersModel(session, Healths(session))
    adopt_two(session)
    session.layers.record_statistics(STATISTICS)
    run = MergeRun(
        recipe=session.draft.inputs.recipe(),
        parameters=session.draft.resolved_parameters(),
        store=BASE,
    )
    session.results.start_merge(run)
    session.record_report(REPORT)
    column = next(column for column in COLUMNS if column.title == figure.title)
    tooltip = Qt.ItemDataRole.ToolTipRole
    across = Qt.Orientation.Horizontal
    cell = model.index_of(LAYER, column.index)
    return {
        "heading": model.headerData(column.index, across),
        "tooltip": model.headerData(column.index, across, tooltip),
        "cell": cell.data(),
        "row's tooltip": cell.data(tooltip),
        "csv": rows_of(exported(model.shown, ["cola", "sst2"])),
        "what if": {title: figure_text(REPORT, name) for title, _tip, name in FIGURES},
    }


if __name__ == "__main__":
    declared = next(figure for figure in NEW_FIGURES if figure.name == sys.argv[1])
    declared_figures.FIGURES += (declared,)
    sys.stdout.write(json.dumps(in_the_window(declared)))
