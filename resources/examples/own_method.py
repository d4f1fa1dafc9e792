"""Add a method, and merge with it."""

from dataclasses import dataclass

import ace_gui
from ace_gui.paths import Sample


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The parameters of the method."""

    factor: float = ace_gui.parameter(1.0, label="Factor", help="Factor on the median.", low=0.0)


@ace_gui.register_method(
    name="median",
    title="Median",
    summary="Adds the median of the experts' changes, entry by entry.",
    parameters=Parameters,
    kind="entry",
    replace=True,
)
def median(deltas, weights, parameters, **context):
    """The median over the experts; weights have no effect."""
    import torch

    return ace_gui.Merged(delta=parameters.factor * torch.stack(list(deltas)).median(0).values)


keys = {"merge_method": "median", "parameters": {"factor": 0.9}, "schema": 1}
folder = Sample.IMAGES.recipe.parent
models = [{"model": str(folder / "experts" / name)} for name in ("digits", "shapes", "glyphs")]
result = ace_gui.merge({**keys, "base_model": str(folder / "base"), "models": models}, "by-median")
print(result.folder)
