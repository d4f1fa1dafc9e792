"""Families of tiny models that many tests read and none changes."""

from pathlib import Path

import pytest

from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from tests.helpers.models import Family, gpt2_family, roberta_family
from tests.helpers.recipes import recipe_of


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory) -> Family:
    return gpt2_family(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="session")
def roberta(tmp_path_factory) -> Family:
    return roberta_family(tmp_path_factory.mktemp("roberta"))


@pytest.fixture(scope="module")
def prepared(roberta: Family) -> Prepared:
    return prepare(recipe_of(roberta))


@pytest.fixture
def own_cache(tmp_path, monkeypatch) -> Path:
    """A cache of the test's own in ``tmp_path``, which is returned."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path
