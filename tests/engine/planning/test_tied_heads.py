"""Heads that base and experts tie to their embeddings, or have for themselves, in every mixture."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor

from ace_gui.architecture.transformers_library import LoadReport
from ace_gui.engine.contract.plan import Check, CheckVerdict
from ace_gui.engine.planning.prepare import prepare
from tests.helpers.adapters import llama
from tests.helpers.merges import merged_folder, merged_tensors, row_named
from tests.helpers.models import load_folder
from tests.helpers.recipes import recipe_over

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
MIXTURES = list(itertools.product([False, True], repeat=3))


def models(folder: Path, ties: Sequence[bool]) -> list[Path]:
    """A base and its experts, each tied or not; ``ties``: the base's first."""
    for seed, tied in enumerate(ties):
        torch.manual_seed(seed)
        llama(num_hidden_layers=1, tie_word_embeddings=tied).save_pretrained(folder / f"m{seed}")
    return [folder / f"m{seed}" for seed in range(len(ties))]


def embedding_of(folder: Path) -> Tensor:
    return load_file(folder / "model.safetensors")[EMBEDDING].double()


def head_of(folder: Path) -> Tensor:
    """What multiplies the hidden states in a model."""
    held = load_file(folder / "model.safetensors")
    return held.get(HEAD, held[EMBEDDING]).double()


def combined(method: str, base: Tensor, experts: Sequence[Tensor]) -> Tensor:
    """Task arithmetic with λ 0.7, or the mean."""
    if method == "linear":
        return torch.stack(list(experts)).mean(dim=0)
    return base + 0.7 * sum((expert - base for expert in experts), torch.zeros_like(base))


def ties_check(checks: Sequence[Check], name: str) -> Check:
    return next(c for c in checks if c.title == "Tied weights" and name in c.subject)


@pytest.mark.parametrize("method", ["linear", "task_arithmetic"])
@pytest.mark.parametrize("ties", MIXTURES)
def test_the_head_is_merged_of_what_each_model_has_as_head(
    tmp_path, ties: tuple[bool, ...], method: str
):
    base, *experts = models(tmp_path, ties)
    parameters = {} if method == "linear" else {"scaling": 0.7}
    recipe = recipe_over(base, experts, merge_method=method, parameters=parameters)
    prepared = prepare(recipe)
    tensors = merged_tensors(prepared, tmp_path / "store", device="cpu", as_output=True)
    expected = combined(method, embedding_of(base), [embedding_of(expert) for expert in experts])
    torch.testing.assert_close(tensors[EMBEDDING].double(), expected, atol=1e-6, rtol=0)
    assert (HEAD in tensors) is not all(ties)  # one model with a head of its own unties the result
    if not all(ties):
        expected = combined(method, head_of(base), [head_of(expert) for expert in experts])
        torch.testing.assert_close(tensors[HEAD].double(), expected, atol=1e-6, rtol=0)
    for folder, tied in zip(experts, ties[1:], strict=True):
        if tied and not all(ties):
            check = ties_check(prepared.plan.checks, folder.name)
            assert check.verdict is CheckVerdict.NOTE
            assert "is merged into" in check.sentence
        elif ties[0] and not tied:
            check = ties_check(prepared.plan.checks, folder.name)
            assert check.verdict is CheckVerdict.NOTE
            assert "tie_word_embeddings: false" in check.sentence
            assert f"not tied to {EMBEDDING}" in row_named(prepared, HEAD).reason
    assert not any("prefix" in check.sentence for check in prepared.plan.checks)


@pytest.mark.parametrize("ties", [(False, True, False), (False, True, True), (True, False, True)])
def test_models_of_every_mixture_load(tmp_path, ties: tuple[bool, ...]):
    base, *experts = models(tmp_path, ties)
    model, report = load_folder(merged_folder(recipe_over(base, experts), tmp_path / "out"))
    assert report == LoadReport()
    head = model.get_output_embeddings().weight
    table = model.get_input_embeddings().weight
    assert torch.equal(head, table) is all(ties)


def test_an_expert_without_any_head_is_said_to_take_no_part(tmp_path):
    base, expert = models(tmp_path, [False, False])
    config = transformers.AutoConfig.from_pretrained(base)
    config.tie_word_embeddings = True
    torch.manual_seed(5)
    transformers.LlamaModel(config).save_pretrained(tmp_path / "bare")
    prepared = prepare(recipe_over(base, [tmp_path / "bare", expert], merge_method="linear"))
    check = ties_check(prepared.plan.checks, "bare")
    assert check.verdict is CheckVerdict.WARNING
    assert "without this expert" in check.sentence
    tensors = merged_tensors(prepared, tmp_path / "store", device="cpu", as_output=True)
    torch.testing.assert_close(tensors[HEAD].double(), head_of(expert), atol=1e-6, rtol=0)
