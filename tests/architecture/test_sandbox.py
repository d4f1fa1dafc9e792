"""Descriptions made in a process of its own, which is ended when a config asks for too much."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

import psutil
import pytest

from ace_gui.architecture import limited_process
from ace_gui.architecture.describe import describe
from ace_gui.architecture.sandbox import Describer, Limits
from ace_gui.architecture.traits import Architecture
from ace_gui.errors import ArchitectureError
from ace_gui.steps import Steps, result_of

ALBERT = {"model_type": "albert", "architectures": ["AlbertForMaskedLM"], "hidden_size": 64}
GPT2 = {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "vocab_size": 11}
SWIN = {"model_type": "swin", "depths": [4000] * 4000}
SHAPES = {"h.0.attn.c_attn.weight": (8, 24), "h.0.ln_1.weight": (8,), "something.else": (3, 4, 5)}


@pytest.fixture(scope="module")
def describer() -> Iterator[Describer]:
    with Describer(Limits(seconds=1.5)) as process:
        yield process


def described(describer: Describer, config: Mapping[str, object]) -> Architecture:
    return result_of(describer.describe(config, SHAPES))


def under_way(describer: Describer) -> Steps[Architecture]:
    """A description that would take for ever, in a process that computes."""
    assert described(describer, GPT2).model_class == "GPT2Model"
    steps = describer.describe(SWIN, SHAPES)
    next(steps)
    return steps


def test_it_says_what_is_said_in_this_process(describer: Describer):
    architecture = described(describer, GPT2)
    assert architecture == describe(GPT2, SHAPES)
    assert architecture.model_class == "GPT2Model"
    pid = describer.pid
    assert described(describer, {"model_type": "unheard-of"}).model_class is None
    assert describer.pid == pid, "one process serves for several"


def test_a_model_of_too_many_modules_is_described_by_names(describer: Describer):
    architecture = described(describer, {**ALBERT, "inner_group_num": 10_000_000})
    assert architecture.model_class is None
    assert architecture.traits == describe(None, SHAPES).traits
    assert architecture.note == (
        "The config asks for a model of more than 10060 modules and tensors, far more than are in "
        "the files; check config.json. Tensors are described by their names."
    )


def test_what_is_stopped_ends_at_once(describer: Describer):
    steps = under_way(describer)
    process = psutil.Process(describer.pid)
    started = time.monotonic()
    steps.close()
    assert time.monotonic() - started < 1
    assert not process.is_running()


def test_a_model_that_takes_too_long_is_described_by_names(describer: Describer):
    architecture = described(describer, SWIN)
    assert architecture.traits == describe(None, SHAPES).traits
    assert architecture.note == (
        "Building the model of config.json took longer than 2 s; check the numbers in it. Tensors "
        "are described by their names."
    )


def test_memory_is_limited(monkeypatch):
    hungry = (
        "print('{{}}', flush=True); input(); held = [bytearray(b'x') * 10**6 for _ in iter(int, 1)]"
    )
    monkeypatch.setattr(limited_process, "_CODE", hungry)
    with Describer(Limits(seconds=8.0, memory_bytes=200_000_000)) as describer:
        architecture = described(describer, GPT2)
    assert "took more than 200 MB; check the numbers in it." in architecture.note


@pytest.mark.long
def test_a_process_that_the_system_ends_is_no_crash():
    with Describer() as describer:
        steps = under_way(describer)
        psutil.Process(describer.pid).kill()
        architecture = result_of(steps)
    assert architecture.model_class is None
    assert "its process was ended" in architecture.note


def test_a_process_that_cannot_be_started_is_an_error(monkeypatch):
    for path in ("/nowhere/python", "/bin/false"):
        monkeypatch.setattr(sys, "executable", path)
        with (
            Describer() as describer,
            pytest.raises(ArchitectureError, match="cannot be started; check"),
        ):
            described(describer, GPT2)


@pytest.mark.long
def test_modules_in_the_current_folder_are_not_run(tmp_path, monkeypatch):
    for name in ("faulthandler", "json", "transformers", "ace_gui"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()")
    monkeypatch.chdir(tmp_path)
    with Describer() as describer:
        assert described(describer, GPT2).model_class == "GPT2Model"
    assert not (tmp_path / "ran").exists()


@pytest.mark.long
def test_it_ends_when_its_owner_is_killed():
    code = (
        "from ace_gui.architecture.sandbox import Describer, Limits\n"
        "describer = Describer(Limits(seconds=0.3))\n"
        f"for _ in describer.describe({SWIN!r}, {{}}): print(describer.pid, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    owner = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment
    )
    builder = psutil.Process(int(owner.stdout.readline()))
    owner.kill()
    owner.communicate()
    builder.wait(60)
