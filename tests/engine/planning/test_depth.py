"""A merge's peak memory does not grow with the number of its layers, and is what the plan says."""

from pathlib import Path

import pytest

from tests.benchmarks.depth import FAMILIES, merged, methods_without_data, save_families

BESIDE = 90e6
"""Bytes that no tensor needs: what glibc keeps of what was freed (``engine.devices``, 64 MB), and
blocks of files that are hashed."""


@pytest.fixture(scope="module", params=FAMILIES)
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    return save_families(tmp_path_factory.mktemp("depth"), request.param)


@pytest.mark.long
@pytest.mark.parametrize("method", methods_without_data())
def test_a_model_twice_as_deep_takes_no_more(method: str, places: tuple[Path, Path]) -> None:
    once, twice = (merged(place, method) for place in places)
    assert twice.whole <= 1.05 * once.whole
    assert twice.own <= twice.planned + BESIDE
