"""A merge's peak memory does not grow with the number of its layers, and is what the plan says."""

from pathlib import Path

import pytest

from tests.benchmarks.depth import FAMILIES, merged, methods_without_data, save_families

BESIDE = 10e6
"""Bytes that no tensor needs: blocks of files that are hashed, and what Python keeps."""

ALLOWED = 1.15
"""How far a plan may be exceeded: what fits no longer into what was freed before."""

APART = 16e6
"""Bytes by which two merges of one model may differ: two matrices in float64. Threads do not always
meet at their peaks. What is added has more than twice that."""


@pytest.fixture(scope="module", params=FAMILIES)
def indices(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    return save_families(tmp_path_factory.mktemp("depth"), request.param)


@pytest.mark.long
@pytest.mark.parametrize("method", methods_without_data())
def test_a_model_twice_as_deep_takes_no_more(method: str, indices: tuple[Path, Path]) -> None:
    once, twice = (merged(index, method, giving_back=True) for index in indices)
    assert twice.whole <= 1.05 * once.whole
    assert twice.own <= 1.05 * once.own + APART
    as_it_is = merged(indices[1], method)
    assert as_it_is.own <= ALLOWED * as_it_is.planned + BESIDE
