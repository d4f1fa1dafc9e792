"""The welcome page with ways to start, recent projects, and the sample for new users."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from PySide6.QtCore import QDate, QDateTime, QLocale, QRect, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QColor, QImage, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from ace_gui.formatting import counted, duration, human_bytes
from ace_gui.gui.state.known_scores import PICTURES, sample_figures
from ace_gui.gui.state.settings import RecentProject
from ace_gui.gui.text import plain, short_name, short_score_text, tooltip
from ace_gui.gui.theme import Face, current_theme, face, icon
from ace_gui.gui.theme.drawn_controls import scale
from ace_gui.gui.theme.painting import SWATCH, paint_swatch, write
from ace_gui.gui.widgets.controls import action_button
from ace_gui.gui.widgets.labels import (
    Bar,
    ElidedLabel,
    NamedBars,
    heading,
    muted_label,
    plain_label,
    secondary_label,
)
from ace_gui.gui.widgets.layout import (
    FlowLayout,
    across,
    clear_layout,
    down,
    on_font_change,
    pane,
    scroll_area,
)
from ace_gui.recipe import recommended

_WIDEST: Final = 1408  # px
# minimum width in text lines for this number of columns
_COLUMNS: Final = ((67, 3), (46, 2), (0, 1))
_WHAT: Final = "Merge fine-tuned models into one, and see the result layer by layer."
_STOP: Final = "File ▸ Stop opening cancels it."


class WelcomePanel(QWidget):
    """The columns ``starts``, ``recent`` and ``sample``, next to each other."""

    def __init__(
        self, starts: Sequence[Start], sample: QAction, tutorial: QAction, clean_up: QAction
    ) -> None:
        super().__init__()
        self._columns = QGridLayout()
        self._columns.setHorizontalSpacing(32)
        self._columns.setVerticalSpacing(32)
        self.starts = StartColumn(starts)
        self.recent = RecentColumn(clean_up)
        self.sample = SampleCard(sample, tutorial)
        self._words = ""
        self._seconds = 0
        self._clock = QTimer(self, interval=1000)
        self._clock.timeout.connect(self._count)
        title = plain_label("ACE Workbench", wrap=False, role=Face.DISPLAY)
        self.subtitle = secondary_label(_WHAT)
        parts = (title, self.subtitle, 32, self._columns)
        inner = pane(down(*parts, margins=(32, 0, 32, 32), gap=0))
        inner.setMaximumWidth(_WIDEST)
        # slightly above the centre; it scrolls if there is little room
        page = pane(down(None, None, across(None, (inner, 100), None), None, None, None))
        self.setLayout(down(scroll_area("Welcome", page, tabs=False)))
        self._visible_count = 0
        self._arrange(3)

    def show_opening(self, words: str) -> None:
        """Show what is done while something is being opened, and for how long; "" for nothing."""
        if words == self._words:
            return
        was_opening = bool(self._words)
        self._words = words
        if words and was_opening:
            self._write_opening()
            return
        self._seconds = 0
        self.subtitle.setText(f"{words} … {_STOP}" if words else _WHAT)
        self.subtitle.setFont(face(Face.STRONG if words else Face.BODY))
        (self._clock.start if words else self._clock.stop)()

    def _count(self) -> None:
        self._seconds += 1
        self._write_opening()

    def _write_opening(self) -> None:
        self.subtitle.setText(f"{self._words} … {_STOP} {duration(self._seconds)}")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        lines = event.size().width() / self.fontMetrics().height()
        self._arrange(next(columns for least, columns in _COLUMNS if lines >= least))

    def _arrange(self, columns: int) -> None:
        """Place so many columns next to each other, and the others below at full width."""
        if columns == self._visible_count:
            return
        self._visible_count = columns
        parts: tuple[QWidget, ...] = (self.starts, self.recent, self.sample)
        for part in parts:
            self._columns.removeWidget(part)
        for index, part in enumerate(parts):
            if index < columns:
                self._columns.addWidget(part, 0, index)
            else:
                self._columns.addWidget(part, index - columns + 1, 0, 1, columns)
        for index, stretch in enumerate((5, 9, 8)):
            self._columns.setColumnStretch(index, stretch if index < columns else 0)


_SIGN: Final = 18  # px, at normal font size


class Start(NamedTuple):
    """A way to start: the action, its icon, and a line that describes it."""

    action: QAction
    picture: str
    line: str


class StartColumn(QWidget):
    """The column of ways to start. The first of ``starts`` is the main one."""

    def __init__(self, starts: Sequence[Start]) -> None:
        super().__init__()
        self._buttons = {
            start.action: StartButton(start, first=index == 0) for index, start in enumerate(starts)
        }
        buttons = self._buttons.values()
        self.setLayout(down(heading("Start"), 4, *buttons, 8, DropZone(), None))

    def say(self, action: QAction, line: str) -> None:
        self._buttons[action].say(line)


class StartButton(QPushButton):
    """A button for a way to start, with two lines and an icon. The first button is filled."""

    def __init__(self, start: Start, *, first: bool) -> None:
        super().__init__()
        if first:
            self._token = "on_accent"
        else:
            self._token = "text"
        self.setProperty("kind", "primary" if first else "start")
        self.setAutoDefault(first)
        self._title = start.action.text().replace("&", "")
        self.line = ""
        self.setAccessibleName(self._title.removesuffix("…"))
        self._picture = icon(start.picture, self._token)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setEnabled(start.action.isEnabled())
        start.action.enabledChanged.connect(self.setEnabled)
        self.clicked.connect(start.action.trigger)
        self._line_width = self.fontMetrics().horizontalAdvance(start.line)
        self.say(start.line)

    def say(self, line: str) -> None:
        """Show this text below the title; it is elided in the middle if too long."""
        self.line = plain(line)
        self.setAccessibleDescription(self.line)
        self.update()

    def sizeHint(self) -> QSize:
        line = self.fontMetrics().height()
        return QSize(self._line_width + 46 + _sign(), round(2.4 * line) + 18)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        theme = current_theme()
        painter = QPainter(self)
        mark = self.rect().adjusted(16, 0, 0, 0)
        mark.setWidth(_sign())
        self._picture.paint(painter, mark)
        above = QRectF(self.rect()).adjusted(30 + _sign(), 9, -10, -9)
        above.setHeight(above.height() / 2)
        if self.isEnabled():
            ink = getattr(theme, self._token)
        else:
            ink = theme.text3
        write(painter, above, self._title, face(Face.STRONG), ink)
        if self.isEnabled() and self._token == "text":
            quiet = theme.text2
        else:
            quiet = ink
        below = above.translated(0, above.height())
        write(painter, below, self.line, face(Face.CAPTION), quiet)


def _sign() -> int:
    """Size in px of a button's icon."""
    return round(_SIGN * scale())


class DropZone(QLabel):
    """A sign that files can be dropped, which works anywhere in the window."""

    def __init__(self) -> None:
        super().__init__("Drop folders, models or a recipe\nanywhere in this window")
        self.setProperty("kind", "secondary")
        self.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.setMinimumHeight(112)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        pen = QPen(QColor(current_theme().control), 1.0, Qt.PenStyle.DashLine)
        painter.setPen(pen)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        painter.end()
        super().paintEvent(event)


SHOWN: Final = 5
_PADDING: Final = 16
_SWATCHES: Final = 5  # further experts are shown as a number
_HEAD: Final = re.compile(r"(?<=.)(For[A-Z]\w+|LMHeadModel|Model)$")
"""The end of a model's class name, which says what head it has."""
_STEP: Final = SWATCH + 4  # px


class RecentColumn(QWidget):
    """The recent projects. ``chosen`` carries a recipe's path, ``lost`` that of a missing one."""

    chosen = Signal(object)
    lost = Signal(object)

    def __init__(self, clean_up: QAction) -> None:
        super().__init__()
        self._kept_note = muted_label()
        self._clean_up = action_button(clean_up, "Clean up…", self, kind="link")
        self._heads = muted_label("last use and size")
        self._rows = down(margins=(_PADDING, 4, _PADDING, 4), gap=0)
        head = across((heading("Recent projects"), 1), self._heads)
        card = QFrame()
        card.setProperty("kind", "card")
        card.setLayout(self._rows)
        below = across((self._kept_note, 1), self._clean_up, margins=(_PADDING, 0, _PADDING, 0))
        self.setLayout(down(head, card, below, None, gap=12))
        self.show_kept(0)

    def show_projects(self, projects: Sequence[RecentProject]) -> None:
        """Show these projects, the latest first."""
        clear_layout(self._rows)
        self._heads.setVisible(bool(projects))
        for index, project in enumerate(projects[:SHOWN]):
            row = RecentRow(project, first=index == 0)
            if row.is_lost:
                answer = self.lost
            else:
                answer = self.chosen
            path = project.path
            row.clicked.connect(lambda _=False, answer=answer, path=path: answer.emit(path))
            self._rows.addWidget(row)
        if not projects:
            nothing = secondary_label("What you open appears here.")
            nothing.setContentsMargins(0, 12, 0, 12)
            self._rows.addWidget(nothing)

    def show_kept(self, size: int) -> None:
        """Show the total size of the finished merges, with a link that removes some."""
        self._kept_note.setText(f"Kept runs use {human_bytes(size)} on this disk")
        for widget in (self._kept_note, self._clean_up):
            widget.setVisible(size > 0)


class RecentRow(QToolButton):
    """A button for a recent project. If its recipe ``is_lost``, a click asks for the new path."""

    def __init__(self, project: RecentProject, *, first: bool) -> None:
        super().__init__()
        path = project.path
        self.is_lost = not path.is_file()
        self.setProperty("kind", "row" if first else "next-row")
        if self.is_lost:
            ask = f"Locate {path}"
        else:
            ask = f"Open {path}"
        self.setAccessibleName(plain(ask))
        self.setToolTip(tooltip(ask if self.is_lost else f"{ask}\n{summary_of(project)}"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        name = ElidedLabel(self, sentence=True, caption=self.is_lost)
        name.setFont(face(Face.STRONG))
        name.set_full_text(short_name(path))
        line = ElidedLabel(self, sentence=True, caption=True)
        line.set_full_text("Recipe not found" if self.is_lost else summary_of(project))
        above = name, plain_label(last_use(project), wrap=False, kind="secondary")
        below = line, *self._marks(project)
        lines = [across((first, 1), *further, gap=12) for first, *further in (above, below)]
        self.setLayout(down(*lines, margins=(4, 10, 4, 10), gap=2))
        for label in (*above, *below):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def _marks(self, project: RecentProject) -> tuple[QWidget, ...]:
        """The marks of experts and the size, or the text to locate a lost recipe."""
        if self.is_lost:
            return (plain_label("Locate…", wrap=False, kind="accent"),)
        size = muted_label(human_bytes(project.bytes) if project.bytes else "")
        size.setWordWrap(False)
        size.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        size.setMinimumWidth(size.fontMetrics().horizontalAdvance(human_bytes(999_000_000)))
        return Swatches(project.colours), size

    def sizeHint(self) -> QSize:
        layout = self.layout()
        if layout is not None:
            return layout.sizeHint()
        return super().sizeHint()


class Swatches(QWidget):
    """The experts' colours, at most five, and the number of others."""

    def __init__(self, colours: Sequence[int]) -> None:
        super().__init__()
        self._colours = colours[:_SWATCHES]
        hidden = len(colours) - _SWATCHES
        if hidden > 0:
            self._text = f"+{hidden}"
        else:
            self._text = ""
        room = self.fontMetrics().horizontalAdvance(self._text)
        self.setFixedSize(_STEP * len(self._colours) + room, self.fontMetrics().height())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        theme = current_theme()
        painter = QPainter(self)
        for index, colour in enumerate(self._colours):
            square = QRectF(index * _STEP, 0, SWATCH, self.height())
            paint_swatch(painter, square, f"expert {colour}")
        beside = QRectF(self.rect()).adjusted(_STEP * len(self._colours), 0, 0, 0)
        write(painter, beside, self._text, face(Face.CAPTION), theme.text3)


def summary_of(project: RecentProject) -> str:
    """``ViT · 5 experts · ACE-Merging · mean .807``, or the folder if nothing is known."""
    if not project.left:
        return str(project.path.parent)
    if project.is_exported:
        end = "exported"
    elif project.mean is not None:
        end = f"mean {short_score_text(project.mean)}"
    else:
        if project.is_merged:
            end = "merged"
        else:
            end = "not merged yet"
    family = _HEAD.sub("", project.architecture)
    experts = counted(len(project.colours), "%n expert", "%n experts")
    return " · ".join(filter(None, (family, experts, project.method, end)))


def last_use(project: RecentProject) -> str:
    """``today 03:10``, ``yesterday 18:42``, ``18 November``; empty if unknown."""
    seconds = project.left
    if not seconds:
        try:
            seconds = project.path.stat().st_mtime
        except OSError:
            return ""
    when = QDateTime.fromSecsSinceEpoch(int(seconds))
    locale = QLocale()
    today = QDate.currentDate()
    time = locale.toString(when.time(), QLocale.FormatType.ShortFormat)
    if when.date() == today:
        return f"today {time}"
    if when.date() == today.addDays(-1):
        return f"yesterday {time}"
    this_year = when.date().year() == today.year()
    return locale.toString(when.date(), "d MMMM" if this_year else "d MMMM yyyy")


_BETWEEN: Final = 8  # px between two pictures
_LARGEST: Final = 5  # px per pixel of a picture
_SAMPLE: Final = (
    "A vision transformer of 72 tensors and five models fine-tuned from it. Merges in a few "
    "seconds; nothing is downloaded."
)
_IMAGES: Final = 2000
_SURE: Final = 1.96  # standard errors to each side of an interval of 95 %
_METHODS: Final = ("linear", "ace", recommended.NAME)
"""The merges whose figures are shown, by their names on the shelf."""


class SampleCard(QWidget):
    """The card of the sample. ``sample`` opens it, ``tutorial`` starts the tutorial on it."""

    def __init__(self, sample: QAction, tutorial: QAction) -> None:
        super().__init__()
        card = QFrame(self)
        card.setProperty("kind", "card")
        title = plain_label("The sample: five experts, one small model", role=Face.HEADING)
        self.bars = NamedBars(card)
        self.bars.show_bars(sample_bars())
        self.begin = action_button(sample, "Merge the sample", card, kind="tinted")
        self.begin.setIcon(icon("play", "accent_on_tint"))
        learn = action_button(tutorial, "Take the tutorial", card, kind="ghost")
        below = FlowLayout(spacing=4)
        below.addWidget(self.begin)
        below.addWidget(learn)
        what = secondary_label(_SAMPLE)
        unit = (
            f"Mean accuracy on {_IMAGES} held-out images ± its standard error, with intervals "
            "of 95\u00a0%. Those of the two ACE merges overlap: by these images neither is better."
        )
        parts = (SamplePictures(), title, what, self.bars, muted_label(unit), 4, below)
        card.setLayout(down(*parts, margins=[_PADDING] * 4))
        self.setLayout(down(heading("New here?"), card, None, gap=12))


class SamplePictures(QWidget):
    """A held-out image of each task above its name, with every pixel as a square."""

    def __init__(self) -> None:
        super().__init__()
        self.strip = QImage(str(PICTURES))
        self._tasks = sample_figures().tasks
        names = ", ".join(self._tasks)
        self.setAccessibleName(f"An image of each task: {names}")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        on_font_change(self, lambda _: self._fit())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        self.setFixedHeight(self._picture(self.width()) + round(1.8 * self._line))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        theme = current_theme()
        painter = QPainter(self)
        side = self._picture(self.width())
        pixels = self.strip.height()
        step = (self.width() + _BETWEEN) / len(self._tasks)
        for index, task in enumerate(self._tasks):
            x = round(index * step)
            image = QRect(index * pixels, 0, pixels, pixels)
            painter.drawImage(QRect(x, 0, side, side), self.strip, image)
            below = QRectF(x, side + 0.6 * self._line, step - _BETWEEN, self._line)
            square = QRectF(below.left(), below.top(), SWATCH, below.height())
            paint_swatch(painter, square, f"expert {index}")
            name = below.adjusted(SWATCH + 5, 0, 0, 0)
            write(painter, name, task, face(Face.CAPTION), theme.text2)

    @property
    def _line(self) -> int:
        return self.fontMetrics().height()

    def _picture(self, width: int) -> int:
        """The side of a picture, so that all pictures together fill the width."""
        room = (width + _BETWEEN) // len(self._tasks) - _BETWEEN
        pixels = self.strip.height()
        return min(max(room, pixels), _LARGEST * pixels)


def sample_bars() -> list[Bar]:
    """The mean accuracies on the sample, with intervals of 95 %."""
    figures = sample_figures()
    means = {recommended.SHELF_TITLES[name]: figures.methods[name] for name in _METHODS}
    bars = {"base": figures.base, **means, "experts": figures.experts}
    return [
        Bar(
            title,
            mean,
            f"{mean:.3f} ± {_error(mean):.3f}",
            strong=title == recommended.TITLE,
            error=_SURE * _error(mean),
        )
        for title, mean in bars.items()
    ]


def _error(mean: float) -> float:
    """The standard error of a share of right answers on the sample's images."""
    return math.sqrt(mean * (1 - mean) / _IMAGES)
