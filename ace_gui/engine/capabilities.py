"""The engine's offers as plain values: methods, scopes, devices, models it can find."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch

from ace_gui.architecture.scopes import SCOPES
from ace_gui.engine.contract.events import (
    EngineReady,
    MethodInfo,
)
from ace_gui.engine.devices import available_devices, devices_not_used
from ace_gui.machine import total_memory
from ace_gui.methods import METHODS, PROBLEMS, families, parameter_fields
from ace_gui.methods.shared.expert_modules import ModuleKind, kind_of, learns
from ace_gui.methods.shared.measured import Need

_NEEDS: Final[Mapping[Need | None, str]] = {
    None: "",
    Need.INPUTS: "Needs inputs of each expert's task: tasks with calibration data, without labels.",
    Need.GRADIENTS: (
        "Needs inputs of each expert's task: tasks with calibration data, without labels. Takes "
        "gradients, which is several times slower than inputs alone."
    ),
    Need.ENTROPY: (
        "Needs inputs of each expert's task: tasks with calibration data, without labels. Learns "
        "in many steps, each as long as a training step of one model; leaves plain weights."
    ),
    Need.LOSS: (
        "Needs a few labelled inputs of each expert's task: tasks with calibration data that have "
        "labels. Learns in steps, each as long as a training step; leaves plain weights."
    ),
}


_ROUTED: Final = (ModuleKind.SMILE, ModuleKind.MIXTURE, ModuleKind.CHOICE, ModuleKind.BLOCKS)
_LEAVES: Final[Mapping[ModuleKind | None, str]] = {
    ModuleKind.TASK: "Stores modules: given the task, they restore that expert's model.",
    ModuleKind.SURGERY: "Stores modules for each task; the task must be given.",
    **dict.fromkeys(_ROUTED, "Stores modules, and a router that finds the expert of each example."),
}


def engine_ready() -> EngineReady:
    """The first event of an engine process."""
    return EngineReady(
        methods=tuple(method_info(name) for name in METHODS),
        devices=available_devices(),
        devices_not_used=devices_not_used(),
        scopes=tuple((scope.name, scope.description) for scope in SCOPES.values()),
        threads=torch.get_num_threads(),
        memory_bytes=total_memory(),
        problems=PROBLEMS,
    )


def method_info(name: str) -> MethodInfo:
    """A registered method, for a list of methods or a help text."""
    method = METHODS[name]
    kind = None if method.modules is None else kind_of(method.modules)
    need = Need.INPUTS if learns(method.modules) else method.need(method.parameters())
    return MethodInfo(
        name=method.name,
        title=method.title,
        family=next(title for title, family in families().items() if method in family),
        summary=method.summary,
        formula=method.formula,
        citation=method.citation,
        least=method.least,
        most=method.most,
        seeded=method.seeded,
        needs=_NEEDS[need],
        leaves=_LEAVES.get(kind, ""),
        routes=kind in _ROUTED,
        learns=method.learning is not None,
        fields=parameter_fields(method),
    )
