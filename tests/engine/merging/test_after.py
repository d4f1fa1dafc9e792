"""What is done to every merged matrix after the method, against its formula taken literally."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ace_gui.engine.contract.findings import LayerReport, LayerSpectrum
from ace_gui.engine.contract.matrix_figures import effective_rank
from ace_gui.engine.contract.plan import Disposition, PlanRow, RowAfter
from ace_gui.engine.inspecting.layer_context import InspectionCache
from ace_gui.engine.inspecting.layer_spectra import spectrum
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import reports
from ace_gui.engine.planning.dispositions import last_blocks, with_after
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.workflow import Options, merge_to_folder
from ace_gui.errors import RecipeError, ResumeError
from ace_gui.methods import METHODS as REGISTERED
from ace_gui.methods import MergeMethod
from ace_gui.recipe import Override
from ace_gui.recipe.mergekit.writing import dump_mergekit
from ace_gui.recipe.overrides import describe_after
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe, recipe_from
from ace_gui.recipe.values import After, Cap
from tests.helpers.merges import merged_tensors, stopped_merge
from tests.helpers.method_cases import in_weights
from tests.helpers.method_oracles import reshaped
from tests.helpers.models import Family, gpt2_family
from tests.helpers.recipes import recipe_of

TIGHT = Cap(delta=1e-3)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory) -> Family:
    """Its matrices are stored inputs × outputs."""
    return gpt2_family(tmp_path_factory.mktemp("gpt2"), experts=4)


def largest(base_OI: np.ndarray, deltas: list[np.ndarray], delta: float) -> float:
    """rms² = mean of Tr of the centred Gram matrices; max(rms, min(√T·rms, δ‖W₀‖))."""
    squares = [((d - d.mean(axis=0)) ** 2).sum() for d in deltas]
    rms = np.sqrt(np.mean(squares))
    return max(rms, min(np.sqrt(len(deltas)) * rms, delta * np.linalg.norm(base_OI)))


def load_base(family: Family) -> dict[str, Tensor]:
    return load_file(family.base / "model.safetensors")


def changes(family: Family, merged: dict[str, Tensor], row: PlanRow) -> tuple[np.ndarray, float]:
    """The merged change of a matrix, outputs × inputs, and the largest it may have."""
    base = load_base(family)
    experts = [load_file(path / "model.safetensors") for path in family.experts.values()]

    def tensor_of(tensors: dict[str, Tensor]) -> Tensor:
        return next(t for name, t in tensors.items() if row.name.endswith(name))

    start = oriented(base[row.name], row)
    deltas = [oriented(tensor_of(tensors), row) - start for tensors in experts]
    assert row.after.cap is not None
    return oriented(merged[row.name], row) - start, largest(start, deltas, row.after.cap)


def tensors_and_reports(
    prepared: Prepared, store: Path
) -> tuple[dict[str, Tensor], dict[str, LayerReport]]:
    return merged_tensors(prepared, store, device="cpu"), dict(reports(store))


ALL = After(rank=0.7, spectrum=0.5, depth=(0.5, 1.5), scale=-1.2, cap=TIGHT)


def oriented(tensor: Tensor, row: PlanRow) -> np.ndarray:
    """A stored tensor as float64, outputs × inputs."""
    return (tensor.double().T if row.transposed else tensor.double()).numpy()


def expected_change(
    free: np.ndarray, base: np.ndarray, after: After, row: PlanRow, limit: float
) -> tuple[np.ndarray, float]:
    """All of ``after``, of the second of two blocks or of the first, from the free merge's change.

    ``limit``: the largest norm under the cap, which scales by the second number.
    """
    noise = 3e-6 * np.linalg.norm(free) + 1.2e-7 * np.linalg.norm(base)
    made = reshaped(
        free, after.rank or 1.0, 1.0 if after.spectrum is None else after.spectrum, noise
    )
    first, last = after.depth or (1.0, 1.0)
    made = made * (last if row.block == 1 else first) * (after.scale or 1.0)
    factor = min(1.0, limit / float(np.linalg.norm(made) or 1.0)) if after.cap else 1.0
    return made * factor, factor


def check_after(family: Family, folder: Path, after: After, near: float, **keys: object) -> None:
    """A merge with ``after`` is the oracle's of the merge without."""
    plain = recipe_of(family, out_dtype="float32", **keys)
    prepared = prepare(replace(plain, after=after))
    base = load_base(family)
    free, _ = tensors_and_reports(prepare(plain), folder / "free")
    merged, said = tensors_and_reports(prepared, folder / "after")
    seen = 0
    for row in prepared.plan.rows:
        if not row.in_base or row.tied_to is not None:
            continue
        if row.disposition is not Disposition.MERGED or len(row.shape) != 2:
            assert torch.equal(merged[row.name], free[row.name])
            continue
        start = oriented(base[row.name], row)
        _, limit = changes(family, merged, row) if after.cap else (None, 0.0)
        change = oriented(free[row.name], row) - start
        expected, factor = expected_change(change, start, after, row, limit)
        wrong = np.linalg.norm(oriented(merged[row.name], row) - start - expected)
        assert wrong <= near * np.linalg.norm(expected), row.name
        if after.cap:
            assert said[row.name].cap_factor == pytest.approx(factor, rel=1e-4)
            notes = said[row.name].notes
            assert not any("cap" in note for note in notes), "one that works is no departure"
        seen += 1
    assert seen >= 8


FREE_OF_DATA = [m for m in REGISTERED.values() if in_weights(m) and m.modules is None]


@pytest.mark.parametrize("method", FREE_OF_DATA, ids=lambda method: method.name)
def test_all_of_it_with_every_method(gpt2: Family, tmp_path, method: MergeMethod[Any]):
    count = min(method.most or 3, 3)
    family = Family(base=gpt2.base, experts=dict(list(gpt2.experts.items())[:count]))
    after = ALL if count > 1 else replace(ALL, cap=None)
    if method.name.startswith("iso"):  # its singular values are equal: none of them leads
        after = replace(after, rank=None)
    check_after(family, tmp_path, after, 1e-4, merge_method=method.name)


@pytest.mark.parametrize(
    "after",
    [
        After(rank=0.3),
        After(spectrum=0.5),
        After(spectrum=0.2),
        After(spectrum=2.0),
        After(depth=(0.2, 1.4)),
        After(scale=0.3),
        After(scale=-0.5, cap=TIGHT),
    ],
    ids=lambda after: " ".join(describe_after(after)),
)
def test_each_part_of_it(gpt2: Family, tmp_path, after: After):
    check_after(gpt2, tmp_path, after, 1e-4, merge_method="ace", parameters={"epsilon": 1e-3})


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("method", ["ace", "linear", "tsv_m", "ties"])
def test_experts_in_other_numbers(gpt2: Family, tmp_path, method: str, dtype: torch.dtype):
    folders = {name: tmp_path / name for name in ("base", *gpt2.experts)}
    for name, folder in folders.items():
        shutil.copytree(gpt2.base if name == "base" else gpt2.experts[name], folder)
        file = folder / "model.safetensors"
        tensors = {key: value.to(dtype) for key, value in load_file(file).items()}
        save_file(tensors, file, metadata={"format": "pt"})
    experts = {name: folders[name] for name in gpt2.experts}
    family = Family(base=folders["base"], experts=experts)
    check_after(family, tmp_path, replace(ALL, cap=None), 3e-3, merge_method=method)


@pytest.mark.parametrize("method", ["ace", "ties"])
def test_the_defaults_leave_every_bit(gpt2: Family, tmp_path, method: str):
    plain = recipe_of(gpt2, merge_method=method)
    neutral = After(rank=1.0, spectrum=1.0, depth=(1.0, 1.0), scale=1.0, cap=False)
    free, said = tensors_and_reports(prepare(plain), tmp_path / "free")
    merged, reported = tensors_and_reports(
        prepare(replace(plain, after=neutral)), tmp_path / "usual"
    )
    assert all(torch.equal(tensor, merged[name]) for name, tensor in free.items())
    assert said == reported


def test_every_stack_has_its_own_depth():
    names = ["encoder.block.{}.q.weight", "decoder.block.{}.q.weight", "pooler.dense.weight"]
    rows = [
        PlanRow(
            name=name.format(block),
            role="query",
            shape=(4, 4),
            dtype="F32",
            disposition=Disposition.MERGED,
            reason="",
            block=block if "{}" in name else None,
        )
        for name, count in zip(names, (3, 5, 1), strict=True)
        for block in range(count)
    ]
    last = last_blocks(rows)
    after = After(depth=(0.5, 1.5), scale=2.0)
    scales = [with_after(row, after, last).after.scale for row in rows]
    assert scales == pytest.approx([1, 2, 3, 1, 1.5, 2, 2.5, 3, 1])


def test_an_override_changes_what_it_names(gpt2: Family):
    rules = (
        Override(role="MLP up", after=After(spectrum=1.0)),
        Override(role="MLP down", merge_method="linear", after=After(scale=2.0, rank=0.5)),
        Override(blocks="1", after=After(cap=Cap(delta=0.5))),
        Override(role="attention output", blocks="1", after=After(cap=False)),
        Override(role="norm", after=After(cap=Cap())),
    )
    after = After(spectrum=0.5, scale=0.9, cap=Cap())
    plan = prepare(recipe_of(gpt2, after=after, overrides=rules)).plan
    rows = {(r.role, r.block): r for r in plan.rows if r.disposition is Disposition.MERGED}
    assert rows["MLP up", 0].after == RowAfter(scale=0.9, cap=0.12)
    assert rows["MLP up", 1].after == RowAfter(scale=0.9, cap=0.5)
    assert rows["MLP down", 0].after == RowAfter(rank=0.5, spectrum=0.5, scale=2.0, cap=0.12)
    assert rows["attention output", 0].after == RowAfter(spectrum=0.5, scale=0.9, cap=0.12)
    assert rows["attention output", 1].after.cap is None
    assert "scale 2" in rows["MLP down", 0].reason
    assert "cap δ 0.5" in rows["MLP up", 1].reason
    assert "no cap" in rows["attention output", 1].reason
    assert all(row.after.cap is None for row in plan.rows if row.role == "norm")
    assert any("overrides[4]" in warning for warning in plan.warnings)


def test_the_automatic_variant_is_not_capped_twice(gpt2: Family, tmp_path):
    plain = recipe_of(gpt2, parameters={"variant": "automatic", "alpha": 1e-4, "delta": 1e-3})
    once, first = tensors_and_reports(prepare(plain), tmp_path / "once")
    twice, second = tensors_and_reports(
        prepare(replace(plain, after=After(cap=TIGHT))), tmp_path / "twice"
    )
    for name, tensor in once.items():
        assert torch.allclose(tensor, twice[name], rtol=1e-6, atol=1e-7)
    assert {n: r.cap_factor for n, r in second.items()} == {
        n: pytest.approx(r.cap_factor) for n, r in first.items()
    }


def test_weights_do_not_move_the_cap(gpt2: Family, tmp_path):
    """Three experts of weight 2 under ACE and under a sum have the cap of the experts as they are.

    One of weight 0 does not count.
    """
    weights = {"task0": 2.0, "task1": 2.0, "task2": 2.0, "task3": 0.0}
    for method in ("ace", "task_arithmetic"):
        rule = Override(pattern="*", weights=weights)
        recipe = recipe_of(gpt2, merge_method=method, after=After(cap=TIGHT), overrides=(rule,))
        prepared = prepare(recipe)
        merged, said = tensors_and_reports(prepared, tmp_path / method)
        fewer = Family(base=gpt2.base, experts=dict(list(gpt2.experts.items())[:3]))
        for row in prepared.plan.rows:
            if row.after.cap is not None and (said[row.name].cap_factor or 1) < 1:
                change, limit = changes(fewer, merged, row)
                assert np.linalg.norm(change) == pytest.approx(limit, rel=1e-5)


def test_one_expert_is_not_capped(gpt2: Family, tmp_path):
    alone = Family(base=gpt2.base, experts=dict(list(gpt2.experts.items())[:1]))
    recipe = recipe_of(alone, merge_method="task_arithmetic", parameters={"scaling": 1.0})
    free, _ = tensors_and_reports(prepare(recipe), tmp_path / "free")
    merged, said = tensors_and_reports(
        prepare(replace(recipe, after=After(cap=TIGHT))), tmp_path / "capped"
    )
    for name, tensor in free.items():
        assert torch.allclose(tensor, merged[name], rtol=0, atol=1e-7)
    assert any("fewer than two experts" in n for report in said.values() for n in report.notes)


def test_a_store_with_another_after_is_not_continued(gpt2: Family, tmp_path):
    recipe = recipe_of(gpt2, merge_method="task_arithmetic", after=After(cap=TIGHT))
    stopped_merge(prepare(recipe), tmp_path / "store", 3, device="cpu")
    for after in (After(), After(cap=Cap(delta=0.3)), After(cap=TIGHT, spectrum=0.5)):
        prepared = prepare(replace(recipe, after=after))
        with pytest.raises(ResumeError, match=r"recipe, rows(, side_by_side)? differs"):
            next(iter(merge(prepared, tmp_path / "store", resume=True)))


def test_the_spectra_before_and_after_are_known(gpt2: Family, tmp_path):
    """In the layer's report, in its spectrum and on the card."""
    plain = recipe_of(gpt2, parameters={"variant": "automatic"})
    recipe = replace(plain, after=After(rank=0.9, spectrum=0.5, scale=2.0))
    seen = {}
    for merge_recipe in (plain, recipe):
        prepared = prepare(merge_recipe)
        cache = InspectionCache(tmp_path / "cache")
        row = next(row for row in prepared.plan.rows if row.role == "MLP up")
        steps = list(spectrum(prepared, row, torch.device("cpu"), cache))
        (seen[merge_recipe.after],) = (step for step in steps if isinstance(step, LayerSpectrum))
    before, after = seen.values()
    assert before.unshaped is None
    assert before.report.effective_ranks is None
    assert after.unshaped is not None
    np.testing.assert_allclose(after.unshaped, before.merged, rtol=1e-4, atol=1e-6)
    made = np.where(np.arange(32) < 28, np.sqrt(before.merged), 0)
    made *= 2 * np.linalg.norm(before.merged[:28]) / np.linalg.norm(made)
    np.testing.assert_allclose(after.merged, made, rtol=1e-4, atol=1e-6)
    ranks = effective_rank(before.merged), effective_rank(after.merged)
    assert after.report.effective_ranks == pytest.approx(ranks, rel=1e-3)
    list(merge_to_folder(recipe, tmp_path / "out", Options(device="cpu")))
    card = (tmp_path / "out" / "README.md").read_text()
    assert re.search(r"8 merged changes .* effective rank went from \d+ to \d+", card)
    assert "after:\n  rank: 0.9\n  spectrum: 0.5\n  scale: 2.0\n" in card


def test_another_cap_is_looked_at_anew(gpt2: Family, tmp_path):
    norms = []
    for after in (After(), After(cap=TIGHT)):
        recipe = recipe_of(gpt2, merge_method="tsv_m", parameters={"scaling": 4.0}, after=after)
        prepared = prepare(recipe)
        cache = InspectionCache(tmp_path)
        row = next(row for row in prepared.plan.rows if row.role == "MLP up")
        steps = list(spectrum(prepared, row, torch.device("cpu"), cache))
        seen = next(step for step in steps if isinstance(step, LayerSpectrum))
        norms.append(np.linalg.norm(seen.merged))
    assert norms[1] < norms[0] / 1.5


def test_the_card_says_what_it_did(gpt2: Family, tmp_path):
    recipe = recipe_of(
        gpt2, merge_method="task_arithmetic", parameters={"scaling": 3.0}, after=After(cap=TIGHT)
    )
    list(merge_to_folder(recipe, tmp_path / "out", Options(device="cpu")))
    card = (tmp_path / "out" / "README.md").read_text()
    assert "capped changes were scaled down by the cap, at most to 0." in card
    assert "after:\n  cap:\n    delta: 0.001\n" in card


def test_it_travels_in_the_file(gpt2: Family, tmp_path):
    rules = (
        Override(role="query", after=After(cap=False)),
        Override(role="key", after=After(cap=Cap(delta=0.0))),
    )
    recipe = recipe_of(gpt2, after=After(cap=Cap()), overrides=rules)
    text = dump_recipe(recipe, tmp_path)
    (tmp_path / "recipe.yaml").write_text(text)
    assert load_recipe(tmp_path / "recipe.yaml") == recipe
    assert "after:\n  cap:\n    delta: 0.12\n" in text
    ours = {"merge_method": "slerp", "base_model": "b", "models": [{"model": "a"}], "cap": {}}
    assert recipe_from({**ours, "schema": 1}).after.cap == Cap(delta=0.12)


def test_both_spellings_of_the_cap():
    document = {"schema": 1, "base_model": "b", "models": [{"model": "a"}]}
    for after in ({"cap": 0.3}, {"cap": {"delta": 0.3}}):
        assert recipe_from({**document, "after": after}) == recipe_from(
            {**document, "cap": {"delta": 0.3}}
        )
        with pytest.raises(RecipeError, match=r"\bcap and after.cap") as caught:
            recipe_from({**document, "after": after, "cap": {}})
        assert caught.value.key == "after.cap"
        rule = {"role": "query", "after": after, "cap": False}
        with pytest.raises(RecipeError, match=r"overrides\[0\].cap and overrides\[0\].after.cap"):
            recipe_from({**document, "overrides": [rule]})
    joined = recipe_from({**document, "after": {"spectrum": 0.5}, "cap": {"delta": 0.3}})
    assert joined.after == After(spectrum=0.5, cap=Cap(delta=0.3))


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ({"spectrum": -0.1}, "after.spectrum' is -0.1"),
        ({"spectrum": 5}, "after.spectrum' is 5"),
        ({"rank": 0}, "after.rank' is 0"),
        ({"rank": 1.1}, "after.rank' is 1.1"),
        ({"depth": [1.0]}, "after.depth' .*two factors"),
        ({"depth": [1.0, 11.0]}, "after.depth' .*two factors"),
        ({"depth": [1.0, float("nan")]}, r"after.depth\[1\]' is nan"),
        ({"scale": 11}, "after.scale' is 11"),
        ({"power": 0.5}, "unknown key 'after.power'.*spectrum"),
        (0.5, "after' is 0.5, but must be keys with values"),
    ],
)
def test_what_is_no_after_is_refused(after: object, said: str):
    document = {"schema": 1, "base_model": "b", "models": [{"model": "a"}]}
    with pytest.raises(RecipeError, match=said):
        recipe_from({**document, "after": after})
    with pytest.raises(RecipeError, match=said.replace("after", "overrides.0..after", 1)):
        recipe_from({**document, "overrides": [{"role": "query", "after": after}]})
    if isinstance(after, dict) and "power" not in after:
        with pytest.raises(RecipeError, match="after"):
            After(**after)


@pytest.mark.parametrize(
    ("cap", "said"),
    [
        ({"delta": -1}, "cap.delta' is -1"),
        ({"delta": float("nan")}, "cap.delta' is nan"),
        ({"delta": 11}, "cap.delta' is 11"),
        ({"delt": 0.1}, "did you mean 'delta'"),
        ("0.12", "cap' is '?0.12'?, but must be keys with values"),
    ],
)
def test_what_is_no_cap_is_refused(cap: object, said: str):
    document = {"schema": 1, "base_model": "b", "models": [{"model": "a"}]}
    with pytest.raises(RecipeError, match=said):
        recipe_from({**document, "cap": cap})
    rule = {"role": "query", "cap": cap}
    with pytest.raises(RecipeError, match=said.replace("cap", "overrides.0..after.cap", 1)):
        recipe_from({**document, "overrides": [rule]})


def test_mergekit_has_none(gpt2: Family, tmp_path):
    values = {"scaling": 1.0, "normalize": False}
    recipe = recipe_of(gpt2, merge_method="task_arithmetic", after=After(cap=Cap()))
    with pytest.raises(RecipeError, match="after"):
        dump_mergekit(recipe, values, tmp_path)
    rules = (Override(pattern="*mlp*", after=After(cap=Cap())),)
    with pytest.raises(RecipeError, match="after"):
        dump_mergekit(replace(recipe, after=After(), overrides=rules), values, tmp_path)
