"""The health of a layer: what is worth a sentence, and what is not."""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import pytest

from ace_gui.ace_variants import LARGEST_RIDGE_MASS
from ace_gui.cli.console import Terminal
from ace_gui.cli.inspecting import print_layers
from ace_gui.engine.contract.findings import LayerReport, LayerStatistics, Regime
from ace_gui.engine.contract.health import (
    BY_SCALE,
    WORST_SHOWN,
    by_scale_alone,
    cap_ratio,
    gamma_unreliable,
    layer_health,
    model_health,
    norm_ratio,
)
from ace_gui.engine.contract.plan import CheckVerdict, Disposition
from ace_gui.engine.inspecting.statistics import layers_of
from ace_gui.engine.report.report_tables import extreme_table
from ace_gui.linalg.heterogeneity import heterogeneity
from ace_gui.methods.ace.notes import regime

PARAMETERS = {"epsilon": 1e-5, "tau": 0.3, "k_frac": 0.3, "scaling": 1.0}


def statistics(*energies: float) -> LayerStatistics:
    spread = heterogeneity(energies)
    names = [f"e{t}" for t in range(len(energies))]
    return LayerStatistics(
        name="layer",
        energies=dict(zip(names, energies, strict=True)),
        gamma=spread.gamma,
        mean_log_energy=spread.mean_log_energy,
        log_variance=spread.log_variance,
        left_out=tuple(names[t] for t in spread.left_out),
    )


def report(**figures: object) -> LayerReport:
    fine: dict[str, object] = {
        "gamma": 0.5,
        "regime": Regime.HETEROGENEOUS,
        "ridge_mass": 1e-4,
        "condition": 1e4,
        "refinement_cosine": 0.6,
        "refinement_ratio": 0.8,
        "energies": {"a": 4.0, "b": 4.0},
        "delta_norm": 2.0,
    }
    return LayerReport(name="layer", **{**fine, **figures})


def titles(
    layer_statistics: LayerStatistics | None, reported: LayerReport | None = None, **changes: float
):
    health = layer_health(layer_statistics, reported, {**PARAMETERS, **changes})
    return {finding.title: finding.verdict for finding in health.findings}


def test_an_ordinary_layer_is_fine_before_and_after():
    ordinary = statistics(20.0, 30.0, 25.0)
    assert titles(ordinary) == {}
    assert layer_health(ordinary, report(), PARAMETERS).verdict is CheckVerdict.OK


def test_a_gamma_that_only_the_pole_lifts_is_marked():
    near = statistics(0.9, 1.1, 1.3)
    assert near.gamma is not None
    assert near.gamma > 0.3
    assert by_scale_alone(near, 0.3)
    assert titles(near)["By scale alone"] is CheckVerdict.WARNING
    real = statistics(100.0, 1e-2, 1e4)
    assert not by_scale_alone(real, 0.3)
    assert not by_scale_alone(statistics(20.0, 21.0), 0.3)


@pytest.mark.parametrize("energies", [(0.9, 1.1, 1.3), (2.0, 2.2), (0.01, 5.0), (9.0, 0.2, 1.0)])
def test_the_pole_is_where_the_merge_sees_it(energies: tuple[float, ...]):
    spread = heterogeneity(energies)
    warned = regime(spread, 0.3, ridge_mass=0.0) if (spread.gamma or 0) > 0.3 else []
    assert by_scale_alone(statistics(*energies), 0.3) == bool(warned)


def test_experts_without_change_are_named():
    health = layer_health(statistics(1.0, 0.0, 2.0), None, PARAMETERS)
    (finding,) = [finding for finding in health.findings if finding.title == "Expert left out"]
    assert finding.verdict is CheckVerdict.NOTE
    assert "e1" in finding.sentence
    assert "the other 2" in finding.sentence
    alone = layer_health(statistics(0.0, 3.0), None, PARAMETERS).findings[0].sentence
    assert "one remaining expert" in alone


def test_the_prior_is_noted_where_energies_are_small_and_unequal():
    assert titles(statistics(1e-1, 1e-4, 1e-7))["Strong prior"] is CheckVerdict.NOTE
    assert "Strong prior" not in titles(statistics(1e-3, 1.1e-3, 1.2e-3)), "homogeneous"
    assert "Strong prior" not in titles(statistics(100.0, 1e-2, 1e4)), "large"


def test_the_ridge_mass_is_foreseen_and_then_reported():
    unequal = statistics(1e-1, 1e-4, 1e-7)
    assert titles(unequal)["Ridge mass"] is CheckVerdict.WARNING, "ε / E of the third is 100"
    assert "Ridge mass" not in titles(unequal, epsilon=1e-9)
    assert titles(unequal, report(ridge_mass=0.2))["Ridge mass"] is CheckVerdict.NOTE
    assert "Ridge mass" not in titles(unequal, report(ridge_mass=0.05))
    reported = report(ridge_mass=LARGEST_RIDGE_MASS + 1, warnings=("The ridge mass is large.",))
    assert titles(unequal, reported) == {
        "Method": CheckVerdict.WARNING,
        "Strong prior": CheckVerdict.NOTE,
    }


def test_what_the_merge_says_is_passed_on_worst_first():
    reported = report(notes=("One expert was left out.",), warnings=("Look out.",))
    health = layer_health(None, reported, PARAMETERS)
    assert [finding.sentence for finding in health.findings] == [
        "Look out.",
        "One expert was left out.",
    ]
    assert health.verdict is CheckVerdict.WARNING
    assert health.tooltip.splitlines() == ["Look out.", "One expert was left out."]


def test_norms_out_of_the_ordinary_are_named():
    assert norm_ratio(report(delta_norm=3.0, energies={"a": 1.0, "b": 4.0})) == pytest.approx(2.0)
    assert norm_ratio(report(delta_norm=None)) is None
    assert norm_ratio(report(energies={"a": 0.0})) is None
    assert titles(None, report(delta_norm=40.0))["Norm"] is CheckVerdict.WARNING
    assert titles(None, report(delta_norm=0.01))["Norm"] is CheckVerdict.NOTE
    many = {f"e{t}": 4.0 for t in range(16)}
    assert titles(None, report(delta_norm=40.0, energies=many)) == {}, "many experts add up"
    assert titles(None, report(refinement_ratio=11.0))["Refinement"] is CheckVerdict.WARNING


def test_a_method_without_gamma_has_no_threshold_to_exceed():
    plain = LayerStatistics(name="layer", energies={"a": 1e-9, "b": 1.0})
    assert layer_health(plain, None, {}).findings == ()


def test_something_must_be_known():
    with pytest.raises(ValueError, match="Neither"):
        layer_health(None, None, PARAMETERS)


def test_the_model_is_as_healthy_as_its_worst_layer():
    fine = layer_health(None, report(), PARAMETERS)
    noted = layer_health(None, report(notes=("A departure.",)), PARAMETERS)
    bad = layer_health(
        None,
        dataclasses.replace(report(warnings=("Bad.",), ridge_mass=3.0), name="bad"),
        PARAMETERS,
    )
    health = model_health([fine, noted, bad, *[noted] * WORST_SHOWN])
    assert health.verdict is CheckVerdict.WARNING
    assert health.counts == {
        CheckVerdict.OK: 1,
        CheckVerdict.NOTE: WORST_SHOWN + 1,
        CheckVerdict.WARNING: 1,
    }
    assert health.worst[0].name == "bad"
    assert len(health.worst) == WORST_SHOWN
    table = extreme_table([fine, noted, bad])
    assert ("Largest ridge mass Σ εₜ", "bad", "3.000") in table.rows
    assert extreme_table([]) is None
    total = WORST_SHOWN + 3
    notes = f"{WORST_SHOWN + 1} have a note"
    assert health.sentence == f"Of {total} tensors, 1 has a warning and {notes}."
    assert model_health([fine]).sentence == "Nothing out of the ordinary in 1 tensor."
    assert model_health([]).verdict is CheckVerdict.OK


@pytest.mark.parametrize("scale", [1e-3, 0.5, 1.0, 7.0])
def test_the_log_variance_knows_no_scale_and_says_where_gamma_is_unreliable(scale: float):
    """Under the automatic variant, which has no τ, the published one is the measure."""
    layer = statistics(*(scale * value for value in (0.9, 1.1, 1.3)))
    assert layer.log_variance == pytest.approx(heterogeneity([0.9, 1.1, 1.3]).log_variance)
    assert gamma_unreliable(layer, 0.3) == (scale == 1.0)
    assert gamma_unreliable(layer, None) == gamma_unreliable(layer, math.inf) == (scale == 1.0)


@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_the_regime_says_where_it_is_one_of_scale_alone(scale: float, capsys):
    """In what inspect prints, in the cell of the layer and in the sum."""
    layer = statistics(*(scale * value for value in (0.9, 1.1, 1.3)))
    row = SimpleNamespace(
        name="a",
        role="query",
        shape=(2, 2),
        disposition=Disposition.MERGED,
        reason="",
        override=None,
    )
    plan: Any = SimpleNamespace(
        rows=(row,), parameters={"tau": 0.3}, recipe=SimpleNamespace(overrides=()), warnings=(),
        tau_of=lambda _: 0.3, has_regimes=lambda _: True,
    )  # fmt: skip
    print_layers(plan, layers_of(plan, {"a": layer}), Terminal().results)
    printed = capsys.readouterr().out
    assert (BY_SCALE in printed) == (scale == 1.0)
    assert ("1 of them by scale alone" in printed) == (scale == 1.0)


def test_where_the_published_variant_misbehaves():
    """Far above the cap, against the experts, or under a ridge that drowns them."""
    layer = dataclasses.replace(statistics(4.0, 4.0, 4.0, 4.0), base_energy=1e4)
    assert cap_ratio(layer, report(delta_norm=4.0)) == pytest.approx(1.0)  # √4 · 2
    small = dataclasses.replace(layer, base_energy=1.0)
    assert cap_ratio(small, report(delta_norm=4.0)) == pytest.approx(2.0)  # one expert's
    assert cap_ratio(statistics(4.0, 4.0), report()) is None

    def misbehaves(reported: LayerReport) -> bool:
        return layer_health(layer, reported, PARAMETERS).misbehaves

    assert not misbehaves(report(delta_norm=15.9))
    assert misbehaves(report(delta_norm=16.1))
    assert titles(layer, report(delta_norm=16.1))["Above the cap"] is CheckVerdict.WARNING
    assert misbehaves(report(refinement_cosine=-0.1))
    assert not misbehaves(report(refinement_cosine=-0.1, refinement_ratio=0.0))
    assert misbehaves(report(ridge_mass=0.6))
    assert not misbehaves(report(ridge_mass=0.6, regime=Regime.HOMOGENEOUS))
    assert not misbehaves(report(delta_norm=80.0, regime=None)), "no published variant"
    model = model_health([layer_health(layer, report(delta_norm=17.0), PARAMETERS)])
    assert model.misbehaving == ("layer",)
