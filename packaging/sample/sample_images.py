"""Draw the images of the sample project's tasks, harder as their difficulty rises from 0 to 1.

Every drawer takes a random generator, what to draw, and N difficulties, and returns N × H × W
brightness, about 0 to 1 before clipping. Nothing here is copied from any data set except the
handwritten scans that are passed in.

Shape letters: N images, H = W = 16 pixels, K = 4 end points of a glyph's strokes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Draw = Callable[[np.random.Generator, Labels, Array], Array]

SIDE = 16
AXIS = (np.arange(SIDE) + 0.5) / SIDE * 2 - 1
ROW_HW, COLUMN_HW = np.meshgrid(AXIS, AXIS, indexing="ij")
GLYPH_CORNERS = np.random.default_rng(7).uniform(-0.8, 0.8, (8, 4, 2))  # labels × K × (x, y)


def column(values: Array) -> Array:
    """Return N values as N × 1 × 1, to go with N × H × W images."""
    return np.asarray(values)[:, None, None]


def ink(distance: Array, blur: float = 0.12) -> Array:
    """Return 1 inside an outline, 0 outside, from signed distances in half image widths."""
    return np.clip(0.5 - distance / blur, 0.0, 1.0)


def posed_grid(
    rng: np.random.Generator, turn: Array, shift: float, scale: Array
) -> tuple[Array, Array]:
    """Return x, y (N × H × W) of every pixel in figures turned by up to ``turn`` radians."""
    n = len(turn)
    angle = column(rng.uniform(-1, 1, n) * turn)
    x = COLUMN_HW - column(rng.uniform(-shift, shift, n))
    y = ROW_HW - column(rng.uniform(-shift, shift, n))
    cos = np.cos(angle) / column(scale)
    sin = np.sin(angle) / column(scale)
    return cos * x + sin * y, cos * y - sin * x


def draw_shapes(rng: np.random.Generator, labels: Labels, difficulty: Array) -> Array:
    """Draw disc, square, triangle, cross, ring or frame; hard: turned, salt and pepper."""
    n = len(labels)
    x, y = posed_grid(rng, 0.2 + 0.6 * difficulty, 0.2, rng.uniform(0.65, 0.9, n))
    radius = np.hypot(x, y)
    box = np.maximum(abs(x), abs(y))
    outlines = np.stack(
        [
            radius - 0.9,
            box - 0.75,
            np.maximum.reduce([y, 0.866 * x - 0.5 * y, -0.866 * x - 0.5 * y]) - 0.5,
            np.minimum(
                np.maximum(abs(x) - 0.95, abs(y) - 0.3), np.maximum(abs(x) - 0.3, abs(y) - 0.95)
            ),
            abs(radius - 0.72) - 0.2,
            abs(box - 0.65) - 0.18,
        ]
    )
    image = 0.1 + 0.8 * ink(outlines[labels, np.arange(n)])
    speck = rng.random(image.shape)
    share = 0.1 * column(difficulty)
    return np.where(speck < share, 0.0, np.where(speck > 1 - share, 1.0, image))


def draw_textures(rng: np.random.Generator, labels: Labels, difficulty: Array) -> Array:
    """Draw stripes in four directions, checks or circles; hard: faint and noisy."""
    n = len(labels)
    x, y = posed_grid(rng, 0.1 + 0.25 * difficulty, 1.0, np.ones(n))
    wave = column(rng.uniform(2.2, 3.6, n)) * np.pi / 1.4
    down = np.sin(wave * y)
    across = np.sin(wave * x)
    diagonals = [np.sin(wave * (x + y) / math.sqrt(2)), np.sin(wave * (x - y) / math.sqrt(2))]
    circles = np.sin(wave * np.hypot(x, y))
    waves = np.stack([down, across, *diagonals, 1.6 * down * across, circles])
    image = 0.5 * np.clip(waves[labels, np.arange(n)], -1, 1)
    noise = rng.normal(size=image.shape) * (0.03 + 0.12 * column(difficulty))
    return 0.5 + image * (0.9 - 0.6 * column(difficulty)) + noise


def stroke_distance(x: Array, y: Array, start_N2: Array, end_N2: Array) -> Array:
    """Return the distance (N × H × W) of every pixel to one straight stroke an image."""
    along_N2 = end_N2 - start_N2
    from_x = x - column(start_N2[:, 0])
    from_y = y - column(start_N2[:, 1])
    dx = column(along_N2[:, 0])
    dy = column(along_N2[:, 1])
    share = np.clip((from_x * dx + from_y * dy) / (dx**2 + dy**2 + 1e-9), 0, 1)
    return np.hypot(from_x - share * dx, from_y - share * dy)


def draw_glyphs(rng: np.random.Generator, labels: Labels, difficulty: Array) -> Array:
    """Draw one of eight signs of three strokes; hard: shaky, faint, on ruled paper."""
    n = len(labels)
    shake = rng.normal(size=(n, 4, 2)) * column(0.06 + 0.14 * difficulty)
    corners_NK2 = GLYPH_CORNERS[labels] + shake
    x, y = posed_grid(rng, 0.15 + 0.2 * difficulty, 0.12, rng.uniform(0.8, 1.05, n))
    strokes = [stroke_distance(x, y, corners_NK2[:, k], corners_NK2[:, k + 1]) for k in range(3)]
    image = ink(np.minimum.reduce(strokes) - 0.1, blur=0.15) * (0.9 - 0.3 * column(difficulty))
    first_line = rng.integers(0, 4, (n, 1, 1))
    ruled = (np.arange(SIDE)[:, None] + first_line) % 4 == 0
    noise = 0.05 * rng.normal(size=image.shape)
    return np.maximum(image, 0.7 * ruled * column(difficulty)) + noise


def draw_counts(rng: np.random.Generator, labels: Labels, difficulty: Array) -> Array:
    """Draw one to five dots; hard: of other sizes, some square, in fog."""
    n = len(labels)
    cells = np.argsort(rng.random((n, 16)), axis=1)
    image = np.zeros((n, SIDE, SIDE))
    for k in range(5):
        centre_x = (cells[:, k] % 4 + 0.5) / 2 - 1 + rng.uniform(-0.05, 0.05, n)
        centre_y = (cells[:, k] // 4 + 0.5) / 2 - 1 + rng.uniform(-0.05, 0.05, n)
        dx = abs(COLUMN_HW - column(centre_x))
        dy = abs(ROW_HW - column(centre_y))
        square = column(rng.random(n) < 0.5 * difficulty)
        distance = np.where(square, np.maximum(dx, dy), np.hypot(dx, dy))
        dot = ink(distance - column(0.14 + 0.07 * difficulty * rng.uniform(-1, 1, n)))
        image = np.where(column(k <= labels), np.maximum(image, dot), image)
    fog = 0.3 * column(difficulty)
    noise = rng.normal(size=image.shape) * (0.02 + 0.07 * column(difficulty))
    return image * (0.8 - 0.4 * column(difficulty)) + 0.1 + fog + noise


def draw_digits(rng: np.random.Generator, scans_N88: Array, difficulty: Array) -> Array:
    """Resample 8 × 8 scans on the sample's pixels; hard: turned, negative, unevenly lit."""
    n = len(scans_N88)
    x, y = posed_grid(rng, 0.1 + 0.35 * difficulty, 0.12, rng.uniform(0.75, 1.05, n))
    left = np.clip((x + 1) * 4 - 0.5, 0, 6.999)
    top = np.clip((y + 1) * 4 - 0.5, 0, 6.999)
    i = left.astype(int)
    j = top.astype(int)
    which = np.arange(n)[:, None, None]
    right_share = left - i
    low_share = top - j
    upper = scans_N88[which, j, i] * (1 - right_share) + scans_N88[which, j, i + 1] * right_share
    lower = (
        scans_N88[which, j + 1, i] * (1 - right_share)
        + scans_N88[which, j + 1, i + 1] * right_share
    )
    image = upper * (1 - low_share) + lower * low_share
    image = 0.1 + 0.8 * image * ((abs(x) < 1) & (abs(y) < 1))
    negative = rng.random(n) < 2 * difficulty - 0.6
    image = np.where(column(negative), 1 - image, image)
    slope_x, slope_y = rng.uniform(-1, 1, (2, n, 1, 1))
    light = 0.2 * column(difficulty) * (COLUMN_HW * slope_x + ROW_HW * slope_y)
    return image + light + 0.05 * rng.normal(size=image.shape)


DRAWERS: dict[str, Draw] = {
    "shapes": draw_shapes,
    "textures": draw_textures,
    "glyphs": draw_glyphs,
    "counts": draw_counts,
}
