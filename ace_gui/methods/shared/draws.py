"""Random numbers that depend only on the seed, the expert, the tensor and the entry.

The order of experts, shards, parts, resuming and the device therefore do not change a mask.
"""

from __future__ import annotations

import hashlib
import math
from typing import Final

import numpy as np
import torch
from torch import Tensor

from ace_gui.errors import MethodError
from ace_gui.methods.shared.survey import RandomKey

SPACING: Final = np.float32(2**-24)
"""Distance between two neighbouring numbers, as float32 has 24 bits."""

NUMBERS_AT_A_TIME: Final = 1 << 16
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
    steps = random_key.start // 2
    skipped = random_key.start % 2  # 1 if the first of a step's two numbers is before this part
    generator.advance(steps)
    numbers = np.empty(skipped + like.numel(), np.float32)
    for first in range(0, len(numbers), NUMBERS_AT_A_TIME):
        chunk = numbers[first : first + NUMBERS_AT_A_TIME]
        pairs_of_bits = generator.random_raw(math.ceil(len(chunk) / 2))  # 64 bits a step
        bits = pairs_of_bits.view(np.uint32)[: len(chunk)]
        np.multiply(bits >> 8, SPACING, out=chunk, casting="same_kind")  # the upper 24 bits
    flat = torch.from_numpy(numbers[skipped:])
    if random_key.transposed:  # the numbers have the order of the stored tensor
        stored_shape = like.shape[::-1]
        ordered = flat.reshape(stored_shape).T
    else:
        ordered = flat.reshape(like.shape)
    return ordered.to(like.device)


def required_key(random_key: RandomKey | None, experts: int) -> RandomKey:
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
