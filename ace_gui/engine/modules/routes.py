"""Which expert takes what: how a routed model tells on its way."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Seen = Callable[[Tensor], None]
"""Called with the weights of the experts, … × T, which are the model's: only to be read."""
