"""For every class of transformers: what is written is what PEFT reads on a model of this class.

Nothing is computed: models are built without memory, and their files are holes.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from torch import nn
from transformers.pytorch_utils import Conv1D

from ace_gui.engine.output.adapter_companions import adapter_config
from ace_gui.engine.planning.adapter_plan import adapter_plan
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import RecipeError
from ace_gui.recipe.new_recipes import recipe_for_extraction
from tests.architecture.model_classes import built, classes_of, families
from tests.helpers.time_limits import OutOfTime, time_limit

Shapes = dict[str, tuple[int, ...]]

SECONDS = 300
"""For a class; most take less than 5."""


def hollow(model: Any, folder: Path) -> Path:
    """The folder of a model whose tensors are all zeros and take no room."""
    folder.mkdir()
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    tied = set(getattr(model, "all_tied_weights_keys", None) or {})
    header: dict[str, Any] = {}
    offset = 0
    for name, tensor in model.state_dict().items():
        if name in tied:
            continue
        size = tensor.numel() * 4
        kind = "F32" if tensor.is_floating_point() else "I32"
        offsets = [offset, offset + size]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": offsets}
        offset += size
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)
    return folder


def written(base: Path, model: Path) -> tuple[Shapes, dict[str, Any]]:
    """The tensors of an adapter that holds every parameter, and its config."""
    prepared = prepare(recipe_for_extraction(base, model, 2))
    plan = adapter_plan(prepared).completed()
    shapes = {output.name: output.shape for output in plan.outputs("F32")}
    return shapes, adapter_config(plan, prepared)


def read_by_peft(model: Any, config: dict[str, Any]) -> Shapes:
    """The tensors that PEFT has in such an adapter."""
    with torch.device("meta"):
        adapted = peft.get_peft_model(model, peft.LoraConfig(**{**config, "inference_mode": True}))
    state = peft.get_peft_model_state_dict(adapted, save_embedding_layers=False)
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def takes_adapters(model: Any) -> bool:
    """Whether PEFT can put anything on this class, such as factors for its first layer alone."""
    for kinds in ((nn.Linear, Conv1D), (nn.Conv1d, nn.Conv2d), (nn.Embedding,)):
        names = (name for name, module in model.named_modules() if type(module) in kinds)
        first = next(names, None)
        if first is not None:
            try:
                read_by_peft(model, {"target_modules": [first]})
            except Exception:  # of any type
                return False
            return True
    return False


def problem_of(model_class: type[Any], folder: Path) -> str:
    """What PEFT does not read as it is written; empty if nothing is wrong.

    Also empty if the class cannot be built, or takes no adapter.
    """
    try:
        model = built(model_class)
    except Exception:  # of any type: its default config does not make a model
        return ""
    if not model.state_dict():
        return ""
    folders = [hollow(model, folder / name) for name in ("base", "model")]
    try:
        shapes, config = written(*folders)
    except RecipeError as error:
        return "" if "PEFT cannot load" in error.sentence else error.sentence
    if not any("lora_" in name for name in shapes):
        return ""  # refused: it has no layer that PEFT could change
    config["base_model_name_or_path"] = None
    if not takes_adapters(built(model_class)):
        return ""
    expected = read_by_peft(model, config)
    different = {n for n in {*shapes, *expected} if shapes.get(n) != expected.get(n)}
    return ", ".join(sorted(different)[:10])


def test_a_parameter_of_a_list_is_refused(tmp_path: Path) -> None:
    """PEFT saves no `ParameterList`, such as Reformer's axial positions."""
    model = built(transformers.ReformerModel)
    folders = [hollow(model, tmp_path / name) for name in ("base", "model")]
    with pytest.raises(RecipeError, match="a parameter of a list"):
        written(*folders)


def test_a_module_inside_one_with_factored_parameters_is_refused(tmp_path: Path) -> None:
    """Such as a norm among experts that are parameters, which PEFT wraps."""
    model = built(transformers.MuseSparkTextModel)
    folders = [hollow(model, tmp_path / name) for name in ("base", "model")]
    with pytest.raises(RecipeError, match="own parameters have factors"):
        written(*folders)


def test_a_module_that_peft_would_take_twice_is_refused(tmp_path: Path) -> None:
    """`norm` also ends `groupnorm`, which is inside `patch_embedder`."""
    model = built(transformers.PeAudioEncoder)
    folders = [hollow(model, tmp_path / name) for name in ("base", "model")]
    with pytest.raises(RecipeError, match="groupnorm`, which is inside the second"):
        written(*folders)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", families())
def test_peft_reads_every_tensor_that_is_written(family: str, tmp_path: Path) -> None:
    wrong: dict[str, str] = {}
    for model_class in classes_of(family):
        name = model_class.__name__
        (tmp_path / name).mkdir()
        try:
            with time_limit(SECONDS):
                problem = problem_of(model_class, tmp_path / name)
        except (Exception, OutOfTime) as error:  # the other classes are still checked
            problem = f"{type(error).__name__}: {error}"
        if problem:
            wrong[name] = problem
    assert wrong == {}
