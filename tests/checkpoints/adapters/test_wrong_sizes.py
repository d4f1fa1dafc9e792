"""Every tensor of an adapter in every wrong size, or under two names: refused with its name."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from ace_gui.checkpoints.adapters import open_adapter
from ace_gui.checkpoints.adapters.adapter_config import AdapterSettings
from ace_gui.checkpoints.derived import expand
from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.errors import CheckpointError, MismatchError
from tests.helpers.adapters import PREFIX, save_adapter
from tests.helpers.checkpoints import save_model

O = 6  # noqa: E741 - outputs
I = 4  # noqa: E741 - inputs
R = 2  # rank

LORA = {"lora_A.weight": (R, I), "lora_B.weight": (O, R)}
CONVOLUTION = {"lora_A.weight": (R, I, 3, 3), "lora_B.weight": (O, R, 1, 1)}
KINDS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "lora": ("LORA", LORA),
    "dora": ("LORA", {**LORA, "lora_magnitude_vector": (O,)}),
    "dora, convolution": ("LORA", {**CONVOLUTION, "lora_magnitude_vector": (1, O, 1, 1)}),
    "bias": ("LORA", {**LORA, "lora_B.bias": (O,)}),
    "embedding": ("LORA", {"lora_embedding_A": (R, O), "lora_embedding_B": (I, R)}),
    "convolution": ("LORA", CONVOLUTION),
    "tokens": ("TRAINABLE_TOKENS", {"trainable_tokens_delta": (2, I)}),
    "loha": (
        "LOHA",
        {"hada_w1_a": (O, R), "hada_w1_b": (R, I), "hada_w2_a": (O, R), "hada_w2_b": (R, I)},
    ),
    "loha, three": (
        "LOHA",
        {
            **{"hada_w1_a": (R, O), "hada_w1_b": (R, I), "hada_t1": (R, R, 3, 3)},
            **{"hada_w2_a": (R, O), "hada_w2_b": (R, I), "hada_t2": (R, R, 3, 3)},
        },
    ),
    "lokr": ("LOKR", {"lokr_w1": (2, 2), "lokr_w2_a": (3, R), "lokr_w2_b": (R, 2)}),
    "lokr, whole": ("LOKR", {"lokr_w1": (2, 2), "lokr_w2": (3, 2)}),
}
CELLS = [(kind, name) for kind, (_, shapes) in KINDS.items() for name in shapes]
WRONG = {
    "one more": lambda shape: (shape[0] + 1, *shape[1:]),
    "last one more": lambda shape: (*shape[:-1], shape[-1] + 1),
    "turned": lambda shape: shape[::-1],
    "no axis": lambda _: (),
    "one number": lambda _: (1,),
    "one more axis": lambda shape: (*shape, 2),
    "one less axis": lambda shape: shape[1:],
    "empty": lambda shape: (0, *shape[1:]),
    "last empty": lambda shape: (*shape[:-1], 0),
}


def base(folder: Path, kind: str) -> Path:
    kernel = (3, 3) if "convolution" in kind or "three" in kind else ()
    tensors = {"q.weight": torch.ones(O, I, *kernel), "q.bias": torch.ones(O)}
    return save_model(folder / "base", tensors)


def opened(folder: Path, kind: str, shapes: dict[str, tuple[int, ...]]) -> None:
    peft_type = KINDS[kind][0]
    values = {f"{PREFIX}q.{name}": torch.ones(shape) for name, shape in shapes.items()}
    more: dict[str, object] = {"peft_type": peft_type, "token_indices": [0, 3], "alpha": 2}
    save_adapter(folder / "adapter", values, **more)
    adapter = open_adapter(folder / "adapter")
    checkpoint = open_checkpoint(base(folder, kind))
    expand(adapter, checkpoint, {name: name for name in adapter.names}, ())


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_sizes_are_read(kind: str, tmp_path: Path) -> None:
    opened(tmp_path, kind, KINDS[kind][1])


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(("kind", "name"), CELLS)
def test_a_wrong_size_is_refused(kind: str, name: str, wrong: str, tmp_path: Path) -> None:
    shapes = dict(KINDS[kind][1])
    shape = WRONG[wrong](shapes[name])
    if shape == shapes[name]:  # square, or one axis
        shape = (*shape, 5)
    shapes[name] = shape
    with pytest.raises((CheckpointError, MismatchError)) as caught:
        opened(tmp_path, kind, shapes)
    assert "adapter" in caught.value.sentence
    assert "q" in caught.value.sentence


def test_no_trained_token_is_refused(tmp_path: Path) -> None:
    save_adapter(
        tmp_path / "adapter",
        {f"{PREFIX}q.trainable_tokens_delta": torch.ones(0, 4)},
        peft_type="TRAINABLE_TOKENS",
        token_indices=[],
    )
    with pytest.raises(CheckpointError, match="names 0 tokens"):
        open_adapter(tmp_path / "adapter")


@pytest.mark.parametrize("shape", [(R, R), (R, R + 1, 3, 3), (R + 1, R, 3, 3), (R,), (), (R, R, 0)])
def test_a_middle_factor_of_another_shape_is_refused(shape: tuple[int, ...], tmp_path: Path):
    tensors = {
        "lora_unet_q.lora_down.weight": torch.ones(R, I, 1, 1),
        "lora_unet_q.lora_up.weight": torch.ones(O, R, 1, 1),
        "lora_unet_q.lora_mid.weight": torch.ones(shape),
    }
    save_file(tensors, tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match="lora_mid"):
        open_adapter(tmp_path / "x.safetensors")


def part(module: str, form: str) -> dict[str, Tensor]:
    down, up = form.split()
    return {f"{module}.{down}": torch.ones(R, I), f"{module}.{up}": torch.ones(O, R)}


DIFFUSERS = "lora.down.weight lora.up.weight"
KOHYA = "lora_down.weight lora_up.weight"
OF_PEFT = "lora_A.weight lora_B.weight"
NAMES = {
    "dotted and flat": (part("unet.a.q", DIFFUSERS), part("lora_unet_a_q", KOHYA)),
    "two flat": (part("lora_unet_a_q", KOHYA), part("lycoris_a_q", KOHYA)),
    "two dotted": (part("unet.a.q", DIFFUSERS), part("diffusion_model.a.q", DIFFUSERS)),
    "two forms": (part("unet.a.q", DIFFUSERS), part("unet.a.q", OF_PEFT)),
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("case", NAMES)
def test_a_module_under_two_names_is_refused_by_both(case: str, turned: bool, tmp_path: Path):
    first, second = NAMES[case] if not turned else NAMES[case][::-1]
    save_file({**first, **second}, tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError) as caught:
        open_adapter(tmp_path / "x.safetensors", ["a.q.weight"])
    for names in (first, second):
        assert any(f"`{name}`" in caught.value.sentence for name in names)


def test_a_part_under_two_names_is_refused(tmp_path: Path):
    tensors = {**part(f"{PREFIX}a.q", OF_PEFT), **part("a.q", OF_PEFT)}
    save_adapter(tmp_path / "adapter", tensors)
    with pytest.raises(CheckpointError, match=r"same part of one change"):
        open_adapter(tmp_path / "adapter")


NAME = st.lists(st.sampled_from(["a", "b", "1", "11", "a1"]), min_size=1, max_size=3)


@settings(max_examples=200)
@given(st.lists(NAME.map(".".join), min_size=1, max_size=6, unique=True), NAME.map(".".join))
def test_a_table_of_names_is_read_as_by_peft(keys: list[str], module: str):
    table = {key: number + 1 for number, key in enumerate(keys)}
    ranks = [n for key, n in table.items() if re.match(rf"(.*\.)?({key})$", module)]
    assert AdapterSettings(rank_pattern=table).rank_of(module) == (ranks[0] if ranks else 8)


def test_a_table_of_very_many_names_is_read_at_once(tmp_path: Path):
    count = 100_000
    table = {f"model.layers.{n}.q": 3 for n in range(count)}
    tensors = part(f"{PREFIX}model.layers.7.q", OF_PEFT)
    save_adapter(tmp_path / "adapter", tensors, r=3, rank_pattern={**table, "model.layers.7.q": 2})
    started = time.monotonic()
    assert open_adapter(tmp_path / "adapter").deltas["model.layers.7.q.weight"]
    assert time.monotonic() - started < 3


def test_too_many_expressions_are_refused(tmp_path: Path):
    table = {f"model.*.q{n}": 2 for n in range(1001)}
    save_adapter(tmp_path / "adapter", part(f"{PREFIX}q", OF_PEFT), rank_pattern=table)
    with pytest.raises(CheckpointError, match="1001 expressions"):
        open_adapter(tmp_path / "adapter")
    assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["r"] == 2
