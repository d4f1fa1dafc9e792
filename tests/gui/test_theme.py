"""Colours hold their contrasts, schemes switch, icons exist in both."""

from __future__ import annotations

import os
import re
from itertools import combinations, product

import numpy as np
import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QSize
from PySide6.QtGui import (
    QFontInfo,
    QFontMetrics,
    QFontMetricsF,
    QIcon,
    QPainter,
    QPalette,
    QPixmap,
)
from PySide6.QtWidgets import (
    QStyle,
    QStyleOptionToolButton,
    QTableWidget,
    QTableWidgetItem,
    QToolButton,
)

from ace_gui.engine.contract.plan import role_family
from ace_gui.gui.theme import (
    DARK,
    LIGHT,
    Face,
    apply_theme,
    current_theme,
    face,
    icon,
    palette_of,
    repetition,
    set_scheme,
)
from ace_gui.gui.theme.drawn_controls import paint_button
from ace_gui.gui.theme.tokens import MONO, SANS
from ace_gui.paths import resource_path
from tests.helpers.contrast import contrast, linear

# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB
DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
both_themes = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])


@pytest.fixture
def scheme(qapp):
    yield set_scheme
    set_scheme("system")


INKS = ("text", "text2", "text3", "accent", "ok", "warn", "bad")
WRITTEN = (
    *product(INKS, ("canvas", "card", "sunk")),
    *product(("on_accent",), ("accent", "accent_hover")),
    *product(("text", "text2", "accent_on_tint"), ("tint",)),
    *product(("text", "text3"), ("field",)),
    *product(("toast_text", "toast_action", "toast_warn", "toast_bad"), ("toast",)),
    *(("text2", "hover"), ("text", "raised"), ("warn", "warn_ground")),
)


@both_themes
@pytest.mark.parametrize(("ink", "ground"), WRITTEN)
def test_text_is_readable(theme, ink, ground):
    assert contrast(getattr(theme, ink), getattr(theme, ground)) >= 4.5


@both_themes
@pytest.mark.parametrize("ground", ["canvas", "card", "sunk"])
def test_marks_stand_out(theme, ground):
    marks = (theme.control, theme.axis, theme.merged, theme.base, *theme.expert_colours)
    for mark in marks:
        assert contrast(mark, getattr(theme, ground)) >= 3, mark
    for ink in theme.expert_inks:
        assert contrast(ink, theme.card) >= 4.5, ink


@both_themes
def test_the_palette_writes_readably(theme):
    palette = palette_of(theme)
    role = QPalette.ColorRole
    for group in (QPalette.ColorGroup.Active, QPalette.ColorGroup.Disabled):
        for ink, ground in (
            (role.HighlightedText, role.Highlight),
            (role.Text, role.Base),
            (role.WindowText, role.Window),
            (role.PlaceholderText, role.Base),
            (role.ToolTipText, role.ToolTipBase),
        ):
            pair = palette.color(group, ink).name(), palette.color(group, ground).name()
            assert contrast(*pair) >= 4.5, (group, ink)


def oklab(rgb: np.ndarray) -> np.ndarray:
    """OKLab of linear RGB (Ottosson 2020)."""
    lms = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    to_lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return to_lab @ np.cbrt(lms @ np.clip(rgb, 0, 1))


@both_themes
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_experts_are_told_apart(theme, deficiency):
    seen = [oklab(DEFICIENCIES[deficiency] @ linear(colour)) for colour in theme.expert_colours]
    closest = min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2))
    assert closest >= 0.09


@both_themes
def test_colours_have_names(theme):
    count = len(theme.expert_colours)
    assert theme.colour("expert 2") == theme.colour(f"expert {count + 2}")
    assert theme.colour("expert 2") == theme.expert_colours[2]
    assert (repetition("expert 2"), repetition(f"expert {count + 2}")) == (0, 1)
    assert theme.colour("accent 32") == theme.accent + "32"
    assert theme.colour("#123456") == "#123456"


def test_an_experts_colour_as_text_has_its_place():
    assert LIGHT.ink_of(LIGHT.expert_colours[1]) == LIGHT.expert_inks[1]
    assert LIGHT.ink_of(LIGHT.merged) == LIGHT.merged


def test_there_is_no_style_sheet():
    package = resource_path("icons").parents[1] / "ace_gui"
    places = [
        f"{path.name}:{number}"
        for path in package.rglob("*.py")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if "setStyleSheet" in line
    ]
    assert not places


@pytest.mark.parametrize("role", Face)
def test_the_bundled_fonts_have_every_sign_the_window_writes(qapp, role):
    signs = "γτεΣΔσλ×·→⁻⁴₀₁≤≥–…∞√‖"
    metrics = QFontMetrics(face(role))
    assert QFontInfo(face(role)).family() in (SANS, MONO)
    assert not [sign for sign in signs if not metrics.inFontUcs4(ord(sign))]


@pytest.mark.parametrize("role", Face)
def test_digits_are_of_one_width(qapp, role):
    metrics = QFontMetricsF(face(role))
    widths = [metrics.horizontalAdvance(digit * 8) for digit in "0123456789"]
    assert max(widths) - min(widths) < 0.5  # of eight digits: hinting rounds to 64ths of a pixel


@pytest.mark.parametrize(
    ("role", "family"),
    [
        ("query", "attention"),
        ("query+key+value", "attention"),
        ("attention output", "attention"),
        ("MLP gate", "MLP"),
        ("position embedding", "embedding"),
        ("vocabulary head", "embedding"),
        ("norm", "norm"),
        ("convolution", "other"),
        ("head", "other"),
    ],
)
def test_roles_fall_into_families(role, family):
    assert role_family(role) == family


def test_scheme_sets_palette_and_tells(qtbot, qapp, scheme):
    scheme("light")
    watcher = apply_theme(qapp)
    assert apply_theme(qapp) is watcher
    with qtbot.waitSignal(watcher.changed) as reported:
        scheme("dark")
    assert reported.args == [DARK]
    assert current_theme() is DARK
    with qtbot.assertNotEmitted(watcher.changed):
        scheme("dark")
    assert qapp.palette().color(QPalette.ColorRole.Window).name() == DARK.canvas
    scheme("light")
    assert qapp.palette().color(QPalette.ColorRole.Window).name() == LIGHT.canvas


def test_system_scheme_needs_no_override(qapp, scheme):
    scheme("dark")
    scheme("system")
    assert current_theme() in (LIGHT, DARK)
    assert qapp.property("colourScheme") == "system"


NAMES = sorted(
    path.stem for path in resource_path("icons").glob("*.svg") if not path.stem.startswith("app")
)


def test_the_icons_the_window_uses_are_there():
    package = resource_path("icons").parents[1] / "ace_gui"
    source = "".join(path.read_text("utf-8") for path in (package / "gui").rglob("*.py"))
    assert set(re.findall(r'\bicon\("(\w+)"', source)) <= {*NAMES, "app"}


def inks_of(pictured: QIcon, mode: QIcon.Mode = QIcon.Mode.Normal) -> set[str]:
    """The colours that cover whole pixels."""
    image = pictured.pixmap(QSize(64, 64), 1.0, mode).toImage()
    points = ((x, y) for x in range(image.width()) for y in range(image.height()))
    solid = (image.pixelColor(x, y) for x, y in points)
    return {colour.name() for colour in solid if colour.alpha() == 255}


@pytest.mark.parametrize("name", NAMES)
def test_one_icon_is_painted_in_the_colours_of_each_scheme(qapp, scheme, name):
    pictured = icon(name)
    inks = {}
    for which in ("light", "dark"):
        scheme(which)
        inks[which] = inks_of(pictured)
        assert inks[which], "nothing is drawn"
        assert all(contrast(colour, current_theme().canvas) >= 3 for colour in inks[which])
    assert inks["light"].isdisjoint(inks["dark"])


def test_icons_take_the_colour_of_a_token_and_fade_when_disabled(qapp, scheme):
    scheme("light")
    assert inks_of(icon("add", "on_accent")) == {LIGHT.on_accent}
    assert inks_of(icon("add"), QIcon.Mode.Disabled) == {LIGHT.text3}
    assert inks_of(QIcon(icon("add"))) == {LIGHT.text2}


def test_an_icon_that_does_not_exist_is_an_error(qapp):
    with pytest.raises(FileNotFoundError):
        icon("no-such-drawing")


def test_titles_of_low_rows_are_not_cut(qtbot):
    table = QTableWidget(1, 1)
    qtbot.addWidget(table)
    table.setVerticalHeaderItem(0, QTableWidgetItem("regime γ"))
    seen = []
    for height in (18, 40):
        table.verticalHeader().setMinimumSectionSize(1)
        table.verticalHeader().resizeSection(0, height)
        table.show()
        image = table.verticalHeader().grab().toImage()
        ground = image.pixelColor(0, 0)
        columns = range(image.width())
        rows = range(height)
        inked = [y for y in rows if any(image.pixelColor(x, y) != ground for x in columns)]
        seen.append(len(inked))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_on_a_tool_button_is_readable_under_the_pointer(qtbot, scheme):
    set_scheme(scheme)
    button = QToolButton(text="Details", autoRaise=True)
    qtbot.addWidget(button)
    option = QStyleOptionToolButton()
    button.initStyleOption(option)
    option.state |= QStyle.StateFlag.State_MouseOver
    picture = QPixmap(80, 30)
    painter = QPainter(picture)
    paint_button(painter, option, button)
    painter.end()
    theme = current_theme()
    assert contrast(option.palette.buttonText().color().name(), theme.hover) >= 4.5
