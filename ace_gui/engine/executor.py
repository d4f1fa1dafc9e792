"""Other processes, perhaps on other machines, that run functions of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol


class Executor(Protocol):
    """Processes that run functions at the same time. ``device``: on which each computes."""

    device: str

    def map_unordered(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        about: Sequence[str],
    ) -> Iterator[tuple[int, Any] | None]:
        """Yield a function's result for each of several arguments, with its index.

        They come in order of completion; None: no result yet. ``about``: a name for each argument.

        Closing the iterator stops the processes. Raises the errors of the function, and
        ClusterError.
        """
        ...
