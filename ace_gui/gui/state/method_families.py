"""The merge methods under their headings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ace_gui.engine.contract.events import MethodInfo


def by_family(methods: Sequence[MethodInfo]) -> Iterator[tuple[str, Iterator[MethodInfo]]]:
    """The families, each with its methods, in the order of ``methods``."""
    return groupby(methods, key=lambda method: method.family)
