"""Typeset the formulas of all methods as drawings: ``python packaging/make_formulas.py``.

What a method says of itself in plain text is the one source; here it becomes TeX, and matplotlib
sets it. A line may begin with its name and a colon, which stands in a column of its own. Each
drawing is ``resources/formulas/METHOD.svg``: black with grey names, which the window replaces by
the colours of its text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from html import escape
from typing import Final

from ace_gui.methods.registry import METHODS
from ace_gui.paths import resource_path
from ace_gui.recipe import recommended

SIZE: Final = 20.0  # units of a drawing that a letter is high
GAP: Final = 9.0  # units between two lines
LONGEST: Final = 96  # signs of a line
NAMED: Final = 14  # signs fewer next to a name
LETTER: Final = 7.3  # units that a letter of a name is wide on average
_NAME: Final = re.compile(r"([A-Za-z][A-Za-z ,γτ>-]*[a-zτ]): ")
_FUNCTIONS: Final = ("ln", "sin", "cos", "Tr", "diag", "polar", "mean", "max", "min", "exp", "tanh")
_SUB: Final = dict(zip("₀₁₂₃₄₅₆₇₈₉ₜᵢⱼₖ", "0123456789tijk", strict=True))
_SUPER: Final = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ᵀ", "0123456789-+T", strict=True))
_ACCENTS: Final = {"\u0303": r"\tilde", "\u0302": r"\hat", "\u0304": r"\bar"}
_SIGNS: Final = {
    **{"λ": r"\lambda ", "γ": r"\gamma ", "τ": r"\tau ", "ε": r"\varepsilon ", "σ": r"\sigma "},
    **{"α": r"\alpha ", "θ": r"\theta ", "η": r"\eta ", "ρ": r"\rho ", "μ": r"\mu "},
    **{"Δ": r"\Delta ", "Σ": r"\sum ", "‖": r"\Vert ", "⊙": r"\odot ", "·": r"\cdot "},
    **{"−": "-", "≥": r"\geq ", "≈": r"\approx ", "∈": r"\in ", "∠": r"\angle "},
    **{"…": r"\ldots ", "%": r"\%", "{": r"\{", "}": r"\}"},
}
_GREY: Final = 'font-family="Inter" font-size="14" fill="#808080"'
_TOKEN: Final = re.compile(
    r"(?P<accent>\w[\u0302-\u0304])"
    r"|(?P<sub>[₀-₉ₜᵢⱼₖ]+(?:∈[A-Z]|,reg|,[ₜᵢⱼ])?)"
    r"|(?P<named>_[A-Za-z]+)"
    r"|(?P<super>[⁰¹²³⁴-⁹⁻⁺ᵀ]+)"
    r"|(?P<norm>‖\*)"
    r"|(?P<word>\d-D\b|[A-Za-z][A-Za-z\-]+(?: +[A-Za-z\-]{2,})*)"
    r"|(?P<space> +)"
    r"|(?P<sign>.)"
)


def main() -> None:
    """Make every drawing anew."""
    folder = resource_path("formulas")
    folder.mkdir(exist_ok=True)
    formulas = {name: method.formula for name, method in METHODS.items()}
    formulas[recommended.NAME] = recommended.FORMULA
    drawings = {}
    for name, formula in formulas.items():
        lines = [part for line in formula.split("\n") for part in named(line)]
        drawings[name] = drawing([(title, to_tex(line)) for title, line in lines])
    for old in folder.glob("*.svg"):  # not before matplotlib was found
        old.unlink()
    for name, text in drawings.items():
        file = folder / f"{name}.svg"
        file.write_text(text, "utf-8")
        print(file)


def named(line: str) -> list[tuple[str, str]]:
    """A line with its name, if it has one; what does not fit follows without."""
    found = _NAME.match(line)
    most = LONGEST - (NAMED if found else 0)
    first, *others = wrapped(line[found.end() :] if found else line, most)
    return [(found[1] if found else "", first), *(("", other) for other in others)]


def to_tex(line: str) -> str:
    """A line of a formula in plain text as TeX for mathtext."""
    tokens = list(_TOKEN.finditer(unicodedata.normalize("NFD", line)))
    parts = []
    for index, token in enumerate(tokens):
        around = tokens[max(index - 1, 0) : index + 2]
        prose = any(each.lastgroup == "word" and each[0] not in _FUNCTIONS for each in around)
        between = token.lastgroup == "space" and len(token[0]) == 1 and prose
        parts.append(r"\ " if between else _tex_of(token))
    return f"${''.join(parts)}$"


def wrapped(line: str, most: int) -> list[str]:
    """A long line in several, each broken after a comma or a semicolon."""
    if len(line) <= most:
        return [line]
    at = max(line.rfind(sign, 0, most) for sign in (", ", "; ")) + 1
    return [line[:at], *wrapped(line[at:].strip(), most)] if at > 0 else [line]


def _tex_of(found: re.Match[str]) -> str:
    text = found.group()
    match found.lastgroup:
        case "accent":
            letter = r"\Sigma" if text[0] == "Σ" else _SIGNS.get(text[0], text[0])
            return f"{_ACCENTS[text[1]]}{{{letter.strip()}}}"
        case "sub":
            inner = text.replace("∈", r"\in ").replace("reg", r"\mathrm{reg}")
            return f"_{{{''.join(_SUB.get(sign, sign) for sign in inner)}}}"
        case "named":
            roman = rf"\mathrm{{{text[1:]}}}" if len(text) > 2 else text[1:]
            return f"_{{{roman}}}"
        case "super":
            return f"^{{{''.join(_SUPER[sign] for sign in text)}}}".replace("T", r"\mathrm{T}")
        case "norm":
            return r"\Vert_{*}"
        case "word":
            spaced = text.replace(" ", r"\ ")
            return rf"\mathrm{{{spaced}}}"
        case "space":
            return r"\," if len(text) == 1 else r"\quad "  # signs bring room of their own
    return _SIGNS.get(text, text)


def drawing(lines: list[tuple[str, str]]) -> str:
    """Names and lines of TeX below each other, as an SVG; each letter's outline is there once."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=SIZE, math_fontfamily="stix")
    scale = SIZE / text_to_path.FONT_SCALE
    names: dict[str, str] = {}
    longest = max(len(name) for name, _ in lines)
    left = round(LETTER * longest + SIZE) if longest else 0
    defined = []
    placed = []
    top = 0.0
    widest = 0.0
    for name, line in lines:
        width, height, depth = text_to_path.get_text_width_height_descent(line, font, True)
        glyphs, shapes, bars = text_to_path.get_glyphs_mathtext(font, line)
        base = top + max(height - depth, SIZE)
        widest = max(widest, width)
        for key, shape in shapes.items():
            if key not in names:
                names[key] = f"g{len(names)}"
                defined.append(f'<path id="{names[key]}" d="{_outline(*shape)}"/>')
        if name:
            placed.append(f'<text y="{base:.1f}" {_GREY}>{escape(name)}</text>')
        for key, x, y, size in glyphs:
            at = f"translate({left + x * scale:.1f} {base - y * scale:.1f})"
            turned = f"scale({size * scale:.4f} -{size * scale:.4f})"
            placed.append(f'<use xlink:href="#{names[key]}" transform="{at} {turned}"/>')
        for bar in bars:
            turned = f"translate({left} {base:.1f}) scale({scale:.4f} -{scale:.4f})"
            placed.append(f'<path transform="{turned}" d="{_outline(*bar)}"/>')
        top = base + depth + GAP
    width = f"{left + widest:.0f}"
    height = f"{top - GAP:.0f}"
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    links = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    body = "\n".join([f"<defs>{''.join(defined)}</defs>", *placed])
    return f'<svg {links} {box} fill="#000000">\n{body}\n</svg>\n'


def _outline(vertices: Sequence[Sequence[float]], codes: Sequence[int]) -> str:
    """matplotlib's path as SVG's: 1 move, 2 line, 3 quadratic, 4 cubic, 79 close."""
    letters = {1: "M", 2: "L", 3: "Q", 4: "C"}
    parts = []
    last = 0
    expected = 0
    for (x, y), code in zip(vertices, codes, strict=True):
        if code == 79:
            parts.append("Z")
            last = 79
            continue
        if expected == 0 or code != last:
            parts.append(letters[int(code)])
            expected = {1: 1, 2: 1, 3: 2, 4: 3}[int(code)]
        parts.append(f"{x:.0f} {y:.0f}")
        expected = expected - 1
        last = code
    return " ".join(parts)


if __name__ == "__main__":
    main()
