"""Whether the window goes on answering: a timer that beats in its event loop."""

from __future__ import annotations

import time

from PySide6.QtCore import Qt, QTimer


class Pulse:
    """The longest silence of the event loop, by what was being done: seconds, and of processor.

    The second is what the window's own thread had to do; a silence that is much longer is the
    machine's, which had others to serve.
    """

    def __init__(self) -> None:
        self.longest: dict[str, tuple[float, float]] = {}
        self.doing = "start"
        self._last = time.perf_counter(), time.thread_time()
        self._timer = QTimer()
        self._timer.setInterval(1)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._timer.start()

    def stop(self) -> None:
        """No more beats."""
        self._timer.stop()

    def _beat(self) -> None:
        now = time.perf_counter(), time.thread_time()
        wall, processor = (after - before for after, before in zip(now, self._last, strict=True))
        longest = self.longest.get(self.doing, (0.0, 0.0))
        self.longest[self.doing] = max(longest[0], wall), max(longest[1], processor)
        self._last = now
