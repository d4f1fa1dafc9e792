"""What the pages of jobs share: updates, the run button, the choice of a merge, and pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF, QSignalBlocker, QSize
from PySide6.QtGui import QDropEvent, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QStackedLayout, QWidget

from ace_gui.gui.control.scoring import Scoring
from ace_gui.gui.state.activity import ActivityState
from ace_gui.gui.state.run_names import run_titles
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import plain, quoted, tooltip
from ace_gui.gui.widgets.controls import Choice, ProgressButton
from ace_gui.gui.widgets.labels import plain_label
from ace_gui.gui.widgets.lazy import Following

_Page = TypeVar("_Page", bound="JobPage")


class Pages(Protocol):
    """The workspace that a page belongs to."""

    def show_tab(self, kind: type[_Page]) -> _Page:
        """Show and return another page."""


def merges_of(session: Session) -> dict[str, str]:
    """The titles of the finished merges by their keys in the scores, oldest first."""
    runs = session.results.runs.all
    titles = run_titles(runs, session.draft.methods)
    return {str(run.store): title for run, title in zip(runs, titles, strict=True)}


MARGINS: Final = (8, 6, 8, 8)
"""Margins in px inside a card of a page."""
_NO_MERGE: Final = {"": ("no merge yet", "Merge, and evaluate again")}


class JobPage(Following):
    """A page for a job, with its inputs, a button that runs it, and its results.

    Subclasses fill it with ``set_pages`` and implement ``refresh``. ``pages`` shows other pages.
    """

    def __init__(self, session: Session, scoring: Scoring, pages: Pages) -> None:
        super().__init__()
        self.session = session
        self.scoring = scoring
        self.pages = pages
        self._pages = QStackedLayout(self)

    def set_pages(self, *pages: QWidget) -> None:
        """Set the views of this page, for example a message and results; one is shown at a time."""
        for page in pages:
            self._pages.addWidget(page)

    def show_page(self, index: int) -> None:
        self._pages.setCurrentIndex(index)

    def accepted(self, paths: list[Path]) -> list[Path]:
        """Return the dropped paths that this page can use."""
        return paths[:0]

    def take(self, paths: list[Path]) -> None:
        """Use the dropped paths that ``wanted`` has returned."""

    def dragEnterEvent(self, event: QDropEvent) -> None:
        """Accept only paths that this page can use; recipes and models are for the window."""
        if self._accepted(event):
            event.acceptProposedAction()
        else:
            event.ignore()

    def dropEvent(self, event: QDropEvent) -> None:
        self.dragEnterEvent(event)
        if event.isAccepted():
            self.take(self._accepted(event))

    def _accepted(self, event: QDropEvent) -> list[Path]:
        urls = event.mimeData().urls()
        return self.accepted([Path(url.toLocalFile()) for url in urls if url.isLocalFile()])


class RunButton(ProgressButton):
    """Starts a job. While the job runs, the button shows its progress and stops it.

    ``action`` and ``name``: the text and the accessible name while no job runs.
    """

    def __init__(
        self,
        action: str,
        start: Callable[[], object],
        stop: Callable[[], object],
        *,
        name: str = "",
    ) -> None:
        super().__init__()
        self.action = action
        self._name = name
        self._running = False
        self.setProperty("kind", "tinted")
        self.clicked.connect(lambda _=False: (stop if self._running else start)())
        self.show_job(False, "")

    def show_job(
        self, running: bool, obstacle: str, *, tip: str = "", share: float | None = None
    ) -> None:
        """Show whether the job runs, its progress (``share``), or why it cannot be started."""
        self._running = running
        if running and share is not None:
            self.show_progress(share, f"{100 * share:.0f} % · press to stop")
            self.setToolTip(tooltip(tip))
        else:
            self.show_action("Stop" if running else self.action, "")
            self.setToolTip(tooltip(tip if running else obstacle or tip))
            name = self._name or self.action
            self.setAccessibleName(f"Stop: {name}" if running else name)
        self.setEnabled(running or not obstacle)


class EvaluateButton(RunButton):
    """The button that evaluates base, experts and merges."""

    def __init__(self, session: Session, scoring: Scoring) -> None:
        super().__init__("Evaluate", scoring.evaluate, scoring.cancel)
        self._session = session
        self._scoring = scoring
        activity = session.activity
        for changed in (activity.changed, activity.progressed, session.draft.changed):
            changed.connect(self.refresh)
        scoring.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        running = self._scoring.is_running
        progress = self._session.activity.progress
        share = 0.0
        tip = "Evaluate base, experts and every finished merge"
        if (
            running
            and progress is not None
            and progress.state is ActivityState.SCORING
            and progress.total
        ):
            share = progress.done / progress.total
            tip = progress.title
        self.show_job(running, self._scoring.obstacle, tip=tip, share=share)


_LETTERS: Final = 16  # of a merge's name; the tooltips have long ones


class MergeChoice(Choice):
    """Offers the finished merges, the newest first, and selects a new or restored merge itself."""

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(name, _NO_MERGE)
        self.setSizeAdjustPolicy(self.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(_LETTERS)
        self._session = session
        self._latest = ""

    def update_merges(self) -> None:
        merges = merges_of(self._session)
        self.offer({key: (merges[key], merges[key]) for key in reversed(merges)} or _NO_MERGE)
        self.setEnabled(len(merges) > 1)
        run = self._session.results.merge
        if run is not None and run.finished is not None:
            current = str(run.store)
        else:
            current = ""
        if current != self._latest and current in merges:
            self._latest = current
            with QSignalBlocker(self):
                self.choose(current)


def problem_label() -> QLabel:
    """A label for a problem, hidden while there is none."""
    label = plain_label(kind="bad")
    label.hide()
    return label


def show_problem(label: QLabel, text: str) -> None:
    """Show a problem, or hide the label."""
    label.setText(plain(quoted(text)))
    label.setVisible(bool(text))


def image_of(pixels_HWC: NDArray[np.uint8]) -> QImage:
    """An image of a copy of the pixels. ``pixels_HWC``: three colours, uint8."""
    pixels = np.ascontiguousarray(pixels_HWC)
    height, width, _ = pixels.shape
    return QImage(pixels.data, width, height, 3 * width, QImage.Format.Format_RGB888).copy()


def paint_picture(painter: QPainter, rect: QRectF, image: QImage) -> QRectF:
    """Paint an image in the middle of ``rect``, and return its rectangle."""
    width = image.width()
    height = image.height()
    factor: float = min(rect.width() / width, rect.height() / height)
    if factor >= 1:
        factor = int(factor)
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, factor < 1)
    target = QRectF(0, 0, width * factor, height * factor)
    target.moveCenter(rect.center())
    painter.drawImage(target, image)
    return target


class ExamplePicture(QWidget):
    """The picture of an example. ``side``: its maximum size in pixels."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self._side = side
        self._image: QImage | None = None
        self.setFixedSize(side, side)
        self.hide()

    def show_picture(self, pixels: NDArray[np.uint8] | None, words: str) -> None:
        """Show another picture. ``words``: its description for screen readers."""
        self.show_image(None if pixels is None else image_of(pixels), words)

    def show_image(self, image: QImage | None, words: str) -> None:
        """Like ``show_picture``. An unreadable image counts as none."""
        if image is None or image.isNull():
            self._image = None
        else:
            self._image = image
        self.setVisible(self._image is not None)
        self.setAccessibleName(words)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._side, self._side)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  (Qt's signature)
        if self._image is not None:
            paint_picture(QPainter(self), QRectF(self.rect()), self._image)
