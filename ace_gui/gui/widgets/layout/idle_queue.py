"""Work in several turns of the event loop, so that the window answers between its pieces."""

from __future__ import annotations

from collections.abc import Generator

from PySide6.QtCore import QObject, QTimer


class IdleQueue(QObject):
    """Does one piece of work after another, each in a turn of its own.

    ``QTimer.singleShot(0, …)`` would not do: it posts an event, and whatever is posted is dealt
    with in the turn that posts it, together with the layout and the repaint. Nor would a timer of
    0 ms: it is always the first of those that are due, so that the others wait for two pieces.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._pieces: Generator[None, None, None] | None = None
        self._timer = QTimer(self, interval=1)
        self._timer.timeout.connect(self._go_on)

    def run(self, pieces: Generator[None, None, None]) -> None:
        """Do the first piece now, what follows each ``yield`` a turn later; drop other work."""
        self.stop()
        self._pieces = pieces
        self._timer.start()
        self._go_on()

    def stop(self) -> None:
        """Leave the rest of the work undone."""
        self._timer.stop()
        if self._pieces is not None:
            self._pieces.close()
            self._pieces = None

    def _go_on(self) -> None:
        assert self._pieces is not None
        try:
            next(self._pieces)
        except StopIteration:
            self.stop()
        except BaseException:
            self.stop()
            raise
