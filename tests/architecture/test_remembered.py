"""Descriptions kept on disk."""

import json
from pathlib import Path

import pytest

from ace_gui.architecture import sandbox as module
from ace_gui.architecture.describe import describe
from ace_gui.architecture.sandbox import LARGEST_NUMBER
from ace_gui.architecture.traits import Architecture
from ace_gui.steps import Steps, result_of
from tests.helpers.damage import ANY_FILE

CONFIG = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "n_layer": 1,
    "n_embd": 8,
    "n_head": 2,
    "vocab_size": 11,
    "n_positions": 6,
}
SHAPES = {
    "transformer.wte.weight": (11, 8),
    "transformer.h.0.attn.c_attn.weight": (8, 24),
    "transformer.h.0.ln_1.weight": (8,),
    "something.else": (3, 4, 5),
}


made: list[object] = []
"""One entry for every description made."""


@pytest.fixture
def calls() -> list[object]:
    made.clear()
    return made


def remembered(config, shapes, folder: Path) -> Architecture:
    def counted(config, shapes) -> Steps[Architecture]:
        made.append(config)
        yield
        return describe(config, shapes)

    return result_of(module.remembered(config, shapes, folder, counted))


def test_the_second_time_it_is_read(tmp_path, calls: list[object]):
    first = remembered(CONFIG, SHAPES, tmp_path / "new")
    assert first == describe(CONFIG, SHAPES)
    assert remembered(CONFIG, SHAPES, tmp_path / "new") == first
    assert len(calls) == 1


def test_whatever_it_depends_on_makes_it_anew(tmp_path, calls: list[object], monkeypatch):
    remembered(CONFIG, SHAPES, tmp_path)
    remembered({**CONFIG, "n_head": 4}, SHAPES, tmp_path)
    remembered(CONFIG, {**SHAPES, "something.else": (3, 4, 6)}, tmp_path)
    monkeypatch.setattr(module, "version", lambda name: "0")
    remembered(CONFIG, SHAPES, tmp_path)
    monkeypatch.setattr(module, "code_digest", lambda *_: "0")
    remembered(CONFIG, SHAPES, tmp_path)
    assert len(calls) == 5


def other_role(file: Path) -> None:
    content = file.read_text()
    assert '"norm"' in content
    file.write_text(content.replace('"norm"', '"value"'))


def other_tensors(file: Path) -> None:
    content = json.loads(file.read_bytes().partition(b"\n")[2])
    content["traits"]["another"] = content["traits"].pop("something.else")
    file.write_text(json.dumps(content))


TEXTS = [b"", b"{", b"[]", b'{"family": 3}', b'{"family": "gpt2", "model_class": "X"}']
DAMAGE = {
    **ANY_FILE,
    **{str(text): lambda file, text=text: file.write_bytes(text) for text in TEXTS},
    "other role": other_role,
    "other tensors": other_tensors,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_made_again(damage: str, tmp_path, calls: list[object], caplog):
    expected = remembered(CONFIG, SHAPES, tmp_path)
    (file,) = tmp_path.iterdir()
    DAMAGE[damage](file)
    there = file.exists()
    assert remembered(CONFIG, SHAPES, tmp_path) == expected
    assert len(calls) == 2
    assert ("made again" in caplog.text) == there
    assert len(list(tmp_path.iterdir())) == 1
    if file.is_file():
        assert remembered(CONFIG, SHAPES, tmp_path) == expected
        assert len(calls) == 2


def test_what_was_guessed_from_names_is_not_kept(tmp_path):
    deep: dict[str, object] = {}
    for _ in range(10_000):
        deep = {"deeper": deep}
    for config in (None, {"model_type": "unheard-of"}, deep):
        assert remembered(config, SHAPES, tmp_path) == describe(config, SHAPES)
    assert not list(tmp_path.iterdir())


def test_what_was_guessed_from_names_is_not_guessed_twice_in_one_process(
    tmp_path, calls: list[object]
):
    for _ in range(3):
        remembered({"model_type": "never seen"}, SHAPES, tmp_path)
    assert len(calls) == 1


def test_a_folder_that_cannot_be_written_does_not_matter(tmp_path):
    (tmp_path / "file").touch()
    assert remembered(CONFIG, SHAPES, tmp_path / "file").model_class == "GPT2LMHeadModel"


def test_the_oldest_make_way(tmp_path, monkeypatch):
    for number in range(LARGEST_NUMBER + 5):
        monkeypatch.setattr(module, "version", lambda name, number=number: str(number))
        remembered(CONFIG, {"lm_head.weight": (11, 8)}, tmp_path)
    assert len(list(tmp_path.iterdir())) == LARGEST_NUMBER
    last = module._key(CONFIG, {"lm_head.weight": (11, 8)})
    assert (tmp_path / f"{last}.json").exists()
