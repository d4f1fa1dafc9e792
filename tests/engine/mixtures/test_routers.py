"""Routers from prompts are what the whole base computes; random ones have their distribution."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ace_gui.architecture.transformers_library import load_tokenizer
from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.reader import ReadChecksums
from ace_gui.engine.mixtures.routers import (
    PromptRouters,
    TokenPrompts,
    blocks_alike,
    check_prompts,
    random_routers,
    tokens_of,
)
from ace_gui.errors import RecipeError, TaskError
from ace_gui.recipe.mixtures import GateMode, MixtureExpert
from tests.helpers.dense_models import dense_folder, routers_of, with_tokenizer
from tests.helpers.models import load_folder

FROM_PROMPTS = [mode for mode in GateMode if mode.needs_prompts]

EXPERTS = (
    TokenPrompts(positive=((1, 5, 6), (1, 7, 4, 9)), negative=((1, 8),)),
    TokenPrompts(positive=((1, 8, 9, 10, 11),)),
    TokenPrompts(positive=((1, 12),), negative=((1, 4, 4), (1, 13))),
)


def _whole_model(mode: GateMode, folder: Path) -> Tensor:
    """The same with the whole model in memory, written out: blocks × experts × hidden size."""
    model, _ = load_folder(folder)

    def vectors(prompts: tuple[tuple[int, ...], ...]) -> Tensor:
        total = []
        for prompt in prompts:
            with torch.no_grad():
                states = model(torch.tensor([prompt]), output_hidden_states=True).hidden_states
            if mode is GateMode.CHEAP_EMBED:
                total.append(torch.stack([states[0][0].sum(0)] * (len(states) - 1)))
            elif mode is GateMode.HIDDEN_AVG:
                total.append(torch.stack([state[0].mean(0) for state in states[:-1]]))
            else:
                total.append(torch.stack([state[0, -1] for state in states[:-1]]))
        if mode is GateMode.CHEAP_EMBED:
            return torch.nn.functional.normalize(sum(total), dim=-1)
        return sum(total) / len(total)

    rows = []
    for expert in EXPERTS:
        row = vectors(expert.positive)
        if expert.negative:
            row = row - vectors(expert.negative)
        rows.append(torch.nn.functional.normalize(row, dim=-1))
    return torch.stack(rows, dim=1)


@pytest.mark.parametrize("mode", FROM_PROMPTS)
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("llama", {}),
        ("llama", {"attention_bias": True, "dtype": "float32"}),
        ("mistral", {"sliding_window": 2}),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 2, "max_window_layers": 1}),
        ("qwen3", {"tie_word_embeddings": True}),
    ],
)
def test_block_by_block_is_as_the_whole_model(
    tmp_path: Path, mode: GateMode, kind: str, settings: dict[str, Any]
) -> None:
    folder = dense_folder(tmp_path / "base", kind, **settings)
    routers = routers_of(mode, folder, EXPERTS).weights_BEH
    torch.testing.assert_close(routers, _whole_model(mode, folder), rtol=1e-4, atol=1e-5)


def test_random_routers_have_their_distribution() -> None:
    normal = random_routers(GateMode.RANDOM, 20, 4, 64, seed=1)
    uniform = random_routers(GateMode.UNIFORM_RANDOM, 20, 4, 64, seed=1)
    assert normal.shape == uniform.shape == (20, 4, 64)
    assert abs(float(normal.std()) - 1) < 0.05
    edge = math.sqrt(1 / 64)
    assert float(uniform.abs().max()) <= edge
    assert abs(float(uniform.std()) - edge / math.sqrt(3)) < 0.005
    assert torch.equal(normal, random_routers(GateMode.RANDOM, 20, 4, 64, seed=1))
    assert not torch.equal(normal, random_routers(GateMode.RANDOM, 20, 4, 64, seed=2))


def test_prompts_are_tokens_after_the_beginning(tmp_path: Path) -> None:
    tokenizer = load_tokenizer([with_tokenizer(dense_folder(tmp_path / "base", "llama"))])
    assert tokens_of(tokenizer, ["the code", "sea"]) == ((1, 4, 5), (1, 10))


def test_a_token_without_a_row_is_refused(tmp_path: Path) -> None:
    base = dense_folder(tmp_path / "base", "llama")
    prompts = [TokenPrompts(positive=((1, 24),))]
    with pytest.raises(TaskError, match="24 rows"):
        routers_of(GateMode.HIDDEN, base, prompts)


@pytest.mark.parametrize("done", [1, 2, 3])
def test_routers_go_on_after_the_block_where_they_stopped(tmp_path: Path, done: int) -> None:
    folder = dense_folder(tmp_path / "base", "llama")
    uninterrupted_BEH = routers_of(GateMode.HIDDEN, folder, EXPERTS).weights_BEH
    file = tmp_path / "routers.safetensors"
    stopped = PromptRouters(GateMode.HIDDEN, open_checkpoint(folder), EXPERTS)
    events = stopped.computed(file, ReadChecksums())
    for _ in range(done):
        next(events)
    resumed = PromptRouters(GateMode.HIDDEN, open_checkpoint(folder), EXPERTS)
    progress = [event.done for event in resumed.computed(file, ReadChecksums())]
    assert progress == list(range(done, 4))
    assert torch.equal(resumed.weights_BEH, uninterrupted_BEH)


def test_a_damaged_file_of_routers_is_computed_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = dense_folder(tmp_path / "base", "llama")
    file = tmp_path / "routers.safetensors"
    first = PromptRouters(GateMode.HIDDEN, open_checkpoint(folder), EXPERTS)
    for _ in first.computed(file, ReadChecksums()):
        pass
    file.write_bytes(file.read_bytes()[:-4] + b"\0\0\0\1")
    second = PromptRouters(GateMode.HIDDEN, open_checkpoint(folder), EXPERTS)
    assert len(list(second.computed(file, ReadChecksums()))) == 3
    assert torch.equal(second.weights_BEH, first.weights_BEH)
    assert "computed again" in caplog.text


@pytest.mark.parametrize("mode", FROM_PROMPTS)
def test_experts_without_prompts_or_with_equal_ones_are_refused(mode: GateMode) -> None:
    first = MixtureExpert(model=Path("first"), positive=("code",))
    with pytest.raises(RecipeError, match="second has no"):
        check_prompts(mode, [first, MixtureExpert(model=Path("second"))])
    with pytest.raises(RecipeError, match="second has no"):
        check_prompts(mode, [first, MixtureExpert(model=Path("second"), positive=(" ",))])
    with pytest.raises(RecipeError, match="same prompts"):
        check_prompts(mode, [first, MixtureExpert(model=Path("second"), positive=("code",))])
    check_prompts(mode, [first, MixtureExpert(model=Path("second"), positive=("sea",))])


@pytest.mark.parametrize("mode", [GateMode.RANDOM, GateMode.UNIFORM_RANDOM])
def test_random_routers_need_no_prompts(mode: GateMode) -> None:
    check_prompts(mode, [MixtureExpert(model=Path("first")), MixtureExpert(model=Path("second"))])


def test_experts_that_are_almost_alike_are_found() -> None:
    apart = torch.eye(2, 8)
    alike = torch.stack((apart[0], apart[0] + 0.01 * apart[1]))
    assert blocks_alike(torch.stack((apart, alike, apart))) == [1]
