"""A folder like llama.cpp's source, whose converters do what a test says.

The real ones are no dependency. What they print at their end is as the real ones print it.
"""

from __future__ import annotations

from pathlib import Path

_SCRIPT = """
import json, pathlib, sys, time
here = pathlib.Path(__file__).parent
arguments = sys.argv[1:]
(here / "called.json").write_text(json.dumps([pathlib.Path(__file__).name, *arguments]))
out = pathlib.Path(arguments[arguments.index("--outfile") + 1])
mode = (here / "mode").read_text()
print("INFO:hf-to-gguf:Loading model", file=sys.stderr)
out.write_bytes(b"GGUF")
for percent in (0, 37, 100):
    print(f"\\rWriting: {percent:3d}%|###| 1.0M/2.7M", end="", file=sys.stderr, flush=True)
if mode == "slow":
    (here / "running").touch()
    time.sleep(60)
if mode != "good":
    print("\\nTraceback (most recent call last):", file=sys.stderr)
    sys.exit(mode)
out.write_bytes(b"GGUF" + bytes(100))
"""


def llama_folder(folder: Path) -> Path:
    """The folder; its converters write a file of 104 bytes."""
    (folder / "gguf-py").mkdir(parents=True)
    for name in ("convert_hf_to_gguf.py", "convert_lora_to_gguf.py"):
        (folder / name).write_text(_SCRIPT)
    say(folder, "good")
    return folder


def say(folder: Path, mode: str) -> None:
    """``good``, ``slow``, or the last line of a failed run."""
    (folder / "mode").write_text(mode)
