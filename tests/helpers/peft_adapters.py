"""A base and adapters of it with random factors, as PEFT saves them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import peft
import torch

from tests.helpers.adapters import randomised


def save_base_and_adapters(
    folder: Path, make: Callable[[], Any], configs: Sequence[peft.PeftConfig]
) -> tuple[Path, list[Path]]:
    """The folders of a base and of one adapter for each config."""
    torch.manual_seed(0)
    make().save_pretrained(folder / "base")
    adapters = []
    for number, config in enumerate(configs):
        model = type(make()).from_pretrained(folder / "base")
        adapted = randomised(peft.get_peft_model(model, config), seed=number)
        for name, value in adapted.named_parameters():
            if "modules_to_save" in name:
                value.data += 0.1 * torch.randn(value.shape)
        adapters.append(folder / f"adapter-{number}")
        adapted.save_pretrained(adapters[-1])
    return folder / "base", adapters
