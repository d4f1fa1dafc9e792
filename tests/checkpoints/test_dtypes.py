"""The table of number formats agrees with safetensors and torch."""

from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from ace_gui.checkpoints import tag_of, torch_dtype
from ace_gui.stored_formats import FORMATS, RECIPE_NAMES, RECIPE_TAGS, is_float
from tests.helpers.checkpoints import entry, raw_file, tensors_of_every_format


@pytest.mark.parametrize("tag", FORMATS)
def test_the_library_knows_each_format_and_its_size(tmp_path: Path, tag: str):
    nbytes = FORMATS[tag].bits  # eight elements
    raw_file(tmp_path / "f.safetensors", {"a": entry(tag, [8], 0, nbytes)}, b"\0" * nbytes)
    with safe_open(tmp_path / "f.safetensors", "pt") as library:
        assert library.get_slice("a").get_dtype() == tag
    raw_file(tmp_path / "g.safetensors", {"a": entry(tag, [16], 0, nbytes)}, b"\0" * nbytes)
    with pytest.raises(SafetensorError):
        safe_open(tmp_path / "g.safetensors", "pt").__enter__()


def test_tags_and_dtypes_are_each_other_s_inverse(tmp_path: Path):
    for tensor in tensors_of_every_format().values():
        tag = tag_of(tensor.dtype)
        assert torch_dtype(tag) is tensor.dtype
        assert FORMATS[tag].bits == 8 * tensor.dtype.itemsize
        save_file({"a": tensor}, tmp_path / "f.safetensors")
        with safe_open(tmp_path / "f.safetensors", "pt") as library:
            assert library.get_slice("a").get_dtype() == tag


def test_quantised_formats_have_no_dtype():
    quantised = [tag for tag in FORMATS if FORMATS[tag].quantised]
    assert len(quantised) == 8
    for tag in quantised:
        assert not is_float(tag)
        with pytest.raises(KeyError):
            torch_dtype(tag)


def test_recipe_names_are_torch_s():
    assert {tag for tag in FORMATS if is_float(tag)} == set(RECIPE_NAMES)
    for name, tag in RECIPE_TAGS.items():
        assert torch_dtype(tag) is getattr(torch, name)
        assert RECIPE_NAMES[tag] == name
