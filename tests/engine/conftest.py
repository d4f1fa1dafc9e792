"""Families of tiny models that many tests read and none changes."""

import pytest

from tests.helpers.models import Family, gpt2_family, roberta_family


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory) -> Family:
    return gpt2_family(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="session")
def roberta(tmp_path_factory) -> Family:
    return roberta_family(tmp_path_factory.mktemp("roberta"))
