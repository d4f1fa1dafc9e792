"""What is recognised and not merged."""

from pathlib import Path

import pytest

from ace_gui.checkpoints import convert_pickle, is_adapter, open_adapter, open_checkpoint
from ace_gui.errors import CheckpointError, PickleConsentError
from tests.helpers.catalogue import UNSUPPORTED, Unsupported
from tests.helpers.faults import complaint

MODEL = "your/model"


def refusal(case: Unsupported, folder: Path) -> str:
    """The sentence, without the place that it begins with."""
    (folder / MODEL).mkdir(parents=True)
    path = case.make(folder / MODEL)
    error = complaint(lambda: open_adapter(path) if is_adapter(path) else open_checkpoint(path))
    if isinstance(error, PickleConsentError):
        error = complaint(lambda: convert_pickle(path, folder / "cache"))
    assert isinstance(error, CheckpointError)
    index, sentence = error.sentence.replace(f"{folder}/", "").split(": ", 1)
    assert "model" in index
    return sentence


@pytest.mark.parametrize("case", UNSUPPORTED, ids=str)
def test_it_is_refused_by_name_and_says_what_to_do(case: Unsupported, tmp_path: Path) -> None:
    sentence = refusal(case, tmp_path)
    assert sentence.isprintable()
    assert "|" not in sentence
    assert sentence.endswith(".")
    ways_out = ("dequantise", "needs", "Merge it", "Ask for", "can be added", "nothing to merge")
    assert any(way in sentence for way in ways_out)
