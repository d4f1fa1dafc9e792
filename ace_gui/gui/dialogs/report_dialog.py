"""What the report of a merge will contain, before it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QWidget

from ace_gui.engine.contract.findings import Regime
from ace_gui.engine.contract.plan import Disposition
from ace_gui.formatting import counted
from ace_gui.gui.dialogs.dialog import Dialog
from ace_gui.gui.plots.gamma_plot import heterogeneous_text, treated_alike
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.results import mean_score, title_parts
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, short_score_text
from ace_gui.gui.theme import Face, face
from ace_gui.gui.widgets.labels import plain_label, secondary_label
from ace_gui.gui.widgets.layout import Column

_WIDTH: Final = 40  # in text lines
_WHAT: Final = (
    "The report is one HTML file, with plots and tables, that opens in any browser. It contains:"
)


class ReportDialog(Dialog):
    """One line for each chapter. ``write`` asks for a file and writes the report."""

    def __init__(
        self, session: Session, run: MergeRun, write: Callable[[], object], parent: QWidget | None
    ) -> None:
        super().__init__("Report", parent, cancels=True)
        self.setMinimumWidth(_WIDTH * self.fontMetrics().height())
        title = plain_label(plain(" · ".join(title_parts(run, session.draft.methods))), self)
        title.setFont(face(Face.TITLE))
        listed = Column()
        chapters = QGridLayout(listed)
        chapters.setContentsMargins(0, 0, 0, 0)
        chapters.setHorizontalSpacing(24)
        chapters.setVerticalSpacing(10)
        chapters.setColumnStretch(1, 1)
        for row, (name, content) in enumerate(chapters_of(run, session)):
            label = plain_label(name, self, wrap=False)
            label.setFont(face(Face.STRONG))
            chapters.addWidget(label, row, 0, Qt.AlignmentFlag.AlignTop)
            chapters.addWidget(secondary_label(plain(content), self), row, 1)
        self.add_button("&Save report…", self.accept, kind="primary")
        self.accepted.connect(write)
        self.fill(title, secondary_label(_WHAT), listed, None, margin=16, gap=16)


def chapters_of(run: MergeRun, session: Session) -> Iterator[tuple[str, str]]:
    """The title of each chapter of a run's report, and its content."""
    warned = sum(bool(report.warnings) for report in run.reports.values())
    names = ", ".join(run.recipe.expert_names)
    yield "Recipe", f"{names}; every parameter, and the recipe as YAML"
    yield "Scores", _scores(run, session)
    yield "Heterogeneity", _heterogeneity(run, session)
    yield "Energies", "how far each expert moved each matrix, and how much the experts agree"
    yield (
        "Spectra",
        "singular values of the experts and of the merge, for the most unusual matrices",
    )
    warnings = counted(warned, "%n matrix has a warning", "%n matrices have warnings")
    yield "Health", warnings if warned else "no matrix has a warning"
    yield "All tensors", "how each was treated, and why, in figures"
    yield "Method", "its formula and its paper"


def _scores(run: MergeRun, session: Session) -> str:
    tasks, score = len(session.draft.inputs.tasks), mean_score(run)
    if score is not None:
        mean = short_score_text(score)
        return f"a mean of {mean}, compared with base and experts, task by task"
    if not tasks:
        return "none: the recipe names no tasks"
    on = counted(tasks, "on %n task", "on %n tasks")
    return f"{on}, compared with base and experts; measured while the report is written"


def _heterogeneity(run: MergeRun, session: Session) -> str:
    regimes = [report.regime for report in run.reports.values() if report.regime is not None]
    if regimes:
        return heterogeneous_text(regimes.count(Regime.HETEROGENEOUS), len(regimes))
    known = sum(report.gamma is not None for report in run.reports.values())
    merged = sum(row.disposition is Disposition.MERGED for row in session.layers.rows)
    return treated_alike(known or merged)
