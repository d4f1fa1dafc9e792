"""What the tests of inspections share."""

import pytest

from ace_gui.engine.inspecting.layer_context import InspectionCache


@pytest.fixture
def cache(tmp_path) -> InspectionCache:
    return InspectionCache(tmp_path / "cache")
