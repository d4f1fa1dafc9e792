"""The loop that trains: where it stops, what it keeps, how it goes on."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from ace_gui.engine.adapting.learned_folder import load_checkpoint, save_checkpoint
from ace_gui.engine.adapting.training import WINDOW, Loop, Seen, State, collapse


def climbing(steps: int, best: float | None, patience: int = 40) -> tuple[Loop, torch.Tensor]:
    """A value that falls by 0.1 a step, and is nearest at ``best``; None: nobody looks."""
    value = torch.tensor([10.0])

    def objective(_step: int) -> Seen:
        value.grad = torch.ones(1)
        return Seen(losses={"task": float(value)}, spreads={"task": 1.0}, figures=[0.0])

    def distance() -> float:
        assert best is not None
        return abs(float(value) - best)

    looks = None if best is None else distance
    parameters = SimpleNamespace(steps=steps, learning_rate=0.1, patience=patience)
    loop = Loop({"value": value}, objective, parameters, plain=True, distance=looks)
    return loop, value


def test_all_steps_are_taken_where_nobody_looks() -> None:
    loop, value = climbing(100, None)
    assert len(list(loop.steps())) == loop.state.taken == 100
    assert float(value) == pytest.approx(0.0, abs=1e-4)


def test_what_came_nearest_is_kept() -> None:
    loop, value = climbing(500, 5.8)  # after 42 steps, between two looks
    last = list(loop.steps())[-1]
    assert last.taken == 2 * WINDOW
    assert last.step == 2 * WINDOW + 40
    assert float(value) == pytest.approx(6.0, abs=1e-4)


@pytest.mark.parametrize("steps", [7, WINDOW, 3 * WINDOW + 1])
def test_the_end_is_looked_at_too(steps: int) -> None:
    loop, value = climbing(steps, -100.0)
    assert list(loop.steps())[-1].taken == steps
    assert float(value) == pytest.approx(10.0 - 0.1 * steps, abs=1e-4)


def test_nothing_is_moved_where_every_step_leads_away() -> None:
    loop, value = climbing(200, 10.0)
    assert list(loop.steps())[-1].taken == 0
    assert float(value) == 10.0


def test_what_is_kept_outlives_a_stop(tmp_path: Path) -> None:
    whole, kept = climbing(500, 5.8)
    for _ in whole.steps():
        pass
    loop, _ = climbing(500, 5.8)
    steps = loop.steps()
    for _ in range(70):  # past the best
        next(steps)
    save_checkpoint(tmp_path, 0, loop.state, loop.moments())
    again, value = climbing(500, 5.8)
    again.go_on_from(load_checkpoint(tmp_path, 0, again.state))
    for _ in again.steps():
        pass
    assert torch.equal(value, kept)
    assert again.state.losses == whole.state.losses
    assert again.state.taken == whole.state.taken


def test_a_collapse_after_what_is_kept_is_no_matter() -> None:
    spreads = [1.0] * 60 + [0.1] * 60
    state = State(values={}, step=120, spreads={"sure": spreads})
    assert "sure" in collapse(state)[0]
    state.nearest, state.best = (0.1, 60), {"value": torch.zeros(1)}
    assert not collapse(state)
