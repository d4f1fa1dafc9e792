"""A job: do the tests pass with the newest versions that pyproject.toml allows?

Run ``python packaging/try_newest.py [pytest arguments]``, now and then and before a release. It
makes an environment of its own, prints what is newer there than in the lock, and runs the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from lock_file import ROOT


def main() -> None:
    """Install the newest, compare, test; the exit status is that of the tests."""
    with tempfile.TemporaryDirectory(prefix="ace-newest-") as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder, "Scripts" if os.name == "nt" else "bin", "python"))
        install = ["-m", "pip", "install", "--quiet", "--upgrade", "--upgrade-strategy", "eager"]
        subprocess.run([python, *install, ".[dev]"], cwd=ROOT, check=True)
        subprocess.run([python, "-m", "pip", "check"], check=True)
        subprocess.run([python, ROOT / "packaging/install_locked.py", "--check"], check=True)
        tests = [python, "-m", "pytest", *sys.argv[1:]]
        sys.exit(subprocess.run(tests, cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
