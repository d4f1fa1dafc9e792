"""Paths of the package's resources and of the user's folders."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

import platformdirs

PACKAGE: Final = Path(__file__).resolve().parent
"""The folder of this package."""

_APPLICATION: Final = "ace-workbench"
MERGES: Final = "merges"  # below the cache, or below a scratch folder
_SCRATCH: Final[list[Path | None]] = [None]


def resource_path(name: str) -> Path:
    """The path of ``name`` ("icons/open.svg", "sample") inside the resources.

    A wheel has them inside the package. In a checkout they are in a folder next to the package.
    """
    installed = PACKAGE / "resources"
    return (installed if installed.is_dir() else PACKAGE.parent / "resources") / name


class Sample(StrEnum):
    """The sample projects of the package; the value is the name on the command line."""

    IMAGES = "images"
    TEXT = "text"

    @property
    def recipe(self) -> Path:
        """The recipe's file. Models and held-out data are in the same folder."""
        if self is Sample.IMAGES:
            folder = "sample"
        else:
            folder = f"{self}-sample"
        return resource_path(f"{folder}/sample.yaml")


def cache_root() -> Path:
    """The folder for files that may be deleted at any time, because they can be made again."""
    return platformdirs.user_cache_path(_APPLICATION)


def llama_cpp_file() -> Path:
    """The file with the path of the person's llama.cpp."""
    return platformdirs.user_data_path(_APPLICATION) / "llama-cpp.txt"


def remembered_llama_cpp() -> Path | None:
    """The folder of llama.cpp that was named last; None if there was none."""
    with suppress(OSError, UnicodeDecodeError):
        text = llama_cpp_file().read_text("utf-8").strip()
        if text:
            return Path(text)
        return None
    return None


def conversions_folder() -> Path:
    """The folder of converted pickles."""
    return cache_root() / "converted"


def architectures_folder() -> Path:
    """The folder of architecture descriptions."""
    return cache_root() / "architectures"


def inspections_folder() -> Path:
    """The cache folder for close inspections of tensors."""
    return cache_root() / "inspection"


def scores_folder() -> Path:
    """The folder of cached scores."""
    return cache_root() / "scores"


def statistics_folder() -> Path:
    """The folder of statistics that were measured on the experts' data."""
    return cache_root() / "statistics"


def methods_list_folder() -> Path:
    """The folder of the cached list of methods."""
    return cache_root() / "methods"


def merges_folder() -> Path:
    """The folder of the window's merges before export: in the scratch folder, if one is set."""
    return (_SCRATCH[-1] or cache_root()) / MERGES


def use_scratch(folder: Path | None) -> None:
    """Set the scratch folder of this process; None: the user's cache."""
    _SCRATCH[:] = [folder]


def methods_folder() -> Path:
    """The folder for a user's own merge methods; it need not exist."""
    return platformdirs.user_config_path(_APPLICATION) / "methods"


def logs_folder() -> Path:
    """The folder for the tracebacks of unexpected errors."""
    return platformdirs.user_log_path(_APPLICATION)


def crashes_folder() -> Path:
    """The folder of crash logs."""
    return platformdirs.user_state_path(_APPLICATION) / "crashes"


def sessions_folder() -> Path:
    """The folder of open sessions and of unsaved projects."""
    return platformdirs.user_data_path(_APPLICATION) / "sessions"
