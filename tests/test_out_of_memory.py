"""Lack of memory is called so, whoever notices it."""

import pytest
import torch

from ace_gui.cli.error_reporting import status_of
from ace_gui.errors import is_out_of_memory


def test_torch_s_own_error_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    assert status_of(caught.value, verbose=False) == 1
    said = capsys.readouterr().err
    assert said.startswith("Error: There was not enough memory")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), ValueError("out of memory")])
def test_other_errors_are_not(error: Exception) -> None:
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("can't start new thread"))
    assert is_out_of_memory(ImportError("libx.so: failed to map segment from shared object"))
    assert not is_out_of_memory(error)
