"""What a layer's report says of the numbers it was computed in follows the files' formats."""

from pathlib import Path

import pytest
import torch

from ace_gui.engine.merging.readers import Readers
from ace_gui.engine.merging.store import reports
from ace_gui.engine.merging.task_vectors import TaskVectors
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.methods.shared.tolerance import STRICT
from tests.helpers.checkpoints import save_model, tiny_bert
from tests.helpers.merges import merged_tensors
from tests.helpers.recipes import recipe_over

QUERY = "bert.encoder.layer.0.attention.self.query.weight"


def models(folder: Path, base: torch.dtype, expert: torch.dtype) -> Prepared:
    generator = torch.Generator().manual_seed(0)
    start = tiny_bert(generator)
    paths = [save_model(folder / "base", {name: w.to(base) for name, w in start.items()})]
    for t in range(3):
        tuned = {
            name: (w + 0.02 * torch.randn(w.shape, generator=generator)).to(expert)
            for name, w in start.items()
        }
        paths.append(save_model(folder / f"e{t}", tuned))
    parameters = {"epsilon": 1e-2, "tau": 100.0}
    return prepare(recipe_over(paths[0], paths[1:], merge_method="ace", parameters=parameters))


@pytest.mark.parametrize("expert", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("base", [torch.bfloat16, torch.float32])
def test_sixteen_bit_experts(tmp_path, base: torch.dtype, expert: torch.dtype):
    prepared = models(tmp_path, base, expert)
    merged_tensors(prepared, tmp_path / "store", device="cpu")
    said = reports(tmp_path / "store")[QUERY].precision
    assert said.startswith("Computed in float32, which leaves")
    assert str(expert).removeprefix("torch.") in said


def test_float32_and_its_output(tmp_path):
    prepared = models(tmp_path, torch.float32, torch.float32)
    (row,) = (row for row in prepared.plan.rows if row.name == QUERY)
    deltas = TaskVectors(row, Readers(prepared), torch.device("cpu"))
    assert deltas.tolerance([1.0] * 3, None).rounding == 0
    assert deltas.tolerance([1.0] * 3, torch.float32).rounding == 0
    rounded = deltas.tolerance([1.0] * 3, torch.bfloat16)
    assert rounded.source == "the output's bfloat16"
    assert rounded.rounding > 0


def test_float64_is_never_narrowed(tmp_path):
    prepared = models(tmp_path, torch.float64, torch.bfloat16)
    (row,) = (row for row in prepared.plan.rows if row.name == QUERY)
    deltas = TaskVectors(row, Readers(prepared), torch.device("cpu"))
    assert deltas.tolerance([1.0] * 3, torch.bfloat16) == STRICT
