"""Colours hold their contrasts, schemes switch, icons exist in both."""

from __future__ import annotations

import os
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtGui import QIcon, QPalette
from PySide6.QtWidgets import QApplication

from ace_gui.engine.contract.role_families import ROLE_FAMILIES, role_family
from ace_gui.gui.theme import (
    DARK,
    LIGHT,
    Theme,
    apply_theme,
    current_theme,
    icon,
    palette_of,
    set_scheme,
)
from ace_gui.paths import resource_path

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
both = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])


def linear(colour: str) -> np.ndarray:
    """Linear RGB of "#rrggbb"."""
    encoded = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2.2 contrast ratio."""
    luminances = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other))
    return (luminances[1] + 0.05) / (luminances[0] + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* (D65) of linear RGB."""
    to_xyz = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    xyz = to_xyz @ np.clip(rgb, 0, 1) / [0.95047, 1.0, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def closest(colours: list[str], deficiency: str) -> float:
    """The smallest CIE76 difference between two of ``colours`` as seen with ``deficiency``."""
    seen = [lab(DEFICIENCIES[deficiency] @ linear(colour)) for colour in colours]
    return min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2))


@pytest.fixture
def scheme(qapp):
    yield set_scheme
    set_scheme("system")


def test_contrast_of_black_on_white_is_the_standards():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@both
@pytest.mark.parametrize("ink", ["text", "muted", "accent", "warning", "error"])
@pytest.mark.parametrize("ground", ["window", "base", "button"])
def test_text_is_readable(theme: Theme, ink: str, ground: str):
    assert contrast(getattr(theme, ink), getattr(theme, ground)) >= 4.5


@both
def test_selected_text_is_readable(theme: Theme):
    palette = palette_of(theme)
    role = QPalette.ColorRole
    ink, ground = palette.color(role.HighlightedText), palette.color(role.Highlight)
    assert contrast(ink.name(), ground.name()) >= 4.5


@both
def test_graphics_stand_out_from_the_plot(theme: Theme):
    for colour in (*theme.expert_colours, *theme.role_colours.values()):
        assert contrast(colour, theme.base) >= 3, colour


@both
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_experts_are_told_apart(theme: Theme, deficiency: str):
    assert len(theme.expert_colours) >= 8
    # the merge is drawn in the text's colour among them
    assert closest([*theme.expert_colours, theme.text], deficiency) >= 15


@both
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_roles_are_told_apart(theme: Theme, deficiency: str):
    assert closest(list(theme.role_colours.values()), deficiency) >= 18


@both
def test_every_colour_is_a_full_hex_triplet(theme: Theme):
    colours = [value for value in vars(theme).values() if isinstance(value, str)]
    for colour in (*colours, *theme.expert_colours, *theme.role_colours.values()):
        assert re.fullmatch(r"#[0-9a-f]{6}", colour)


def test_both_themes_colour_the_same_things():
    assert len(LIGHT.expert_colours) == len(DARK.expert_colours)
    assert tuple(LIGHT.role_colours) == tuple(DARK.role_colours) == ROLE_FAMILIES


def test_expert_colours_repeat_beyond_the_palette():
    count = len(LIGHT.expert_colours)
    assert LIGHT.expert_colour(count + 2) == LIGHT.expert_colours[2]


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
def test_roles_fall_into_families(role: str, family: str):
    assert role_family(role) == family


def test_scheme_sets_palette_and_tells(qtbot, qapp: QApplication, scheme):
    scheme("light")
    watcher = apply_theme(qapp)
    assert apply_theme(qapp) is watcher
    with qtbot.waitSignal(watcher.changed) as told:
        scheme("dark")
    assert told.args == [DARK]
    assert current_theme() is DARK
    assert qapp.palette().color(QPalette.ColorRole.Window).name() == DARK.window
    scheme("light")
    assert qapp.palette().color(QPalette.ColorRole.Window).name() == LIGHT.window


def test_same_scheme_again_says_nothing(qtbot, qapp: QApplication, scheme):
    scheme("dark")
    watcher = apply_theme(qapp)
    with qtbot.assertNotEmitted(watcher.changed):
        scheme("dark")


def test_system_scheme_needs_no_override(qapp: QApplication, scheme):
    scheme("dark")
    scheme("system")
    assert current_theme() in (LIGHT, DARK)
    assert qapp.property("colourScheme") == "system"


NAMES = sorted(
    path.stem for path in resource_path("icons").glob("*.svg") if not path.stem.startswith("app")
)


def test_the_icons_the_window_uses_are_there():
    wanted = {"open", "add", "merge", "cancel", "export", "warning", "error", "info"}
    assert wanted | {"heterogeneous", "homogeneous"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_icons_are_tinted_for_each_scheme(qapp, scheme, name: str):
    inks = {}
    for which in ("light", "dark"):
        scheme(which)
        image = icon(name).pixmap(32, 32).toImage()
        solid = {
            image.pixelColor(x, y).name()
            for x in range(image.width())
            for y in range(image.height())
            if image.pixelColor(x, y).alpha() == 255
        }
        assert solid, "nothing is drawn"
        inks[which] = solid
        assert all(contrast(colour, current_theme().button) >= 3 for colour in solid)
    assert inks["light"].isdisjoint(inks["dark"])


def test_icons_are_cached_by_scheme_and_greyed_when_disabled(qapp, scheme):
    scheme("light")
    first = icon("open")
    assert icon("open") is first
    normal = first.pixmap(24, 24).toImage()
    assert normal != first.pixmap(24, 24, QIcon.Mode.Disabled).toImage()
    scheme("dark")
    assert icon("open") is not first


def test_an_icon_that_does_not_exist_is_an_error(qapp):
    with pytest.raises(FileNotFoundError):
        icon("no-such-drawing")


def test_resources_are_found():
    assert resource_path("icons/app.svg").is_file()
    assert isinstance(resource_path("icons"), Path)
