"""Any two models on disk, by tensor, block and role: what ``ace-gui diff`` prints."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from PySide6.QtWidgets import QWidget

from ace_gui.engine.contract.findings import ModelDiff
from ace_gui.formatting import counted
from ace_gui.gui.control.operations import ModelComparison
from ace_gui.gui.panels.job_page import RunButton, problem_label, show_problem
from ace_gui.gui.plots.difference_plot import DifferencePlot, of_models
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.widgets.controls import Choice, push_button
from ace_gui.gui.widgets.file_dialogs import MODELS, ask_folders
from ace_gui.gui.widgets.labels import ElidedLabel, muted_label
from ace_gui.gui.widgets.layout import across, down

CHOOSE: Final = "Choose two model folders, and press Compare."
_BY: Final = {
    "tensor": ("By tensor", "One point for each tensor of both models"),
    "block": ("By block", "The tensors of each block together"),
    "role": ("By role", "The tensors of each role together"),
}


class TwoModelsPanel(QWidget):
    """``paths``: the folders of the two models."""

    def __init__(self, operation: ModelComparison) -> None:
        super().__init__()
        self._operation = operation
        self._drawn: ModelDiff | None = None
        self.paths: list[Path | None] = [None, None]
        self.labels = (ElidedLabel(), ElidedLabel())
        name = "Compare two models"
        self.run = RunButton("Compare", self._begin, operation.stop, name=name)
        self.problem, self.others = problem_label(), muted_label()
        self.plot = DifferencePlot(name="Change from one model to another", empty=CHOOSE)
        self.by = Choice("Tensors together", _BY)
        self.by.chosen.connect(self._draw)
        self.plot.add_control(self.by)
        rows = []
        for index, text in enumerate(("&First model…", "&Second model…")):
            button = push_button(text, partial(self._ask, index), tip="Choose a model folder")
            rows.append(across(button, (self.labels[index], 1)))
        head = across((down(*rows), 1), self.run, margins=(8, 4, 8, 2))
        view = PlotWithTable(self.plot)
        self.setLayout(down(head, self.problem, (view, 1), self.others))
        operation.changed.connect(self.refresh)
        self.refresh()

    def choose(self, index: int, path: Path) -> None:
        self.paths[index] = path
        self.labels[index].set_full_text(str(path))
        self.refresh()

    def refresh(self) -> None:
        operation = self._operation
        obstacle = "" if all(self.paths) else "Choose two model folders first."
        progress = operation.progress
        share = progress.done / progress.total if progress and progress.total else None
        self.run.show_job(operation.is_running, obstacle, share=share)
        show_problem(self.problem, operation.error)
        if operation.found is None or operation.found is not self._drawn:
            self._drawn = operation.found
            self._draw()

    def _draw(self) -> None:
        found = self._drawn
        self.others.setText("" if found is None else _others(found))
        self.others.setVisible(bool(self.others.text()))
        if found is None:
            self.plot.clear("Comparing …" if self._operation.is_running else "")
        else:
            self.plot.show_differences(of_models(found, str(self.by.current)))

    def _ask(self, index: int) -> None:
        title = ("Folder of the first model", "Folder of the second model")[index]
        ask_folders(self, title, MODELS, lambda chosen: self.choose(index, chosen[0]))

    def _begin(self) -> None:
        first, second = self.paths
        if first is not None and second is not None:
            self._operation.start(first, second)


def _others(found: ModelDiff) -> str:
    """What only one model has, or has in another shape."""
    counts = {
        "only in the first model": len(found.missing),
        "only in the second": len(found.extra),
        "of another shape": len(found.other_shape),
    }
    parts = [f"{counted(n, 'tensor', 'tensors')} {where}" for where, n in counts.items() if n]
    return f"Not compared: {', '.join(parts)}." if parts else ""
