"""What refuses quantised weights names a command that dequantises them, if there is one.

None is run here: each needs a library that is no dependency. What can be checked without is
checked: that a shell and Python read it, that transformers has the names and the arguments in it,
and that the options are those of the program's own parser. By hand, those of compressed-tensors
0.20, fp8, MXFP4 and bitsandbytes 0.50 were run, with transformers 5.24 on a processor.
"""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING
from transformers.quantizers.base import HfQuantizer

from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.checkpoints.plain_weights import GGUF, WAYS, WITHOUT_WAY, way_to_plain
from ace_gui.errors import CheckpointError
from tests.helpers.checkpoints import save_model
from tests.helpers.quantised_weights import compressed

OPTIONS = {
    "mlx_lm.convert": {"--hf-path", "--mlx-path", "-d"},  # configure_parser in mlx_lm/convert.py
    "llama-quantize": {"--allow-requantize"},  # usage() in llama.cpp/tools/quantize/quantize.cpp
}
COMMANDS = {way.command: name for name, way in {**WAYS, "gguf": GGUF}.items()}
AFTER_LOADING = {"bitsandbytes": "bitsandbytes_4bit", "higgs": "higgs"}
"""Methods whose models have ``dequantize``: their names in transformers' table of quantisers."""


def python_of(command: str) -> str:
    (program, option, code) = shlex.split(command)
    assert (program, option) == ("python", "-c")
    return code


@pytest.mark.parametrize("command", [command for command in COMMANDS if "python" in command])
def test_a_command_of_transformers_names_what_the_installed_one_has(command: str):
    code = python_of(command)
    compile(code, "command", "exec")
    classes = re.findall(r"(\w+) as [MC]\b", code)
    assert all(hasattr(transformers, name) for name in classes)
    if "C(dequantize=True)" in code:
        config = getattr(transformers, classes[1])
        assert "dequantize" in inspect.signature(config).parameters
    else:
        assert callable(transformers.PreTrainedModel.dequantize)
        quantiser = AUTO_QUANTIZER_MAPPING[AFTER_LOADING[COMMANDS[command].split(",")[0]]]
        assert quantiser._dequantize is not HfQuantizer._dequantize


@pytest.mark.parametrize("command", [command for command in COMMANDS if "python" not in command])
def test_a_command_of_another_program_has_its_options(command: str):
    (program, *words) = shlex.split(command)
    assert {word for word in words if word.startswith("-")} == OPTIONS[program]


def test_no_command_of_transformers_is_missing():
    """Every method that transformers can undo has a way, or its format is read here."""
    undone = {
        name
        for name, quantiser in AUTO_QUANTIZER_MAPPING.items()
        if quantiser._dequantize is not HfQuantizer._dequantize
    }
    configs = transformers.quantizers.auto.AUTO_QUANTIZATION_CONFIG_MAPPING
    undone |= {
        name
        for name, config in configs.items()
        if "dequantize" in inspect.signature(config).parameters
    }
    named = {name.removesuffix("_4bit").removesuffix("_8bit") for name in undone}
    assert named - WAYS.keys() == {"gguf"}


def test_a_format_has_a_way_or_none():
    assert not WITHOUT_WAY & WAYS.keys()
    assert way_to_plain("AQLM", None) is None
    assert way_to_plain(None, "MXFP4") is WAYS["mxfp4"]


def sentence_on(folder: Path, tensors: dict[str, Tensor], config: dict[str, Any]) -> str:
    save_model(folder, tensors, config=config)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder)
    return caught.value.sentence


@pytest.mark.parametrize(
    "method", ["compressed-tensors", "fp8", "mxfp4", "higgs", "metal", "bitsandbytes"]
)
def test_a_method_in_a_config_is_answered_with_its_command(method: str, tmp_path):
    tensors = {"a": torch.ones(2), "b": torch.ones(2, dtype=torch.int8)}
    config = {"quantization_config": {"quant_method": method}}
    assert WAYS[method].command in sentence_on(tmp_path, tensors, config)


@pytest.mark.parametrize("method", ["exl3", "aqlm", "quanto", "vptq", "torchao"])
def test_nothing_is_promised_where_no_program_dequantises(method: str, tmp_path):
    tensors = {"a": torch.ones(2), "b": torch.ones(2, dtype=torch.int8)}
    config = {"quantization_config": {"quant_method": method}}
    sentence = sentence_on(tmp_path, tensors, config)
    assert "`python" not in sentence
    assert sentence.endswith(
        "No program does so by one command: open the original weights, which are more exact."
    )


NAMED = {
    "AQLM": ("q.codebooks", "q.codes", "q.scales"),
    "EXL2": ("q.q_weight", "q.q_scale"),
    "EXL3": ("q.trellis", "q.suh"),
    "quanto": ("q.weight._data", "q.weight._scale"),
    "VPTQ": ("q.centroids.weight", "q.indices"),
    "HIGGS": ("q.weight", "q.tables2"),
    "SpQR": ("q.dense_weights", "q.row_offsets"),
}


@pytest.mark.parametrize("title", NAMED)
def test_a_format_that_is_not_read_is_named_by_its_tensors(title: str, tmp_path):
    tensors = {name: torch.ones(4) for name in NAMED[title]}
    assert f"is quantised ({title})" in sentence_on(tmp_path, tensors, {})


def test_codes_are_named_by_what_stands_beside_them(tmp_path):
    """A weight of fp8 comes first in the file; the format is that of its parts."""
    tensors = {"q.weight": torch.ones(4).to(torch.float8_e4m3fn), "q.trellis": torch.ones(4)}
    assert "is quantised (EXL3)" in sentence_on(tmp_path, tensors, {})


def test_mlx_is_told_by_its_words_and_by_its_config(tmp_path):
    parts = {
        "q.weight": torch.ones(4, 4, dtype=torch.uint32),
        "q.scales": torch.ones(4, 1),
        "q.biases": torch.ones(4, 1),
    }
    assert WAYS["mlx"].command in sentence_on(tmp_path / "bare", parts, {})
    config = {"quantization": {"group_size": 64, "bits": 4}}
    assert WAYS["mlx"].command in sentence_on(tmp_path / "m", parts, config)


@pytest.mark.parametrize("bits", [3, 5, 6, 7])
def test_packed_integers_of_older_files_name_the_command(bits: int, tmp_path):
    """They had whole numbers in each word, so words of 7 bits are as many as those of 8."""
    parts = {
        "q.weight_packed": torch.zeros(32, -(-128 // (32 // bits)), dtype=torch.int32),
        "q.weight_scale": torch.ones(32, 4),
        "q.weight_shape": torch.tensor([32, 128]),
    }
    config = {"quantization_config": compressed(bits)}
    sentence = sentence_on(tmp_path, parts, config)
    assert f"is no matrix 32×128 of {bits} bits" in sentence
    assert sentence.endswith(f"or make plain ones. {WAYS['compressed-tensors'].sentence}")
