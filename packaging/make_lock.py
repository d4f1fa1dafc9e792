"""Makes ``requirements.lock`` again, from the newest versions that pyproject.toml allows.

Run ``pip install -e '.[release]'``, then ``python packaging/make_lock.py``. Versions and hashes are
those of the public index, for CPython 3.11 to 3.13 on Linux, Windows and macOS; what this machine's
own settings say of other indexes or local builds is left aside.
"""

from __future__ import annotations

import os
import subprocess
import sys

from lock_file import LOCK, ROOT, read_lock

INDEX = "https://pypi.org/simple"
HEADER = "python packaging/make_lock.py"
EXTRAS = ("dev", "release")


def main() -> None:
    """Write the lock, then refuse what must not be in it."""
    settings = ("UV_", "PIP_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(settings)}
    extras = [part for extra in EXTRAS for part in ("--extra", extra)]
    command = ["uv", "pip", "compile", "pyproject.toml", "--universal", "--python-version", "3.11"]
    options = ["--generate-hashes", "--no-config", "--default-index", INDEX, "--upgrade", "--quiet"]
    subprocess.run(
        [sys.executable, "-m", *command, *options, *extras, "--output-file", str(LOCK)],
        cwd=ROOT,
        env={**environment, "UV_CUSTOM_COMPILE_COMMAND": HEADER},
        check=True,
    )
    text = LOCK.read_text(encoding="utf-8")
    local = [package.name for package in read_lock() if "+" in package.version]
    if local or "://" in text:
        sys.exit(
            f"The lock names local builds ({', '.join(local)}) or addresses; it serves nobody."
        )
    print(f"{LOCK.name}: {len(read_lock())} packages")


if __name__ == "__main__":
    main()
