"""fp8 weights with scales are read as what transformers and the formula make of them."""

from __future__ import annotations

import pytest
import torch
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from ace_gui.checkpoints.index import Checkpoint, open_checkpoint
from ace_gui.checkpoints.reader import TensorReader
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import CheckpointError
from tests.helpers.checkpoints import save_model
from tests.helpers.merges import merged_tensors
from tests.helpers.recipes import recipe_over

FP8 = torch.float8_e4m3fn
CONFIG = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 8]}}


def quantised(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(FP8)


def scales(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(9)) + 0.5


def blocks(grid: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    wide = grid.repeat_interleave(4, -2).repeat_interleave(8, -1)
    return wide[..., :rows, :columns]


def read_in_parts(checkpoint: Checkpoint, name: str) -> torch.Tensor:
    """A tensor, of which parts are the same."""
    with TensorReader(checkpoint) as reader:
        tensor = reader.read(name)
        for start, stop in ((0, 0), (5, 61), (99, tensor.numel() - 2), (0, tensor.numel())):
            assert torch.equal(reader.read_part(name, start, stop), tensor.flatten()[start:stop])
    return tensor


GRID = scales(2, 3)
ROWS = scales(8, 1)
STACK = scales(3, 2, 3)
CASES = {
    "blocks": ("weight_scale_inv", (8, 24), GRID, blocks(GRID, 8, 24)),
    "blocks that end early": ("weight_scale_inv", (7, 20), GRID, blocks(GRID, 7, 20)),
    "blocks of a stack": ("weight_scale_inv", (3, 8, 24), STACK, blocks(STACK, 8, 24)),
    "rows": ("weight_scale", (8, 24), ROWS, ROWS),
    "rows, flat": ("weight_scale", (8, 24), ROWS[:, 0], ROWS),
    "a tensor": ("weight_scale", (8, 24), torch.tensor(0.3), torch.tensor(0.3)),
    "a tensor, one element": ("weight_scale", (8, 24), torch.tensor([0.3]), torch.tensor(0.3)),
}


@pytest.mark.parametrize("case", CASES)
def test_each_kind_of_scales_is_its_formula(case: str, tmp_path):
    end, shape, scale, factors = CASES[case]
    weight = quantised(*shape)
    tensors = {"q.weight": weight, f"q.{end}": scale, "norm.weight": torch.ones(3)}
    folder = save_model(tmp_path / "m", {**tensors, "q.input_scale": torch.ones(1)}, config=CONFIG)
    checkpoint = open_checkpoint(folder)
    assert set(checkpoint.tensors) == {"q.weight", "norm.weight"}
    assert checkpoint.tensors["q.weight"].dtype == "F32"
    assert any("quantised" in warning for warning in checkpoint.warnings)
    assert "quantization_config" not in (checkpoint.config or {})
    assert torch.equal(read_in_parts(checkpoint, "q.weight"), weight.float() * factors)


ROW_SCALES = {"q.weight_scale": scales(8, 1)}
BITSANDBYTES = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}


def int8(form: int = 0, rows: int = 8) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    return {
        "q.weight": torch.randint(-128, 128, (8, 24), generator=generator, dtype=torch.int8),
        "q.SCB": scales(rows) * 3,
        "q.weight_format": torch.tensor(form, dtype=torch.uint8),
    }


@pytest.mark.parametrize(
    ("config", "tensors"),
    [
        (CONFIG, {"q.weight": quantised(8, 24)}),
        (CONFIG, {"q.weight": quantised(8, 24), "q.weight_scale_inv": scales(3, 3)}),
        (CONFIG, {"q.weight": quantised(8, 24), "q.weight_scale": scales(7)}),
        (CONFIG, {"q.weight": quantised(8, 24).to(torch.float8_e5m2), **ROW_SCALES}),
        (CONFIG, {"q.weight": quantised(8), "q.weight_scale": scales(8)}),
        (BITSANDBYTES, int8(form=1)),
        (BITSANDBYTES, int8(rows=7)),
        (BITSANDBYTES, {"q.weight": int8()["q.weight"]}),
    ],
)
def test_without_scales_that_fit_it_stays_refused(
    config: dict[str, object], tensors: dict[str, torch.Tensor], tmp_path
):
    folder = save_model(tmp_path / "m", tensors, config=config)
    with pytest.raises(CheckpointError, match="quantised"):
        open_checkpoint(folder)


@pytest.mark.parametrize("with_format", [True, False])
def test_bitsandbytes_8_bits_are_its_formula(with_format: bool, tmp_path):
    tensors = {**int8(), "norm.weight": torch.ones(3, dtype=torch.float16)}
    if not with_format:
        del tensors["q.weight_format"]
    checkpoint = open_checkpoint(save_model(tmp_path / "m", tensors, config=BITSANDBYTES))
    assert set(checkpoint.tensors) == {"q.weight", "norm.weight"}
    assert any("int8" in warning for warning in checkpoint.warnings)
    assert "quantization_config" not in (checkpoint.config or {})
    exact = tensors["q.weight"].double() * tensors["q.SCB"].double()[:, None] / 127
    tensor = read_in_parts(checkpoint, "q.weight")
    assert tensor.dtype == torch.float32
    assert (tensor - exact).abs().max() <= 2e-7 * exact.abs().max()


def test_mxfp4_is_what_transformers_makes_of_it(tmp_path):
    generator = torch.Generator().manual_seed(3)
    name = "mlp.experts.down_proj"
    blocks_EOGB = torch.randint(0, 256, (3, 5, 2, 16), generator=generator, dtype=torch.uint8)
    scales_EOG = torch.randint(120, 133, (3, 5, 2), generator=generator, dtype=torch.uint8)
    tensors = {f"{name}_blocks": blocks_EOGB, f"{name}_scales": scales_EOG}
    config = {"quantization_config": {"quant_method": "mxfp4"}}
    checkpoint = open_checkpoint(save_model(tmp_path / "m", tensors, config=config))
    exact = convert_moe_packed_tensors(blocks_EOGB, scales_EOG, dtype=torch.float32)
    tensor = read_in_parts(checkpoint, name)
    assert torch.equal(tensor, exact)
    assert tensor.shape == (3, 64, 5)


def test_fp8_models_merge_with_each_other_and_with_others(tmp_path):
    folders = []
    for seed in range(3):
        tensors = {"q.weight": quantised(8, 24, seed=seed), "q.weight_scale_inv": GRID * (seed + 1)}
        folders.append(save_model(tmp_path / str(seed), tensors, config=CONFIG))
    wide = {"q.weight": torch.randn(8, 24)}
    folders.append(save_model(tmp_path / "wide", wide))
    recipe = recipe_over(folders[0], folders[1:], merge_method="linear")
    outputs = merged_tensors(prepare(recipe), tmp_path / "store", device="cpu", as_output=True)
    exact = [quantised(8, 24, seed=s).float() * blocks(GRID, 8, 24) * (s + 1) for s in (1, 2)]
    mean = torch.stack([*exact, wide["q.weight"]]).double().mean(0)
    assert set(outputs) == {"q.weight"}
    torch.testing.assert_close(outputs["q.weight"].double(), mean, rtol=1e-6, atol=1e-6)


def marker(text: str) -> torch.Tensor:
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


RUNNING = {
    "input_scale": torch.ones(()),
    "input_scale_ub": torch.tensor([1200.0]),
    "k_scale": torch.ones(1),
    "v_scale": torch.ones(()),
    "q_scale": torch.ones(4),
    "comfy_quant": marker('{"format": "float8_e4m3fn", "full_precision_matrix_mult": true}'),
}


@pytest.mark.parametrize("companion", RUNNING)
def test_what_only_a_running_quantised_model_needs_goes(companion: str, tmp_path):
    weight = quantised(8, 24)
    scale = torch.tensor(0.3)
    tensors = {"q.weight": weight, "q.weight_scale": scale, f"q.{companion}": RUNNING[companion]}
    checkpoint = open_checkpoint(save_model(tmp_path / "m", tensors, config=CONFIG))
    assert set(checkpoint.tensors) == {"q.weight"}
    assert torch.equal(read_in_parts(checkpoint, "q.weight"), weight.float() * scale)


def test_names_of_running_models_stay_in_a_plain_one(tmp_path):
    tensors = {"q.weight": torch.ones(8, 24), "attn.k_scale": torch.ones(4)}
    checkpoint = open_checkpoint(save_model(tmp_path / "m", tensors, config={}))
    assert set(checkpoint.tensors) == set(tensors)


@pytest.mark.parametrize(
    "text", ['{"format": "float8_e5m2"}', '{"format": 3}', "[]", "{", "", '{"format": "nvfp4"}']
)
def test_another_format_of_comfyui_is_refused(text: str, tmp_path):
    tensors = {
        "q.weight": quantised(8, 24),
        "q.weight_scale": torch.tensor(0.3),
        "q.comfy_quant": marker(text),
    }
    with pytest.raises(CheckpointError, match="is quantised"):
        open_checkpoint(save_model(tmp_path / "m", tensors, config=CONFIG))


@pytest.mark.parametrize("rows", [8, 128, 2**31, 2**63 - 1, 10**100])
@pytest.mark.parametrize("columns", [24, 10**8, 2**63 - 1, 10**100])
def test_blocks_larger_than_the_weight_take_no_more_memory(rows: int, columns: int, tmp_path):
    config = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [rows, columns]}}
    tensors = {"q.weight": quantised(8, 24), "q.weight_scale_inv": torch.full((1, 1), 0.5)}
    checkpoint = open_checkpoint(save_model(tmp_path / "m", tensors, config=config))
    tensor = read_in_parts(checkpoint, "q.weight")
    assert torch.equal(tensor, tensors["q.weight"].float() * 0.5)
