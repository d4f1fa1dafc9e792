"""What people on Linux get: a tar of the bundle, its desktop files and scripts to install it."""

from __future__ import annotations

import platform
import shutil
import tarfile
import tempfile
from pathlib import Path

from bundle import icons

from ace_gui import APPLICATION_ID, __version__

_HERE = Path(__file__).resolve().parent
SHARED = {
    f"{APPLICATION_ID}.desktop": "applications",
    f"{APPLICATION_ID}.xml": "mime/packages",
    f"{APPLICATION_ID}.metainfo.xml": "metainfo",
}
"""Where the desktop looks for each file, below ``share``."""


def make_archive(bundle: Path, folder: Path) -> Path:
    """Write ``ace-workbench-VERSION-linux-MACHINE.tar.gz`` into ``folder``; its path."""
    name = f"ace-workbench-{__version__}"
    file = folder / f"{name}-linux-{platform.machine()}.tar.gz"
    with tempfile.TemporaryDirectory() as temporary, tarfile.open(file, "w:gz") as tar:
        share = Path(temporary) / "share"
        write_share(share)
        tar.add(share, f"{name}/share", filter=_nobodys)
        tar.add(bundle, f"{name}/application", filter=_nobodys)
        for script in ("install.sh", "uninstall.sh"):
            tar.add(_HERE / script, f"{name}/{script}", filter=_nobodys)
    return file


def write_share(share: Path) -> None:
    """The desktop's files as they lie below ``/usr/share`` or a person's data folder."""
    for name, index in SHARED.items():
        (share / index).mkdir(parents=True, exist_ok=True)
        shutil.copy(_HERE / name, share / index)
    icons.write_hicolor(share / "icons" / "hicolor", APPLICATION_ID)


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry
