"""``ace-gui verify``: what a merged folder contains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ace_gui.cli.console import Outputs, Terminal, safe_text, table
from ace_gui.engine.contract.contents import ModelContents, TensorContents, share_text
from ace_gui.engine.inspecting.model_contents import model_contents
from ace_gui.formatting import counted, number_text

if TYPE_CHECKING:
    from ace_gui.cli.commands import Verify

LINES: Final = 12
"""Tensors in the table, which fits on a screen; JSON has all."""


def verify_model(command: Verify) -> None:
    """Print and write what the merged model contains. Raises the errors of reading the models."""
    terminal = Terminal.of(command)
    outputs = Outputs.of(command, map(Path, command.models), "experts")
    base, *experts, merged = command.models
    events = model_contents(base, experts, merged, convert=command.convert)
    contents = terminal.result(events, ModelContents)
    outputs.write_json(command.json, contents.record())
    _print(contents, terminal)


def _print(contents: ModelContents, terminal: Terminal) -> None:
    console = terminal.results
    for sentence in contents.sentences:
        console.print(safe_text(sentence), soft_wrap=True)
    console.print()
    overall = table("share", "expert", folded=["expert"])
    for name, value in zip(contents.experts, contents.coefficients, strict=True):
        overall.add_row(share_text(value), safe_text(name))
    overall.add_row(share_text(contents.left_over), "left over")
    console.print(overall)
    listed = [layer for layer in contents.layers if _is_listed(layer, contents)]
    if not listed:
        return
    listed.sort(key=lambda layer: -layer.left_over)
    lines = table("left over", *contents.experts, "tensor", folded=["tensor"])
    for layer in listed[:LINES]:
        shares = [number_text(value) for value in layer.coefficients]
        lines.add_row(share_text(layer.left_over), *shares, safe_text(layer.name))
    console.print("", lines)
    if len(listed) > LINES:
        more = counted(len(listed) - LINES, "more tensor", "more tensors")
        console.print(f"and {more}: see --json")


def _is_listed(layer: TensorContents, contents: ModelContents) -> bool:
    """Whether a tensor is in the table: it is not as the others, or none is as the others."""
    return layer.differs or (contents.shares is None and layer.change > 0)
