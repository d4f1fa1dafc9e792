"""The architecture matrix: what the catalogue asserts, one line a model, as Markdown.

``python -m tests.architecture``; with ``--sweep`` the count over every model class of
transformers instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from ace_gui.architecture.describe import describe
from ace_gui.architecture.traits import Architecture, Role, TensorTraits
from tests.architecture.catalogue import TABLES, differences, fusions, saved_shapes
from tests.architecture.published import CONFIGS
from tests.architecture.sweep import summary, sweep
from tests.architecture.test_names import (
    OPEN_CLIP,
    OPEN_CLIP_TABLE,
    PLAIN,
    PLAIN_TABLE,
    TIMM,
    TIMM_TABLE,
)

HEADINGS = (
    "model",
    "described by",
    "tensors",
    "matrices",
    "stored inputs × outputs",
    "stacks",
    "fused, can be split",
    "tied",
    "in heads",
    "as in the table",
)
_HEADS = (Role.HEAD, Role.VOCABULARY_HEAD)


def main() -> None:
    if "--sweep" in sys.argv[1:]:
        sys.stdout.write(summary(sweep()) + "\n")
        return
    lines = [_line(HEADINGS), _line(["---"] * len(HEADINGS))]
    for model, config in CONFIGS.items():
        lines.append(_of(model, describe(config, saved_shapes(config)), TABLES[model]))
    for model, shapes, table in (
        ("open_clip", OPEN_CLIP, OPEN_CLIP_TABLE),
        ("timm ViT", TIMM, TIMM_TABLE),
        ("plain torch modules", PLAIN, PLAIN_TABLE),
    ):
        lines.append(_of(model, describe(None, shapes), table))
    sys.stdout.write("\n".join(lines) + "\n")


def _of(model: str, found: Architecture, table: Mapping[str, str]) -> str:
    every = found.traits.values()
    layouts = [f"`{name.rpartition('N.')[2]}`: {shares}" for name, shares in fusions(found).items()]
    return _line(
        [
            model,
            found.model_class or "names alone",
            str(len(every)),
            _count(every, lambda each: each.matrix),
            _count(every, lambda each: each.transposed),
            _count(every, lambda each: each.stack),
            "; ".join(dict.fromkeys(layouts)),
            _count(every, lambda each: each.tied_to is not None),
            _count(every, lambda each: each.role in _HEADS),
            "no" if differences(found, table) else "yes",
        ]
    )


def _count(every: Iterable[TensorTraits], holds: Callable[[TensorTraits], bool]) -> str:
    return str(sum(map(holds, every)) or "")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
