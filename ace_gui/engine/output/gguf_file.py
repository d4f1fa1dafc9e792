"""Makes a GGUF file from a folder by the converters of the person's own llama.cpp.

llama.cpp is no dependency: its scripts run in a process of their own, offline, with the Python
beside it or with this one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final

from ace_gui.architecture.transformers_library import load_tokenizer
from ace_gui.checkpoints.adapters.lora import is_peft_adapter
from ace_gui.engine.contract.events import GgufWritten, JobProgress
from ace_gui.engine.modules.stored import has_modules
from ace_gui.errors import CheckpointError, OutputError, WorkbenchError
from ace_gui.formatting import listing, path_text, plain
from ace_gui.output_files import check_file, output_error, replacing, sync, write_file
from ace_gui.paths import llama_cpp_file, remembered_llama_cpp
from ace_gui.processes import is_bundled

AUTO: Final = "auto"
_OF_ADAPTERS: Final = "f16"
"""The type of an adapter that no type was chosen for."""
CONVERTED: Final = (AUTO, "f32", "f16", "bf16", "q8_0")
"""Formats that llama.cpp's converter writes itself."""

QUANTISED: Final = ("q6_k", "q5_k_m", "q5_k_s", "q4_k_m", "q4_k_s", "q3_k_m", "q2_k")
"""Formats that its program llama-quantize writes."""

TYPES: Final = (*CONVERTED, *QUANTISED)

CONVERT: Final = "convert_hf_to_gguf.py"
CONVERT_ADAPTER: Final = "convert_lora_to_gguf.py"
TITLE: Final = "writing the GGUF file"
QUANTISING: Final = "quantising"
PATIENCE: Final = 0.2
"""Seconds between two looks at a running converter, so that it can be stopped."""

_HUNDRED: Final = 100
_PERCENT: Final = re.compile(r"Writing:\s+(\d+)%")
_WRITERS: Final = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
"""How the classes that llama.cpp reads end."""

_TOKENIZERS: Final = ("tokenizer.json", "tokenizer.model", "vocab.json")
_GET: Final = "Get its source (git clone https://github.com/ggml-org/llama.cpp)"
_KNOWN: Final = {
    r"No module named '?([\w.]+)": "The converter needs the Python package {0}; install it with: "
    "{python} -m pip install {0}.",
    r"pre-tokenizer was not recognized": "This llama.cpp does not know the model's tokenizer; get "
    "a newer one, and try again.",
    r"Model (\w+) is not supported": "This llama.cpp does not know {0}; get a newer one.",
}
"""Sentences for what converters print at their end, by patterns."""


@dataclass(frozen=True, kw_only=True)
class LlamaCpp:
    """The source folder of llama.cpp, checked."""

    folder: Path

    @property
    def python(self) -> str:
        """The Python of its own environment, if there is one, or else this one."""
        for environment in (".venv", "venv"):
            for name in ("bin/python", "Scripts/python.exe"):
                python = self.folder / environment / name
                if python.is_file():
                    return str(python)
        if is_bundled():
            raise OutputError(
                f"{path_text(self.folder)} has no Python environment; make one in it (python -m "
                "venv .venv) and install its requirements.txt there.",
                path=self.folder,
            )
        return sys.executable

    @property
    def quantiser(self) -> Path | None:
        """Its program llama-quantize; None if it was not built."""
        for place in ("build/bin", "build/bin/Release", "bin", "."):
            for name in ("llama-quantize", "llama-quantize.exe"):
                program = self.folder / place / name
                if program.is_file():
                    return program
        return None


def llama_cpp(folder_named: Path | None) -> LlamaCpp:
    """The folder that was given now, or chosen before; it is remembered.

    Raises OutputError for a folder without the converters, and if none is known.
    """
    folder = folder_named or remembered_llama_cpp()
    if folder is None:
        raise OutputError(
            f"GGUF files are made by llama.cpp. {_GET}, and name its folder once: --llama-cpp DIR."
        )
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - a link stays one
    missing = [name for name in (CONVERT, "gguf-py") if not (folder / name).exists()]
    if missing:
        raise OutputError(
            f"{path_text(folder)} is not the source of llama.cpp: it has no {listing(missing)}. "
            f"{_GET}, and give that folder.",
            path=folder,
        )
    if folder_named is not None:
        _remember(folder)
    return LlamaCpp(folder=folder)


def _remember(folder: Path) -> None:
    """Remember the folder; where that fails it has to be named again."""
    with suppress(OSError):
        llama_cpp_file().parent.mkdir(parents=True, exist_ok=True)
        llama_cpp_file().write_text(f"{folder}\n", "utf-8")


def require_type(kind: str) -> None:
    """Raise OutputError for an unknown format."""
    if kind not in TYPES:
        raise OutputError(f"There is no GGUF type {plain(kind)}; there are {listing(TYPES)}.")


def require_convertible(folder: Path, kind: str) -> None:
    """Raise OutputError or CheckpointError for what llama.cpp does not read, before it starts."""
    require_type(kind)
    if is_peft_adapter(folder):
        if kind in QUANTISED:
            raise OutputError(f"An adapter is written as {listing(CONVERTED)}, not as {kind}.")
        return
    config = _config(folder)
    names = [name for name in config.get("architectures") or () if isinstance(name, str)]
    if not any(name.endswith(_WRITERS) for name in names):
        if names:
            class_name = names[0]
        else:
            class_name = "no language model"
        raise OutputError(
            f"llama.cpp runs language models; {path_text(folder)} holds {plain(class_name)}.",
            path=folder,
        )
    if has_modules(folder) or (folder / "heads").is_dir():
        raise OutputError(
            f"{path_text(folder)} has parts for single experts, which GGUF has no place for; write "
            "one expert's model first (ace-gui task), or merge with another method.",
            path=folder,
        )
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise OutputError(
            f"{path_text(folder)} has no tokenizer, which a GGUF file holds; copy the base's "
            "tokenizer files into it.",
            path=folder,
        )


def _config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{path_text(folder)} has no readable config.json; give the folder of a model.",
            path=folder,
            details=str(error),
        ) from None
    if isinstance(config, dict):
        return config
    return {}


def written_gguf(
    folder: Path,
    file: Path,
    kind: str,
    llama: LlamaCpp,
    *,
    base: Path | None = None,
    overwrite: bool = False,
) -> Iterator[JobProgress | GgufWritten]:
    """Convert a model's or an adapter's folder, completely or not at all.

    ``base``: of an adapter, if its config names no folder. ``overwrite``: an existing file is
    replaced. Raises OutputError, ResourceError, and CheckpointError. A closed iterator ends the
    converter and removes its file.
    """
    require_convertible(folder, kind)
    target = check_file(file, (folder,), overwrite=overwrite)
    if kind in QUANTISED and llama.quantiser is None:
        raise OutputError(
            f"{kind} needs llama.cpp's program llama-quantize, which is not built in "
            f"{path_text(llama.folder)}; build it (cmake -B build && cmake --build build --target "
            "llama-quantize), or choose q8_0.",
            path=llama.folder,
        )
    try:
        with replacing(target) as fresh:
            yield from _converted(folder, fresh, kind, llama, base)
            sync(fresh)
    except OSError as error:
        raise output_error(target, error) from None
    files = [target]
    if not is_peft_adapter(folder):
        files.append(_modelfile(folder, target))
    yield GgufWritten(
        files=tuple(files),
        bytes=target.stat().st_size,
        commands=tuple(_commands(files, folder)),
    )


def _converted(
    folder: Path, fresh: Path, kind: str, llama: LlamaCpp, base: Path | None
) -> Iterator[JobProgress]:
    if is_peft_adapter(folder):
        if base is None:
            more = []
        else:
            more = ["--base", str(base)]
        # For some adapters, the converter fails to choose by itself.
        form = _OF_ADAPTERS if kind == AUTO else kind
        script = [CONVERT_ADAPTER, str(folder), "--outfile", str(fresh), "--outtype", form, *more]
        yield from _run([llama.python, *_in(llama, script)], llama, TITLE)
        return
    if kind in CONVERTED:
        script = [CONVERT, str(folder), "--outfile", str(fresh), "--outtype", kind]
        yield from _run([llama.python, *_in(llama, script)], llama, TITLE)
        return
    with tempfile.TemporaryDirectory(dir=fresh.parent, prefix=".gguf-") as between:
        unquantised = Path(between) / "whole.gguf"
        script = [CONVERT, str(folder), "--outfile", str(unquantised), "--outtype", AUTO]
        yield from _run([llama.python, *_in(llama, script)], llama, TITLE)
        command = [str(llama.quantiser), str(unquantised), str(fresh), kind.upper()]
        yield from _run(command, llama, QUANTISING)


def _in(llama: LlamaCpp, script: Sequence[str]) -> list[str]:
    name, *arguments = script
    return [str(llama.folder / name), *arguments]


def _run(command: Sequence[str], llama: LlamaCpp, title: str) -> Iterator[JobProgress]:
    """Run a program of llama.cpp. Raises OutputError with what it says at its end."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"},
    )
    lines = _OutputLines(process)
    try:
        yield JobProgress(title=title, done=0, total=_HUNDRED)
        while not lines.ended:
            percent = lines.percent(PATIENCE)
            yield JobProgress(title=title, done=percent, total=_HUNDRED)
        status = process.wait()
    finally:
        process.kill()
        process.wait()
        lines.close()
    if status:
        raise OutputError(_sentence(lines.latest, llama), details=lines.latest)


class _OutputLines:
    """What a program prints, read by a thread, so that it can be stopped meanwhile."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.ended = False
        self.latest = ""
        """The last line with text."""

        self._percent = 0
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._process = process
        self._thread = Thread(target=self._read, name="llama.cpp", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        line = b""
        while byte := self._process.stdout.read(1):
            if byte in b"\r\n":
                self._lines.put(line)
                line = b""
            else:
                line += byte
        self._lines.put(line)
        self._lines.put(None)

    def percent(self, seconds: float) -> int:
        """How much is done, after the next line or some time."""
        line: bytes | None = b""
        with suppress(Empty):
            line = self._lines.get(timeout=seconds)
        if line is None:
            self.ended = True
            return self._percent
        text = line.decode("utf-8", "replace").strip()
        self.latest = text or self.latest
        match = _PERCENT.search(text)
        if match is not None:
            self._percent = int(match[1])
        return self._percent

    def close(self) -> None:
        """End the thread; the program has ended."""
        self._thread.join()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _sentence(line: str, llama: LlamaCpp) -> str:
    for pattern, sentence in _KNOWN.items():
        match = re.search(pattern, line)
        if match is not None:
            return sentence.format(*match.groups(), python=llama.python)
    return f"llama.cpp could not convert the folder: {plain(line) or 'it said nothing'}."


def _modelfile(folder: Path, file: Path) -> Path:
    """Write Ollama's description of the model beside it: the file, and where answers end."""
    lines = [f"FROM ./{file.name}"]
    for token in _end_tokens(folder):
        lines.append(f"PARAMETER stop {json.dumps(token, ensure_ascii=False)}")
    path = file.with_name(f"{file.stem}.Modelfile")
    data = "\n".join(lines) + "\n"
    write_file(path, data.encode(), (folder,), mark=b"FROM ./")
    return path


def _end_tokens(folder: Path) -> list[str]:
    """The tokens that end an answer, as text; none if they are not known."""
    try:
        settings = json.loads((folder / "generation_config.json").read_text("utf-8"))
        ends = settings.get("eos_token_id")
        tokenizer = load_tokenizer([folder])
    except (OSError, ValueError, AttributeError, WorkbenchError):
        return []
    if isinstance(ends, list):
        indices = ends
    else:
        indices = [ends]
    numbers = [index for index in indices if isinstance(index, int)]
    return [str(token) for token in tokenizer.convert_ids_to_tokens(numbers) if token]


def file_for(folder: Path, kind: str) -> Path:
    """Where the GGUF file of a folder is written if nothing is said: beside the folder."""
    if is_peft_adapter(folder):
        ending = "-lora"
    elif kind != AUTO:
        ending = f"-{kind}"
    else:
        ending = ""
    return folder.parent / f"{folder.name}{ending}.gguf"


def _commands(files: Sequence[Path], folder: Path) -> list[str]:
    """What to type to run a model, one command a line."""
    file, *further = files
    if not further:
        return [f"llama-cli -m BASE.gguf --lora {file}"]
    name = file.stem.lower()
    return [
        f"ollama create {name} -f {further[0]} && ollama run {name}",
        f"llama-cli -m {file}",
        f"vllm serve {folder}",
        f"LM Studio: copy {file.name} to ~/.lmstudio/models/local/{name}/",
    ]
