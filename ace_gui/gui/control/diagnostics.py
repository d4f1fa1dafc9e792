"""Diagnostic information: versions, device, memory, platform. It contains no model data."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from PySide6.QtCore import QLocale, QSysInfo, qVersion
from PySide6.QtGui import QGuiApplication

from ace_gui import __version__
from ace_gui.formatting import human_bytes
from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings

LIBRARIES: Final = (
    "PySide6-Essentials",
    "pyqtgraph",
    "numpy",
    "torch",
    "safetensors",
    "transformers",
    "huggingface_hub",
)
LOG_END: Final = 40
"""Number of log entries at the end of a problem report."""

_PATH: Final = re.compile(r"(?<![\w/~:.<>])(?:[A-Za-z]:[\\/]|/)[^\s\"'“”:;,<>|()]+")


def diagnostics(session: Session) -> str:
    """One fact per line. It queries the machine, so do not call it during start-up."""
    return "\n".join(f"{name}: {value}" for name, value in _facts(session))


def problem_text(session: Session, crash: str = "") -> str:
    """The start of a problem report: what happened, diagnostics, and the end of the log.

    Paths and names of the open models are replaced.
    """
    log = "\n".join(entry.line for entry in session.log.entries[-LOG_END:])
    parts = [
        "What I did, and what happened:\n\n",
        f"Diagnostics\n-----------\n{diagnostics(session)}",
        f"End of the log\n--------------\n{without_names(log, session)}",
    ]
    if crash:
        parts.append(f"Crash\n-----\n{without_names(crash.strip(), session)}")
    return "\n\n".join(parts) + "\n"


def without_names(text: str, session: Session) -> str:
    """Replace the open models' paths and names in the text, and shorten every other path."""
    inputs = session.draft.inputs
    called: dict[str, str] = {}
    experts = zip(inputs.experts, inputs.names, strict=True)
    models = [(f"<expert {n}>", each.path, name) for n, (each, name) in enumerate(experts, start=1)]
    if inputs.base is not None:
        models.append(("<the base>", inputs.base, inputs.base.name))
    for alias, path, name in models:
        called |= {str(path): alias, path.name: alias, name: alias}
    longest_first = sorted(filter(None, called), key=len, reverse=True)
    names = "|".join(map(re.escape, longest_first))
    if names:
        text = re.sub(rf"(?<!\w)(?:{names})(?!\w)", lambda found: called[found[0]], text)
    text = text.replace(str(Path.home()), "~")

    def own_or_hidden(found: re.Match[str]) -> str:
        """The part of a path inside this package; any other path is hidden."""
        at = found[0].replace("\\", "/").find("/ace_gui/")
        return found[0][at + 1 :] if at >= 0 else "<path>"

    return _PATH.sub(own_or_hidden, text)


def _facts(session: Session) -> Iterator[tuple[str, str]]:
    bundled = " (bundle)" if getattr(sys, "frozen", False) else ""
    yield "ACE Workbench", f"{__version__}{bundled}"
    yield "System", f"{QSysInfo.prettyProductName()}, {platform.release()}, {platform.machine()}"
    yield "Python", platform.python_version()
    yield "Qt", f"{qVersion()}, {QGuiApplication.platformName()}"
    for name in LIBRARIES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, "unknown"
    yield from _machine(session)
    yield from _display()


def _machine(session: Session) -> Iterator[tuple[str, str]]:
    from ace_gui.machine import free_memory, processors, total_memory

    yield "Processors", str(processors())
    yield "Memory", f"{human_bytes(free_memory())} free of {human_bytes(total_memory())}"
    limit = session.memory_bytes
    yield "Memory for merging", human_bytes(limit) if limit else "all free memory"
    engine = session.engine
    if engine is None:
        yield "Engine", "not started"
        return
    yield "Threads", str(engine.threads)
    for device in engine.devices:
        memory = f", {human_bytes(device.memory_bytes)}" if device.memory_bytes else ""
        yield f"Device {device.name}", f"{device.title}{memory}"
    for why in engine.devices_not_used:
        yield "Device not used", why
    yield "Device chosen", session.device


def _display() -> Iterator[tuple[str, str]]:
    for screen in QGuiApplication.screens():
        size, scale = screen.size(), screen.devicePixelRatio()
        yield "Screen", f"{size.width()}×{size.height()}, scale {scale:g}"
    yield "Font size", f"{QGuiApplication.font().pointSizeF():g} points"
    yield "Colours", Settings().scheme
    yield "Language", f"{QLocale.system().name()}, {os.environ.get('LANG', 'LANG not set')}"
