"""What was found and done in a merge, in words, for the window's strip and the report's first page.

A part of a sentence may name tensors, or where to go on: the window makes links of these.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean
from typing import TYPE_CHECKING, Final

from ace_gui.engine.contract.figure_content import FigureContent
from ace_gui.engine.contract.model_figures import forecast, length_text
from ace_gui.engine.contract.plan import Disposition, PlanRow, role_family
from ace_gui.engine.contract.scored import BASE, EXPERTS, MeanScore, means
from ace_gui.formatting import conjunction, counted, duration, number_text
from ace_gui.linalg.heterogeneity import USUAL_TAU

if TYPE_CHECKING:
    from ace_gui.engine.contract.findings import LayerReport

EQUAL: Final = 0.01
"""γ up to which experts count as equally strong."""

GROUPS_NAMED: Final = 3
RANGES_NAMED: Final = 3
_ALIKE: Final = 1.15
"""Ratio of two changes up to which nothing is said about it."""

_SHORTENED: Final = 0.999
"""The cap's factor below which it counts: a smaller change is rounding."""

_NUMBERS: Final = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


class NextStep(Enum):
    """Where a link leads."""

    TRY = "try"
    EVALUATE = "evaluate"
    ADD_DATA = "add data"
    HEALTH = "health"


@dataclass(frozen=True, kw_only=True)
class Words:
    """A part of a paragraph."""

    text: str

    tensors: tuple[str, ...] = ()
    """The names of the rows that it speaks of; empty: of none in particular."""

    step: NextStep | None = None
    """What the reader can do about it; None: nothing."""


Paragraph = tuple[Words, ...]


@dataclass(frozen=True, kw_only=True)
class MergeSummary:
    """A merge in words."""

    title: str

    differences: Paragraph
    """Where the experts differ."""

    changes: Paragraph
    """What the merge did."""

    quality: Paragraph
    """Whether it is any good."""

    @property
    def parts(self) -> tuple[tuple[str, Paragraph], ...]:
        """The paragraphs with their headings."""
        return (
            ("Where the experts differ", self.differences),
            ("What the merge did", self.changes),
            ("Is it any good?", self.quality),
        )


def summary_of(
    content: FigureContent,
    merge: str,
    *,
    seconds: float | None = None,
    mean: float | None = None,
    warned: int = 0,
    offers: bool = True,
) -> MergeSummary:
    """The summary of a finished merge.

    ``merge``: the model's name in the scores. ``seconds``: how long it took; None: not known.
    ``mean``: its mean score if the single scores are not known any more. ``warned``: the number of
    tensors with a warning. ``offers``: whether a merge without scores
    gets links to the ways to measure it.
    """
    return MergeSummary(
        title=_title(content, seconds),
        differences=tuple(_differences(content)),
        changes=tuple(_changes(content)),
        quality=tuple(_quality(content, merge, mean, warned, offers=offers)),
    )


def text_of(paragraph: Paragraph) -> str:
    """A paragraph without its links."""
    return "".join(words.text for words in paragraph)


def _title(content: FigureContent, seconds: float | None) -> str:
    count = len(content.experts)
    if count < len(_NUMBERS):
        number = _NUMBERS[count]
    else:
        number = str(count)
    if count == 1:
        noun = "expert"
    else:
        noun = "experts"
    matrices = counted(len(content.changed_rows()), "matrix", "matrices")
    if seconds is None:
        time = ""
    else:
        time = f" in {duration(seconds)}"
    return f"{number} {noun} merged: {matrices}{time}"


# Where the experts differ


def _differences(content: FigureContent) -> Iterator[Words]:
    rows = content.rows_with_gamma()
    if not rows:
        yield Words(text=_nothing_compared(len(content.experts)))
        return
    unreliable = [row for row, _ in rows if content.is_unreliable(row)]
    by_scale = {row.name for row in unreliable}
    reliable = [(row, gamma) for row, gamma in rows if row.name not in by_scale]
    if reliable:
        yield from _of_reliable(content, reliable)
    if unreliable:
        yield Words(text=" In " if reliable else "In ")
        yield _link(counted(len(unreliable), "matrix", "matrices"), unreliable)
        yield Words(
            text=" γ is large by scale alone, marked “?”: changes with norms near 1 make it large "
            "even where the experts hardly differ."
        )


def _nothing_compared(experts: int) -> str:
    if experts < 2:
        return "One expert: there is nothing to compare."
    return "No two experts changed the same matrix."


def _of_reliable(content: FigureContent, rows: Sequence[tuple[PlanRow, float]]) -> Iterator[Words]:
    matrices = counted(len(rows), "matrix", "matrices")
    largest = max(gamma for _, gamma in rows)
    if largest <= EQUAL:
        yield Words(text=f"The experts are equally strong in all {matrices}.")
        return
    above = [(row, gamma) for row, gamma in rows if gamma > _threshold(content, row)]
    if not above:
        yield Words(text=f"Nearly alike in all {matrices}. Most apart: ")
        above = [max(rows, key=lambda item: item[1])]
    elif len(above) < len(rows):
        yield Words(text=f"Nearly alike in {len(rows) - len(above)} of {matrices}. ")
    else:
        yield Words(text=f"They differ in all {matrices}: ")
    above.sort(key=lambda item: -item[1])
    differing = [row for row, _ in above]
    yield from _places(differing)
    yield Words(text=f"{_strength(content, differing)}.")


def _threshold(content: FigureContent, row: PlanRow) -> float:
    tau = content.plan.tau_of(row)
    if tau is None or math.isinf(tau):
        return USUAL_TAU
    return tau


def _places(rows: Sequence[PlanRow]) -> Iterator[Words]:
    """Links to rows by role; the first roles are named."""
    by_role: dict[str, list[PlanRow]] = defaultdict(list)
    for row in rows:
        by_role[row.role].append(row)
    groups = list(by_role.values())
    unnamed_rows = [row for group in groups[GROUPS_NAMED:] for row in group]
    for index, group in enumerate(groups[:GROUPS_NAMED]):
        place = place_of(group)
        if index:
            yield Words(text="; ")
        else:
            place = place[:1].upper() + place[1:]
        yield _link(place, group)
    if unnamed_rows:
        yield Words(text=" and ")
        yield _link(f"{len(unnamed_rows)} more", unnamed_rows)


def place_of(rows: Sequence[PlanRow]) -> str:
    """Where rows of one role are: ``blocks 20 to 24, MLP down``."""
    role = rows[0].role
    blocks = sorted({row.block for row in rows if row.block is not None})
    if not blocks:
        return role
    ranges = list(_ranges(blocks))
    if len(ranges) > RANGES_NAMED:
        return f"{len(blocks)} blocks, {role}"
    return f"{'block' if len(blocks) == 1 else 'blocks'} {conjunction(ranges)}, {role}"


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    """``2``, ``4 to 7``: ascending numbers, with neighbours in one range."""
    first = last = numbers[0]
    for number in (*numbers[1:], None):
        if number is not None and number == last + 1:
            last = number
            continue
        if first == last:
            yield str(first)
        elif last == first + 1:
            yield from (str(first), str(last))
        else:
            yield f"{first} to {last}"
        first = last = number or 0


def _strength(content: FigureContent, rows: Sequence[PlanRow]) -> str:
    """Which expert changes rows most, and how many times as much as which; or nothing."""
    energies: dict[str, float] = defaultdict(float)
    for row in rows:
        for name, energy in content.statistics[row.name].energies.items():
            energies[name] += energy
    if len(energies) < 2:
        return ""
    strongest = max(energies, key=lambda name: energies[name])
    weakest = min(energies, key=lambda name: energies[name])
    if len(rows) == 1:
        them = "it"
    else:
        them = "them"
    if energies[weakest] <= 0:
        return f": {strongest} changes {them} most, {weakest} not at all"
    ratio = math.sqrt(energies[strongest] / energies[weakest])
    if ratio < _ALIKE:
        return ""
    return f": {strongest} changes {them} {_times(ratio)} times as much as {weakest}"


def _times(ratio: float) -> str:
    if ratio < 5:
        return f"{ratio:.1f}"
    if ratio < 1000:
        return f"{ratio:.0f}"
    return number_text(ratio)


# What the merge did


def _changes(content: FigureContent) -> Iterator[Words]:
    lengths = forecast(content.plan, content.statistics, content.reports)
    sentences: list[Paragraph] = []
    if lengths is not None:
        text = f"Its change is {length_text(lengths.relative_norm)} on average."
        sentences.append((Words(text=text),))
    shortened = tuple(_shortened(content))
    if shortened:
        sentences.append(shortened)
    for text in _other_fates(content):
        sentences.append((Words(text=text),))
    for index, sentence in enumerate(sentences):
        if index:
            yield Words(text=" ")
        yield from sentence


def _shortened(content: FigureContent) -> Iterator[Words]:
    factors = _cap_factors(content.reports)
    rows = [row for row in content.merged_rows() if row.name in factors]
    if not rows:
        return
    mean = 1 - fmean(factors[row.name] for row in rows)
    yield Words(text="The cap shortened ")
    yield _link(counted(len(rows), "matrix", "matrices"), rows)
    if mean >= 0.01:
        share = f"{mean:.0%}".replace("%", "\u00a0%")
    else:
        share = "less than 1\u00a0%"
    yield Words(text=f", by {share}{' on average' if len(rows) > 1 else ''}.")


def _cap_factors(reports: Mapping[str, LayerReport]) -> dict[str, float]:
    """The factors of the matrices that a cap made shorter, by name."""
    factors = {}
    for name, report in reports.items():
        factor = report.cap_factor
        if factor is not None and factor < _SHORTENED:
            factors[name] = factor
    return factors


_FATES: Final = {
    Disposition.AVERAGED: "averaged",
    Disposition.BASE: "kept from the base",
    Disposition.PER_EXPERT: "kept for each expert",
}
_PLURALS: Final = {"bias": "biases", "head": "heads", "vocabulary head": "vocabulary heads"}


def _other_fates(content: FigureContent) -> Iterator[str]:
    """A sentence on each group of tensors that no method merges."""
    for disposition, fate in _FATES.items():
        rows = [row for row in content.plan.rows if row.disposition is disposition]
        kinds = list(dict.fromkeys(map(_kind, rows)))
        if "other tensors" in kinds:  # comes last
            kinds.remove("other tensors")
            kinds.append("other tensors")
        if not kinds:
            continue
        subject = conjunction(kinds)
        yield f"{subject[:1].upper()}{subject[1:]} are {fate}."


def _kind(row: PlanRow) -> str:
    if row.role in _PLURALS:
        return _PLURALS[row.role]
    family = role_family(row.role)
    return {"embedding": "embeddings", "norm": "norms"}.get(family, "other tensors")


# Whether it is any good


def _quality(
    content: FigureContent, merge: str, mean: float | None, warned: int, *, offers: bool
) -> Iterator[Words]:
    scored_by_model = {scored.model: scored for scored in means(content.scores)}
    merge_score = scored_by_model.get(merge)
    if merge_score is not None and merge_score.score is not None:
        yield Words(text=_scored(merge_score, scored_by_model))
    elif mean is not None:
        yield Words(text=f"Scores {mean:.3g} on its tasks. ")
        yield Words(text="Score base and experts", step=NextStep.EVALUATE)
        yield Words(text=" to compare.")
    elif offers:
        yield from _unscored(bool(content.plan.recipe.tasks))
    else:
        yield Words(text="Not measured.")
    if warned:
        yield Words(text=" ")
        warnings = counted(warned, "One tensor has a warning", "%n tensors have warnings")
        yield Words(text=warnings, step=NextStep.HEALTH)
        yield Words(text=".")


def _scored(merge_score: MeanScore, scored_by_model: Mapping[str, MeanScore]) -> str:
    score = f"{merge_score.score:.3g}"
    reference_scores = _named_scores(((BASE, "base"), (EXPERTS, "experts")), scored_by_model)
    if merge_score.normalised is None:
        return f"Scores {score}{reference_scores}."
    share = f"{100 * merge_score.normalised:.0f}\u00a0%"
    return f"Keeps {share} of what the experts reach: {score}{reference_scores}."


def _named_scores(
    models: Iterable[tuple[str, str]], scored_by_model: Mapping[str, MeanScore]
) -> str:
    texts = []
    for model, name in models:
        mean = scored_by_model.get(model)
        if mean is not None and mean.score is not None:
            texts.append(f"{name} {mean.score:.3g}")
    if texts:
        return f" ({', '.join(texts)})"
    return ""


def _unscored(has_tasks: bool) -> Iterator[Words]:
    yield Words(text="Not measured yet. ")
    yield Words(text="Ask base, experts and merge", step=NextStep.TRY)
    yield Words(text=" the same question, or ")
    if has_tasks:
        yield Words(text="score them on the tasks", step=NextStep.EVALUATE)
    else:
        yield Words(text="score it on your data", step=NextStep.ADD_DATA)
    yield Words(text=".")


def _link(text: str, rows: Sequence[PlanRow]) -> Words:
    return Words(text=text, tensors=tuple(row.name for row in rows))
