"""What the tests of inspections share."""

import pytest

from ace_gui.engine.inspecting.layer_context import InspectionCache
from tests.helpers.models import Family


@pytest.fixture(scope="session")
def family(roberta: Family) -> Family:
    return roberta


@pytest.fixture
def cache(tmp_path) -> InspectionCache:
    return InspectionCache(tmp_path / "cache")
