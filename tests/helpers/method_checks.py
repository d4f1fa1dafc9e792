"""Every method but ACE with its oracle: which parameters are tried on which experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ace_gui.methods.shared.draws import uniform
from tests.helpers import data_method_oracles as data_oracle
from tests.helpers import method_oracles as oracle
from tests.helpers.method_cases import (
    Array,
    base_of,
    matrix_cases,
    merged,
    random_key,
    tensor_cases,
)

LARGEST_ERROR = 1e-5
CASES = tensor_cases()
MATRICES = matrix_cases()
# Where coordinates cancel exactly, rounding elects their sign.
UNBALANCED = {name: deltas for name, deltas in MATRICES.items() if name != "opposed"}
PAIRS = {name: deltas[:2] for name, deltas in CASES.items() if len(deltas) > 1}
SINGLES = {name: deltas[:1] for name, deltas in CASES.items()}
MEAN_DIRECTION = {name: deltas for name, deltas in CASES.items() if name != "opposed"}


def draws(deltas: Array) -> Array:
    here = random_key(len(deltas))
    like = torch.zeros(deltas.shape[1:])
    return np.array([uniform(here, t, like).numpy() for t in range(len(deltas))])


@dataclass(frozen=True)
class Check:
    """A method with parameters, and the oracle for exactly these."""

    method: str
    oracle: Callable[[Array], Array]
    parameters: dict[str, Any]
    cases: dict[str, Array] = field(repr=False)

    def __str__(self) -> str:
        return "-".join([self.method, *(f"{k}={v}" for k, v in self.parameters.items())])


def check(
    method: str,
    oracle: Callable[[Array], Array],
    cases: dict[str, Array] = CASES,
    **parameters: Any,
) -> Check:
    return Check(method, oracle, parameters, cases)


def errors(tried: Check) -> dict[str, float]:
    """The relative error of the method by case."""
    return {
        name: oracle.relative_error(
            merged(tried.method, deltas, **tried.parameters), tried.oracle(deltas)
        )
        for name, deltas in tried.cases.items()
    }


def knots_dare_ties(deltas: Array, density: float) -> Array:
    """Coordinates of which a part is dropped, merged by sign election."""
    indices = [t for t, delta in enumerate(deltas) if delta.any()]
    if not indices:
        return np.zeros_like(deltas[0])
    u, blocks = oracle.knots(deltas[indices])
    here = random_key(len(deltas))
    like = torch.zeros(blocks.shape[1:])
    uniforms = np.array([uniform(here, t, like).numpy() for t in indices])
    return u @ oracle.elect(oracle.dare(blocks, uniforms, density))


def base_weights(deltas: Array) -> Array:
    """The base's weights."""
    return base_of(deltas.shape[1:])


def between(deltas: Array, t: float, straight: float) -> Array:
    """From the base's weights to the expert's; what only the base's rounding changes is nothing."""
    base = base_weights(deltas)
    change = oracle.slerp(base, base + deltas[0], t, straight) - base
    return np.where(np.abs(change) <= np.spacing(np.abs(base)), 0, change)


def equal_weights(deltas: Array) -> Array:
    return np.ones(len(deltas))


CHECKS = [
    check("regmean", lambda d: data_oracle.regmean(d, 0.9), MATRICES),
    check("regmean", lambda d: data_oracle.regmean(d, 0.0), MATRICES, alpha=0.0),
    check("regmean", lambda d: data_oracle.regmean(d, 1.0), MATRICES, alpha=1.0),
    check("fisher", lambda d: data_oracle.fisher(d, 0.001)),
    check("fisher", lambda d: data_oracle.fisher(d, 0.5), floor=0.5),
    check("ubgm", lambda d: data_oracle.ubgm(d, 1.0)),
    check("ubgm", lambda d: data_oracle.ubgm(d, 0.01), prior=0.01),
    check("esm", data_oracle.esm, MATRICES),
    check("esm", lambda d: data_oracle.esm(d, 1.0, 0.0), MATRICES, power=1.0, eigenvalue_power=0.0),
    check("adamerging", lambda d: 0.3 * d.sum(axis=0)),
    check("adamerging", lambda d: 0.7 * d.sum(axis=0), variant="task-wise", scaling=0.7),
    check("adamerging", lambda d: 0.3 * oracle.ties(d, 0.2, "sum"), variant="layer-wise++"),
    check("adarank", lambda d: 0.3 * d.sum(axis=0)),
    check("adarank", lambda d: data_oracle.leading(d, 0.5), MATRICES, ratio=0.5),
    check("concrete", lambda d: 0.3 * d.sum(axis=0)),
    check("concrete", lambda d: 0.5 * d.sum(axis=0), variant="adamerging", scaling=0.5),
    check("samerging", lambda d: 0.3 * d.sum(axis=0)),
    check("samerging", lambda d: 0.5 * d.sum(axis=0), scaling=0.5),
    check("expert_merging", lambda d: 0.1 * d.sum(axis=0)),
    check("expert_merging", lambda d: 0.5 * d.sum(axis=0), scaling=0.5),
    check("prodistill", lambda d: 0.3 * d.sum(axis=0)),
    check("prodistill", lambda d: 0.5 * d.sum(axis=0), scaling=0.5),
    check("localize_stitch_few_shot", lambda d: oracle.localize_stitch(d, 0.2), density=0.2),
    check("linear", lambda d: d.mean(axis=0)),
    check("task_arithmetic", lambda d: 0.7 * d.sum(axis=0), scaling=0.7),
    check("ties", lambda d: oracle.ties(d, 0.2)),
    check(
        "ties", lambda d: 0.3 * oracle.ties(d, 0.5, "sum"), density=0.5, combine="sum", scaling=0.3
    ),
    check("ties", lambda d: oracle.ties(d, 1.0), density=1.0),
    check(
        "ties", lambda d: oracle.ties(d, 1.0, balanced="positive"), density=1.0, balanced="positive"
    ),
    check("dare_linear", lambda d: 0.3 * oracle.dare(d, draws(d), 0.5).sum(axis=0)),
    check("dare_ties", lambda d: oracle.elect(oracle.dare(d, draws(d), 0.3)), density=0.3),
    check(
        "dare_ties",
        lambda d: oracle.ties(oracle.dare(d, draws(d), 0.5), 0.2, "sum"),
        trim_density=0.2,
        combine="sum",
    ),
    check("della", lambda d: oracle.elect(oracle.della(d, draws(d), 0.5, 0.15))),
    check(
        "della",
        lambda d: 2 * oracle.elect(oracle.della(d, draws(d), 0.4, 0.3), "sum"),
        density=0.4,
        epsilon=0.3,
        combine="sum",
        scaling=2.0,
    ),
    check("breadcrumbs", lambda d: 0.3 * oracle.breadcrumbs(d, 0.14, 0.01)),
    check(
        "breadcrumbs",
        lambda d: oracle.breadcrumbs(d, 0.3, 0.1),
        density=0.3,
        gamma=0.1,
        scaling=1.0,
    ),
    check(
        "breadcrumbs",
        lambda d: oracle.breadcrumbs(d, 0.9, 0.4),
        density=0.9,
        gamma=0.4,
        scaling=1.0,
    ),
    check("breadcrumbs_ties", lambda d: oracle.elect(oracle.crumbs(d, 0.14, 0.01))),
    check(
        "breadcrumbs_ties",
        lambda d: 0.5 * oracle.elect(oracle.crumbs(d, 0.6, 0.2), "sum", balanced="positive"),
        density=0.6,
        gamma=0.2,
        scaling=0.5,
        combine="sum",
        balanced="positive",
    ),
    check("della_linear", lambda d: 0.3 * oracle.della(d, draws(d), 0.5, 0.15).sum(axis=0)),
    check(
        "della_linear",
        lambda d: oracle.della(d, draws(d), 0.4, 0.3).mean(axis=0),
        density=0.4,
        epsilon=0.3,
        scaling=1.0,
        normalize=True,
    ),
    check("nearswap", lambda d: oracle.nearswap(d[0], 0.0001), SINGLES),
    check("nearswap", lambda d: oracle.nearswap(d[0], 0.3), SINGLES, t=0.3),
    check("ram", lambda d: oracle.ram(d, 1e-05)),
    check("ram", lambda d: oracle.ram(d, 0.3), epsilon=0.3),
    check("ramplus_tl", lambda d: oracle.ramplus_tl(d, 1e-05, 0.1, 0.2)),
    check(
        "ramplus_tl", lambda d: oracle.ramplus_tl(d, 0.05, 0.5, 2.0), epsilon=0.05, r=0.5, alpha=2.0
    ),
    check("arcee_fusion", lambda d: oracle.arcee_fusion(d[0], base_weights(d), 1.5), SINGLES),
    check(
        "arcee_fusion",
        lambda d: oracle.arcee_fusion(d[0], base_weights(d), 0.0),
        SINGLES,
        spread=0.0,
    ),
    check("base_slerp", lambda d: between(d, 0.5, 0.9995), SINGLES),
    check("base_slerp", lambda d: between(d, 0.2, 1.0), SINGLES, t=0.2, parallel=1.0),
    check(
        "linear",
        lambda d: oracle.linear(d, base_weights(d), equal_weights(d), 0.5, mean=True),
        base_weight=0.5,
    ),
    check(
        "linear",
        lambda d: oracle.linear(d, base_weights(d), equal_weights(d), 0.5, mean=False),
        base_weight=0.5,
        normalize=False,
    ),
    check("task_arithmetic", lambda d: 0.7 * d.mean(axis=0), scaling=0.7, normalize=True),
    check("consensus_ta", lambda d: 0.3 * oracle.consensus(d, 2, 0.4)),
    check(
        "consensus_ta",
        lambda d: oracle.consensus(d, 3, 0.1),
        agreeing=3,
        mask_threshold=0.1,
        scaling=1.0,
    ),
    check("nan", oracle.nan),
    check("tsv_m", oracle.tsv_m, MATRICES),
    check("iso_c", oracle.iso_c, MATRICES),
    check("iso_cts", lambda d: oracle.iso_cts(d, 0.8), MATRICES),
    check("iso_cts", lambda d: oracle.iso_cts(d, 0.0), MATRICES, common=0.0),
    check("cart", lambda d: oracle.cart(d, 0.08, 1.0), MATRICES),
    check("cart", lambda d: oracle.cart(d, 0.4, 2.3), MATRICES, rank_share=0.4, scaling=2.3),
    check("star", lambda d: oracle.star(d, 40), MATRICES),
    check("star", lambda d: oracle.star(d, 90), MATRICES, eta=90.0),
    check("wudi", lambda d: oracle.wudi_adam(d, 300, 1e-05), MATRICES),
    check(
        "wudi", lambda d: oracle.wudi_adam(d, 40, 0.001), MATRICES, steps=40, learning_rate=0.001
    ),
    check("wudi", oracle.wudi_closed, MATRICES, solution="closed"),
    check("model_stock", oracle.model_stock),
    check("slerp", lambda d: oracle.slerp(d[0], d[1], 0.3), PAIRS, t=0.3),
    check("nuslerp", lambda d: oracle.slerp(d[0], d[1], 0.5, 1 - 1e-15), PAIRS),
    check("karcher", lambda d: oracle.karcher(d, equal_weights(d), 10), MEAN_DIRECTION),
    check("multislerp", lambda d: oracle.multislerp(d, equal_weights(d)), MEAN_DIRECTION),
    check("sce", lambda d: oracle.sce(d, 1.0)),
    check("sce", lambda d: oracle.sce(d, 0.3), select_topk=0.3),
    check("sce", lambda d: 2 * oracle.sce(d, 1.0, 1.0), alike_below=1.0, scaling=2.0),
    check("fr_merging", lambda d: oracle.fr_merging(d, 0.1), MATRICES),
    check("free_merging", lambda d: oracle.fr_merging(d, 0.1), MATRICES),
    check(
        "fr_merging",
        lambda d: oracle.fr_merging(d, 0.5, equal=True),
        MATRICES,
        cutoff=0.5,
        coefficients="equal",
    ),
    check("ties", lambda d: oracle.ties(d, 0.2), trim="tensor"),
    check("nan", oracle.nan, norms="model"),
    check("pcb", lambda d: 1.2 * oracle.pcb(d, 0.05), trim="tensor"),
    check("localize_stitch", lambda d: oracle.localize_stitch(d, 0.05)),
    check("emr", oracle.emr),
    check("tall_masks", lambda d: 0.3 * d.sum(axis=0)),
    check("byom", lambda d: 0.3 * d.sum(axis=0)),
    check("twin_merging", lambda d: 0.3 * d.sum(axis=0)),
    check("wemoe", lambda d: 0.3 * d.sum(axis=0)),
    check("surgery", lambda d: 0.3 * d.sum(axis=0)),
    check("smile", lambda d: np.zeros_like(d[0]), MATRICES),
    check("tsv_c", oracle.tsv_m, MATRICES),
    check("knots_ties", lambda d: 0.6 * oracle.knots_ties(d, 0.2), UNBALANCED),
    check("knots_ties", lambda d: oracle.knots_ties(d, 1.0), UNBALANCED, density=1.0, scaling=1.0),
    check("knots_dare_ties", lambda d: 0.7 * knots_dare_ties(d, 0.9), UNBALANCED),
    check(
        "knots_dare_ties", lambda d: oracle.knots_ties(d, 1.0), UNBALANCED, density=1.0, scaling=1.0
    ),
    check("pcb", lambda d: 1.2 * oracle.pcb(d, 0.05)),
    check("pcb", lambda d: oracle.pcb(d, 0.5), density=0.5, scaling=1.0),
]
