"""One model and one batch are in memory, whatever is compared."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import ace_gui
from ace_gui.engine.evaluating import evaluate, loaded_models
from ace_gui.paths import Sample
from tests.helpers.live_memory import LiveMemory
from tests.helpers.scored_models import save_pictures, save_vit


@pytest.fixture
def only_new_objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the collector list what is new, and only that, as all of it takes long."""
    gc.collect()
    gc.freeze()
    monkeypatch.setattr(gc, "freeze", lambda: None)
    yield
    gc.unfreeze()


def live_bytes() -> int:
    """All storages that some new tensor of this process holds, and not just the collector."""
    gc.collect()
    objects = (
        get_object for get_object in gc.get_objects() if issubclass(type(get_object), torch.Tensor)
    )
    tensors = [tensor for tensor in objects if tensor.layout is torch.strided]
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


@pytest.mark.usefixtures("only_new_objects")
def test_one_model_at_a_time(monkeypatch):
    """Six models are loaded one after the other, and are gone before the next one comes."""
    before_load = []
    while_asked = []
    sizes = []
    load = loaded_models.load
    answered = evaluate.answered

    def loading(*arguments: Any) -> Any:
        before_load.append(live_bytes())
        model = load(*arguments)
        sizes.append(sum(parameter.nbytes for parameter in model.parameters()))
        return model

    def asking(*arguments: Any) -> Iterator[Any]:
        while_asked.append(live_bytes())
        yield from answered(*arguments)

    monkeypatch.setattr(loaded_models, "load", loading)
    monkeypatch.setattr(evaluate, "answered", asking)
    evaluation = ace_gui.evaluate(Sample.IMAGES.recipe, limit=5, device="cpu")
    assert len(before_load) == len({score.model for score in evaluation.scores}) == 6
    assert len(while_asked) == len(evaluation.scores) == 10
    (size,) = set(sizes)
    assert max(before_load) < 0.1 * size
    assert size <= max(while_asked) < 1.1 * size


def test_one_batch_at_a_time(tmp_path, monkeypatch):
    """Five times the examples take no more memory while a model is asked."""
    answered = evaluate.answered
    peaks = {}

    def asking(evaluator: Any) -> Iterator[Any]:
        with LiveMemory() as memory:
            yield from answered(evaluator)
        peaks[evaluator.data.name] = memory.peak

    monkeypatch.setattr(evaluate, "answered", asking)
    save_vit(tmp_path / "model", ("cat", "dog"))
    tasks = []
    for name, count in (("few", 64), ("many", 320)):
        save_pictures(tmp_path / name, ("cat", "dog"), count)
        tasks.append({"data": tmp_path / name})
    ace_gui.evaluate(None, [tmp_path / "model"], tasks, device="cpu")
    assert 0 < peaks["many"] <= 1.1 * peaks["few"]
