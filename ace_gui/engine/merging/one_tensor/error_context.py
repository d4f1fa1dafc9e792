"""Adds the tensor and the experts to an error of a method."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from ace_gui.errors import MethodError
from ace_gui.formatting import listing, plain


@contextlib.contextmanager
def merging_of(tensor: str, experts: Sequence[str]) -> Iterator[None]:
    """Add the names of the tensor and of the experts, in order, to a MethodError of the block."""
    try:
        yield
    except MethodError as error:
        if error.tensor is None:
            error.tensor = tensor
            error.sentence = f"`{plain(tensor)}` of {listing(experts)}: {error.sentence}"
        raise
