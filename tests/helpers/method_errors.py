"""Prints how far each method is from its oracle: ``python -m tests.helpers.method_errors``.

The largest relative error (Frobenius, of the merged task vector) over random, low-rank, duplicate,
zero, single and opposed experts, against the literal formula in float64.
"""

from __future__ import annotations

import sys

import torch

from ace_gui.methods import METHODS
from tests.helpers import ace_oracle
from tests.helpers.ace_cases import ace_cases
from tests.helpers.method_checks import CHECKS, errors
from tests.helpers.method_oracles import relative_error


def ace_errors() -> dict[str, float]:
    found = {}
    for case in ace_cases():
        dtype = torch.float64 if case.double else torch.float32
        method = METHODS["ace"]
        options = {"epsilon": case.epsilon, "tau": case.tau, "k_frac": case.k_frac}
        deltas = [torch.from_numpy(delta).to(dtype) for delta in case.deltas]
        merged = method.merge(deltas, [1.0] * len(deltas), method.parameters(**options))
        expected = ace_oracle.ace_oracle(case.deltas, **options).merged
        found[case.name] = relative_error(merged.delta.double().numpy(), expected)
    return found


def main() -> None:
    tables = [("ace", "", ace_errors())]
    tables += [
        (check.method, ", ".join(f"{k} {v}" for k, v in check.parameters.items()), errors(check))
        for check in CHECKS
    ]
    order = list(METHODS)
    line = "{:<16} {:<54} {:>5}  {:>13}  {}\n"
    sys.stdout.write(line.format("method", "parameters", "cases", "largest error", "at"))
    for name, parameters, found in sorted(tables, key=lambda table: order.index(table[0])):
        worst = max(found, key=lambda case: found[case])
        sys.stdout.write(
            line.format(name, parameters or "defaults", len(found), f"{found[worst]:.1e}", worst)
        )


if __name__ == "__main__":
    main()
