"""A panel as SVG inside a page: named and described, with colours that the page's style sets.

matplotlib draws it; letters are the page's, and each mark says what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from xml.etree import ElementTree

from ace_gui.figures.charts import Chart, Panel
from ace_gui.figures.drawing import gid_of_marks, shown_points
from ace_gui.figures.printing import picture
from ace_gui.figures.sheet import Sheet
from ace_gui.formatting import number_text, printable

_SVG: Final = "http://www.w3.org/2000/svg"
_LINK: Final = "{http://www.w3.org/1999/xlink}href"
_COLOUR: Final = re.compile(r"#[0-9a-f]{6}")
_LEVEL: Final = re.compile(r"rotate\(-0 [^)]*\)")
_FRACTION: Final = re.compile(r"\d+\.\d{3,}")
_FONT: Final = re.compile(r"font-family: [^;]*;? ?")

_DIGITS: Final = 4
"""Of the value that a mark says."""


def page_picture(
    panel: Panel,
    sheet: Sheet,
    title: str,
    *,
    colours: Mapping[str, str] | None = None,
) -> str:
    """The panel as an SVG element, the same text each time.

    ``title``: its name for screen readers; the panel's caption describes it. ``colours``: what the
    page calls each colour of the sheet's palette; None: the colours stay numbers.
    """
    name = printable(title)
    root = ElementTree.fromstring(picture([panel], sheet, ".svg", page=name))
    _say_marks(root, panel)
    _remove(root, {"metadata", "style", "clipPath"})
    linked = {use.get(_LINK, "")[1:] for use in root.iter(_tag("use"))}
    for element in root.iter():
        _clean(element, linked, colours or {})
    _name(root, name, f"{panel.caption[:1].upper()}{panel.caption[1:]}.")
    ElementTree.register_namespace("", _SVG)
    return ElementTree.tostring(root, encoding="unicode")


def _tag(name: str) -> str:
    return f"{{{_SVG}}}{name}"


def _remove(root: ElementTree.Element, names: set[str]) -> None:
    """Remove what a page does not need: nothing is drawn outside its axes."""
    tags = {_tag(name) for name in names}
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in tags:
                parent.remove(child)


def _clean(element: ElementTree.Element, linked: set[str], colours: Mapping[str, str]) -> None:
    """Use the page's colours and letters, and keep only names that something points to."""
    attributes = element.attrib
    attributes.pop("clip-path", None)
    element.tail = None
    if element.text is not None and element.text.isspace():
        element.text = None
    if element.get("id") not in linked:
        attributes.pop("id", None)
    link = attributes.pop(_LINK, None)
    if link is not None:
        attributes["href"] = link
    for key in ("d", "x", "y"):
        if key in attributes:
            attributes[key] = _FRACTION.sub(_rounded, attributes[key].replace("\n", ""))
    look = attributes.get("style")
    if look is not None and colours:
        look = _COLOUR.sub(lambda match: colours.get(match[0], match[0]), look)
        attributes["style"] = _FONT.sub("", look)
    if _LEVEL.fullmatch(attributes.get("transform", "")):
        del attributes["transform"]


def _rounded(number: re.Match[str]) -> str:
    """A length in points, as exact as anybody sees."""
    return f"{float(number[0]):.2f}"


def _name(root: ElementTree.Element, title: str, description: str) -> None:
    """Say what the picture is, to readers and to programs that read aloud."""
    for key in ("width", "height", "version"):
        del root.attrib[key]
    root.attrib |= {"role": "img", "aria-label": f"{title}. {description}"}
    root.text = None
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(_tag(tag))
        element.text = text
        root.insert(place, element)


def _say_marks(root: ElementTree.Element, panel: Panel) -> None:
    """Let each mark say what it is when the pointer is over it."""
    groups = {group.get("id"): group for group in root.iter(_tag("g"))}
    for place, chart in enumerate(panel.charts):
        for index, marks in enumerate(chart.marks):
            group = groups.get(gid_of_marks(str(place), index))
            if group is None:
                continue
            texts = _texts(chart, marks.points, marks.labels)
            for use, text in zip(group.iter(_tag("use")), texts, strict=True):
                title = ElementTree.SubElement(use, _tag("title"))
                title.text = text


def _texts(
    chart: Chart, points: Sequence[tuple[float, float]], labels: Sequence[str]
) -> Iterator[str]:
    for label, point in zip(labels, points, strict=True):
        if shown_points([point], chart):
            x, y = point
            value = x if chart.y.names else y
            yield f"{printable(label)}: {number_text(value, _DIGITS)}"
