"""The recent projects: content, size, and when each was closed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QDate, QDateTime, QLocale, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAction, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QToolButton, QWidget

from ace_gui.formatting import counted, human_bytes
from ace_gui.gui.numbers import short_score_text
from ace_gui.gui.state.settings import RecentProject
from ace_gui.gui.text import plain, short_name, tooltip
from ace_gui.gui.theme import Face, current_theme, face
from ace_gui.gui.theme.painting import SWATCH, paint_swatch, write
from ace_gui.gui.widgets.controls import action_button
from ace_gui.gui.widgets.labels import (
    ElidedLabel,
    heading,
    muted_label,
    plain_label,
    secondary_label,
)
from ace_gui.gui.widgets.layout import across, clear_layout, down

SHOWN: Final = 5
_PADDING: Final = 16
_SWATCHES: Final = 5  # further experts are shown as a number
_HEAD: Final = re.compile(r"(?<=.)(For[A-Z]\w+|LMHeadModel|Model)$")
"""The model's head by its class name."""
_STEP: Final = SWATCH + 4  # px


class RecentColumn(QWidget):
    """``chosen`` carries the path of a recipe, ``lost`` that of a missing one."""

    chosen = Signal(object)
    lost = Signal(object)

    def __init__(self, clean_up: QAction) -> None:
        super().__init__()
        self._kept = muted_label()
        self._clean_up = action_button(clean_up, "Clean up…", self, kind="link")
        self._heads = muted_label("last use and size")
        self._rows = down(margins=(_PADDING, 4, _PADDING, 4), gap=0)
        head = across((heading("Recent projects"), 1), self._heads)
        card = QFrame()
        card.setProperty("kind", "card")
        card.setLayout(self._rows)
        below = across((self._kept, 1), self._clean_up, margins=(_PADDING, 0, _PADDING, 0))
        self.setLayout(down(head, card, below, None, gap=12))
        self.show_kept(0)

    def show_projects(self, projects: Sequence[RecentProject]) -> None:
        """Show these projects, the latest first."""
        clear_layout(self._rows)
        self._heads.setVisible(bool(projects))
        for index, project in enumerate(projects[:SHOWN]):
            row = RecentRow(project, first=index == 0)
            answer = self.lost if row.is_lost else self.chosen
            path = project.path
            row.clicked.connect(lambda _=False, answer=answer, path=path: answer.emit(path))
            self._rows.addWidget(row)
        if not projects:
            nothing = secondary_label("What you open appears here.")
            nothing.setContentsMargins(0, 12, 0, 12)
            self._rows.addWidget(nothing)

    def show_kept(self, size: int) -> None:
        """Show the total size of the finished merges, with a link that removes some."""
        self._kept.setText(f"Kept runs use {human_bytes(size)} on this disk")
        for widget in (self._kept, self._clean_up):
            widget.setVisible(size > 0)


class RecentRow(QToolButton):
    """A project. If its recipe ``is_lost``, it asks for the new path."""

    def __init__(self, project: RecentProject, *, first: bool) -> None:
        super().__init__()
        path = project.path
        self.is_lost = not path.is_file()
        self.setProperty("kind", "row" if first else "next-row")
        ask = f"Locate {path}" if self.is_lost else f"Open {path}"
        self.setAccessibleName(plain(ask))
        self.setToolTip(tooltip(ask if self.is_lost else f"{ask}\n{summary_of(project)}"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        name, line = ElidedLabel(self, sentence=True), ElidedLabel(self, sentence=True)
        name.setFont(face(Face.STRONG))
        name.set_full_text(short_name(path))
        line.setProperty("kind", "caption")
        line.setFont(face(Face.CAPTION))
        line.set_full_text("Recipe not found" if self.is_lost else summary_of(project))
        if self.is_lost:
            name.setProperty("kind", "caption")
        above = name, plain_label(last_use(project), self, wrap=False)
        below = line, *self._marks(project)
        above[1].setProperty("kind", "secondary")
        lines = [across((first, 1), *rest, gap=12) for first, *rest in (above, below)]
        self.setLayout(down(*lines, margins=(4, 10, 4, 10), gap=2))
        for label in (*above, *below):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def _marks(self, project: RecentProject) -> tuple[QWidget, ...]:
        """Experts and size, or a link to locate it."""
        if self.is_lost:
            locate = plain_label("Locate…", self, wrap=False)
            locate.setProperty("kind", "accent")
            return (locate,)
        size = muted_label(human_bytes(project.bytes) if project.bytes else "")
        size.setWordWrap(False)
        size.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        size.setMinimumWidth(size.fontMetrics().horizontalAdvance(human_bytes(999_000_000)))
        return Swatches(project.colours), size

    def sizeHint(self) -> QSize:
        layout = self.layout()
        return layout.sizeHint() if layout is not None else super().sizeHint()


class Swatches(QWidget):
    """The experts' colours, at most five, and the number of others."""

    def __init__(self, colours: Sequence[int]) -> None:
        super().__init__()
        self._colours, more = colours[:_SWATCHES], len(colours) - _SWATCHES
        self._text = f"+{more}" if more > 0 else ""
        room = self.fontMetrics().horizontalAdvance(self._text)
        self.setFixedSize(_STEP * len(self._colours) + room, self.fontMetrics().height())

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        theme, painter = current_theme(), QPainter(self)
        for index, colour in enumerate(self._colours):
            square = QRectF(index * _STEP, 0, SWATCH, self.height())
            again = colour >= len(theme.expert_colours)
            paint_swatch(painter, square, theme.expert_colour(colour), hollow=again)
        rest = QRectF(self.rect()).adjusted(_STEP * len(self._colours), 0, 0, 0)
        write(painter, rest, self._text, face(Face.CAPTION), theme.text3)


def summary_of(project: RecentProject) -> str:
    """``ViT · 5 experts · ACE-Merging · mean .807``; its folder if nothing is known."""
    if not project.left:
        return str(project.path.parent)
    if project.is_exported:
        end = "exported"
    elif project.mean is not None:
        end = f"mean {short_score_text(project.mean)}"
    else:
        end = "merged" if project.is_merged else "not merged yet"
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
    when, locale, today = QDateTime.fromSecsSinceEpoch(int(seconds)), QLocale(), QDate.currentDate()
    time = locale.toString(when.time(), QLocale.FormatType.ShortFormat)
    if when.date() == today:
        return f"today {time}"
    if when.date() == today.addDays(-1):
        return f"yesterday {time}"
    this_year = when.date().year() == today.year()
    return locale.toString(when.date(), "d MMMM" if this_year else "d MMMM yyyy")
