"""Prints how far each method is from its oracle: ``python -m tests.helpers.method_errors``.

The largest relative error (Frobenius, of the merged task vector) over random, low-rank, duplicate,
zero, single and opposed experts, against the literal formula in float64. ``--page`` writes it
beside the scores, into the tables of ``docs/results.md``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import torch

from ace_gui.methods import METHODS
from tests.helpers import ace_oracle
from tests.helpers.ace_cases import ace_cases
from tests.helpers.method_checks import CHECKS, errors
from tests.helpers.method_oracles import relative_error

PAGE = Path(__file__).parents[2] / "docs/results.md"
COSINE = "cosine"


def ace_errors() -> dict[str, float]:
    by_case = {}
    for case in ace_cases():
        dtype = torch.float64 if case.double else torch.float32
        method = METHODS["ace"]
        options = {"epsilon": case.epsilon, "tau": case.tau, "k_frac": case.k_frac}
        deltas = [torch.from_numpy(delta).to(dtype) for delta in case.deltas]
        merged = method.merge(deltas, [1.0] * len(deltas), method.parameters(**options))
        expected = ace_oracle.ace_oracle(case.deltas, **options).merged
        by_case[case.name] = relative_error(merged.delta.double().numpy(), expected)
    return by_case


def with_errors(page: str, errors: Mapping[str, str]) -> str:
    """A page with the errors as last column of its tables of all methods."""
    lines = []
    width = 0
    for line in page.split("\n"):
        if line.startswith("method ") and COSINE in line:
            width = line.index(COSINE) + len(COSINE)
            lines.append(f"{line[:width]}  error")
        elif line.startswith("```"):
            width = 0
            lines.append(line)
        elif width:
            error = errors.get(line.split("  ")[0], "–")
            lines.append(f"{line[:width]}  {error:>5}")
        else:
            lines.append(line)
    return "\n".join(lines)


def main() -> None:
    tables = [("ace", "", ace_errors())]
    tables += [
        (check.method, ", ".join(f"{k} {v}" for k, v in check.parameters.items()), errors(check))
        for check in CHECKS
    ]
    if "--page" in sys.argv:
        worst_of: dict[str, float] = {}
        for name, _, by_case in tables:
            worst_of[name] = max(worst_of.get(name, 0.0), *by_case.values())
        titles = {METHODS[name].title: f"{worst:.0e}" for name, worst in worst_of.items()}
        PAGE.write_text(with_errors(PAGE.read_text(), titles))
        return
    order = list(METHODS)
    line = "{:<16} {:<54} {:>5}  {:>13}  {}\n"
    sys.stdout.write(line.format("method", "parameters", "cases", "largest error", "at"))
    for name, parameters, by_case in sorted(tables, key=lambda table: order.index(table[0])):
        worst = max(by_case, key=lambda case: by_case[case])
        sys.stdout.write(
            line.format(
                name, parameters or "defaults", len(by_case), f"{by_case[worst]:.1e}", worst
            )
        )


if __name__ == "__main__":
    main()
