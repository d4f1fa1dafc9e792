"""What the tests of inspections share."""

from pathlib import Path

import pytest

from ace_gui.engine.inspecting.layer_context import InspectionCache
from tests.helpers.models import Family, roberta_family


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return roberta_family(tmp_path_factory.mktemp("roberta"), experts=3)


@pytest.fixture
def cache(tmp_path: Path) -> InspectionCache:
    return InspectionCache(tmp_path / "cache")
