import math
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from ace_gui.engine.contract.findings import LayerStatistics
from ace_gui.engine.contract.model_figures import fit_checks, relative_changes
from ace_gui.engine.contract.plan import EVERYTHING, CheckVerdict
from ace_gui.engine.inspecting.statistics import analyse
from ace_gui.engine.planning.prepare import prepare
from ace_gui.recipe import ModelEntry, Recipe


def test_changes_from_real_tensors_with_the_weights_taken_out(tmp_path):
    generator = torch.Generator().manual_seed(0)
    base = {"layers.0.fc.weight": torch.randn(6, 4, generator=generator), "b": torch.ones(3)}
    tuned = {name: tensor + 0.1 * tensor.roll(1, 0) for name, tensor in base.items()}
    for name, held in (("base", base), ("one", tuned)):
        save_file(held, tmp_path / f"{name}.safetensors")
    entry = ModelEntry(model=tmp_path / "one.safetensors", weight=0.25)
    ready = prepare(Recipe(base_model=tmp_path / "base.safetensors", models=(entry,)))
    changes = relative_changes([event.statistics for event in analyse(ready)], {"one": 0.25})
    delta = math.sqrt(sum(float((tuned[n] - base[n]).double().square().sum()) for n in base))
    norm = math.sqrt(sum(float(base[n].double().square().sum()) for n in base))
    assert changes["one"] == pytest.approx(delta / norm, rel=1e-6)


def test_fine_tunes_of_the_base_are_one_line():
    (check,) = fit_checks({"a": 0.01, "b": 0.03})
    assert (check.verdict, check.subject) == (CheckVerdict.OK, EVERYTHING)
    assert "1 % to 3 %" in check.sentence


def test_another_base_a_far_one_and_a_copy_are_named():
    checks = fit_checks({"a": 0.01, "b": 0.02, "other": 1.4, "far": 0.2, "copy": 0.0})
    assert {check.subject for check in checks} == {"other", "far", "copy"}
    assert {check.verdict for check in checks} == {CheckVerdict.WARNING}
    said = {check.subject: check.sentence for check in checks}
    assert "1.4 times the base's norm" in said["other"]
    assert "another base" in said["other"]
    assert "20 % of the base's norm, the median expert's 2 %" in said["far"]
    assert "Equal to the base" in said["copy"]


def test_what_is_not_known_is_not_judged():
    unknown = LayerStatistics(name="q", energies={"a": 1.0})
    assert relative_changes([unknown], {"a": 1.0}) == {}
    assert relative_changes([replace(unknown, base_energy=0.0)], {"a": 1.0}) == {"a": math.inf}
    assert relative_changes([replace(unknown, energies={"a": 0.0})], {"a": 0.0}) == {}
    assert fit_checks({}) == ()


@pytest.mark.parametrize("change", [0.099, 0.0995, 0.1, 0.99, 0.994, 0.995, 0.999, 1.0])
def test_percentages_are_written_out(change: float):
    sentences = [check.sentence for check in fit_checks({"far": change, "near": 0.001})]
    assert not [sentence for sentence in sentences if "e+" in sentence]
