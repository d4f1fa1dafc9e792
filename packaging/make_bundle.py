"""Builds the application that needs no Python, and prints its size and how fast it starts.

Run ``python packaging/make_bundle.py`` in an environment with the extra ``bundle`` and a build of
torch for the processor. The bundle is the folder ``dist/ace-workbench``; ``--archive`` also makes
what is given to people on Linux, ``--no-timing`` leaves out the start-up.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from bundle import icons

ROOT = Path(__file__).resolve().parent.parent
ICONS = ROOT / "build" / "icons"
SPEC = ROOT / "packaging" / "bundle" / "ace-gui.spec"
BUNDLE = ROOT / "dist" / "ace-workbench"
EXECUTABLE = "ace-gui.exe" if sys.platform == "win32" else "ace-gui"


def main() -> None:
    """Build, measure, and make the archive if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--archive", action="store_true", help="Linux: also make the tar file")
    parser.add_argument("--no-timing", action="store_true", help="do not measure the start-up")
    options = parser.parse_args()
    if torch.version.cuda or torch.version.hip:
        sys.exit(
            "This torch is built for a GPU, and the bundle would be several GB; install the "
            "build for the processor: https://pytorch.org/get-started/locally"
        )
    build()
    megabytes, files = size(BUNDLE)
    print(f"{BUNDLE}: {megabytes:.0f} MB in {files} files")
    if not options.no_timing:
        print_start_up()
    if options.archive:
        from linux.archive import make_archive

        archive = make_archive(BUNDLE, ROOT / "dist")
        print(f"{archive}: {archive.stat().st_size / 1e6:.0f} MB")


def build() -> None:
    """Draw the icons, run PyInstaller, and leave symbols out that only debuggers read."""
    if sys.platform == "win32":
        icons.write_ico(ICONS / "ace-gui.ico")
    if sys.platform == "darwin":
        icons.write_iconset(ICONS / "ace-gui.iconset")
        command = ["iconutil", "--convert", "icns", str(ICONS / "ace-gui.iconset")]
        subprocess.run(command, check=True)
    command = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN"]
    subprocess.run([*command, str(SPEC)], cwd=ROOT, check=True)
    strip = shutil.which("strip") if sys.platform == "linux" else None
    if strip:  # the largest library loses a fifth, a Python that was built with symbols more
        inside = BUNDLE / "_internal"
        libraries = [*inside.glob("torch/lib/libtorch_*.so"), *inside.glob("libpython*.so*")]
        subprocess.run([strip, "--strip-unneeded", *map(str, libraries)], check=True)


def size(folder: Path) -> tuple[float, int]:
    """Megabytes and number of files; links count nothing."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return sum(path.stat().st_size for path in files) / 1e6, len(files)


def print_start_up() -> None:
    """By the side of the same program from source, in turn."""
    from bundle.start_up import seconds_to_version, seconds_to_window

    executable = BUNDLE / EXECUTABLE
    print(f"--version: {seconds_to_version(executable):.2f} s")
    if shutil.which("Xvfb") is None:
        print("There is no Xvfb here to time the window on.")
        return
    from bundle.display import Display

    with Display() as display:
        commands = {
            "bundle": [str(executable)],
            "source": [sys.executable, "-m", "ace_gui"],
        }
        for name, seconds in seconds_to_window(commands, display).items():
            print(f"window, {name}: {seconds:.2f} s")


if __name__ == "__main__":
    main()
