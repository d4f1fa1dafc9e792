"""The loop that trains: where it stops, what it keeps, how it goes on."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from ace_gui.engine.adapting.training import CHECKPOINT, load_checkpoint, save_checkpoint, trained
from ace_gui.engine.adapting.training_loop import (
    WINDOW,
    Loop,
    StepResults,
    TrainingState,
    collapse_warnings,
    window_steps,
)
from tests.helpers.damage import ANY_FILE, TENSORS


def climbing(steps: int, best: float | None, patience: int = 40) -> tuple[Loop, torch.Tensor]:
    """A value that falls by 0.1 a step, and is nearest at ``best``; None: nothing is compared."""
    value = torch.tensor([10.0])

    def objective(_step: int) -> StepResults:
        value.grad = torch.ones(1)
        distance = None if best is None else abs(float(value) - best)
        losses = {"task": float(value)}
        spreads = {"task": 1.0}
        return StepResults(losses=losses, spreads=spreads, figures=[0.0], distance=distance)

    parameters = SimpleNamespace(steps=steps, learning_rate=0.1, patience=patience)
    window = 0 if best is None else WINDOW
    loop = Loop({"value": value}, objective, parameters, plain=True, window=window)
    return loop, value


def test_all_steps_are_taken_where_nothing_is_compared():
    loop, value = climbing(100, None)
    assert len(list(loop.steps())) == loop.state.steps_to_final_values == 100
    assert float(value) == pytest.approx(0.0, abs=1e-4)


def test_what_came_nearest_is_kept():
    loop, value = climbing(500, 5.2)  # after 48 steps, in the window from 40 to 60
    last = list(loop.steps())[-1]
    assert last.steps_to_final_values == 2 * WINDOW
    assert last.step == 3 * WINDOW + 40
    assert float(value) == pytest.approx(6.0, abs=1e-4)


@pytest.mark.parametrize("steps", [7, WINDOW, 3 * WINDOW + 1])
def test_the_last_values_stay_where_the_last_window_is_the_nearest(steps: int):
    loop, value = climbing(steps, -100.0)
    assert list(loop.steps())[-1].steps_to_final_values == steps
    assert float(value) == pytest.approx(10.0 - 0.1 * steps, abs=1e-4)


def test_nothing_is_moved_where_every_step_leads_away():
    loop, value = climbing(200, 10.0)
    assert list(loop.steps())[-1].steps_to_final_values == 0
    assert float(value) == 10.0


@pytest.mark.parametrize(
    ("counts", "size", "steps"),
    [
        ([256], 16, 16),
        ([256, 100], 64, 20),
        ([10], 16, 20),
        ([7, 3], 3, 21),
        ([900], 16, 56),
        ([], 16, 0),
    ],
)
def test_a_window_is_whole_passes(counts: list[int], size: int, steps: int):
    assert window_steps(counts, size) == steps


def test_what_is_kept_outlives_a_stop(tmp_path):
    training, best = climbing(500, 5.2)
    list(training.steps())
    loop, _ = climbing(500, 5.2)
    steps = loop.steps()
    for _ in range(90):  # past the best
        next(steps)
    save_checkpoint(tmp_path, 0, loop.state, loop.moments())
    again, value = climbing(500, 5.2)
    again.resume_from(load_checkpoint(tmp_path, 0, again.state))
    list(again.steps())
    assert torch.equal(value, best)
    assert again.state.losses == training.state.losses
    assert again.state.steps_to_final_values == training.state.steps_to_final_values


def saved_climb(folder: Path) -> None:
    loop, _ = climbing(500, 5.2)
    steps = loop.steps()
    for _ in range(90):
        next(steps)
    save_checkpoint(folder, 0, loop.state, loop.moments())


@pytest.mark.parametrize("damage", [*ANY_FILE, *TENSORS])
def test_a_damaged_checkpoint_is_not_used_and_blocks_nothing(
    damage: str, tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr("ace_gui.engine.adapting.training._CHECKPOINT_SECONDS", 0.0)
    saved_climb(tmp_path)
    (ANY_FILE | TENSORS)[damage](tmp_path / CHECKPOINT)
    loop, value = climbing(500, 5.2)
    assert load_checkpoint(tmp_path, 0, loop.state) is loop.state
    assert float(value) == 10.0
    assert ("computed again" in caplog.text) == (tmp_path / CHECKPOINT).exists()
    list(trained(loop, tmp_path, 0, title="", experts=["one"], curve=""))
    training, best = climbing(500, 5.2)
    list(training.steps())
    assert torch.equal(value, best)
    assert ("cannot be resumed" in caplog.text) == (damage == "folder")


ODD: dict[str, Callable[[TrainingState], object]] = {
    "negative step": lambda state: setattr(state, "step", -90),
    "step beyond its figures": lambda state: setattr(state, "step", 91),
    "losses beyond its step": lambda state: state.losses["task"].append(0.0),
    "distances before its step": lambda state: state.distances.pop(),
    "nearest before the beginning": lambda state: setattr(state, "nearest", (0.1, -1)),
    "nearest beyond the end": lambda state: setattr(state, "nearest", (0.1, 91)),
    "other shape": lambda state: setattr(state, "values", {"value": torch.zeros(2)}),
    "other format": lambda state: setattr(state, "values", {"value": torch.zeros(1).half()}),
    "other name": lambda state: setattr(state, "values", {"other": torch.zeros(1)}),
    "nothing": lambda state: setattr(state, "values", {}),
    "best of another shape": lambda state: setattr(state, "best", {"value": torch.zeros(3)}),
    "values before the window of another shape": lambda state: setattr(
        state, "before", {"value": torch.zeros(3)}
    ),
    "moments of another shape": lambda state: setattr(
        state, "moments", {"value\0exp_avg": torch.zeros(3)}
    ),
    "moments of nobody": lambda state: setattr(state, "moments", {"other\0step": torch.zeros(1)}),
    "moments without a name": lambda state: setattr(state, "moments", {"value": torch.zeros(1)}),
}


@pytest.mark.parametrize("odd", ODD)
def test_a_checkpoint_that_does_not_fit_is_not_used(odd: str, tmp_path, caplog):
    loop, _ = climbing(500, 5.2)
    steps = loop.steps()
    for _ in range(90):
        next(steps)
    ODD[odd](loop.state)
    save_checkpoint(tmp_path, 0, loop.state, loop.state.moments)
    again, value = climbing(500, 5.2)
    assert load_checkpoint(tmp_path, 0, again.state) is again.state
    assert float(value) == 10.0
    assert "computed again" in caplog.text


def test_a_collapse_after_what_is_kept_is_no_matter():
    spreads = [1.0] * 60 + [0.1] * 60
    state = TrainingState(values={}, step=120, spreads={"sure": spreads})
    assert "sure" in collapse_warnings(state)[0]
    state.nearest = (0.1, 60)
    state.best = {"value": torch.zeros(1)}
    assert not collapse_warnings(state)
