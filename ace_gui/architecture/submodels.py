"""Models within models: a vision tower of CLIP, a language model of a vision-language model."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

from ace_gui.architecture.names import canonical

Shape = tuple[int, ...]

_STACK = re.compile(r"^(.*?(?:^|\.))(\d+)\.")


def stack_of(name: str) -> str:
    """The name of a tensor's numbered blocks ("vision_model.encoder.layers"); "" without."""
    found = _STACK.match(name)
    return found[1].rstrip(".") if found else ""


def match_part(base: Mapping[str, Shape], expert: Mapping[str, Shape]) -> dict[str, str]:
    """Map the expert's names to the base's if one model lies within the other under a prefix.

    Only tensors with rows of equal size count. The prefix with most of them is used, with
    everything before it. The map is empty if two prefixes fit equally well.
    """
    inner = _pairs(base, expert)
    outer = {own: name for name, own in _pairs(expert, base).items()}
    return max(inner, outer, key=len)


def _pairs(whole: Mapping[str, Shape], part: Mapping[str, Shape]) -> dict[str, str]:
    """By the name in the part, that in the whole."""
    ends: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in whole:
        for prefix, end in _ends(canonical(name)):
            ends[end].append((prefix, name))
    found = [
        (own, prefix, name)
        for own, shape in part.items()
        for prefix, name in ends[canonical(own)]
        if len(whole[name]) == len(shape) and whole[name][1:] == shape[1:]
    ]
    stacked = {prefix for own, prefix, _ in found if stack_of(own)}
    votes = Counter(prefix for _, prefix, _ in found if prefix in stacked).most_common(2)
    if not votes or (len(votes) > 1 and votes[0][1] == votes[1][1]):
        return {}
    best = f"{votes[0][0]}."
    pairs: dict[str, str] = {}
    # The longest prefix first: a head is outside of the model that has the blocks.
    for own, prefix, name in sorted(found, key=lambda each: -len(each[1])):
        if best.startswith(f"{prefix}.") and own not in pairs and name not in pairs.values():
            pairs[own] = name
    return pairs


def _ends(name: str) -> Iterable[tuple[str, str]]:
    parts = name.split(".")
    for cut in range(1, len(parts)):
        yield ".".join(parts[:cut]), ".".join(parts[cut:])


def whole_stacks(names: Iterable[str], known: Collection[str]) -> frozenset[str]:
    """The stacks of blocks of ``names`` of which nothing is among ``known``."""
    stacks: dict[str, list[str]] = defaultdict(list)
    for name in names:
        if stack := stack_of(name):
            stacks[stack].append(name)
    return frozenset(
        stack for stack, members in stacks.items() if not any(name in known for name in members)
    )
