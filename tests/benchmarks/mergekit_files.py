"""What mergekit's files do in both programs: ``python -m tests.benchmarks.mergekit_files``.

For every form of ``tests.helpers.mergekit_files``, on tiny models that it makes: how far the change
of the tensor that differs most is from mergekit's, or the sentence that refuses the file. mergekit
0.1.5 is expected in the environment of the Python that ``--python`` names.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import WorkbenchError
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.mergekit_files import DEPARTS, EXAMPLES, REFUSED, SAME, make_models
from tests.helpers.merges import merged_tensors

LARGEST = 2e-4
"""Of a change; what is left is mergekit's rounding to float32 of whole weights."""

THEIRS = """
import pathlib, yaml
from mergekit.config import MergeConfiguration
from mergekit.merge import run_merge
from mergekit.options import MergeOptions
options = MergeOptions(copy_tokenizer=False, write_model_card=False)
for file in sorted(pathlib.Path().glob("*.yaml")):
    try:
        config = MergeConfiguration.model_validate(yaml.safe_load(file.read_text()))
        run_merge(config, str(file.with_suffix(".theirs")), options)
    except Exception as error:
        file.with_suffix(".error").write_text(repr(error))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="of mergekit's environment")
    python, everything = parser.parse_args().python, SAME | DEPARTS | REFUSED | EXAMPLES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_models(folder)
        for number, document in enumerate(everything.values()):
            written = json.dumps({**document, "dtype": "float32"})
            (folder / f"{number}.yaml").write_text(written)
        quiet = os.environ | {"HF_HUB_OFFLINE": "1"}
        subprocess.run([python, "-c", THEIRS], cwd=folder, env=quiet, check=True)
        bad = [
            title
            for number, title in enumerate(everything)
            if not shown(title, compared(folder / f"{number}.yaml"))
        ]
    raise SystemExit(f"{len(bad)} differ" if bad else 0)


def shown(title: str, found: float | str) -> bool:
    """Print a line; whether it is as it should be."""
    good = title not in SAME or (isinstance(found, float) and found < LARGEST)
    said = f"{found:.1e}" if isinstance(found, float) else found
    print(f"{'' if good else 'WRONG '}{title}: {said}", flush=True)
    return good


def compared(file: Path) -> float | str:
    """The largest distance of a tensor's changes, by their size; or why there is none."""
    store, theirs = file.with_suffix(".store"), file.with_suffix(".theirs")
    try:
        prepared = prepare(load_recipe(file))
        mine = merged_tensors(prepared, store, device="cpu", as_output=True)
    except WorkbenchError as error:
        return error.sentence
    if not (theirs / "model.safetensors").exists():
        return f"mergekit: {file.with_suffix('.error').read_text()}"
    other = load_file(theirs / "model.safetensors")
    base = load_file(file.parent / "base" / "model.safetensors")
    return max(
        distance(mine[name], other[name], base.get(name, torch.zeros_like(other[name])))
        for name in other
    )


def distance(mine: Tensor, other: Tensor, base: Tensor) -> float:
    """‖W − W'‖ by ‖W' − W₀‖; where that is no more than rounding, by a share of ‖W₀‖."""
    change = max(float(torch.dist(other, base)), 1e-3 * float(base.norm()))
    return float(torch.dist(mine.double(), other.double())) / (change or 1.0)


if __name__ == "__main__":
    main()
