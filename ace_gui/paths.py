"""Where things are: the files that travel with the package, and a person's own folders."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final

import platformdirs

_PACKAGE: Final = Path(__file__).resolve().parent
_APPLICATION: Final = "ace-workbench"
MERGES: Final = "merges"  # below the cache, or below a scratch folder
_SCRATCH: Final[list[Path | None]] = [None]


def resource_path(name: str) -> Path:
    """The path of ``name`` ("icons/open.svg", "sample") inside the resources.

    A wheel has them inside the package. In a checkout they are in a folder next to the package.
    """
    installed = _PACKAGE / "resources"
    return (installed if installed.is_dir() else _PACKAGE.parent / "resources") / name


class Sample(StrEnum):
    """The sample projects that travel with the package; the value is a command line's."""

    IMAGES = "images"
    TEXT = "text"

    @property
    def recipe(self) -> Path:
        """The recipe's file. Models and held-out data are in the same folder."""
        folder = "sample" if self is Sample.IMAGES else f"{self}-sample"
        return resource_path(f"{folder}/sample.yaml")


def cache_root() -> Path:
    """What may be deleted at any time, and is made again: in the user's cache."""
    return platformdirs.user_cache_path(_APPLICATION)


def conversions_folder() -> Path:
    """Where converted pickles are kept."""
    return cache_root() / "converted"


def architectures_folder() -> Path:
    """Where descriptions of architectures are kept."""
    return cache_root() / "architectures"


def inspections_folder() -> Path:
    """The cache folder for close inspections of tensors."""
    return cache_root() / "inspection"


def scores_folder() -> Path:
    """Where the scores of models are kept."""
    return cache_root() / "scores"


def statistics_folder() -> Path:
    """Where what was measured of experts with their data is kept."""
    return cache_root() / "statistics"


def merges_folder() -> Path:
    """Where the window's merges wait before they are exported: in the scratch folder, if any."""
    return (_SCRATCH[-1] or cache_root()) / MERGES


def use_scratch(folder: Path | None) -> None:
    """Let merges wait below this folder, in this process; None: in the user's cache."""
    _SCRATCH[:] = [folder]


def methods_folder() -> Path:
    """Where a person puts files with merge methods of their own; it need not exist."""
    return platformdirs.user_config_path(_APPLICATION) / "methods"


def logs_folder() -> Path:
    """The folder for the tracebacks of unexpected errors."""
    return platformdirs.user_log_path(_APPLICATION)


def crashes_folder() -> Path:
    """Where a process that is brought down writes what it was doing."""
    return platformdirs.user_state_path(_APPLICATION) / "crashes"


def sessions_folder() -> Path:
    """Where what is open in a window is kept, and projects that were given no file."""
    return platformdirs.user_data_path(_APPLICATION) / "sessions"
