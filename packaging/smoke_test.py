"""Tries a bundle where neither the repository nor a Python is: ``python packaging/smoke_test.py
dist/ace-workbench [--pictures DIR]``.

The bundle is copied away and started with an empty environment. It prints its version, merges the
sample, and opens the window, which is photographed (Linux with Xvfb). Nothing may be left behind
but what belongs to the person's own folders. Ends with status 1 and a sentence at the first fault.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from ace_gui import __version__

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "resources" / "sample" / "base" / "model.safetensors"
PATIENCE = 600
GRACE = 10  # seconds for processes to end after the one that started them
TORCHS_OWN = "torchinductor_"  # an empty folder that torch makes where it is imported
LOOK_AT_WINDOW = 12  # seconds; the demo has merged by then


class FaultError(Exception):
    """What is wrong with the bundle; the text is a sentence."""


class Trial:
    """A copy of a bundle, alone in a folder with a home of its own."""

    def __init__(self, bundle: Path, folder: Path) -> None:
        self._folder = folder
        self._copy = folder / "application"
        shutil.copytree(bundle, self._copy, symlinks=True)
        for name in ("home", "tmp", "no-programs"):
            (folder / name).mkdir()
        self.program = next(path for path in self._copy.glob("ace-gui*") if path.is_file())
        self.environment = {
            "HOME": str(folder / "home"),
            "PATH": str(folder / "no-programs"),
            "TMPDIR": str(folder / "tmp"),
            "LANG": "C.UTF-8",
        }
        if sys.platform == "win32":  # without these no process starts
            self.environment |= {name: os.environ[name] for name in ("SYSTEMROOT", "USERPROFILE")}
            self.environment |= dict.fromkeys(("TEMP", "TMP"), self.environment["TMPDIR"])

    def run(self, *arguments: str) -> str:
        """What a command prints. Raises FaultError for any other exit status than 0."""
        done = subprocess.run(
            [self.program, *arguments],
            env=self.environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode:
            raise FaultError(
                f"{' '.join(arguments)} ends with {done.returncode}: {done.stderr.strip()}"
            )
        if "Traceback" in done.stderr:
            raise FaultError(f"{' '.join(arguments)} prints a traceback: {done.stderr.strip()}")
        return done.stdout

    def processes(self) -> list[psutil.Process]:
        """Every process of the copy that is alive."""
        inside = str(self._copy)
        running = psutil.process_iter(["exe"])
        return [process for process in running if (process.info["exe"] or "").startswith(inside)]

    def leftovers(self) -> list[str]:
        """Processes and temporary files that should not be there any more."""
        _, running = psutil.wait_procs(self.processes(), timeout=GRACE)
        alive = [f"process {process.pid}" for process in running]
        temporary = (self._folder / "tmp").rglob("*")
        files = [str(path) for path in temporary if not path.name.startswith(TORCHS_OWN)]
        own = ("ace-workbench", "ACE Workbench")
        home = self._folder / "home"
        strange = [
            str(path)
            for path in home.rglob("*")
            if path.is_file() and not any(part.startswith(own) for part in path.parts)
        ]
        return [*alive, *files, *strange]


def main() -> None:
    """Try everything, and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--pictures", type=Path, help="keep the pictures here")
    options = parser.parse_args()
    pictures = options.pictures or Path(tempfile.mkdtemp(prefix="ace-pictures-"))
    pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ace-smoke-") as folder:
        trial = Trial(options.bundle.resolve(), Path(folder).resolve())
        try:
            try_version(trial)
            try_merge(trial, Path(folder, "merged"), pictures)
            try_window(trial, pictures)
            if left := trial.leftovers():
                raise FaultError(f"Left behind: {', '.join(left)}")
        except FaultError as fault:
            sys.exit(f"FAULT: {fault}")
    print(f"The bundle works. Pictures: {pictures}")


def try_version(trial: Trial) -> None:
    """The bundle's version is the repository's."""
    printed = trial.run("--version").strip()
    if printed != f"ace-gui {__version__}":
        raise FaultError(f"--version prints {printed!r}")
    print(printed)


def try_merge(trial: Trial, out: Path, pictures: Path) -> None:
    """Merge the sample, in the command's process and once more in a window off screen."""
    printed = trial.run("demo", "--headless", "--out", str(out))
    found = header(out / "model.safetensors")
    wanted = header(SAMPLE)
    if found != wanted:
        raise FaultError(f"The merged model has other tensors than its base: {found.keys()}")
    picture = out / "window.png"
    if not picture.exists():
        raise FaultError(f"The window made no picture of the merge: {printed.splitlines()[-1]}")
    shutil.copy(picture, pictures / "merged.png")
    print(f"merged the sample: {len(found)} tensors, as in the base")


def header(file: Path) -> dict[str, object]:
    """Shapes and dtypes of a safetensors file by tensor, as its header says. Raises FaultError."""
    if not file.exists():
        raise FaultError(f"{file.name} was not written")
    with file.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        entries = json.loads(stream.read(length))
    end = (
        8 + length + max(entry["data_offsets"][1] for entry in entries.values() if "shape" in entry)
    )
    if file.stat().st_size != end:
        raise FaultError(f"{file.name} has {file.stat().st_size} bytes, and its header says {end}")
    entries.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"]) for name, entry in entries.items()}


def try_window(trial: Trial, pictures: Path) -> None:
    """Open the demo's window, look at it, and close it."""
    if sys.platform != "linux" or shutil.which("Xvfb") is None:
        print("window not looked at: that needs Linux with Xvfb")
        return
    from bundle.display import Display

    with Display() as display:
        environment = trial.environment | {"DISPLAY": display.name}
        process = subprocess.Popen(
            [trial.program, "demo"], env=environment, stderr=subprocess.PIPE, text=True
        )
        time.sleep(LOOK_AT_WINDOW)
        running = len(trial.processes())
        drawn = display.is_drawn()
        display.take(pictures / "window.png")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    if not drawn or running < 2:
        raise FaultError(f"The window does not open, or its engine does not start: {said.strip()}")
    if process.returncode:
        raise FaultError(f"The window ends with {process.returncode}: {said.strip()}")
    print(f"window opened and closed; {running} processes while it was open")
    if said.strip():
        print(f"it said: {said.strip()}")


if __name__ == "__main__":
    main()
