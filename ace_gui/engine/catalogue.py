"""What the engine offers, as plain values: methods, scopes, devices."""

from __future__ import annotations

import torch

from ace_gui.architecture.scopes import SCOPES
from ace_gui.engine.devices import available_devices
from ace_gui.engine.events import EngineReady, FieldInfo, MethodInfo
from ace_gui.methods import METHODS, parameter_fields


def engine_ready() -> EngineReady:
    """The first thing an engine process says."""
    return EngineReady(
        methods=tuple(method_info(name) for name in METHODS),
        devices=available_devices(),
        scopes=tuple((scope.name, scope.description) for scope in SCOPES.values()),
        threads=torch.get_num_threads(),
    )


def method_info(name: str) -> MethodInfo:
    """A registered method, as a chooser or a help text shows it."""
    method = METHODS[name]
    return MethodInfo(
        name=method.name,
        title=method.title,
        summary=method.summary,
        formula=method.formula,
        citation=method.citation,
        fields=tuple(
            FieldInfo(name=item.name, kind=item.kind, default=item.default, **item.metadata)
            for item in parameter_fields(method)
        ),
    )
