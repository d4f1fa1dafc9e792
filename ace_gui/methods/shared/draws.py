"""Random numbers that depend on the seed, the expert and the tensor alone.

So that neither the order of experts, nor sharding, nor resuming, nor the device changes a mask.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.methods.method import Place


def seed_of(place: Place, t: int) -> int:
    """A 63-bit seed for expert ``t`` in this place."""
    key = "\0".join((str(place.seed), place.experts[t], place.tensor))
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def uniform(place: Place, t: int, like: Tensor) -> Tensor:
    """Uniform numbers in [0, 1), float32, in the shape and on the device of ``like``.

    Drawn on the CPU, so that every device gets the same.
    """
    generator = torch.Generator().manual_seed(seed_of(place, t))
    return torch.rand(like.shape, generator=generator).to(like.device)


def required(place: Place | None, experts: int) -> Place:
    """The place. Raises MethodError where there is none, or it names another number of experts."""
    if place is None:
        raise MethodError("This method draws random numbers; say for which tensor and experts.")
    if len(place.experts) != experts or len(set(place.experts)) != experts:
        raise MethodError(
            f"This method needs a distinct name for each of {experts} experts, but got "
            f"{', '.join(place.experts) or 'none'}."
        )
    return place
