"""Matches the parts of an expert, and their tensors, with those of the base."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ace_gui.architecture.names import match_names
from ace_gui.checkpoints import Checkpoint, full_name, part_of
from ace_gui.errors import MismatchError
from ace_gui.formatting import listing, path_text


def answered(name: str, expert: Checkpoint, base: Checkpoint) -> tuple[Checkpoint, dict[str, str]]:
    """The expert without parts that the base lacks, and the base's names of its tensors.

    An expert may lack parts of the base, or be a single part. Raises MismatchError if two parts of
    the base fit a part of the expert equally well.
    """
    pairs = _pairs(name, expert, base)
    answers = {}
    for theirs, ours in pairs.items():
        matched = match_names(base.tensors_of(ours), expert.tensors_of(theirs))
        for own, answer in matched.items():
            answers[full_name(theirs, own)] = full_name(ours, answer)
    left = [part for part in expert.parts if part not in pairs]
    if not left:
        return expert, answers
    sentence = f"The base has no {listing(left)}, so it is left out."
    kept = replace(
        expert,
        tensors={n: i for n, i in expert.tensors.items() if part_of(n, expert.parts) not in left},
        parts={part: kept for part, kept in expert.parts.items() if part not in left},
        warnings=(*expert.warnings, f"{path_text(expert.path)}: {sentence}"),
    )
    return kept, answers


def lacking_parts(answers: Iterable[str], base: Checkpoint) -> frozenset[str]:
    """The parts of the base without a tensor in ``answers``, which has the base's names."""
    return frozenset(base.parts) - {part_of(name, base.parts) for name in answers}


def _pairs(name: str, expert: Checkpoint, base: Checkpoint) -> dict[str, str]:
    """For each part of the expert the base's part of that name, or else the best match."""
    if len(base.parts) == len(expert.parts) == 1:
        return dict(zip(expert.parts, base.parts, strict=True))
    pairs = {part: part for part in expert.parts if part in base.parts}
    for part in expert.parts:
        if part not in pairs:
            free = [ours for ours in base.parts if ours not in pairs.values()]
            if (ours := _suiting(name, expert, part, base, free)) is not None:
                pairs[part] = ours
    return pairs


def _suiting(
    name: str, expert: Checkpoint, part: str, base: Checkpoint, free: list[str]
) -> str | None:
    """The part of the base named as the expert's folder, or else with most equal tensors."""
    if expert.path.name in free:
        return expert.path.name
    own = {tensor: info.shape for tensor, info in expert.tensors_of(part).items()}
    counts = {}
    for ours in free:
        there = base.tensors_of(ours)
        matched = match_names(there, own)
        counts[ours] = sum(there[answer].shape == own[mine] for mine, answer in matched.items())
    most = max(counts.values(), default=0)
    best = [ours for ours, count in counts.items() if count == most]
    if 2 * most < len(own):
        return None
    if len(best) > 1:
        raise MismatchError(
            f"{name} could be any of {listing(best)} of the base. Put it into a folder with the "
            "name of the one that it is.",
            path=expert.path,
        )
    return best[0]
