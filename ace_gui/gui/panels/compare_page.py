"""The Compare page, for several methods, for two finished merges by layer, or any two models."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cached_property, partial
from pathlib import Path
from typing import Final

from PySide6.QtCore import QSignalBlocker, QTimer
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QLabel, QStackedWidget, QWidget

from ace_gui.engine.contract.contents import ModelContents
from ace_gui.engine.contract.events import JobProgress
from ace_gui.engine.contract.findings import LayerDifference, ModelDiff
from ace_gui.engine.contract.jobs import DiffJob, VerifyJob
from ace_gui.formatting import counted, number_text
from ace_gui.gui.control.engine_client import Operation
from ace_gui.gui.control.merge_times import MergeTimes
from ace_gui.gui.control.method_comparison import MethodComparison
from ace_gui.gui.panels.compare_methods import CompareMethodsPanel
from ace_gui.gui.panels.job_page import RunButton, merges_of, problem_label, show_problem
from ace_gui.gui.panels.layer_panels import LayerPanel
from ace_gui.gui.panels.merge_choices import MergeChoices
from ace_gui.gui.plots.frame.base_plot import PlotWithTable
from ace_gui.gui.plots.layers_plot import DifferencePlot, of_merges, of_models, relative
from ace_gui.gui.plots.spectrum_plot import SpectrumPlot
from ace_gui.gui.state.activity import MergeRun
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, quoted
from ace_gui.gui.widgets.controls import Choice, Segments, push_button
from ace_gui.gui.widgets.file_dialogs import MODELS, ask_folders
from ace_gui.gui.widgets.labels import ElidedLabel, muted_label, plain_label
from ace_gui.gui.widgets.layout import (
    BesideOrBelow,
    across,
    card,
    down,
    on_font_change,
    pane,
    scroll_area,
)
from ace_gui.gui.widgets.lazy import IdleQueue

METHODS, TWO_MERGES, TWO_MODELS = range(3)
LOOKS: Final = (
    ("Methods", "Merge with several methods or values, and compare the results"),
    ("Two merges", "Two finished merges layer by layer"),
    ("Two models", "Any two models on disk, tensor by tensor"),
)


class ComparePage(QWidget):
    """Three parts, of which one is shown. Each is made when it is first shown or asked for.

    A part that is shown for the first time comes in later turns of the event loop.
    """

    def __init__(
        self,
        session: Session,
        comparison: MethodComparison,
        two_models: Operation,
        contents: Operation,
        times: MergeTimes,
    ) -> None:
        super().__init__()
        self._session = session
        self._times = times
        self._makers: dict[int, Callable[[], QWidget]] = {
            METHODS: lambda: CompareMethodsPanel(session, comparison, self._choices),
            TWO_MERGES: lambda: ComparePanel(session),
            TWO_MODELS: lambda: TwoModelsPanel(session, two_models, contents),
        }
        self._parts: dict[int, QWidget] = {}
        self._turns = IdleQueue(self)
        self.looks = Segments("What to compare")
        for title, tip in LOOKS:
            self.looks.add(title, tip)
        self.looks.chosen.connect(self.show_look)
        self._pages = QStackedWidget()
        self._pages.addWidget(QWidget())  # shown until the first part is made
        head = across(self.looks, None, margins=(8, 4, 8, 0))
        self.setLayout(down(card(pane(down(head, (self._pages, 1))))))
        self.show_look(METHODS)

    @cached_property
    def _choices(self) -> MergeChoices:
        """The left half of the part about methods."""
        return MergeChoices(self._session, self._times)

    @property
    def methods(self) -> CompareMethodsPanel:
        """The part that merges with several methods."""
        part = self._part(METHODS)
        assert isinstance(part, CompareMethodsPanel)
        return part

    @property
    def merges(self) -> ComparePanel:
        """The part that compares two finished merges."""
        part = self._part(TWO_MERGES)
        assert isinstance(part, ComparePanel)
        return part

    @property
    def models(self) -> TwoModelsPanel:
        """The part that compares any two models."""
        part = self._part(TWO_MODELS)
        assert isinstance(part, TwoModelsPanel)
        return part

    def show_look(self, index: int) -> None:
        self.looks.choose(index)
        self._turns.run(self._show(index))

    def _show(self, index: int) -> Generator[None, None, None]:
        """Make a part and show it, each in a turn of the event loop, the largest in two."""
        if index not in self._parts:
            yield
            if index == METHODS:
                _ = self._choices
                yield
            self._part(index)
            yield
        self._pages.setCurrentWidget(self._parts[index])

    def _part(self, index: int) -> QWidget:
        """A part, made if necessary."""
        if index not in self._parts:
            part = self._makers[index]()
            if isinstance(part, CompareMethodsPanel):
                part.pair_wanted.connect(self.compare)
            self._parts[index] = part
            self._pages.addWidget(part)
        return self._parts[index]

    def compare(self, first: MergeRun, second: MergeRun) -> None:
        self._session.results.comparison.compare(first, second)
        self.show_look(TWO_MERGES)


_ONE_ROW: Final = 40  # in text lines: below this width the plots are stacked
_NONE: Final = {"": ("–", "")}
_PLOT: Final = 10  # in text lines: minimum height of a plot
REFRESH: Final = 100  # ms between repaints while differences arrive
NEEDS_TWO: Final = (
    "Two finished merges are needed: merge, change the method or a parameter, and merge again."
)


class ComparePanel(LayerPanel):
    """Lets the user choose two of the session's runs, and shows their difference."""

    finding = LayerDifference

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.first = Choice("First merge", _NONE)
        self.second = Choice("Second merge", _NONE)
        for box in (self.first, self.second):
            box.chosen.connect(self._choose)
            box.setMinimumContentsLength(12)
            box.setSizeAdjustPolicy(Choice.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.scores = muted_label()
        self.differences = DifferencePlot()
        self.spectra = SpectrumPlot()
        self.spectra.setAccessibleName("Spectra of both merges")
        self.view = PlotWithTable(self.differences)
        self._proposed: tuple[MergeRun, ...] = ()
        """The two merges that this panel chose, as long as the user has not."""
        self._lay_out()
        self._drawing = QTimer(self, singleShot=True, interval=REFRESH)
        self._drawing.timeout.connect(self._show_differences)
        self.differences.layer_selected.connect(session.select)
        self.view.row_chosen.connect(lambda row: session.select(self.differences.name_at(row)))
        results = session.results
        results.comparison.changed.connect(self._on_difference)
        self.follow(results.runs.changed, results.changed, session.engine_changed)
        results.scores.changed.connect(self._show_scores)

    def refresh(self) -> None:
        self._offer_runs()
        self._show_scores()
        self._show_differences()
        self._show_spectra()

    def set_busy(self, busy: bool) -> None:
        spectra = self.session.results.comparison.spectra
        waits = self.row is not None and self.row.name not in spectra
        self.spectra.set_busy(busy and waits)
        self.differences.set_busy(busy and not waits)

    def _offer_runs(self) -> None:
        """Offer the runs. Keep the user's two if they still exist, or propose the current merge
        after the newest of the others."""
        runs = self.session.results.runs.all
        comparison = self.session.results.comparison
        titles = merges_of(self.session)
        options = {key: (plain(title), title) for key, title in titles.items()}
        pair = comparison.first, comparison.second
        chosen = [run for run in pair if run is not None and run in runs]
        if len(chosen) < 2 or pair == self._proposed:
            chosen = self._proposal()
            self._proposed = tuple(chosen)
        for box in (self.first, self.second):
            box.offer(options or _NONE)
            box.setEnabled(len(runs) > 1)
        for box, run in zip((self.first, self.second), chosen, strict=False):
            with QSignalBlocker(box):
                box.choose(str(run.store))
        comparison.compare(self._run(self.first), self._run(self.second))

    def _proposal(self) -> list[MergeRun]:
        """Two merges to compare: the current one and the newest other one, the current one last."""
        runs = list(self.session.results.runs.all)
        current = self.session.results.merge
        if current in runs and current is not None:
            runs.remove(current)
            runs.append(current)
        return runs[-2:]

    def _choose(self) -> None:
        self._proposed = ()
        self.session.results.comparison.compare(self._run(self.first), self._run(self.second))
        self.refresh()

    def _run(self, box: Choice) -> MergeRun | None:
        runs = self.session.results.runs.all
        return next((r for r in runs if str(r.store) == box.current and len(runs) > 1), None)

    def _on_difference(self, name: str) -> None:
        if not self._drawing.isActive():
            self._drawing.start()
        if name == self.session.selection:
            self._show_spectra()

    def _show_differences(self) -> None:
        comparison = self.session.results.comparison
        if comparison.pair is None:
            few = len(self.session.results.runs.all) < 2
            self.differences.clear(NEEDS_TWO if few else "Choose two different merges.")
        elif not comparison.differences:
            self.differences.clear("Comparing …")
        else:
            names = [row.name for row in self.session.layers.rows if row.is_merged]
            self.differences.show_differences(of_merges(names, comparison.differences))
            self.differences.select(self.session.selection)
            self.view.select(self.differences.row_of(self.session.selection))

    def _show_spectra(self) -> None:
        pair = self.session.results.comparison.pair
        row = self.row
        if pair is None or row is None:
            self.spectra.clear("Choose a layer to see both spectra.")
            return
        spectrum_pair = self.session.results.comparison.spectra.get(row.name)
        if (
            spectrum_pair is not None
            and spectrum_pair.first is not None
            and spectrum_pair.second is not None
        ):
            titles = self.first.currentText(), self.second.currentText()
            spectra = {
                f"1: {titles[0]}": spectrum_pair.first,
                f"2: {titles[1]}": spectrum_pair.second,
            }
            self.spectra.show_pair(row.name, _caption(spectrum_pair), spectra)
        elif len(row.shape) != 2:
            self.spectra.clear("Only a matrix has singular values.")
        else:
            self.spectra.clear("Computing both spectra …")

    def _show_scores(self) -> None:
        """Show the mean scores on the tasks if the merges were evaluated."""
        parts = []
        for box in (self.first, self.second):
            run = self._run(box)
            if run is None:
                mean = None
            else:
                mean = self.session.results.scores.mean(str(run.store)).score
            if mean is not None:
                parts.append(f"{box.currentText()} {number_text(mean, 3)}")
        self.scores.setVisible(bool(parts))
        self.scores.setText(f"Mean score: {', '.join(parts)}")

    def _lay_out(self) -> None:
        head = across(margins=(8, 4, 8, 2))
        for text, box in (("&First", self.first), ("&Second", self.second)):
            label = QLabel(text, self)
            label.setBuddy(box)
            head.addWidget(label)
            head.addWidget(box, 1)
        head.addWidget(self.scores, 2)
        splitter = BesideOrBelow(_ONE_ROW)
        views = self.view, PlotWithTable(self.spectra)
        for view in views:
            splitter.addWidget(view)

        def measure(metrics: QFontMetrics) -> None:
            for view in views:
                view.setMinimumHeight(_PLOT * metrics.height())

        on_font_change(self, measure)
        splitter.setStretchFactor(0, 3)
        splitter.setStretchFactor(1, 2)
        area = scroll_area("Results", splitter, tabs=False)
        self.setLayout(down(head, (area, 1), gap=0))


def _caption(difference: LayerDifference) -> str:
    first = number_text(difference.first_norm, 3)
    second = number_text(difference.second_norm, 3)
    return (
        f"relative difference {number_text(relative(difference), 3)} · "
        f"cosine {number_text(difference.cosine, 3)} · ‖W − W₀‖ {first} and {second}"
    )


CHOOSE: Final = "Choose two model folders, and press Compare."
_CONTENTS_TIP: Final = "How much of the open experts' changes the second model contains"
_BY: Final = {
    "tensor": ("By tensor", "One point for each tensor of both models"),
    "block": ("By block", "The tensors of each block together"),
    "role": ("By role", "The tensors of each role together"),
}


class TwoModelsPanel(QWidget):
    """Compares two models. ``paths``: their folders.

    ``contents``: finds what of the open experts the second model contains.
    """

    def __init__(self, session: Session, operation: Operation, contents: Operation) -> None:
        super().__init__()
        self._session = session
        self._operation = operation
        self.contents = contents
        self._drawn: ModelDiff | None = None
        self.paths: list[Path | None] = [None, None]
        self.labels = (ElidedLabel(), ElidedLabel())
        name = "Compare two models"
        self.run = RunButton("Compare", self._begin, operation.stop, name=name)
        name = "What the second model contains"
        self.verify = RunButton("Contents", self._verify, contents.stop, name=name)
        self.problem = problem_label()
        self.others = muted_label()
        self.contained = plain_label()
        self.plot = DifferencePlot(name="Change from one model to another", empty=CHOOSE)
        self.by = Choice("Tensors together", _BY)
        self.by.chosen.connect(self._draw)
        self.plot.add_control(self.by)
        rows = []
        for index, text in enumerate(("&First model…", "&Second model…")):
            button = push_button(text, partial(self._ask, index), tip="Choose a model folder")
            rows.append(across(button, (self.labels[index], 1)))
        head = across((down(*rows), 1), self.verify, self.run, margins=(8, 4, 8, 2))
        view = PlotWithTable(self.plot)
        self.setLayout(down(head, self.problem, self.contained, (view, 1), self.others))
        operation.changed.connect(self.refresh)
        contents.changed.connect(self._show_contents)
        session.draft.changed.connect(self._show_contents)
        self.refresh()
        self._show_contents()

    def choose(self, index: int, path: Path) -> None:
        self.paths[index] = path
        self.labels[index].set_full_text(str(path))
        if index == 1:
            self.contents.drop()
        self.refresh()
        self._show_contents()

    def refresh(self) -> None:
        operation = self._operation
        if all(self.paths):
            obstacle = ""
        else:
            obstacle = "Choose two model folders first."
        progress = operation.progress(JobProgress)
        diff = operation.last(ModelDiff)
        if progress and progress.total:
            share = progress.done / progress.total
        else:
            share = None
        self.run.show_job(operation.is_running, obstacle, share=share)
        show_problem(self.problem, operation.error)
        if diff is None or diff is not self._drawn:
            self._drawn = diff
            self._draw()

    def _draw(self) -> None:
        diff = self._drawn
        self.others.setText("" if diff is None else _other_words(diff))
        self.others.setVisible(bool(self.others.text()))
        if diff is None:
            self.plot.clear("Comparing …" if self._operation.is_running else "")
        else:
            self.plot.show_differences(of_models(diff, str(self.by.current)))

    def _show_contents(self) -> None:
        """Show the sentences on the second model, or why there can be none."""
        inputs = self._session.draft.inputs
        if self.paths[1] is not None:
            obstacle = ""
        else:
            obstacle = "Choose the second model first."
        if inputs.base is None or not inputs.experts:
            obstacle = "Open the base and the experts that it may contain first."
        progress = self.contents.progress(JobProgress)
        contents = self.contents.last(ModelContents)
        job = self.contents.job
        if job is not None and job.merged != str(self.paths[1]):
            contents = None  # of another model
        if progress and progress.total:
            share = progress.done / progress.total
        else:
            share = None
        self.verify.show_job(self.contents.is_running, obstacle, share=share, tip=_CONTENTS_TIP)
        if contents is not None:
            self.contained.setText(plain(quoted(" ".join(contents.sentences))))
        self.contained.setVisible(contents is not None)
        if self.contents.error:
            show_problem(self.problem, self.contents.error)

    def _verify(self) -> None:
        inputs = self._session.draft.inputs
        merged = self.paths[1]
        if inputs.base is not None and merged is not None:
            experts = tuple(str(expert.path) for expert in inputs.experts)
            self.contents.run(VerifyJob(base=str(inputs.base), experts=experts, merged=str(merged)))

    def _ask(self, index: int) -> None:
        title = ("Folder of the first model", "Folder of the second model")[index]
        ask_folders(self, title, MODELS, lambda chosen: self.choose(index, chosen[0]))

    def _begin(self) -> None:
        first, second = self.paths
        if first is not None and second is not None:
            self._operation.run(DiffJob(first=first, second=second))


def _other_words(diff: ModelDiff) -> str:
    """A text on the tensors that only one model has, or that have another shape in the other."""
    counts = {
        "only in the first model": len(diff.missing),
        "only in the second": len(diff.extra),
        "of another shape": len(diff.other_shape),
    }
    parts = [f"{counted(n, 'tensor', 'tensors')} {where}" for where, n in counts.items() if n]
    if parts:
        return f"Not compared: {', '.join(parts)}."
    return ""
