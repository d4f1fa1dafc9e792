"""The workers of a merge, as given on the command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from ace_gui.errors import ClusterError

MOST_WORKERS: Final = 4096
_LOCAL: Final = re.compile(r"local:([0-9]{1,4})")
_REMOTE: Final = re.compile(r"ray://[A-Za-z0-9.\-\[\]:_]+:[0-9]{1,5}")


@dataclass(frozen=True, kw_only=True)
class Address:
    """The workers' location.

    ``workers``: number of workers on this machine, in a temporary cluster for the merge; None: as
    many as the cluster at ``url`` can run. ``url`` "auto": the cluster that this machine belongs
    to.
    """

    workers: int | None = None
    url: str = ""

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse ``local:N``, ``auto`` or ``ray://HOST:PORT``. Raises ClusterError."""
        local = _LOCAL.fullmatch(text)
        if local and 1 <= int(local[1]) <= MOST_WORKERS:
            return cls(workers=int(local[1]))
        if text == "auto" or _REMOTE.fullmatch(text):
            return cls(url=text)
        raise ClusterError(
            f"{text!r} is not a cluster; give local:N (N processes here), auto, or ray://HOST:PORT."
        )

    @property
    def is_local(self) -> bool:
        """Whether the workers are started for this merge, on this machine."""
        return self.workers is not None
