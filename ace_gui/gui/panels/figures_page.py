"""The page that prints figures: what they show, and how they will look on paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QImage, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from ace_gui.engine.contract.events import FigureMade
from ace_gui.engine.contract.figure_panels import needs_matrices, title_of
from ace_gui.field_info import Option
from ace_gui.figures.charts import PanelKind
from ace_gui.figures.sheet import (
    LARGEST,
    LARGEST_POINTS,
    SMALLEST,
    SMALLEST_POINTS,
    Colours,
    Letters,
    Sheet,
)
from ace_gui.formatting import counted
from ace_gui.gui.control.figure_operation import FigureOperation, FigureRequest
from ace_gui.gui.panels.job_page import MARGINS, problem_label, show_problem
from ace_gui.gui.state.session import Session
from ace_gui.gui.widgets.controls import push_button, read_only
from ace_gui.gui.widgets.file_dialogs import PICTURES, ask_target
from ace_gui.gui.widgets.form import OptionForm
from ace_gui.gui.widgets.labels import heading, muted_label, secondary_label
from ace_gui.gui.widgets.layout import (
    GAP,
    TWO_COLUMNS,
    across,
    card,
    down,
    pane,
    scroll_area,
    split,
)
from ace_gui.gui.widgets.lazy import Following

DELAY: Final = 250
"""ms from a change to a new drawing."""

MM_PER_INCH: Final = 25.4
_NONE: Final = "none"
_WIDTHS: Final = {
    "90 mm, one column": 90.0,
    "140 mm": 140.0,
    "190 mm, two columns": 190.0,
}
_PANELS: Final = {title_of(kind): kind for kind in PanelKind}
_MORE_PANELS: Final = {_NONE: None, **_PANELS}
_KINDS: Final = "PDF (*.pdf);;SVG (*.svg);;PNG, 300 dpi (*.png)"
_STANDING_OUT: Final = "Matrices: the most, the median and the least heterogeneous one"


@dataclass(frozen=True, kw_only=True)
class FigureChoice:
    """The fields of the form."""

    first: PanelKind = PanelKind.GAMMA
    """The first panel."""
    second: PanelKind | None = PanelKind.SPECTRA
    """The second panel; None without one."""
    third: PanelKind | None = None
    """The third panel; None without one."""
    width: float = 190.0
    """Of the sheet in millimetres."""
    height: float = 0.0
    """In millimetres; 0: as the panels need."""
    points: float = 8.0
    """Size of the letters."""
    letters: Letters = Letters.SANS
    """Their family."""
    colours: Colours = Colours.SAFE
    """The set of colours."""
    limits: bool = True
    """Whether limits such as τ are drawn."""
    before: bool = True
    """Whether curves before refinement are drawn."""
    crosses: bool = True
    """Whether unreliable values are marked."""
    names: bool = False
    """Whether curves are named at their ends."""

    @property
    def kinds(self) -> tuple[PanelKind, ...]:
        """The panels, in order."""
        chosen = (self.first, self.second, self.third)
        return tuple(kind for kind in chosen if kind is not None)

    def sheet(self) -> Sheet:
        """How it is printed."""
        return Sheet(
            width=self.width,
            height=self.height or None,
            points=self.points,
            letters=self.letters,
            colours=self.colours,
            limits=self.limits,
            before=self.before,
            crosses=self.crosses,
            names=self.names,
        )


def _switch(name: str, label: str, about: str) -> Option:
    default = bool(getattr(FigureChoice(), name))
    return Option(name=name, label=label, help=about, kind="bool", default=default, read=bool)


_OPTIONS: Final = (
    Option(name="first", label="Panel a", help="The first panel.", values=_PANELS),
    Option(name="second", label="Panel b", help="The second panel.", values=_MORE_PANELS),
    Option(name="third", label="Panel c", help="The third panel.", values=_MORE_PANELS),
    Option(
        name="width",
        label="Width",
        help="The width on paper. Journals have about 90 mm for one column and 190 for two.",
        values=_WIDTHS,
    ),
    Option(
        name="height",
        label="Height, mm",
        help="The height on paper. 0: 66 mm for each row of panels.",
        kind="int",
        default=0,
        low=0,
        high=LARGEST,
        empty="automatic",
        read=lambda height: max(float(height), SMALLEST) if height else 0.0,
    ),
    Option(
        name="points",
        label="Letters, pt",
        help="The size of letters, in points of 1/72 inch.",
        kind="int",
        default=8,
        low=SMALLEST_POINTS,
        high=LARGEST_POINTS,
        read=float,
    ),
    Option(
        name="letters",
        label="Type",
        help="The kind of letters.",
        values={"sans serif": Letters.SANS, "serif": Letters.SERIF},
    ),
    Option(
        name="colours",
        label="Colours",
        help="Colours that people with any colour vision tell apart, or greys with dashes.",
        values={colours.value: colours for colours in Colours},
    ),
    _switch("limits", "Threshold τ", "Whether thresholds are drawn."),
    _switch("before", "Before refinement", "Whether spectra before refinement are drawn, dashed."),
    _switch("crosses", "Unreliable γ", "Whether unreliable γ are marked by crosses."),
    _switch(
        "names",
        "Names at curves",
        "Whether curves have their names at their ends, not in a legend.",
    ),
)


class FiguresPage(Following):
    """``selected``: the layers that are selected in the table."""

    delay = DELAY

    def __init__(
        self, session: Session, figure: FigureOperation, selected: Callable[[], list[str]]
    ) -> None:
        super().__init__()
        self._session = session
        self._figure = figure
        self._selected = selected
        self._choice = FigureChoice()
        self._matrices: tuple[str, ...] = ()
        self.form = OptionForm()
        self.paper = Paper()
        self.size_text = muted_label()
        self.problem = problem_label()
        self.matrices = secondary_label(_STANDING_OUT)
        tip = "Show the matrices that are selected in the table of layers"
        self.take_selected = push_button("Take the selected layers", self._take_selected, tip=tip)
        tip = "Show the most, the median and the least heterogeneous matrix"
        self.take_usual = push_button("Usual matrices", self._take_usual, tip=tip)
        self.caption = read_only("Caption", lines=4)
        self.copy = push_button("Copy caption", self._copy)
        self.save = push_button("Save…", self.ask_file, kind="tinted", name="Save the figure")
        self.saved = secondary_label(
            "PDF, SVG or PNG at 300 dpi, with the data as a CSV file beside it."
        )
        self._lay_out()
        self.form.changed.connect(self._change)
        self.paper.resized.connect(self.plan_refresh)
        figure.changed.connect(self._show_figure)
        figure.saving.changed.connect(self._show_saved)
        results = session.results
        self.follow(
            session.draft.changed,
            session.layers.learnt,
            session.activity.changed,
            results.changed,
            results.runs.changed,
            results.scores.changed,
        )

    def _lay_out(self) -> None:
        buttons = across(self.take_selected, self.take_usual, None)
        choices = down(
            across(heading("Figure"), None, self.save),
            self.saved,
            self.form,
            self.matrices,
            buttons,
            heading("Caption"),
            self.caption,
            across(self.copy, None),
            None,
            margins=MARGINS,
            gap=10,
        )
        scroll = scroll_area("What the figure shows", pane(choices))
        right = down(self.problem, (self.paper, 1), self.size_text, margins=MARGINS)
        parts = card(scroll), pane(right)
        self.setLayout(down(split(*parts, sizes=(380, 640), gap=GAP, lines=TWO_COLUMNS)))
        self.size_text.setAlignment(Qt.AlignmentFlag.AlignHCenter)

    # What is shown

    @property
    def request(self) -> FigureRequest:
        """What the form asks for."""
        names = {row.name for row in self._session.layers.rows}
        return FigureRequest(
            kinds=self._choice.kinds,
            sheet=self._choice.sheet(),
            matrices=tuple(name for name in self._matrices if name in names),
        )

    def refresh(self) -> None:
        self.form.show_record(_OPTIONS, self._choice, FigureChoice())
        self._show_matrices()
        if not self._figure.obstacle:
            self._figure.draw(self.request, self._dots_per_inch())
        self._show_figure()

    def _dots_per_inch(self) -> float:
        """Of a picture that is as wide as there is room."""
        pixels = self.paper.room() * self.devicePixelRatioF()
        return max(round(pixels * MM_PER_INCH / self._choice.width), 20)

    def _change(self, choice: FigureChoice) -> None:
        self._choice = choice
        self.plan_refresh()
        self.form.show_record(_OPTIONS, choice, FigureChoice())
        self._show_matrices()

    def _take_selected(self) -> None:
        by_name = {row.name: row for row in self._session.layers.rows}
        rows = [by_name[name] for name in self._selected() if name in by_name]
        self._matrices = tuple(row.name for row in rows if row.is_merged and len(row.shape) == 2)
        self.refresh()

    def _take_usual(self) -> None:
        self._matrices = ()
        self.refresh()

    def _show_matrices(self) -> None:
        needs_any = any(map(needs_matrices, self._choice.kinds))
        for widget in (self.matrices, self.take_selected, self.take_usual):
            widget.setVisible(needs_any)
        count = len(self.request.matrices)
        single = "Matrices: one, chosen in the table"
        chosen = counted(count, single, "Matrices: %n, chosen in the table")
        self.matrices.setText(chosen if count else _STANDING_OUT)
        self.take_usual.setEnabled(bool(count))

    def _show_figure(self) -> None:
        if not self.isVisible():
            return
        figure = self._figure
        made = figure.made
        show_problem(self.problem, figure.obstacle or figure.error)
        self.save.setEnabled(made is not None and not figure.saving.is_running)
        self.copy.setEnabled(made is not None)
        if made is None:
            if figure.obstacle or figure.error:
                self._clear()
            elif figure.is_running:
                self.size_text.setText("The figure is being drawn.")
            return
        self.caption.setPlainText(made.caption)
        self.paper.show_picture(made.picture, made.caption)
        scale = self.paper.image_width() * MM_PER_INCH / made.width
        percent = round(100 * scale / self.paper.logicalDpiX())
        size = f"{made.width:g} × {made.height:g} mm"
        self.size_text.setText(f"{size}, as it will be printed · {percent} %")

    def _clear(self) -> None:
        self.paper.show_picture(b"", "")
        self.size_text.clear()
        self.caption.clear()

    # The caption and the file

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.caption.toPlainText())

    def ask_file(self) -> None:
        """Ask where the figure is written."""
        request = self.request

        def write(paths: list[Path]) -> None:
            chosen = paths[0]
            if chosen.suffix:
                file = chosen
            else:
                file = chosen.with_suffix(".pdf")
            self._figure.save(request, file, replaces=file == chosen)

        ask_target(self, "Save the figure", "figure.pdf", _KINDS, PICTURES, write)

    def _show_saved(self) -> None:
        saving = self._figure.saving
        made = saving.last(FigureMade)
        self.save.setEnabled(self._figure.made is not None and not saving.is_running)
        if saving.error:
            self.saved.setText(saving.error)
        elif made is not None:
            names = " and ".join(file.name for file in made.files)
            self.saved.setText(f"Written: {names}.")


class Paper(QWidget):
    """The figure as a sheet of paper. ``resized``: there is another room for it."""

    resized = Signal()

    _EDGE = 16
    """px around the sheet."""

    def __init__(self) -> None:
        super().__init__()
        self._image = QImage()
        self.setAccessibleName("The figure, as it will be printed")
        self.setMinimumSize(240, 180)

    def sizeHint(self) -> QSize:
        return QSize(640, 480)

    def room(self) -> int:
        """The width in pixels that a sheet may have."""
        return max(self.width() - 2 * self._EDGE, 1)

    def image_width(self) -> float:
        """The width of the sheet in pixels, as it is shown."""
        return self._sheet().width()

    def show_picture(self, picture: bytes, words: str) -> None:
        """Show a PNG; empty: none. ``words``: its description for screen readers."""
        if picture:
            self._image = QImage.fromData(picture)
        else:
            self._image = QImage()
        self.setAccessibleDescription(words)
        self.update()

    def _sheet(self) -> QRectF:
        """Where the sheet is painted: as large as it fits."""
        if self._image.isNull():
            return QRectF()
        room = QRectF(self.rect()).adjusted(self._EDGE, self._EDGE, -self._EDGE, -self._EDGE)
        ratio = self._image.height() / self._image.width()
        width = min(room.width(), room.height() / ratio)
        sheet = QRectF(0, 0, width, width * ratio)
        sheet.moveCenter(room.center())
        return sheet

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.resized.emit()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        if self._image.isNull():
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        sheet = self._sheet()
        painter.fillRect(sheet.translated(0, 2).adjusted(-1, -1, 1, 1), QColor(0, 0, 0, 40))
        painter.drawImage(sheet, self._image)
