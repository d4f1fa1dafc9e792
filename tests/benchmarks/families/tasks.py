"""Tasks that are made from a seed: images and token sequences with labels. Nothing is downloaded.

N examples. Images are N × 1 × 16 × 16 in about [−1, 1]; sequences N × 16 tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

SIZE = 16
LENGTH = 16
VOCABULARY = 48


@dataclass(frozen=True)
class Task:
    """``make(n, generator)`` gives inputs and labels; ``classes`` 0: predict the next token."""

    name: str
    classes: int
    make: Callable[[int, torch.Generator], tuple[Tensor, Tensor]]


def _noise(n: int, g: torch.Generator, share: float = 0.35) -> Tensor:
    return share * torch.randn(n, 1, SIZE, SIZE, generator=g)


def _grid() -> tuple[Tensor, Tensor]:
    line = torch.linspace(-1, 1, SIZE)
    y, x = torch.meshgrid(line, line, indexing="ij")
    return x, y


def gratings(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Which of six orientations the stripes have."""
    x, y = _grid()
    label = torch.randint(6, (n,), generator=g)
    angle = label * torch.pi / 6
    phase = 2 * torch.pi * torch.rand(n, generator=g)
    along = x[None] * angle.cos()[:, None, None] + y[None] * angle.sin()[:, None, None]
    waves = torch.sin(7 * along + phase[:, None, None])[:, None]
    return 0.6 * waves + _noise(n, g, 0.6), label


def blobs(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """How many bright spots there are, one to five."""
    x, y = _grid()
    label = torch.randint(5, (n,), generator=g)
    index = 1.6 * torch.rand(n, 5, 2, generator=g) - 0.8
    spots = torch.exp(
        -(((x - index[..., 0, None, None]) ** 2) + (y - index[..., 1, None, None]) ** 2) * 60
    )
    shown = torch.arange(5)[None] <= label[:, None]
    return 1.5 * (spots * shown[..., None, None]).amax(dim=1)[:, None] + _noise(n, g, 0.2), label


def quadrants(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Which quadrant is a little brighter."""
    label = torch.randint(4, (n,), generator=g)
    images = _noise(n, g, 0.8)
    half = SIZE // 2
    for k in range(4):
        rows, columns = (
            slice((k // 2) * half, (k // 2 + 1) * half),
            slice((k % 2) * half, (k % 2 + 1) * half),
        )
        images[label == k, :, rows, columns] += 0.35
    return images, label


def shapes(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Square, disc, cross or frame, anywhere."""
    x, y = _grid()
    label = torch.randint(4, (n,), generator=g)
    index = (torch.rand(n, 2, generator=g) - 0.5)[..., None, None]
    dx, dy = (x - index[:, 0]).abs(), (y - index[:, 1]).abs()
    square = (dx < 0.4) & (dy < 0.4)
    kinds = torch.stack(
        [
            square,
            dx**2 + dy**2 < 0.2,
            ((dx < 0.14) & (dy < 0.5)) | ((dy < 0.14) & (dx < 0.5)),
            square & ~((dx < 0.22) & (dy < 0.22)),
        ],
        dim=1,
    )
    return kinds[torch.arange(n), label][:, None].float() + _noise(n, g, 0.45), label


def checks(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """The period of a checkerboard."""
    label = torch.randint(4, (n,), generator=g)
    period = torch.tensor([2, 3, 4, 6])[label][:, None, None]
    shift = torch.randint(6, (n, 2), generator=g)
    line = torch.arange(SIZE)
    rows = ((line + shift[:, :1])[:, :, None] // period) % 2
    columns = ((line + shift[:, 1:])[:, None, :] // period) % 2
    return (0.9 * ((rows + columns) % 2) - 0.45)[:, None].float() + _noise(n, g, 0.6), label


def ramps(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """In which of eight directions the brightness rises."""
    x, y = _grid()
    label = torch.randint(8, (n,), generator=g)
    angle = label * torch.pi / 4
    rise = x[None] * angle.cos()[:, None, None] + y[None] * angle.sin()[:, None, None]
    return 0.5 * rise[:, None] + _noise(n, g, 0.8), label


def bars(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Where a vertical bar stands, in five places."""
    x, _ = _grid()
    label = torch.randint(5, (n,), generator=g)
    centre = (-0.8 + 0.4 * label + 0.12 * torch.randn(n, generator=g))[:, None, None]
    return ((x - centre).abs() < 0.12)[:, None].float() + _noise(n, g, 0.6), label


def mirrored(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Whether the right half mirrors the left, repeats it, or neither."""
    label = torch.randint(3, (n,), generator=g)
    images = torch.randn(n, 1, SIZE, SIZE, generator=g)
    half = SIZE // 2
    left = images[..., :half].clone()
    images[label == 0, ..., half:] = left[label == 0].flip(-1)
    images[label == 1, ..., half:] = left[label == 1]
    return 0.8 * images + _noise(n, g, 0.2), label


def glyphs(seed: int) -> Callable[[int, torch.Generator], tuple[Tensor, Tensor]]:
    """Eight signs of 6 × 6 dots, drawn once from a seed, anywhere in the picture."""
    signs = torch.randint(2, (8, 6, 6), generator=torch.Generator().manual_seed(seed)).float()

    def make(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
        label = torch.randint(8, (n,), generator=g)
        images = _noise(n, g, 0.4)
        index = torch.randint(2, SIZE - 8, (n, 2), generator=g)
        for row, (k, (top, left)) in enumerate(zip(label.tolist(), index.tolist(), strict=True)):
            images[row, 0, top : top + 6, left : left + 6] += signs[k]
        return images, label

    return make


IMAGES = (
    Task("gratings", 6, gratings),
    Task("shapes", 4, shapes),
    Task("blobs", 5, blobs),
    Task("checks", 4, checks),
    Task("glyphs", 8, glyphs(1)),
    Task("other glyphs", 8, glyphs(2)),
    Task("ramps", 8, ramps),
    Task("bars", 5, bars),
    Task("quadrants", 4, quadrants),
    Task("mirrored", 3, mirrored),
)


def _tokens(n: int, g: torch.Generator) -> Tensor:
    """Token 0 begins a sequence; the rest are 2 … VOCABULARY − 1."""
    tokens = torch.randint(2, VOCABULARY, (n, LENGTH), generator=g)
    tokens[:, 0] = 0
    return tokens


def majority(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Which quarter of the vocabulary most tokens are of."""
    label = torch.randint(4, (n,), generator=g)
    tokens = _tokens(n, g)
    width = (VOCABULARY - 2) // 4
    own = 2 + label[:, None] * width + torch.randint(width, (n, LENGTH), generator=g)
    swap = torch.rand(n, LENGTH, generator=g) < 0.3
    swap[:, 0] = False
    return torch.where(swap, own, tokens), label


def bigram(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Which of four pairs of tokens stands somewhere."""
    label = torch.randint(4, (n,), generator=g)
    tokens, index = _tokens(n, g), torch.randint(1, LENGTH - 1, (n,), generator=g)
    pairs = torch.tensor([[5, 9], [9, 5], [20, 31], [31, 20]])
    rows = torch.arange(n)
    tokens[rows, index], tokens[rows, index + 1] = pairs[label, 0], pairs[label, 1]
    return tokens, label


def copied(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Whether the last token is the first, the second, the third, or another."""
    label = torch.randint(4, (n,), generator=g)
    tokens = _tokens(n, g)
    for k in range(3):
        tokens[label == k, -1] = tokens[label == k, 1 + k]
    return tokens, label


def counted(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """How often token 7 stands, none to four times."""
    label = torch.randint(5, (n,), generator=g)
    tokens = _tokens(n, g)
    tokens[tokens == 7] = 8
    order = torch.rand(n, LENGTH - 1, generator=g).argsort(dim=1)
    tokens[:, 1:][order < label[:, None]] = 7
    return tokens, label


def larger(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """Whether the largest token is in the first, the second or the last third."""
    tokens = _tokens(n, g)
    return tokens, ((tokens[:, 1:].argmax(dim=1)) * 3 // (LENGTH - 1)).clamp(max=2)


TEXTS = (
    Task("majority", 4, majority),
    Task("bigram", 4, bigram),
    Task("copied", 4, copied),
    Task("counted", 5, counted),
    Task("largest third", 3, larger),
)


def language(seed: int) -> Callable[[int, torch.Generator], tuple[Tensor, Tensor]]:
    """A Markov chain of its own over the tokens; the label of a token is the next one."""
    rng = torch.Generator().manual_seed(1000 + seed)
    logits = 2.5 * torch.randn(VOCABULARY, VOCABULARY, generator=rng)
    common = torch.Generator().manual_seed(999)
    shared = 1.0 * torch.randn(VOCABULARY, VOCABULARY, generator=common)
    chances = torch.softmax(shared + (logits if seed >= 0 else 0), dim=1)

    def make(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
        tokens = torch.zeros(n, LENGTH + 1, dtype=torch.long)
        tokens[:, 0] = torch.randint(VOCABULARY, (n,), generator=g)
        for index in range(LENGTH):
            tokens[:, index + 1] = torch.multinomial(chances[tokens[:, index]], 1, generator=g)[
                :, 0
            ]
        return tokens[:, :-1], tokens[:, 1:]

    return make


LANGUAGES = tuple(Task(f"language {k + 1}", 0, language(k)) for k in range(5))
COMMON_LANGUAGE = Task("common language", 0, language(-1))
