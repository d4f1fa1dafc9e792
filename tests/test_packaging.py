"""What the application is installed with agrees with it; the bundle itself is built by hand."""

from __future__ import annotations

import configparser
import os
import subprocess
import tomllib
from fnmatch import fnmatch
from importlib.metadata import packages_distributions
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

import pytest
import yaml

from ace_gui import APPLICATION_ID, __version__
from ace_gui.output_files import RECIPE
from ace_gui.paths import resource_path

ROOT = Path(__file__).parents[1]
LINUX = ROOT / "packaging" / "linux"
METAINFO = LINUX / f"{APPLICATION_ID}.metainfo.xml"


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "packaging")


@pytest.fixture
def entry() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str
    parser.read(LINUX / f"{APPLICATION_ID}.desktop", encoding="utf-8")
    return parser["Desktop Entry"]


@pytest.fixture
def metainfo() -> ElementTree.Element:
    return ElementTree.parse(METAINFO).getroot()


@pytest.fixture
def mime() -> ElementTree.Element:
    mime_type = ElementTree.parse(LINUX / f"{APPLICATION_ID}.xml").getroot()[0]
    assert mime_type.tag.endswith("}mime-type")
    return mime_type


def test_the_desktop_entry_starts_what_the_project_installs(entry) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    command, *files = entry["Exec"].split()
    assert command in project["scripts"]
    assert files == ["%F"]  # the command line takes any number of paths
    assert entry["TryExec"] == command
    assert entry["Type"] == "Application"
    assert entry["Terminal"] == "false"
    for key in ("MimeType", "Categories", "Keywords"):
        assert entry[key].endswith(";")


def test_the_window_names_its_desktop_entry(qapp, entry) -> None:
    from ace_gui.gui.app import make_application

    make_application()
    assert qapp.applicationName() == entry["Name"]
    assert entry["Icon"] == qapp.desktopFileName() == APPLICATION_ID
    assert entry["StartupWMClass"] == entry["TryExec"]  # the first part of a window's class


def test_the_metainfo_is_of_this_version_and_entry(metainfo, entry) -> None:
    assert metainfo.findtext("id") == metainfo.findtext("icon") == APPLICATION_ID
    assert metainfo.findtext("name") == entry["Name"]
    assert metainfo.findtext("summary") == entry["Comment"]
    assert metainfo.findtext("launchable") == f"{APPLICATION_ID}.desktop"
    releases = metainfo.findall("releases/release")
    assert releases[0].get("version") == __version__
    categories = {element.text for element in metainfo.findall("categories/category")}
    assert categories <= set(entry["Categories"].split(";"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert metainfo.findtext("project_license") == project["license"]


def test_one_id_names_all_that_is_installed() -> None:
    from linux.archive import SHARED

    assert all(name.startswith(f"{APPLICATION_ID}.") for name in SHARED)
    for script in ("install.sh", "uninstall.sh"):
        assert f"\nid={APPLICATION_ID}\n" in (LINUX / script).read_text()
    assert "bundle_identifier=APPLICATION_ID" in (ROOT / "packaging/bundle/ace-gui.spec").read_text(
        encoding="utf-8"
    )
    parts = APPLICATION_ID.split(".")
    assert len(parts) >= 3
    assert all(part.isidentifier() for part in parts)  # as D-Bus and AppStream want it


def test_recipes_are_one_type_everywhere(metainfo, entry, mime) -> None:
    kind = mime.get("type")
    icon = next(element for element in mime if element.tag.endswith("}icon"))
    assert icon.get("name") == APPLICATION_ID
    assert metainfo.findtext("provides/mediatype") == kind
    assert kind in entry["MimeType"].split(";")
    patterns = [element.get("pattern") for element in mime if element.tag.endswith("}glob")]

    def is_recipe(name: str) -> bool:
        return any(fnmatch(name, pattern) for pattern in patterns)

    assert is_recipe(RECIPE)
    assert is_recipe("mine.ace.yaml")
    assert not is_recipe("config.yaml")


def test_every_file_that_the_program_reads_is_in_the_bundle() -> None:
    from bundle.contents import data_files, is_used

    bundled = {str(PurePosixPath(folder) / Path(file).name) for file, folder in data_files()}
    for name in ("sample/sample.yaml", "sample/heldout.npz", "icons/app.svg"):
        assert resource_path(name).exists()
        assert f"ace_gui/resources/{name}" in bundled
    tracked = [path for path in (ROOT / "resources").rglob("*") if path.is_file()]
    for path in tracked:
        assert f"ace_gui/{path.relative_to(ROOT).as_posix()}" in bundled
    package = (path for path in (ROOT / "ace_gui").rglob("*") if path.is_file())
    for path in package:
        if path.suffix not in {".py", ".pyc"}:
            assert path.relative_to(ROOT).as_posix() in bundled
    assert all(map(is_used, bundled))


def test_what_is_not_a_dependency_stays_out_of_the_bundle() -> None:
    from bundle.contents import needed_packages, unneeded_modules

    needed = needed_packages()
    assert {"ace-workbench", "torch", "transformers", "sympy", "pyside6-essentials"} <= needed
    assert ("optuna" in needed) is bool(packages_distributions().get("optuna"))
    assert not {"pytest", "hypothesis", "ruff", "sqlalchemy", "hf-xet"} & needed
    unneeded = unneeded_modules(needed)
    assert {"pytest", "hypothesis"} <= set(unneeded)
    assert not {"torch", "numpy", "PySide6", "yaml", "ace_gui", "pkg_resources"} & set(unneeded)


@pytest.mark.parametrize(
    ("where", "used"),
    [
        ("torch/test/test_api", False),
        ("torch/lib/libtorch_cpu.so", True),
        ("torch/lib/libtorchbind_test.so", False),
        ("pyarrow/libarrow_flight.so.2600", False),
        ("pyarrow/libarrow_python.so", False),
        ("pyarrow/libarrow_python.so.2600", True),
        ("pyarrow/libarrow_python.so.2600.1.0", False),
        ("pyarrow/libparquet.so.2600", True),
        ("pyarrow/include/arrow/api.h", False),
        ("PySide6/Qt/lib/libQt6Quick.so.6", False),
        ("PySide6/Qt/lib/libQt6EglFsKmsSupport.so.6", False),
        ("PySide6/Qt/plugins/platforms/libqoffscreen.so", True),
        ("PySide6/Qt/plugins/platforms/libqwayland.so", True),
        ("PySide6/Qt/translations/qtbase_de.qm", False),
        ("PySide6/Qt/plugins/platforms/libqxcb.so", True),
        ("torch-2.13.0.dist-info/METADATA", True),
        ("torch-2.13.0.dist-info/licenses/LICENSE", True),
        ("ace_workbench-0.1.0.dist-info/direct_url.json", False),
    ],
)
def test_what_is_left_out(where: str, used: bool) -> None:
    from bundle.contents import is_used

    assert is_used(where) is used
    assert is_used(where.replace("/", "\\")) is used


def test_icons_of_every_size_are_drawn(qapp, tmp_path: Path) -> None:
    from bundle.icons import SIZES, write_hicolor
    from PySide6.QtGui import QImage

    write_hicolor(tmp_path, "ace-gui")
    for size in SIZES:
        image = QImage(str(tmp_path / f"{size}x{size}" / "apps" / "ace-gui.png"))
        assert (image.width(), image.height()) == (size, size)
        assert image.pixelColor(0, 0).alpha() < 255  # round corners
        assert image.pixelColor(size // 2, size // 2).alpha() == 255
    assert (tmp_path / "scalable" / "apps" / "ace-gui.svg").read_bytes() == resource_path(
        "icons/app.svg"
    ).read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="a script of the shell")
def test_what_is_installed_can_be_removed(qapp, tmp_path: Path) -> None:
    from linux.archive import write_share

    folder = tmp_path / "given 1"
    home = tmp_path / "home 1"
    write_share(folder / "share")
    (folder / "application").mkdir()
    program = folder / "application" / "ace-gui"
    program.write_text("#!/bin/sh\necho started\n")
    program.chmod(0o755)
    for name in ("install.sh", "uninstall.sh"):
        (folder / name).write_bytes((LINUX / name).read_bytes())
    home.mkdir()
    foreign_icon = home / ".local" / "share" / "icons" / "hicolor" / "other.png"
    foreign_icon.parent.mkdir(parents=True)
    foreign_icon.touch()
    environment = {"HOME": str(home), "PATH": os.defpath}

    def run(script: Path) -> None:
        subprocess.run(["sh", script], env=environment, check=True, capture_output=True)

    run(folder / "install.sh")
    run(folder / "install.sh")  # an update
    started = subprocess.run([home / ".local/bin/ace-gui"], capture_output=True, check=True)
    assert started.stdout == b"started\n"
    installed = home / ".local/share"
    desktop = (installed / f"applications/{APPLICATION_ID}.desktop").read_text()
    assert f'Exec="{installed}/ace-workbench/application/ace-gui" %F' in desktop
    assert (installed / f"icons/hicolor/48x48/apps/{APPLICATION_ID}.png").exists()
    run(installed / "ace-workbench/uninstall.sh")
    remaining = [path for path in home.rglob("*") if path.is_file() or path.is_symlink()]
    caches = {"mimeinfo.cache", "icon-theme.cache"}
    assert [path for path in remaining if path.name not in caches and "mime" not in path.parts] == [
        foreign_icon
    ]


def test_the_citation_has_the_version_and_license() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == __version__
    assert citation["license"] == project["license"]
    assert set(project["scripts"]) == {"ace-gui", "ace-workbench"}
    assert len({*project["scripts"].values(), *project["gui-scripts"].values()}) == 1
