"""How a language model is asked: the prompt of a task, in the model's chat template or plain."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from ace_gui.engine.evaluating.task_data import CHOICES, TEXT
from ace_gui.errors import TaskError
from ace_gui.recipe.tasks import Chat, Task


class Prompter:
    """Makes tokens of a task's prompts. ``chat``: whether the chat template is used."""

    def __init__(self, task: Task, tokenizer: Any) -> None:
        self._task, self._tokenizer = task, tokenizer
        self.chat = task.chat is not Chat.OFF and bool(getattr(tokenizer, "chat_template", None))

    def text(self, given: Mapping[str, Any], default: str = "{text}") -> str:
        """The task's prompt for an example. ``default``: if the task has none."""
        choices = given.get(CHOICES, ())
        lettered = "\n".join(map("{}. {}".format, letters(choices), choices))
        values = {"{text}": given[TEXT], "{choices}": lettered}
        prompt = self._task.prompt or default
        return re.sub(r"\{(text|choices)\}", lambda found: values[found[0]], prompt)

    def tokens(
        self, text: str, earlier: Sequence[tuple[str, str]] = (), **cut_off: Any
    ) -> list[int]:
        """The tokens of a prompt. ``earlier``: questions and answers of the conversation so far.

        Without a template, the system message precedes the prompt, and earlier turns are left out.
        ``cut_off``: arguments of the tokenizer that cut a plain prompt. Raises TaskError if the
        template refuses the messages.
        """
        system = self._task.system
        if not self.chat:
            whole = f"{system}\n\n{text}" if system else text
            found: list[int] = self._tokenizer(whole, **cut_off)["input_ids"]
            return found
        messages = [{"role": "system", "content": system}] if system else []
        for question, answer in earlier:
            messages.append({"role": "user", "content": question})
            messages.append({"role": "assistant", "content": answer})
        messages.append({"role": "user", "content": text})
        # A template is a program that may raise anything.
        try:
            made = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        except Exception as error:
            raise TaskError(
                f"{self._task.title}: the chat template of a model refuses the messages "
                f"({error}); put the system message into the prompt, or choose chat: off.",
                key="chat",
                details=f"{type(error).__name__}: {error}",
            ) from error
        return list(made["input_ids"])


def letters(choices: Sequence[Any]) -> str:
    """The letters of this many choices."""
    return string.ascii_uppercase[: len(choices)]
