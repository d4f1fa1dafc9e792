"""Configs with numbers, lists, texts and nesting beyond all measure are described within limits."""

import contextlib
import copy
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ace_gui.architecture.describe import describe
from ace_gui.architecture.sandbox import Describer, Limits
from ace_gui.architecture.traits import Architecture
from tests.architecture.published import CONFIGS

SHAPES = {"model.layers.0.self_attn.q_proj.weight": (8, 8), "lm_head.weight": (11, 8)}
LIMITS = Limits(seconds=1.0, memory_bytes=300_000_000)
LONGEST = 4 * LIMITS.seconds + 10  # seconds, the start of a process aside
MEGABYTES_10 = 10_000_000

Place = tuple[str | int, ...]


def places(value: Any, slot: Place = ()) -> Iterator[Place]:
    """Where there is something to change, deeper ones too."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*slot, key)
        if isinstance(item, dict | list):
            yield from places(item, (*slot, key))


def nested(depth: int, value: Any) -> Any:
    for level in range(depth):
        value = [value] if level % 2 else {"text_config": value}
    return value


NUMBERS = st.one_of(
    st.integers(0, 18).map(lambda power: 10**power),
    st.sampled_from([0, -1, 2**31, 2**63, 10**300, -(10**18), 1e308, float("inf"), float("nan")]),
)


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """A published config with one to three values that ask for too much."""
    published = CONFIGS[draw(st.sampled_from(sorted(CONFIGS)))]
    config: Any = copy.deepcopy(published)
    for *path, last in draw(st.lists(st.sampled_from(list(places(published))), max_size=3)):
        holder = config
        original = published
        with contextlib.suppress(LookupError, TypeError):  # another change was made above it
            for key in path:
                holder = holder[key]
                original = original[key]
            holder[last] = draw(exploded(original[last]))
    return config


def exploded(value: Any) -> st.SearchStrategy[Any]:
    """Something of the same kind, only more of it, or of another kind."""
    counts = st.sampled_from([100, 10_000] + [200_000] * (not isinstance(value, dict | list)))
    kinds = [
        NUMBERS,
        st.builds(lambda count, number: [number] * count, counts, NUMBERS),
        st.builds(lambda count: [[value] * 300] * (count // 100), counts),
        st.builds(lambda count: {str(number): value for number in range(count)}, counts),
        st.sampled_from(["x", "é", "\ud800", "[", "\x1b"]).map(lambda text: text * MEGABYTES_10),
        st.builds(nested, st.sampled_from([10, 300, 900, 5000]), st.just(value)),
    ]
    numeric = isinstance(value, int | float)
    return st.one_of(*[NUMBERS] * 3, *kinds) if numeric else st.one_of(*kinds)


@pytest.fixture(scope="module")
def describer() -> Iterator[Describer]:
    with Describer(LIMITS) as process:
        yield process


def check(describer: Describer, config: dict[str, Any]) -> Architecture:
    """A description or a sentence, in time, and no more memory than allowed, here as there."""
    here = psutil.Process()
    before = psutil.Process().memory_info().rss
    started = time.monotonic()
    largest = 0
    idle = describer.pid is not None
    steps = describer.describe(config, SHAPES)
    try:
        while True:
            next(steps)
            if describer.pid is not None and idle:
                largest = max(largest, psutil.Process(describer.pid).memory_info().rss)
    except StopIteration as end:
        architecture: Architecture = end.value
    assert not idle or time.monotonic() - started < LONGEST
    assert largest < 700_000_000 + LIMITS.memory_bytes
    assert here.memory_info().rss - before < 300_000_000
    assert architecture.traits.keys() == SHAPES.keys()
    assert len(architecture.note) < 2000
    assert architecture.note.isprintable()
    assert architecture.model_class is not None or "described by their names" in architecture.note
    return architecture


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "x" * MEGABYTES_10},
        {"model_type": "gpt2\x1b[2J"},
        {"model_type": {str(number): "gpt2" for number in range(10_000)}},
        {"model_type": "gpt2", "n_layer": 1, "architectures": ["\ud800" * MEGABYTES_10]},
        {"model_type": "gpt2", "num_hidden_layers": 10**4000},
        {"model_type": "gpt2", "n_layer": nested(900, 1)},
    ],
    ids=["long", "terminal", "object", "class", "number", "deep"],
)
def test_a_note_is_short_and_printable(config: dict[str, Any]):
    architecture = describe(config, SHAPES)
    assert len(architecture.note) < 500
    assert architecture.note.isprintable()
    assert architecture.family in (None, "gpt2")


@pytest.mark.long
@settings(max_examples=1500, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(config=mutated())
def test_whatever_a_config_asks_for(describer: Describer, config: dict[str, Any]):
    check(describer, config)
