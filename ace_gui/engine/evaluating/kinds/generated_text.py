"""Whether a generated answer is right, by the metrics of generated text.

Texts are compared in one normal form: Unicode NFKC, lower case, each run of white space as one
space, without white space around it and without a full stop at the end.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from typing import Final

from ace_gui.recipe.tasks import Metric

_NUMBER: Final = re.compile(
    r"(?:(?<![\w)])[-+])?"  # a sign, not a subtraction or a range
    r"(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)"
    r"(?:[eE][-+]?\d{1,4}\b)?"
)


def normal(text: str) -> str:
    """A text in normal form."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).removesuffix(".")


def last_number(text: str) -> Decimal | None:
    """The last number of a text; commas between thousands are left out. None: there is none."""
    found = _NUMBER.findall(unicodedata.normalize("NFKC", text).replace("−", "-"))
    return Decimal(found[-1].replace(",", "")) if found else None


def first_letter(text: str, letters: str) -> str:
    """The first of these letters that stands alone, as in "B", "(b)" or "B. Paris"; empty: none.

    Capital letters come first: an article "a" is no choice if a capital letter follows.
    """
    for wanted in (letters, letters.lower()):
        found = re.search(rf"(?<![\w'’])[{wanted}](?![\w'’])", text) if wanted else None
        if found is not None:
            return found[0].upper()
    return ""


def is_right(metric: Metric, answer: str, target: str, *, letters: str, pattern: str) -> bool:
    """Whether an answer is right. ``letters``: of the choices; ``pattern``: of the metric regex."""
    if metric is Metric.LAST_NUMBER:
        return last_number(answer) == last_number(target)
    if metric is Metric.CHOICE:
        return first_letter(answer, letters) == target
    if metric is Metric.REGEX:
        found = re.search(pattern, answer)
        return found is not None and normal(found[1] or "") == normal(target)
    own, wanted = normal(answer), normal(target)
    if metric is Metric.CONTAINS:
        found = re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", own)
        return bool(wanted) and found is not None
    return own == wanted
