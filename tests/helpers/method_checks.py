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
    here, like = random_key(len(deltas)), torch.zeros(deltas.shape[1:])
    return np.array([uniform(here, t, like).numpy() for t in range(len(deltas))])


@dataclass(frozen=True)
class Check:
    """A method with parameters, and the oracle for exactly these."""

    method: str
    oracle: Callable[[Array], Array]
    parameters: dict[str, Any] = field(default_factory=dict)
    cases: dict[str, Array] = field(default_factory=lambda: CASES, repr=False)

    def __str__(self) -> str:
        return "-".join([self.method, *(f"{k}={v}" for k, v in self.parameters.items())])


def errors(check: Check) -> dict[str, float]:
    """The relative error of the method by case."""
    return {
        name: oracle.relative_error(
            merged(check.method, deltas, **check.parameters), check.oracle(deltas)
        )
        for name, deltas in check.cases.items()
    }


def knots_dare_ties(deltas: Array, density: float) -> Array:
    """Coordinates of which a part is dropped, merged by sign election."""
    kept = [t for t, delta in enumerate(deltas) if delta.any()]
    if not kept:
        return np.zeros_like(deltas[0])
    u, blocks = oracle.knots(deltas[kept])
    here, like = random_key(len(deltas)), torch.zeros(blocks.shape[1:])
    uniforms = np.array([uniform(here, t, like).numpy() for t in kept])
    return u @ oracle.elect(oracle.dare(blocks, uniforms, density))


def whole(deltas: Array) -> Array:
    """The base's weights."""
    return base_of(deltas.shape[1:])


def between(deltas: Array, t: float, straight: float) -> Array:
    """From the base's weights to the expert's."""
    base = whole(deltas)
    return oracle.slerp(base, base + deltas[0], t, straight) - base


def equal_weights(deltas: Array) -> Array:
    return np.ones(len(deltas))


CHECKS = [
    Check("regmean", lambda d: data_oracle.regmean(d, 0.9), cases=MATRICES),
    Check("regmean", lambda d: data_oracle.regmean(d, 0.0), {"alpha": 0.0}, MATRICES),
    Check("regmean", lambda d: data_oracle.regmean(d, 1.0), {"alpha": 1.0}, MATRICES),
    Check("fisher", lambda d: data_oracle.fisher(d, 1e-3)),
    Check("fisher", lambda d: data_oracle.fisher(d, 0.5), {"floor": 0.5}),
    Check("ubgm", lambda d: data_oracle.ubgm(d, 1.0)),
    Check("ubgm", lambda d: data_oracle.ubgm(d, 0.01), {"prior": 0.01}),
    Check("esm", data_oracle.esm, cases=MATRICES),
    Check(
        "esm",
        lambda d: data_oracle.esm(d, 1.0, 0.0),
        {"power": 1.0, "eigenvalue_power": 0.0},
        MATRICES,
    ),
    Check("adamerging", lambda d: 0.3 * d.sum(axis=0)),
    Check("adamerging", lambda d: 0.7 * d.sum(axis=0), {"variant": "task-wise", "scaling": 0.7}),
    Check(
        "adamerging",
        lambda d: 0.3 * oracle.ties(d, 0.2, "sum"),
        {"variant": "layer-wise++"},
    ),
    Check("adarank", lambda d: 0.3 * d.sum(axis=0)),
    Check("adarank", lambda d: data_oracle.leading(d, 0.5), {"ratio": 0.5}, MATRICES),
    Check("concrete", lambda d: 0.3 * d.sum(axis=0)),
    Check("concrete", lambda d: 0.5 * d.sum(axis=0), {"variant": "adamerging", "scaling": 0.5}),
    Check("localize_stitch_few_shot", lambda d: oracle.localize_stitch(d, 0.2), {"density": 0.2}),
    Check("linear", lambda d: d.mean(axis=0)),
    Check("task_arithmetic", lambda d: 0.7 * d.sum(axis=0), {"scaling": 0.7}),
    Check("ties", lambda d: oracle.ties(d, 0.2)),
    Check(
        "ties",
        lambda d: 0.3 * oracle.ties(d, 0.5, "sum"),
        {
            "density": 0.5,
            "combine": "sum",
            "scaling": 0.3,
        },
    ),
    Check("ties", lambda d: oracle.ties(d, 1.0), {"density": 1.0}),
    Check(
        "ties",
        lambda d: oracle.ties(d, 1.0, balanced="positive"),
        {"density": 1.0, "balanced": "positive"},
    ),
    Check("dare_linear", lambda d: 0.3 * oracle.dare(d, draws(d), 0.5).sum(axis=0)),
    Check("dare_ties", lambda d: oracle.elect(oracle.dare(d, draws(d), 0.3)), {"density": 0.3}),
    Check(
        "dare_ties",
        lambda d: oracle.ties(oracle.dare(d, draws(d), 0.5), 0.2, "sum"),
        {
            "trim_density": 0.2,
            "combine": "sum",
        },
    ),
    Check("della", lambda d: oracle.elect(oracle.della(d, draws(d), 0.5, 0.15))),
    Check(
        "della",
        lambda d: 2 * oracle.elect(oracle.della(d, draws(d), 0.4, 0.3), "sum"),
        {
            "density": 0.4,
            "epsilon": 0.3,
            "combine": "sum",
            "scaling": 2.0,
        },
    ),
    Check("breadcrumbs", lambda d: 0.3 * oracle.breadcrumbs(d, 0.14, 0.01)),
    Check(
        "breadcrumbs",
        lambda d: oracle.breadcrumbs(d, 0.3, 0.1),
        {
            "density": 0.3,
            "gamma": 0.1,
            "scaling": 1.0,
        },
    ),
    Check(
        "breadcrumbs",
        lambda d: oracle.breadcrumbs(d, 0.9, 0.4),
        {"density": 0.9, "gamma": 0.4, "scaling": 1.0},
    ),
    Check("breadcrumbs_ties", lambda d: oracle.elect(oracle.crumbs(d, 0.14, 0.01))),
    Check(
        "breadcrumbs_ties",
        lambda d: 0.5 * oracle.elect(oracle.crumbs(d, 0.6, 0.2), "sum", balanced="positive"),
        {"density": 0.6, "gamma": 0.2, "scaling": 0.5, "combine": "sum", "balanced": "positive"},
    ),
    Check("della_linear", lambda d: 0.3 * oracle.della(d, draws(d), 0.5, 0.15).sum(axis=0)),
    Check(
        "della_linear",
        lambda d: oracle.della(d, draws(d), 0.4, 0.3).mean(axis=0),
        {"density": 0.4, "epsilon": 0.3, "scaling": 1.0, "normalize": True},
    ),
    Check("nearswap", lambda d: oracle.nearswap(d[0], 1e-4), {}, SINGLES),
    Check("nearswap", lambda d: oracle.nearswap(d[0], 0.3), {"t": 0.3}, SINGLES),
    Check("ram", lambda d: oracle.ram(d, 1e-5)),
    Check("ram", lambda d: oracle.ram(d, 0.3), {"epsilon": 0.3}),
    Check("ramplus_tl", lambda d: oracle.ramplus_tl(d, 1e-5, 0.1, 0.2)),
    Check(
        "ramplus_tl",
        lambda d: oracle.ramplus_tl(d, 0.05, 0.5, 2.0),
        {"epsilon": 0.05, "r": 0.5, "alpha": 2.0},
    ),
    Check("arcee_fusion", lambda d: oracle.arcee_fusion(d[0], whole(d), 1.5), {}, SINGLES),
    Check(
        "arcee_fusion", lambda d: oracle.arcee_fusion(d[0], whole(d), 0.0), {"spread": 0.0}, SINGLES
    ),
    Check("base_slerp", lambda d: between(d, 0.5, 0.9995), {}, SINGLES),
    Check("base_slerp", lambda d: between(d, 0.2, 1.0), {"t": 0.2, "parallel": 1.0}, SINGLES),
    Check(
        "linear",
        lambda d: oracle.linear(d, whole(d), equal_weights(d), 0.5, mean=True),
        {"base_weight": 0.5},
    ),
    Check(
        "linear",
        lambda d: oracle.linear(d, whole(d), equal_weights(d), 0.5, mean=False),
        {"base_weight": 0.5, "normalize": False},
    ),
    Check(
        "task_arithmetic",
        lambda d: 0.7 * d.mean(axis=0),
        {"scaling": 0.7, "normalize": True},
    ),
    Check("consensus_ta", lambda d: 0.3 * oracle.consensus(d, 2, 0.4)),
    Check(
        "consensus_ta",
        lambda d: oracle.consensus(d, 3, 0.1),
        {
            "agreeing": 3,
            "mask_threshold": 0.1,
            "scaling": 1.0,
        },
    ),
    Check("nan", oracle.nan),
    Check("tsv_m", oracle.tsv_m, cases=MATRICES),
    Check("iso_c", oracle.iso_c, cases=MATRICES),
    Check("iso_cts", lambda d: oracle.iso_cts(d, 0.8), cases=MATRICES),
    Check("iso_cts", lambda d: oracle.iso_cts(d, 0.0), {"common": 0.0}, MATRICES),
    Check("cart", lambda d: oracle.cart(d, 0.08, 1.0), cases=MATRICES),
    Check(
        "cart",
        lambda d: oracle.cart(d, 0.4, 2.3),
        {
            "rank_share": 0.4,
            "scaling": 2.3,
        },
        MATRICES,
    ),
    Check("star", lambda d: oracle.star(d, 40), cases=MATRICES),
    Check("star", lambda d: oracle.star(d, 90), {"eta": 90.0}, MATRICES),
    Check("wudi", lambda d: oracle.wudi_adam(d, 300, 1e-5), cases=MATRICES),
    Check(
        "wudi",
        lambda d: oracle.wudi_adam(d, 40, 1e-3),
        {
            "steps": 40,
            "learning_rate": 1e-3,
        },
        MATRICES,
    ),
    Check("wudi", oracle.wudi_closed, {"solution": "closed"}, MATRICES),
    Check("model_stock", oracle.model_stock),
    Check("slerp", lambda d: oracle.slerp(d[0], d[1], 0.3), {"t": 0.3}, PAIRS),
    Check("nuslerp", lambda d: oracle.slerp(d[0], d[1], 0.5, 1 - 1e-15), {}, PAIRS),
    Check("karcher", lambda d: oracle.karcher(d, equal_weights(d), 10), {}, MEAN_DIRECTION),
    Check("multislerp", lambda d: oracle.multislerp(d, equal_weights(d)), {}, MEAN_DIRECTION),
    Check("sce", lambda d: oracle.sce(d, 1.0)),
    Check("sce", lambda d: oracle.sce(d, 0.3), {"select_topk": 0.3}),
    Check("sce", lambda d: 2 * oracle.sce(d, 1.0, 1.0), {"alike_below": 1.0, "scaling": 2.0}),
    Check("fr_merging", lambda d: oracle.fr_merging(d, 0.1), cases=MATRICES),
    Check("free_merging", lambda d: oracle.fr_merging(d, 0.1), cases=MATRICES),
    Check(
        "fr_merging",
        lambda d: oracle.fr_merging(d, 0.5, equal=True),
        {
            "cutoff": 0.5,
            "coefficients": "equal",
        },
        MATRICES,
    ),
    Check("ties", lambda d: oracle.ties(d, 0.2), {"trim": "tensor"}),
    Check("nan", oracle.nan, {"norms": "model"}),
    Check("pcb", lambda d: 1.2 * oracle.pcb(d, 0.05), {"trim": "tensor"}),
    Check("localize_stitch", lambda d: oracle.localize_stitch(d, 0.05)),
    Check("emr", oracle.emr),
    Check("tall_masks", lambda d: 0.3 * d.sum(axis=0)),
    Check("byom", lambda d: 0.3 * d.sum(axis=0)),
    Check("twin_merging", lambda d: 0.3 * d.sum(axis=0)),
    Check("wemoe", lambda d: 0.3 * d.sum(axis=0)),
    Check("surgery", lambda d: 0.3 * d.sum(axis=0)),
    Check("smile", lambda d: np.zeros_like(d[0]), cases=MATRICES),
    Check("tsv_c", oracle.tsv_m, cases=MATRICES),
    Check("knots_ties", lambda d: 0.6 * oracle.knots_ties(d, 0.2), cases=UNBALANCED),
    Check(
        "knots_ties",
        lambda d: oracle.knots_ties(d, 1.0),
        {
            "density": 1.0,
            "scaling": 1.0,
        },
        UNBALANCED,
    ),
    Check("knots_dare_ties", lambda d: 0.7 * knots_dare_ties(d, 0.9), cases=UNBALANCED),
    Check(
        "knots_dare_ties",
        lambda d: oracle.knots_ties(d, 1.0),
        {
            "density": 1.0,
            "scaling": 1.0,
        },
        UNBALANCED,
    ),
    Check("pcb", lambda d: 1.2 * oracle.pcb(d, 0.05)),
    Check("pcb", lambda d: oracle.pcb(d, 0.5), {"density": 0.5, "scaling": 1.0}),
]
