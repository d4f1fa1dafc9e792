"""The sentences that refuse quantised weights name a command that dequantises them."""

import inspect
import re

import pytest
import torch
import transformers

from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.errors import CheckpointError
from tests.helpers.checkpoints import save_model

PYTHON = re.compile(r'`python -c "(.+?)"`')


@pytest.mark.parametrize("method", ["compressed-tensors", "fp8", "mxfp4"])
def test_the_command_is_one_of_the_installed_transformers(method: str, tmp_path):
    config = {"quantization_config": {"quant_method": method}}
    save_model(tmp_path, {"a": torch.ones(2), "b": torch.ones(2, dtype=torch.int8)}, config=config)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path)
    [command] = PYTHON.findall(caught.value.sentence)
    compile(command, "command", "exec")
    names = re.findall(r"import (\w+) as M, (\w+) as C", command)[0]
    assert hasattr(transformers, names[0])
    parameters = inspect.signature(getattr(transformers, names[1])).parameters
    assert "dequantize" in parameters


def test_nothing_is_promised_where_no_program_dequantises(tmp_path):
    config = {"quantization_config": {"quant_method": "exl3"}}
    save_model(tmp_path, {"a": torch.ones(2), "b": torch.ones(2, dtype=torch.int8)}, config=config)
    with pytest.raises(CheckpointError, match="original weights") as caught:
        open_checkpoint(tmp_path)
    assert not PYTHON.findall(caught.value.sentence)
