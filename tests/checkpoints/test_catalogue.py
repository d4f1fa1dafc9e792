"""The catalogue of bad inputs, 1 to 24: each gives its sentence, with the file it is about.

25 (NaN in a tensor) is no matter of opening: ``test_reader`` has it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ace_gui.checkpoints.adapters import is_adapter, open_adapter
from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.pickle_conversion import convert_pickle
from ace_gui.errors import CheckpointError, PickleConsentError
from tests.helpers.catalogue import ADAPTERS, CONVERTED, OPENED, UNSUPPORTED, BadInput, Unsupported
from tests.helpers.faults import complaint


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "expert-a").mkdir()
    return tmp_path / "expert-a"


def check(error: CheckpointError, case: BadInput) -> None:
    assert case.sentence in error.sentence
    assert "expert-a" in error.sentence
    assert error.path is not None
    assert error.sentence.isprintable()


@pytest.mark.parametrize("case", OPENED, ids=str)
def test_opened(case: BadInput, folder: Path):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(case.make(folder))
    check(caught.value, case)


@pytest.mark.parametrize("case", CONVERTED, ids=str)
def test_converted_with_consent(case: BadInput, folder: Path):
    path = case.make(folder)
    with pytest.raises(PickleConsentError):
        open_checkpoint(path)
    with pytest.raises(CheckpointError) as caught:
        convert_pickle(path, folder.with_name("cache"))
    check(caught.value, case)


@pytest.mark.parametrize("case", ADAPTERS, ids=str)
def test_adapters(case: BadInput, folder: Path):
    with pytest.raises(CheckpointError) as caught:
        open_adapter(case.make(folder))
    check(caught.value, case)


def test_every_line_is_here():
    """23, a network as an adapter's base, is in ``test_traversal``."""
    numbers = {case.number for case in (*OPENED, *CONVERTED, *ADAPTERS)}
    assert numbers | {23} == set(range(1, 25))


MODEL = "your/model"


def refusal(case: Unsupported, folder: Path) -> str:
    """The sentence, without the place that it begins with."""
    (folder / MODEL).mkdir(parents=True)
    path = case.make(folder / MODEL)
    error = complaint(lambda: open_adapter(path) if is_adapter(path) else open_checkpoint(path))
    if isinstance(error, PickleConsentError):
        error = complaint(lambda: convert_pickle(path, folder / "cache"))
    assert isinstance(error, CheckpointError)
    subject, sentence = error.sentence.replace(f"{folder}/", "").split(": ", 1)
    assert "model" in subject
    return sentence


@pytest.mark.parametrize("case", UNSUPPORTED, ids=str)
def test_it_is_refused_by_name_and_says_what_to_do(case: Unsupported, tmp_path):
    sentence = refusal(case, tmp_path)
    assert sentence.isprintable()
    assert "|" not in sentence
    assert sentence.endswith(".")
    ways_out = ("dequantise", "needs", "Merge it", "Ask for", "can be added", "nothing to merge")
    assert any(way in sentence for way in ways_out)
