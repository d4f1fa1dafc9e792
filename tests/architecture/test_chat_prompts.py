"""Chat templates are rendered as transformers does, within limits, and never without an answer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from ace_gui.architecture import chat_prompts
from ace_gui.architecture.chat_prompts import chat_tokens
from ace_gui.architecture.limited_process import Limits
from ace_gui.errors import TaskError
from tests.helpers.command import ace_gui as run
from tests.helpers.scored_models import save_chat_model

MESSAGES = [
    {"role": "system", "content": "good"},
    {"role": "user", "content": "a question"},
    {"role": "assistant", "content": "an answer"},
    {"role": "user", "content": "more"},
]
PUBLISHED = {
    "plain": "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}",
    "special tokens": "{{ bos_token }}{{ messages[0]['content'] }}{{ eos_token }}",
    "controls": "{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}"
    "{{ m.content }} {% endfor %}",
    "prompt": "{{ messages[-1].content }}{% if add_generation_prompt %} good {% endif %}",
    "generation": "{% generation %}{{ messages[-1].content }}{% endgeneration %}",
    "macro": "{% macro say(m) %}{{ m.content }} {% endmacro %}{{ say(messages[1]) }}",
    "json": "{{ messages | tojson }}",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tmp_path_factory.mktemp("chat") / "model"
    save_chat_model(model)
    return model


@pytest.mark.parametrize("template", PUBLISHED.values(), ids=PUBLISHED.keys())
def test_tokens_are_those_of_transformers(folder: Path, template: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    expected = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True)["input_ids"]
    assert chat_tokens(tokenizer, MESSAGES) == expected


LOOPS = "{% for a in range(10**5) %}{% for b in range(10**5) %}{% endfor %}{% endfor %}"
HOSTILE = {
    "endless": (LOOPS, "took longer than"),
    "memory": ("{% set t = 'ab' * 10**9 %}{{ t }}", "chat template"),
    "memory by parts": (
        "{% for a in range(10**5) %}{% for b in range(10**5) %}{{ 'x' * 1000 }}{% endfor %}"
        "{% endfor %}",
        "chat template",
    ),
    "long": ("{{ 'a ' * (4 * 10**6) }}", "more than any model reads"),
    "nothing": ("", "renders nothing"),
    "refusal": ("{{ raise_exception('no system message') }}", "no system message"),
    "attributes": ("{{ ''.__class__.__mro__ }}", "refuses the messages"),
    "syntax": ("{% if %}", "refuses the messages"),
    "deep": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "refuses the messages"),
    "unknown": ("{{ nothing.at.all }}", "refuses the messages"),
}


@pytest.mark.parametrize(("template", "words"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_templates_end_soon(
    folder: Path, monkeypatch: pytest.MonkeyPatch, template: str, words: str
) -> None:
    monkeypatch.setattr(chat_prompts, "LIMITS", Limits(seconds=1.0, memory_bytes=200_000_000))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template
    began = time.monotonic()
    with pytest.raises(TaskError) as caught:
        chat_tokens(tokenizer, MESSAGES)
    assert time.monotonic() - began < 60
    assert words in f"chat template {caught.value.sentence}"
    tokenizer.chat_template = PUBLISHED["plain"]  # the next one is rendered again
    assert chat_tokens(tokenizer, MESSAGES)


def test_a_score_with_a_hostile_template_names_the_task(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_prompts, "LIMITS", Limits(seconds=1.0, memory_bytes=200_000_000))
    model = tmp_path / "model"
    save_chat_model(model, template=LOOPS)
    (tmp_path / "d.jsonl").write_text('{"text": "a", "label": "b"}\n')
    (tmp_path / "t.yaml").write_text("tasks:\n- {data: d.jsonl, metric: exact-match}\n")
    done = run("evaluate", model, "--tasks", tmp_path / "t.yaml")
    assert done.returncode == 1
    assert "d: the chat template of a model took longer than" in done.stderr
    assert "chat: off" in done.stderr
