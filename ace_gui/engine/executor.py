"""Other processes, perhaps of other machines, that run functions of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol


class Executor(Protocol):
    """Processes that run functions at the same time. ``device``: on what each computes."""

    device: str

    def map_unordered(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        about: Sequence[str],
    ) -> Iterator[tuple[int, Any] | None]:
        """What a function gives for each of several arguments, with their places, as it gets done;
        None: nothing yet. ``about``: a word on each.

        To stop asking is to stop the processes. Raises what the function raises, and ClusterError.
        """
        ...
