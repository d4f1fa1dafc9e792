"""What the engine has, with its texts in the language of the window."""

from __future__ import annotations

from dataclasses import replace

from ace_gui.engine.contract.events import EngineReady, FieldInfo, MethodInfo
from ace_gui.gui.told import told


def in_words(engine: EngineReady) -> EngineReady:
    """The same engine; names, which recipes hold, formulas and citations stay."""
    return replace(
        engine,
        methods=tuple(_method(method) for method in engine.methods),
        scopes=tuple((name, told(what)) for name, what in engine.scopes),
        problems=tuple(map(told, engine.problems)),
        devices_not_used=tuple(map(told, engine.devices_not_used)),
    )


def _method(method: MethodInfo) -> MethodInfo:
    return replace(
        method,
        title=told(method.title),
        family=told(method.family),
        summary=told(method.summary),
        needs=told(method.needs),
        leaves=told(method.leaves),
        fields=tuple(map(_field, method.fields)),
    )


def _field(field: FieldInfo) -> FieldInfo:
    presets = tuple((told(title), value) for title, value in field.presets)
    return replace(field, label=told(field.label), help=told(field.help), presets=presets)
