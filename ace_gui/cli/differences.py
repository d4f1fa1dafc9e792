"""``ace-gui diff``: how far one model is from another, by tensor, block and role."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from ace_gui.cli.console import Outputs, Terminal, shown, table
from ace_gui.engine.contract.findings import GroupChange, ModelDiff, TensorChange
from ace_gui.engine.inspecting.model_diff import diff_models as differences
from ace_gui.engine.report.page import picture
from ace_gui.engine.report.report_plots import change_plot
from ace_gui.formatting import counted, shape_text

if TYPE_CHECKING:
    from ace_gui.cli.commands import Diff

PICTURE_MARK: Final = b"<svg"
WIDE: Final = 120
"""Columns of a terminal that has room for all figures."""


def diff_models(given: Diff) -> None:
    """Print and write the changes. Raises the errors of opening and reading the models."""
    terminal = Terminal.of(given)
    models = (Path(given.first), Path(given.second))
    outputs = Outputs.of(given, models, "tensors", picture=PICTURE_MARK)
    events = differences(given.first, given.second, convert=given.convert)
    found = terminal.result(events, ModelDiff)
    content = {
        "tensors": [_record(each) for each in found.tensors],
        "blocks": [_record(each) for each in found.by_block],
        "roles": [_record(each) for each in found.by_role],
        "missing": found.missing,
        "extra": found.extra,
        "other_shape": found.other_shape,
    }
    outputs.write_json(given.json, content)
    outputs.write(given.picture, picture(change_plot(found)) + "\n")
    _print(found, terminal)


def _record(each: TensorChange | GroupChange) -> dict[str, Any]:
    values = asdict(each) | {"relative": each.relative}
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in values.items()
    }


def _print(found: ModelDiff, terminal: Terminal) -> None:
    console = terminal.results
    more = ("change", "shape") if console.width >= WIDE else ()
    lines = table("relative", *more, "role", "tensor", left=["role"], folded=["tensor"])
    for each in found.tensors:
        formats = "" if each.dtype == each.second_dtype else f" ({each.dtype}, {each.second_dtype})"
        name = shown(f"{each.name}{formats}")
        figures = (_number(each.change), shape_text(each.shape)) if more else ()
        lines.add_row(_ratio_text(each), *figures, each.role, name)
    console.print(lines)
    for heading, groups in (("block", found.by_block), ("role", found.by_role)):
        console.print("", _groups(heading, groups))
    total = found.total
    same = sum(not each.change for each in found.tensors)
    console.print(
        f"\nIn all {_ratio_text(total)} of the first model's norm; "
        f"{counted(same, 'tensor is', 'tensors are')} equal."
    )
    for other, first, second in found.other_shape:
        line = f"Other shape: {other}: {shape_text(first)} and {shape_text(second)}"
        console.print(shown(line, style="yellow"), soft_wrap=True)
    for title, names in (("first", found.missing), ("second", found.extra)):
        for own in names:
            console.print(shown(f"Only in the {title}: {own}", style="yellow"), soft_wrap=True)


def _groups(heading: str, groups: Sequence[GroupChange]) -> Table:
    lines = table("relative", "change", "tensors", heading, left=[heading])
    for each in groups:
        lines.add_row(_ratio_text(each), _number(each.change), str(each.tensors), each.name)
    return lines


def _ratio_text(each: TensorChange | GroupChange) -> str:
    return "–" if each.relative is None else f"{each.relative:.3g}"


def _number(value: float) -> str:
    return "not finite" if math.isnan(value) else f"{value:.4g}"
