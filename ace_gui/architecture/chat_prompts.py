"""Renders chat templates in a process of their own: they are programs of whoever made the model.

jinja2's sandbox keeps them from everything outside, but not from loops that never end or texts that
fill all memory. The process is that of ``limited_process``.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from ace_gui.architecture.limited_process import (
    BeyondLimitsError,
    LimitedProcess,
    Limits,
    NotStartedError,
    answer_until_end,
    request_of,
)
from ace_gui.errors import ArchitectureError, TaskError
from ace_gui.formatting import plain
from ace_gui.steps import result_of

LIMITS: Final = Limits(seconds=5.0, memory_bytes=300_000_000)
"""Of one conversation; published templates take milliseconds."""

LONGEST_TEXT: Final = 4_000_000
"""Most characters of a rendered conversation, which is more than any model reads."""

Message = Mapping[str, str]
"""``role`` and ``content`` of one turn."""


def serve() -> None:
    """Render templates until the input ends; see ``limited_process.answer_until_end``."""
    answer_until_end(_import_libraries, _rendered)


def chat_tokens(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """The tokens of a conversation in the tokenizer's chat template, up to the model's answer.

    Raises TaskError, the end of a sentence about the template, if it refuses the messages, takes
    too much time or memory, renders nothing or too much; ArchitectureError without a process.
    """
    from transformers import PreTrainedTokenizerBase

    if type(tokenizer).apply_chat_template is not PreTrainedTokenizerBase.apply_chat_template:
        return _tokens_of_library(tokenizer, messages)  # a tokenizer that has no template
    template = tokenizer.get_chat_template()
    text = _text_of(template, messages, tokenizer.special_tokens_map)
    tokens: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    if not tokens:
        raise TaskError("renders nothing for the messages", key="chat")
    return tokens


def _tokens_of_library(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    try:
        encoded = tokenizer.apply_chat_template(list(messages), add_generation_prompt=True)
    except Exception as error:
        raise _refused(str(error)) from error
    return list(encoded["input_ids"])


def _text_of(template: str, messages: Sequence[Message], variables: Mapping[str, Any]) -> str:
    """The rendered conversation. ``variables``: what the template knows, such as ``bos_token``."""
    request = request_of([template, list(messages), dict(variables)], LIMITS)
    try:
        answer = result_of(_process().answer(request, LIMITS))
    except BeyondLimitsError as error:
        raise TaskError(f"{error} for one conversation", key="chat") from error
    except NotStartedError as error:
        raise ArchitectureError(
            "The process that renders chat templates cannot be started; check that transformers "
            "and jinja2 are installed and that memory is left, or choose chat: off.",
            details=error.reason,
        ) from error
    if "error" in answer:
        raise _refused(answer["error"].partition(": ")[2])
    text: str = answer["text"]
    return text


def _refused(reason: str) -> TaskError:
    return TaskError(f"refuses the messages ({plain(reason)})", key="chat", details=reason)


@cache
def _process() -> LimitedProcess:
    """The process of this one; it ends with it."""
    process = LimitedProcess("render-chats", __name__)
    atexit.register(process.close)
    return process


def _import_libraries() -> None:
    from transformers.utils import chat_template_utils  # noqa: F401


def _rendered(
    template: str, messages: list[dict[str, str]], variables: dict[str, Any]
) -> dict[str, str]:
    from transformers.utils.chat_template_utils import render_jinja_template

    rendered = render_jinja_template(
        conversations=[messages], chat_template=template, add_generation_prompt=True, **variables
    )
    text: str = rendered[0][0] if isinstance(rendered, tuple) else rendered[0]
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"the text has {len(text)} characters, more than any model reads")
    return {"text": text}
