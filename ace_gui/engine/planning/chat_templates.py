"""The chat template of the output: the base's, a model's, a file's or a well-known one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.input_files import JSON_LIMIT, read_json
from ace_gui.engine.contract.plan import Check, CheckVerdict
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.token_ids import side_files_of
from ace_gui.errors import CheckpointError, RecipeError
from ace_gui.formatting import plain
from ace_gui.recipe import Recipe

_CONFIG: Final = "tokenizer_config.json"
_FILE: Final = "chat_template.jinja"
_LONGEST: Final = 1_000_000

_TURNS: Final = "{% for message in messages %}"
_END: Final = "{% endfor %}{% if add_generation_prompt %}"
BUILT_IN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "chatml": (
            _TURNS + "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
            "'<|im_end|>\n' }}" + _END + "{{ '<|im_start|>assistant\n' }}{% endif %}"
        ),
        "llama3": (
            "{{ bos_token }}" + _TURNS + "{{ '<|start_header_id|>' + message['role'] + "
            "'<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}"
            + _END
            + "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
        ),
        "mistral": (
            "{{ bos_token }}" + _TURNS + "{% if message['role'] == 'assistant' %}"
            "{{ ' ' + message['content'] + eos_token }}"
            "{% else %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% endif %}{% endfor %}"
        ),
        "alpaca": (
            _TURNS + "{% if message['role'] == 'system' %}{{ message['content'] + '\n\n' }}"
            "{% elif message['role'] == 'user' %}"
            "{{ '### Instruction:\n' + message['content'] + '\n\n' }}"
            "{% else %}{{ '### Response:\n' + message['content'] + eos_token + '\n\n' }}{% endif %}"
            + _END
            + "{{ '### Response:\n' }}{% endif %}"
        ),
        "exaone": (
            _TURNS + "{{ '[|' + message['role'] + '|]' + message['content'] }}"
            "{% if message['role'] == 'user' %}{{ '\n' }}{% else %}{{ '[|endofturn|]\n' }}"
            "{% endif %}" + _END + "{{ '[|assistant|]' }}{% endif %}"
        ),
    }
)
"""The formats of well-known model families, by mergekit's names for them."""


def with_chat_template(
    base: OpenedModel, experts: Sequence[OpenedModel], recipe: Recipe
) -> OpenedModel:
    """The base with the recipe's chat template; with auto, there may be none.

    A file stays a file. Other templates are written into the tokenizer's config. Raises RecipeError
    if the recipe names none that exists.
    """
    choice = recipe.chat_template
    if not choice or choice == "base":
        return base
    template = _chosen_template(choice, base, experts)
    if not template:
        return base
    before = base.checkpoint
    files = dict(before.side_files if before.output_files is None else before.output_files)
    files.pop(_FILE, None)
    config = dict(before.changes.get(_CONFIG, {}))
    if not isinstance(template, Path):
        config["chat_template"] = template
    else:
        files[_FILE] = template
        if "chat_template" in _config(before):
            config["chat_template"] = None
    changes = {**before.changes, _CONFIG: config}
    return replace(base, checkpoint=replace(before, changes=changes, output_files=files))


def _chosen_template(
    choice: str, base: OpenedModel, experts: Sequence[OpenedModel]
) -> Path | object:
    if choice in BUILT_IN:
        return BUILT_IN[choice]
    if choice == "auto":
        templates = [template_of(model.checkpoint) for model in (base, *experts)]
        counts = Counter(template for template in templates if template)
        if counts:
            return counts.most_common(1)[0][0]
        return ""
    named = {expert.name: expert.checkpoint for expert in experts}
    if choice in named:
        found_there = side_files_of(named[choice]).get(_FILE) or template_of(named[choice])
        if not found_there:
            raise RecipeError(f"{plain(choice)} has no chat template.", key="chat_template")
        return found_there
    if "{" in choice:
        return choice
    file = Path(choice)
    if file.is_file() and file.stat().st_size <= _LONGEST:
        return file
    raise RecipeError(
        f"chat_template is {plain(choice)!r}, which is no file; name base, one of the models "
        f"({', '.join(named)}), a file, auto, or one of {', '.join(BUILT_IN)}.",
        key="chat_template",
    )


def template_of(checkpoint: Checkpoint) -> str:
    """The chat template of a model; empty if it has none or it cannot be read."""
    file = side_files_of(checkpoint).get(_FILE)
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""
    template = _config(checkpoint).get("chat_template")
    if isinstance(template, str):
        return template
    return ""


def _config(checkpoint: Checkpoint) -> Mapping[str, object]:
    file = side_files_of(checkpoint).get(_CONFIG)
    try:
        if file is None:
            return {}
        return read_json(file, limit=JSON_LIMIT)
    except CheckpointError:
        return {}


def chat_checks(prepared: Prepared) -> tuple[Check, ...]:
    """Notes about templates that only experts have, and about end tokens that differ."""
    base = prepared.base
    experts = prepared.experts
    notes = []
    having = [plain(expert.name) for expert in experts if template_of(expert.checkpoint)]
    if having and not prepared.recipe.chat_template and not template_of(base.checkpoint):
        notes.append(
            f"Only {', '.join(having)} {'have' if having[1:] else 'has'} a chat template, not the "
            f"base. To have it in the output, write `chat_template: {having[0]}` in the recipe."
        )
    ends = {}
    for model in (base, *experts):
        token = _config(model.checkpoint).get("eos_token")
        if isinstance(token, dict):
            content = token.get("content")
        else:
            content = token
        if isinstance(content, str):
            ends[plain(model.name)] = repr(plain(content))
    if len(set(ends.values())) > 1:
        named = ", ".join(f"{end} in {name}" for name, end in ends.items())
        notes.append(
            f"The tokens that end an answer differ: {named}. The output has those of its tokenizer."
        )
    return tuple(Check("Chat", note, CheckVerdict.NOTE) for note in notes)
