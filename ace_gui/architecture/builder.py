"""The process that builds models, started by ``sandbox``: one JSON line per request and answer.

It ends when its owner is gone: at the end of its input, or when an answer is overdue.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import sys
from typing import Any, BinaryIO, Final

from pydantic import TypeAdapter

from ace_gui.architecture.traits import Architecture

ARCHITECTURE: Final = TypeAdapter(Architecture)


def serve() -> None:
    """Report that the libraries are loaded, then answer until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whatever a library prints is no answer
    gc.disable()  # a model is a million objects, and none of them garbage
    try:
        _import_libraries()
    except Exception as error:
        _say(answers, {"error": f"{type(error).__name__}: {error}"})
        return
    gc.freeze()
    _say(answers, {})
    for line in sys.stdin.buffer:
        _say(answers, _answer(line))
        del line
        gc.collect()


def _import_libraries() -> None:
    """Import what every description needs, so that its time is only that of the model."""
    from ace_gui.architecture import transformers_library

    transformers_library.transformers()
    import transformers.conversion_mapping
    import transformers.core_model_loading
    import transformers.modeling_utils  # noqa: F401


def _answer(line: bytes) -> dict[str, Any]:
    from ace_gui.architecture.describe import describe

    try:
        config, shapes, seconds, memory_bytes = json.loads(line)
        faulthandler.dump_traceback_later(seconds, exit=True)
        _limit_memory(memory_bytes)
        found = describe(config, {name: tuple(shape) for name, shape in shapes})
        return {"architecture": ARCHITECTURE.dump_python(found, mode="json")}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        faulthandler.cancel_dump_traceback_later()


def _limit_memory(memory_bytes: int) -> None:
    """Limit the memory where the system can, for the time between two checks."""
    try:
        import resource
    except ImportError:
        return
    import psutil

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = psutil.Process().memory_info().vms + memory_bytes
    if soft == resource.RLIM_INFINITY or most < soft:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _say(answers: BinaryIO, what: dict[str, Any]) -> None:
    answers.write(json.dumps(what).encode() + b"\n")
    answers.flush()
