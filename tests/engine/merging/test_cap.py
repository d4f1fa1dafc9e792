"""The recipe's cap on the merged change of every matrix, against its formula taken literally."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from ace_gui.engine.contract.figures.findings import LayerReport, LayerSpectrum
from ace_gui.engine.contract.plan import Disposition, PlanRow
from ace_gui.engine.inspecting.inspection_cache import InspectionCache
from ace_gui.engine.inspecting.layer_spectrum import spectrum
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import reports
from ace_gui.engine.planning.prepare import Prepared, prepare
from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.errors import RecipeError, ResumeError
from ace_gui.recipe import Override
from ace_gui.recipe.mergekit.writing import dump_mergekit
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe, recipe_from
from ace_gui.recipe.values import Cap
from tests.helpers.merges import merged_tensors
from tests.helpers.models import Family, gpt2_family
from tests.helpers.recipes import recipe_of

METHODS = {
    "ace": {"epsilon": 1e-6},  # two passes, its own traces
    "task_arithmetic": {"scaling": 3.0},  # by entries
    "ties": {"scaling": 3.0},  # whole tensors of any shape
    "tsv_m": {"scaling": 4.0},  # matrices
    "dare_ties": {"density": 0.2},  # random draws
}
TIGHT = Cap(delta=1e-3)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Family:
    """Its matrices are stored inputs × outputs."""
    return gpt2_family(tmp_path_factory.mktemp("gpt2"), experts=4)


def largest(base_OI: np.ndarray, deltas: list[np.ndarray], delta: float) -> float:
    """rms² = mean of Tr of the centred Gram matrices; max(rms, min(√T·rms, δ‖W₀‖))."""
    squares = [((d - d.mean(axis=0)) ** 2).sum() for d in deltas]
    rms = np.sqrt(np.mean(squares))
    return max(rms, min(np.sqrt(len(deltas)) * rms, delta * np.linalg.norm(base_OI)))


def changes(family: Family, merged: dict[str, Tensor], row: PlanRow) -> tuple[np.ndarray, float]:
    """The merged change of a matrix, outputs × inputs, and the largest it may have."""
    base = load_file(family.base / "model.safetensors")
    experts = [load_file(path / "model.safetensors") for path in family.experts.values()]

    def oriented(tensor: Tensor) -> np.ndarray:
        return (tensor.double().T if row.transposed else tensor.double()).numpy()

    def own(tensors: dict[str, Tensor]) -> Tensor:
        return next(t for name, t in tensors.items() if row.name.endswith(name))

    start = oriented(base[row.name])
    deltas = [oriented(own(tensors)) - start for tensors in experts]
    assert row.cap is not None
    return oriented(merged[row.name]) - start, largest(start, deltas, row.cap)


def found(prepared: Prepared, store: Path) -> tuple[dict[str, Tensor], dict[str, LayerReport]]:
    return merged_tensors(prepared, store, device="cpu"), dict(reports(store))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_against_the_formula(gpt2: Family, tmp_path: Path, method: str) -> None:
    plain = recipe_of(gpt2, merge_method=method, parameters=METHODS[method])
    free, _ = found(prepare(plain), tmp_path / "free")
    prepared = prepare(replace(plain, cap=TIGHT))
    merged, said = found(prepared, tmp_path / "capped")
    bitten = 0
    for row in prepared.plan.rows:
        if row.cap is None:
            if row.in_base:
                assert torch.equal(merged[row.name], free[row.name])
            continue
        assert row.disposition is Disposition.MERGED
        change, limit = changes(gpt2, merged, row)
        before, _ = changes(gpt2, free, row)
        factor = min(1.0, limit / np.linalg.norm(before))
        assert np.linalg.norm(change - factor * before) <= 1e-5 * np.linalg.norm(before)
        assert said[row.name].cap_factor == pytest.approx(factor, rel=1e-5)
        assert any("The cap scaled" in note for note in said[row.name].notes) == (factor < 1)
        bitten += factor < 1
    assert bitten
    assert any("c_attn" in row.name for row in prepared.plan.rows if row.cap and row.transposed)


def test_the_automatic_variant_is_not_capped_twice(gpt2: Family, tmp_path: Path) -> None:
    plain = recipe_of(gpt2, parameters={"variant": "automatic", "alpha": 1e-4, "delta": 1e-3})
    once, first = found(prepare(plain), tmp_path / "once")
    twice, second = found(prepare(replace(plain, cap=TIGHT)), tmp_path / "twice")
    for name, tensor in once.items():
        assert torch.allclose(tensor, twice[name], rtol=1e-6, atol=1e-7)
    assert {n: r.cap_factor for n, r in second.items()} == {
        n: pytest.approx(r.cap_factor) for n, r in first.items()
    }


def test_weights_do_not_move_the_cap(gpt2: Family, tmp_path: Path) -> None:
    """Three experts of weight 2 under ACE and under a sum have the cap of the experts as they are.

    One of weight 0 does not count.
    """
    weights = {"task0": 2.0, "task1": 2.0, "task2": 2.0, "task3": 0.0}
    for method in ("ace", "task_arithmetic"):
        rule = Override(pattern="*", weights=weights)
        recipe = recipe_of(gpt2, merge_method=method, cap=TIGHT, overrides=(rule,))
        prepared = prepare(recipe)
        merged, said = found(prepared, tmp_path / method)
        fewer = Family(base=gpt2.base, experts=dict(list(gpt2.experts.items())[:3]))
        for row in prepared.plan.rows:
            if row.cap is not None and (said[row.name].cap_factor or 1) < 1:
                change, limit = changes(fewer, merged, row)
                assert np.linalg.norm(change) == pytest.approx(limit, rel=1e-5)


def test_an_override_sets_it_and_takes_it_away(gpt2: Family) -> None:
    rules = (
        Override(role="MLP up", cap=False),
        Override(role="MLP down", blocks="1", cap=Cap(delta=0.5)),
        Override(role="norm", cap=Cap()),
    )
    plan = prepare(recipe_of(gpt2, cap=Cap(), overrides=rules)).plan
    roles = {(row.role, row.block): row for row in plan.rows if row.in_base}
    caps = {key: row.cap for key, row in roles.items() if row.disposition is Disposition.MERGED}
    assert caps["MLP up", 0] is None
    assert caps["MLP down", 0] == 0.12
    assert caps["MLP down", 1] == 0.5
    assert "no cap" in roles["MLP up", 0].reason
    assert "cap δ 0.5" in roles["MLP down", 1].reason
    assert roles["norm", 0].cap is None
    assert any("overrides[2]" in warning for warning in plan.warnings)


def test_one_expert_is_not_capped(gpt2: Family, tmp_path: Path) -> None:
    alone = Family(base=gpt2.base, experts=dict(list(gpt2.experts.items())[:1]))
    recipe = recipe_of(alone, merge_method="task_arithmetic", parameters={"scaling": 1.0})
    free, _ = found(prepare(recipe), tmp_path / "free")
    merged, said = found(prepare(replace(recipe, cap=TIGHT)), tmp_path / "capped")
    for name, tensor in free.items():
        assert torch.allclose(tensor, merged[name], rtol=0, atol=1e-7)
    assert any("fewer than two experts" in n for report in said.values() for n in report.notes)


def test_a_store_with_another_cap_is_not_continued(gpt2: Family, tmp_path: Path) -> None:
    recipe = recipe_of(gpt2, merge_method="task_arithmetic", cap=TIGHT)
    begun = merge(prepare(recipe), tmp_path / "store", device="cpu")
    for _ in range(4):
        next(begun)
    begun.close()
    for other in (None, Cap(delta=0.3)):
        with pytest.raises(ResumeError, match=r"recipe, rows(, side_by_side)? differs"):
            next(iter(merge(prepare(replace(recipe, cap=other)), tmp_path / "store", resume=True)))


def test_another_cap_is_looked_at_anew(gpt2: Family, tmp_path: Path) -> None:
    norms = []
    for cap in (None, TIGHT):
        recipe = recipe_of(gpt2, merge_method="tsv_m", parameters={"scaling": 4.0}, cap=cap)
        prepared, cache = prepare(recipe), InspectionCache(tmp_path)
        row = next(row for row in prepared.plan.rows if row.role == "MLP up")
        steps = list(spectrum(prepared, row, torch.device("cpu"), cache))
        seen = next(step for step in steps if isinstance(step, LayerSpectrum))
        norms.append(np.linalg.norm(seen.merged))
    assert norms[1] < norms[0] / 1.5


def test_the_card_says_what_it_did(gpt2: Family, tmp_path: Path) -> None:
    recipe = recipe_of(gpt2, merge_method="task_arithmetic", parameters={"scaling": 3.0}, cap=TIGHT)
    for _ in merge_to_folder(recipe, tmp_path / "out", Options(device="cpu")):
        pass
    card = (tmp_path / "out" / "README.md").read_text()
    assert "capped changes were shortened by the cap, at most to 0." in card
    assert "cap:\n  delta: 0.001\n" in card


def test_it_travels_in_the_file(gpt2: Family, tmp_path: Path) -> None:
    rules = (Override(role="query", cap=False), Override(role="key", cap=Cap(delta=0.0)))
    recipe = recipe_of(gpt2, cap=Cap(), overrides=rules)
    text = dump_recipe(recipe, tmp_path)
    (tmp_path / "recipe.yaml").write_text(text)
    assert load_recipe(tmp_path / "recipe.yaml") == recipe
    assert "cap:\n  delta: 0.12\n" in text
    shared = {"merge_method": "ties", "base_model": "b", "models": [{"model": "a"}]}
    assert recipe_from({**shared, "cap": {}}).cap == Cap(delta=0.12)  # ours, not mergekit's
    assert not recipe_from({**shared, "cap": {}}).notes


@pytest.mark.parametrize(
    ("cap", "said"),
    [
        ({"delta": -1}, "cap.delta' is -1"),
        ({"delta": float("nan")}, "cap.delta' is nan"),
        ({"delta": 11}, "cap.delta' is 11"),
        ({"delt": 0.1}, "did you mean 'delta'"),
        (0.12, "cap' is 0.12, but must be keys with values"),
    ],
)
def test_what_is_no_cap_is_refused(cap: object, said: str) -> None:
    document = {"schema": 1, "base_model": "b", "models": [{"model": "a"}]}
    with pytest.raises(RecipeError, match=said):
        recipe_from({**document, "cap": cap})
    rule = {"role": "query", "cap": cap}
    with pytest.raises(RecipeError, match=said.replace("cap", "overrides.0..cap", 1)):
        recipe_from({**document, "overrides": [rule]})


def test_mergekit_has_none(gpt2: Family, tmp_path: Path) -> None:
    values = {"scaling": 1.0, "normalize": False}
    recipe = recipe_of(gpt2, merge_method="task_arithmetic", cap=Cap())
    with pytest.raises(RecipeError, match="cannot cap"):
        dump_mergekit(recipe, values, tmp_path)
    rules = (Override(pattern="*mlp*", cap=Cap()),)
    with pytest.raises(RecipeError, match="cannot cap"):
        dump_mergekit(replace(recipe, cap=None, overrides=rules), values, tmp_path)
