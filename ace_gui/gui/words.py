"""What the window says in the person's language: texts by Qt's translation, numbers by QLocale.

English is the source. A text that stands in the code goes through ``tr``, one with a count through
``counted``; one that is declared before it is shown is marked by ``later``.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QCoreApplication, QLocale

CONTEXT: Final = "window"
"""Of all texts, in the files of the languages."""


def tr(text: str, /, **values: object) -> str:
    """A text with values in the places of their names: ``tr("{share:.1f} % of {name}", …)``.

    Fractions are written with the person's decimal point.
    """
    said = QCoreApplication.translate(CONTEXT, text)
    return said.format(**_written(values)) if values else said


def later(text: str) -> str:
    """Marks a text that is declared here and goes through ``tr`` where it is shown."""
    return text


def counted(count: int, one: str, many: str, /, **values: object) -> str:
    """``1 matrix``, ``6 matrices``; or whole sentences, with the count in the place of ``%n``."""
    single = one if "%n" in many else f"%n {one}"
    plural = many if "%n" in many else f"%n {many}"
    said = QCoreApplication.translate(CONTEXT, plural, None, count)
    if count == 1 and said == plural.replace("%n", "1"):  # English, or not translated
        said = single.replace("%n", "1")
    return said.format(**_written(values)) if values else said


def local(number: str) -> str:
    """A number that is written out already, with the person's decimal point."""
    return number.replace(".", QLocale().decimalPoint())


class _Fraction(float):
    def __format__(self, spec: str) -> str:
        return local(super().__format__(spec))


def _written(values: dict[str, object]) -> dict[str, object]:
    return {k: _Fraction(v) if isinstance(v, float) else v for k, v in values.items()}
