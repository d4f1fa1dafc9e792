"""Work split over turns of the event loop, so that the window stays responsive."""

from __future__ import annotations

from collections.abc import Generator

from PySide6.QtCore import QObject, QTimer


class IdleQueue(QObject):
    """Runs pieces of work one after another, each in its own turn of the event loop.

    ``QTimer.singleShot(0, …)`` does not work: it posts an event, and posted events are handled in
    the same turn, together with layout and repaint. A timer of 0 ms does not work either: it is
    always the first of those that are due, so the others wait for two pieces.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._pieces: Generator[None, None, None] | None = None
        self._timer = QTimer(self, interval=1)
        self._timer.timeout.connect(self._go_on)

    def run(self, pieces: Generator[None, None, None]) -> None:
        """Run up to the first ``yield`` now and the rest one piece per turn; drop other work."""
        self.stop()
        self._pieces = pieces
        self._timer.start()
        self._go_on()

    def stop(self) -> None:
        """Drop the remaining work."""
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
