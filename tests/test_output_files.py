"""Where a file may be written: over no input, no device, nothing of someone else's."""

import contextlib
import csv
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.errors import OutputError
from ace_gui.formatting import csv_text
from ace_gui.output_files import check_file, write_file
from tests.helpers.checkpoints import save_model, small_tensors
from tests.helpers.faults import FailingDisk, failing

MARK = b'{"ours": '


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_model(tmp_path / "model", small_tensors(2))


def snapshot(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_new_files_and_our_own(tmp_path: Path, model: Path) -> None:
    file = tmp_path / "out.json"
    for text in (b'{"ours": 1}', b'{"ours": 2}'):
        write_file(file, text, [model], mark=MARK)
        assert file.read_bytes() == text
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_mode_of_a_file_stays_and_that_of_a_new_one_is_usual(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    before = os.umask(0o027)
    try:
        write_file(file, b"", [])
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        file.chmod(0o604)
        write_file(file, b"x", [])
        assert stat.S_IMODE(file.stat().st_mode) == 0o604
    finally:
        os.umask(before)


def test_what_someone_else_made_is_replaced_only_on_their_word(tmp_path: Path) -> None:
    file = tmp_path / "notes.json"
    file.write_text("mine")
    with pytest.raises(OutputError, match="was not made by this program"):
        write_file(file, b'{"ours": 1}', [], mark=MARK)
    assert file.read_text() == "mine"
    write_file(file, b'{"ours": 1}', [], mark=MARK, overwrite=True)
    assert file.read_bytes() == b'{"ours": 1}'
    empty = tmp_path / "empty"  # as mktemp makes it
    empty.touch()
    write_file(empty, b"x", [], mark=MARK)


WAYS = {
    "itself": lambda folder, file: file,
    "dots": lambda folder, file: folder / "model" / ".." / "model" / file.name,
    "link": lambda folder, file: _linked(folder / "link.json", file),
    "link to a link": lambda folder, file: _linked(
        folder / "second", _linked(folder / "first", file)
    ),
    "hard link": lambda folder, file: _hard(folder / "hard.json", file),
    "linked folder": lambda folder, file: _linked(folder / "door", file.parent) / file.name,
}


def _linked(path: Path, target: Path) -> Path:
    path.symlink_to(target)
    return path


def _hard(path: Path, target: Path) -> Path:
    path.hardlink_to(target)
    return path


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_inputs_are_never_outputs(tmp_path: Path, model: Path, way: str, name: str) -> None:
    path = WAYS[way](tmp_path, model / name)
    before = snapshot(model)
    with pytest.raises(OutputError, match=r"inside the model|a file of an input"):
        write_file(path, b"x", [model], overwrite=True)
    with pytest.raises(OutputError, match="a file of an input"):
        write_file(path, b"x", [model / name], overwrite=True)
    assert snapshot(model) == before


@pytest.mark.parametrize("inside", ["new.json", "deep/new.json", "../model/new.json"])
def test_nothing_new_in_the_folder_of_an_input(tmp_path: Path, model: Path, inside: str) -> None:
    (model / "deep").mkdir()
    for folder in (model, _linked(tmp_path / "door", model)):
        with pytest.raises(OutputError, match="inside the model"):
            write_file(folder / inside, b"x", [model], overwrite=True)
    assert check_file(tmp_path / "new.json", [model]) == tmp_path / "new.json"


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/dev/null")
    irregular = [tmp_path / "pipe", tmp_path / "folder", tmp_path / "link", Path("/dev/null")]
    for path in irregular:
        with pytest.raises(OutputError, match="not a regular file"):
            write_file(path, b"x", [], overwrite=True)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)  # noqa: PTH116
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("no/such/folder.json", "no such folder"),
        ("file/below.json", "no such folder"),
        ("a\0b", "not a valid path"),
        ("x" * 300, "too long"),
        ("loop", "not a regular file"),
    ],
)
def test_bad_paths_in_one_sentence(tmp_path: Path, path: str, sentence: str) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutputError, match=sentence):
        write_file(tmp_path / path, b"x", [])


def test_a_disk_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    file.write_text("before")
    for at in range(1, 6):
        disk = FailingDisk(tmp_path, at, lasting=False)
        with failing(disk):
            try:
                write_file(file, b"after" * 10_000, [], overwrite=True)
            except Exception as error:
                assert "disk is full" in str(error)  # noqa: PT017
        assert file.read_bytes() in (b"before", b"after" * 10_000)
        assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


NAMES = st.sampled_from(["model", "door", "..", ".", "deep", "config.json", "out", "x.json"])


@settings(max_examples=200, deadline=None)
@given(parts=st.lists(NAMES, min_size=1, max_size=6), link=st.lists(NAMES, min_size=1, max_size=4))
def test_no_path_reaches_an_input(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], link: list[str]
) -> None:
    """A walk over the grammar of paths: names, dots, links to anywhere."""
    folder = tmp_path_factory.mktemp("walk")
    (folder / "model/deep").mkdir(parents=True)
    (folder / "model/config.json").write_text("{}")
    (folder / "out").mkdir()
    (folder / "out/door").symlink_to(folder.joinpath(*link))
    (folder / "door").symlink_to(folder / "model")
    before = snapshot(folder / "model")
    with contextlib.suppress(OutputError):
        write_file(folder.joinpath(*parts), b"written", [folder / "model"], overwrite=True)
    assert snapshot(folder / "model") == before


@pytest.mark.parametrize("first", "=+-@\t\r")
@pytest.mark.parametrize("ending", ["cmd|' /C calc'!A0", "1+1", "", "layer.weight"])
def test_no_text_is_a_formula(first: str, ending: str) -> None:
    (cells,) = csv.reader([csv_text([[first + ending, "weight"]])], strict=True)
    assert cells == [f"'{first}{ending}", "weight"]


@pytest.mark.parametrize("value", [-1.5, -3, "-1.5", "+2e-3", "a=b", "", None, "layer-1", "-inf"])
def test_other_values_stay(value: object) -> None:
    (cells,) = csv.reader([csv_text([[value, "x"]])], strict=True)
    assert cells == ["" if value is None else str(value), "x"]
