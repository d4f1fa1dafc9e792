"""What the tests of inspections share."""

from pathlib import Path

import pytest

from ace_gui.engine.inspecting.layer_context import InspectionCache
from tests.helpers.models import Family


@pytest.fixture(scope="session")
def family(roberta: Family) -> Family:
    return roberta


@pytest.fixture
def cache(tmp_path: Path) -> InspectionCache:
    return InspectionCache(tmp_path / "cache")
