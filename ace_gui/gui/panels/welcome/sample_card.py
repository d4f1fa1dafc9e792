"""The sample for new users: one picture per task, and what merging achieves."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QRect, QRectF
from PySide6.QtGui import QAction, QImage, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from ace_gui.gui.state.sample_figures import PICTURES, sample_figures
from ace_gui.gui.theme import Face, current_theme, face, icon
from ace_gui.gui.theme.painting import SWATCH, paint_swatch, write
from ace_gui.gui.widgets.controls import action_button
from ace_gui.gui.widgets.labels import (
    Bar,
    NamedBars,
    heading,
    muted_label,
    plain_label,
    secondary_label,
)
from ace_gui.gui.widgets.layout import FlowLayout, down, on_font_change
from ace_gui.recipe import recommended

_PADDING: Final = 16
_GAP: Final = 8  # px between two pictures
_LARGEST: Final = 5  # px per pixel of a picture
_WHAT: Final = (
    "A vision transformer of 72 tensors and five models fine-tuned from it. Merges in a few "
    "seconds; nothing is downloaded."
)
_METHODS: Final = {
    "Weight averaging": "linear",
    "ACE as published": "ace",
    recommended.TITLE: recommended.NAME,
}


class SampleCard(QWidget):
    """``sample`` opens it, ``tutorial`` starts the tutorial on it."""

    def __init__(self, sample: QAction, tutorial: QAction) -> None:
        super().__init__()
        card = QFrame(self)
        card.setProperty("kind", "card")
        title = plain_label("The sample: five experts, one small model")
        title.setFont(face(Face.HEADING))
        self.bars = NamedBars(card)
        self.bars.show_bars(_bars())
        begin = action_button(sample, "Merge the sample", card, kind="tinted")
        begin.setIcon(icon("play", "accent_on_tint"))
        learn = action_button(tutorial, "Take the tutorial", card, kind="ghost")
        below = FlowLayout(spacing=4)
        below.addWidget(begin)
        below.addWidget(learn)
        what, unit = secondary_label(_WHAT), "Mean accuracy on 2000 held-out images"
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
        theme, painter = current_theme(), QPainter(self)
        side, pixels = self._picture(self.width()), self.strip.height()
        step = (self.width() + _GAP) / len(self._tasks)
        for index, task in enumerate(self._tasks):
            left = round(index * step)
            image = QRect(index * pixels, 0, pixels, pixels)
            painter.drawImage(QRect(left, 0, side, side), self.strip, image)
            below = QRectF(left, side + 0.6 * self._line, step - _GAP, self._line)
            square = QRectF(below.left(), below.top(), SWATCH, below.height())
            paint_swatch(painter, square, theme.expert_colour(index))
            name = below.adjusted(SWATCH + 5, 0, 0, 0)
            write(painter, name, task, face(Face.CAPTION), theme.text2)

    @property
    def _line(self) -> int:
        return self.fontMetrics().height()

    def _picture(self, width: int) -> int:
        """The side of a picture: all of them fill the width."""
        room, pixels = (width + _GAP) // len(self._tasks) - _GAP, self.strip.height()
        return min(max(room, pixels), _LARGEST * pixels)


def _bars() -> list[Bar]:
    known = sample_figures()
    means = {title: known.methods[name] for title, name in _METHODS.items()}
    shown = {"base": known.base, **means, "experts": known.experts}
    return [
        Bar(title, mean, f"{mean:.3f}", strong=title == recommended.TITLE)
        for title, mean in shown.items()
    ]
