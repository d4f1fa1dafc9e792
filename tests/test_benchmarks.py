"""The benchmarks stay outside the test run; what they name must exist all the same."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ace_gui.engine.devices import resolve_device
from tests.benchmarks import ablation, first_gpu, layers, stages
from tests.benchmarks.experts import norms, task_vector
from tests.benchmarks.real_family import experts as real_experts
from tests.benchmarks.real_family import tasks as real_tasks
from tests.benchmarks.real_family.scoring import Score
from tests.helpers.device_stand_in import DeviceStandIn
from tests.helpers.models import roberta_family
from tests.helpers.recipes import file_of, recipe_of


def test_every_stage_of_the_profile_names_a_function() -> None:
    missing = [
        f"{owner}.{name}"
        for _, owner, name in stages.functions()
        if not callable(getattr(owner, name, None))
    ]
    assert not missing


def test_time_spent_in_another_stage_counts_there_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 1.0, 4.0, 10.0])  # the outer begins, the inner from 1 to 4, the outer ends
    monkeypatch.setattr(stages.time, "perf_counter", lambda: next(now))
    clocks = stages.Clocks()
    inner = clocks.wrapped("inner", lambda: None)
    clocks.wrapped("outer", inner)()
    assert dict(clocks.main) == {"inner": 3.0, "outer": 7.0}


@pytest.mark.parametrize("shape", [(12, 40), (24, 40), (40, 24)])
def test_both_sides_of_the_ablation_agree(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    deltas = [task_vector(*shape, size, generator) for size in norms(3, 0.3, 1.0)]
    found = list(ablation.rows(deltas))
    assert len(found) == 9
    for name, without, with_it in found:
        reference, value = without().double(), with_it().double()
        assert float((value - reference).norm() / reference.norm()) < 1e-6, name


@pytest.mark.parametrize(
    ("shape", "sums", "after"),
    [
        ((100, 100), 2e6 + 2e6, 1e6 / 3 + 2e6),
        ((100, 240), 2 * 5.76e6 + 2 * 5.76e6, 240**3 / 3 + 2 * 5.76e6),
        ((100, 400), 200**2 * 400, 8e6 / 3 + 2 * 100 * 200**2 + 2 * 200 * 100 * 400),
    ],
)
def test_necessary_products(shape: tuple[int, int], sums: float, after: float) -> None:
    """Two experts: on the inputs' side, again, and by way of the products between experts."""
    case = layers.Case(outputs=shape[0], inputs=shape[1], experts=2, kind="hom.")
    assert layers.products(case) == (sums, after)


def test_the_script_for_the_first_gpu_runs_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = file_of(tmp_path, roberta_family(tmp_path / "models"))
    few = ["--methods", "linear", "--processes", "0", "--shapes", "6x8"]
    words = [str(recipe), "cpu", *few, "--together", "1", "--rounds", "1"]
    assert first_gpu.main(words) == 0
    assert "FAILED" not in capsys.readouterr().out


def test_what_it_compares_on_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = recipe_of(roberta_family(tmp_path / "models"))
    with DeviceStandIn().installed():
        first_gpu.every_method(recipe, resolve_device("cuda:0"), tmp_path, ["karcher", "slerp"])
        first_gpu.little_memory(recipe, resolve_device("cuda:0"), tmp_path)
    _, karcher, slerp, *_ = capsys.readouterr().out.splitlines()
    assert karcher.split()[0] == "karcher"
    assert float(karcher.split()[3]) < 1e-5
    assert "experts" in slerp  # it merges two, and says so


def test_no_text_of_a_real_task_is_in_two_of_its_splits_or_has_two_classes() -> None:
    made = [(f"the {word} number {n}", word) for word in ("first", "second") for n in range(9)]
    made += [(f"{a}{b}{c} of many", a) for a in "klmno" for b in "klmno" for c in "abcdefgh"]
    made += [("Ambiguous text", "k"), ("ambiguous, text!", "l")]
    task = real_tasks.split("made", made, 0)
    assert task == real_tasks.split("made", made, 0)
    texts = [text for split in task.splits.values() for text, _ in split]
    assert len(texts) == len(set(texts)) == 2 + 5 * 5 * 8  # those that differ in digits are one
    assert not [text for text in texts if "mbiguous" in text]
    labels = {text: task.classes[label] for s in task.splits.values() for text, label in s}
    assert all(text.startswith((f"the {label}", label)) for text, label in labels.items())


def test_scores_of_real_families_are_shares_of_the_experts_with_paired_errors() -> None:
    experts = {"a": torch.tensor([1.0, 1, 1, 0]), "b": torch.tensor([1.0, 0, 1, 0])}
    same, other = Score(experts, experts), Score({**experts, "b": torch.zeros(4)}, experts)
    assert (same.mean, same.error) == (1.0, 0.0)
    assert other.mean == 0.5
    difference, error = other.against(same)
    # The second task's differences by example are −2, 0, −2, 0: variance 4/3, of 4 examples.
    assert (difference, error) == pytest.approx((-0.5, (4 / 3 / 4) ** 0.5 / 2))


def test_a_real_adapter_adds_twice_the_product_of_its_factors(tmp_path: Path) -> None:
    up, down = torch.randn(6, 2), torch.randn(2, 4)
    base = torch.randn(6, 4)
    save_file({"layer.query.weight": base}, tmp_path / "model.safetensors")
    prefix = "base_model.model.bert.layer.query"
    made = {f"{prefix}.lora_A.weight": down, f"{prefix}.lora_B.weight": up}
    (tmp_path / "expert").mkdir()
    save_file(made, tmp_path / "expert" / "adapter_model.safetensors")
    found = real_experts.weights(tmp_path, tmp_path / "expert")
    torch.testing.assert_close(found["bert.layer.query.weight"], base + 2 * up @ down)
    linear = torch.nn.Linear(4, 6, bias=False)
    adapted = real_experts.Lora(linear, 2)
    with torch.no_grad():
        for own, value in ((linear.weight, base), (adapted.up, up), (adapted.down, down)):
            own.copy_(value)
        x = torch.randn(3, 4)
        torch.testing.assert_close(adapted(x), x @ found["bert.layer.query.weight"].T)
