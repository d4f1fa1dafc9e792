"""``ace-gui gguf``, and the GGUF file of ``merge --gguf``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ace_gui.cli.console import Terminal, safe_text
from ace_gui.engine.contract.events import GgufWritten
from ace_gui.engine.contract.jobs import GgufJob
from ace_gui.engine.output.gguf_file import file_for, llama_cpp, require_type
from ace_gui.engine.service import run
from ace_gui.formatting import human_bytes, listing
from ace_gui.output_files import check_file

if TYPE_CHECKING:
    from ace_gui.cli.commands import Gguf


def convert(command: Gguf) -> None:
    """Make the file, and print what runs it."""
    job = GgufJob(
        folder=command.folder,
        file=command.out,
        kind=command.kind,
        llama_cpp=command.llama_cpp,
        base=command.base,
        overwrite=command.overwrite,
    )
    make(job, Terminal.of(command))


def make(job: GgufJob, terminal: Terminal) -> None:
    """Make a file, and print what runs it."""
    written = terminal.result(run(job), GgufWritten)
    files = listing([str(file) for file in written.files])
    line = f"The GGUF file ({human_bytes(written.bytes)}) is in {files}. To run it:"
    terminal.results.print(safe_text(line), soft_wrap=True)
    for text in written.commands:
        terminal.results.print(safe_text(f"  {text}"), soft_wrap=True)


def require_llama_cpp(folder: Path, kind: str, llama: Path | None) -> None:
    """Raise OutputError, before a merge begins, if its GGUF file could not be made or written."""
    llama_cpp(llama)
    require_type(kind)
    check_file(file_for(folder, kind), ())


def job_after_merge(folder: Path, kind: str, llama: Path | None) -> GgufJob:
    """The job for the folder of a finished merge."""
    return GgufJob(folder=folder, file=file_for(folder, kind), kind=kind, llama_cpp=llama)
