"""Random numbers that depend only on the seed, the expert, the tensor and the entry.

The order of experts, shards, parts, resuming and the device therefore do not change a mask.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.methods.shared.survey import RandomKey

STEP: Final = np.float32(2**-24)
"""Distance between two neighbouring numbers, as float32 has 24 bits."""

DRAWN: Final = 1 << 16
"""How many numbers are drawn at a time; even, and so few that they stay in the cache."""


def seed_of(random_key: RandomKey, t: int) -> int:
    """A 63-bit seed for expert ``t`` and this random key."""
    return seed_from(random_key.seed, random_key.experts[t], random_key.tensor)


def seed_from(*parts: object) -> int:
    """A 63-bit seed for numbers and names."""
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def uniform(random_key: RandomKey, t: int, like: Tensor) -> Tensor:
    """Uniform numbers in [0, 1), float32, in the shape and on the device of ``like``.

    An entry gets the same number whether its tensor comes whole or in parts: the generator can jump
    ahead, and gives two numbers per step. It is PCG64 DXSM, whose stream numpy promises to keep. It
    runs on the CPU, so that every device gets the same numbers.
    """
    generator = np.random.PCG64DXSM(seed_of(random_key, t))
    steps, before = divmod(random_key.start, 2)
    generator.advance(steps)
    drawn = np.empty(before + like.numel(), np.float32)
    for first in range(0, len(drawn), DRAWN):
        chunk = drawn[first : first + DRAWN]
        bits = generator.random_raw((len(chunk) + 1) // 2).view(np.uint32)[: len(chunk)]
        np.multiply(bits >> 8, STEP, out=chunk, casting="same_kind")
    numbers = torch.from_numpy(drawn[before:])
    if random_key.turned:
        ordered = numbers.reshape(like.shape[::-1]).T
    else:
        ordered = numbers.reshape(like.shape)
    return ordered.to(like.device)


def required(random_key: RandomKey | None, experts: int) -> RandomKey:
    """The random key. Raises MethodError if there is none, or if its number of experts differs."""
    if random_key is None:
        raise MethodError(
            "This method draws random numbers; pass `random_key` with the tensor and experts."
        )
    if len(random_key.experts) != experts or len(set(random_key.experts)) != experts:
        raise MethodError(
            f"This method needs a distinct name for each of {experts} experts, but got "
            f"{', '.join(random_key.experts) or 'none'}."
        )
    return random_key
