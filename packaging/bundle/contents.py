"""What goes into the bundle, beside the modules that PyInstaller finds by their imports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

from lock_file import PROJECT, ROOT, wanted_directly
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE = "ace_gui"
FEATURES = ("tune",)
"""Extras of pyproject.toml that people use, not developers."""

UNUSED_PACKAGES = ("alembic", "greenlet", "hf-xet", "mako", "sqlalchemy")
"""What packages ask for to keep studies in a database or to download; neither is done here."""

UNUSED_MODULES = (
    "tkinter",
    "torch._inductor.autoheuristic",
    "torch._inductor.codegen",
    "torch._inductor.fx_passes",
    "torch._inductor.kernel",
    "torch.distributed.pipelining",
    "torch.onnx._internal.exporter",
    "torch.testing._internal.common_methods_invocations",
    "torch.testing._internal.common_modules",
    "torch.testing._internal.common_nn",
    "torch.testing._internal.common_optimizers",
    "torch.testing._internal.common_quantization",
    "torch.testing._internal.opinfo",
    "torch.utils.benchmark",
    "torch.utils.hipify",
    "torch.utils.tensorboard",
)
"""Parts of torch that compile, measure, convert and test; nothing is compiled here."""

UNUSED_FILES = (
    # torch: its own tests, what C++ extensions are built with, and tools.
    "torch/bin/[!t]*",
    "torch/bin/test*",
    "torch/include/*",
    "torch/share/*",
    "torch/test/*",
    "torch/lib/*test*",
    "torch/lib/*.a",
    "torch/lib/libbackend_with_compiler*",
    "torch/**/*.cu",
    # pyarrow: transport to servers, copies under the names that linking asks for, and headers.
    "pyarrow/_flight.*",
    "pyarrow/_s3fs.*",
    "pyarrow/libarrow_flight*",
    "pyarrow/libarrow_python_flight*",
    "pyarrow/libarrow_s3*",
    "pyarrow/libarrow_python*.so",
    "pyarrow/libarrow_python*.so.*.*.*",
    "pyarrow/include/*",
    "pyarrow/src/*",
    "pyarrow/tests/*",
    "*.h",
    "*.pxd",
    "*.pxi",
    "*.pyx",
    # Qt: the window is made of widgets, in English, on a desktop.
    "PySide6/**/*eglfs*",
    "PySide6/**/*EglF[sS]*",
    "PySide6/**/platforms/libqlinuxfb*",
    "PySide6/**/platforms/libqminimal*",
    "PySide6/**/platforms/libqvkkhrdisplay*",
    "PySide6/**/platforms/libqvnc*",
    "PySide6/Qt*/qml/*",
    "PySide6/**/*Qml*",
    "PySide6/**/*Quick*",
    "PySide6/**/*qml*",
    "PySide6/**/*VirtualKeyboard*",
    "PySide6/**/*virtualkeyboard*",
    "PySide6/**/*Pdf*",
    "PySide6/**/*qpdf*",
    "PySide6/**/translations/*",
    # GTK, which Qt can take its dialogs from; the window has a look of its own.
    "PySide6/**/platformthemes/libqgtk3*",
    "libatk*",
    "libatspi*",
    "libcairo*",
    "libdatrie*",
    "libepoxy*",
    "libfribidi*",
    "libgdk*",
    "libgtk*",
    "libpango*",
    "libpixman*",
    "libthai*",
    "libcudart*",
    # Metadata of the installation, with paths of the machine that built the bundle.
    "*.dist-info/direct_url.json",
    "*.dist-info/INSTALLER",
    "*.dist-info/RECORD",
    "*.dist-info/REQUESTED",
)
"""Patterns of places in the bundle, ``*`` across folders."""


def data_files() -> list[tuple[str, str]]:
    """Every file of ours that is no module, and its folder in the bundle."""
    package = [path for path in (ROOT / PACKAGE).rglob("*") if path.suffix not in {".py", ".pyc"}]
    resources = list((ROOT / "resources").rglob("*"))
    indices = [
        *((path, path.relative_to(ROOT)) for path in package),
        *((path, PACKAGE / path.relative_to(ROOT)) for path in resources),
    ]
    return sorted((str(path), index.parent.as_posix()) for path, index in indices if path.is_file())


def needed_packages() -> frozenset[str]:
    """Ours, and every installed package that it needs, directly or not.

    Nobody can add a package to a bundle: what a feature of the application asks for is in it, too.
    """
    found: set[str] = set()
    waiting = [PROJECT, *wanted_directly(*FEATURES)]
    while waiting:
        package = canonicalize_name(waiting.pop())
        if package in found or package in UNUSED_PACKAGES:
            continue
        try:
            needs = [Requirement(text) for text in requires(package) or []]
        except PackageNotFoundError:  # of another platform
            continue
        found.add(package)
        here = (
            need for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})
        )
        waiting.extend(need.name for need in here)
    return frozenset(found)


def unneeded_modules(needed: Iterable[str]) -> list[str]:
    """Modules that happen to be installed here, and that the program never asks for."""
    needed = frozenset(needed)
    return sorted(
        module
        for module, packages in packages_distributions().items()
        if needed.isdisjoint(canonicalize_name(package) for package in packages)
    )


def is_used(where: str, unused: Sequence[str] = UNUSED_FILES) -> bool:
    """Whether what is to lie at ``where`` in the bundle belongs there."""
    where = where.replace("\\", "/")
    return not any(fnmatch(where, pattern) for pattern in unused)
