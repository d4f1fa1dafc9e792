"""Folders are staged and appear as a whole; two processes never write to the same one."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ace_gui.checkpoints.staging import Claim, claimed, claimed_output, discard, new_stage, promote
from ace_gui.errors import OutputError
from ace_gui.output_files import MARK, MARK_TEXT, check_output_folder, staging_folder


def contents(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): file.read_text()
        for file in folder.rglob("*")
        if file.is_file()
    }


def filled_stage(target: Path) -> Path:
    stage = new_stage(target)
    (stage / "heads").mkdir()
    (stage / "config.json").write_text("{}")
    (stage / "heads/cola.safetensors").write_text("head")
    return stage


FILLED = {"config.json": "{}", "heads/cola.safetensors": "head"}


@pytest.mark.parametrize("exists", [False, True])
def test_promotion(tmp_path, exists: bool):
    target = tmp_path / "deep" / "merged"
    if exists:
        target.mkdir(parents=True)
    stage = filled_stage(target)
    assert stage == staging_folder(target) == tmp_path / "deep" / ".merged.partial"
    promote(stage, target)
    assert contents(target) == FILLED
    assert not stage.exists()


def test_a_target_that_is_not_empty_stays_as_it_is(tmp_path):
    target = tmp_path / "merged"
    target.mkdir()
    stage = filled_stage(target)
    (target / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="Choose a new or empty folder") as caught:
        promote(stage, target)
    assert "Something is already there" in caught.value.sentence
    assert contents(target) == {"mine.txt": "mine"}
    assert contents(stage) == {**FILLED, MARK: MARK_TEXT.decode()}
    discard(stage)  # it is still ours
    assert not stage.exists()
    assert contents(target) == {"mine.txt": "mine"}


def test_everything_is_synced_before_the_renaming(tmp_path, monkeypatch):
    target = tmp_path / "merged"
    stage = filled_stage(target)
    inodes = {path.stat().st_ino for path in (stage, *stage.rglob("*"))}
    synced: set[int] = set()

    def record(descriptor: int) -> None:
        assert not target.exists() or os.fstat(descriptor).st_ino == tmp_path.stat().st_ino
        synced.add(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", record)
    promote(stage, target)
    assert synced == inodes | {tmp_path.stat().st_ino}


def test_a_failing_disk_completes_nothing(tmp_path, monkeypatch):
    def failing(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    target = tmp_path / "merged"
    stage = filled_stage(target)
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OutputError, match="Cannot be written"):
        promote(stage, target)
    assert not target.exists()


def test_a_new_stage_replaces_an_earlier_one(tmp_path):
    target = tmp_path / "merged"
    filled_stage(target)
    stage = new_stage(target)
    assert contents(stage) == {MARK: MARK_TEXT.decode()}
    discard(stage)
    discard(stage)
    assert not stage.exists()
    stage.mkdir()  # of a run that died before it could mark it
    assert contents(new_stage(target)) == {MARK: MARK_TEXT.decode()}


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling"])
def test_what_is_not_ours_is_never_removed(tmp_path, kind: str):
    target = tmp_path / "merged"
    stage = staging_folder(target)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "model").mkdir()
    (precious / "model/weights").write_text("kept")
    if kind == "folder":
        precious.rename(stage)
    elif kind == "file":
        stage.write_text("kept")
    else:
        stage.symlink_to(precious if kind == "link" else tmp_path / "nowhere")
    before = contents(tmp_path)
    for remove in (new_stage, lambda _: discard(stage)):
        with pytest.raises(OutputError, match="was not made by this program"):
            remove(target)
    assert contents(tmp_path) == before
    assert os.path.lexists(stage)


def test_a_target_reached_through_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    target = check_output_folder(tmp_path / "link", [])
    promote(filled_stage(target), target)
    assert contents(tmp_path / "real") == FILLED


@pytest.mark.parametrize("name", ["new", "empty", "deep/er/new"])
def test_folders_that_can_be_made(tmp_path, name: str):
    (tmp_path / "empty").mkdir()
    assert check_output_folder(tmp_path / name, []) == (tmp_path / name).resolve()
    assert not (tmp_path / "deep").exists()


def refused(path: Path, sentence: str) -> None:
    with pytest.raises(OutputError) as caught:
        check_output_folder(path, [])
    assert sentence in caught.value.sentence


def test_folders_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/.hidden").write_text("x")
    (tmp_path / "dangling").symlink_to(tmp_path / "absent")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refused(tmp_path / "file", "This is not a folder.")
    refused(tmp_path / "file/inside", "This is not a folder.")
    refused(tmp_path / "dangling", "This is not a folder.")
    refused(tmp_path / "loop", "This is not a folder.")
    refused(tmp_path / "full", "The folder is not empty. Choose a new or empty folder.")
    refused(Path("a\0b"), "This is not a valid path.")
    refused(tmp_path / ("x" * 300), "The name is too long")
    monkeypatch.setattr(os, "access", lambda *_arguments: False)
    refused(tmp_path / "new", "No permission to write here.")


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="no device nodes on this system")
def test_devices_and_mounts():
    refused(Path("/dev/null"), "This is not a folder.")
    refused(Path("/"), "This is the mount point of a disk.")


def test_no_output_inside_an_input(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (tmp_path / "link").symlink_to(model)
    (tmp_path / "model/empty").mkdir()
    (tmp_path / "other").mkdir()
    inside = ["model/out", "link/out", "link/deep/out", "other/../model/out", "model/empty"]
    for name in inside:
        with pytest.raises(OutputError, match="This is inside the model"):
            check_output_folder(tmp_path / name, [model])
    assert check_output_folder(tmp_path / "model-merged", [model]).name == "model-merged"


HOLD = """
import sys
from pathlib import Path
from ace_gui.checkpoints.staging import claimed
with claimed(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_place_is_claimed_once(tmp_path):
    out = tmp_path / "out"
    with claimed(out):
        assert Claim.take(out) is None
        with pytest.raises(OutputError, match="Another merge or export is writing this") as caught:
            claimed(out).__enter__()
        assert caught.value.path == out
        with claimed(tmp_path / "other"):
            pass
    assert not list(tmp_path.iterdir())
    with claimed(out):
        pass


def test_by_another_name_it_is_the_same_place(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    with claimed(tmp_path / "there" / "out"):
        assert Claim.take(tmp_path / "link" / "out") is None
        assert Claim.take(tmp_path / "there" / ".." / "there" / "out") is None


def test_another_process_holds_it_until_it_is_killed(tmp_path):
    out = tmp_path / "out"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, out], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        assert Claim.take(out) is None
        holder.kill()
        holder.wait()
    assert (tmp_path / ".out.lock").exists()  # left, and in nobody's way
    with claimed(out):
        pass
    assert not list(tmp_path.iterdir())


def test_a_file_of_that_name_with_something_in_it_stays(tmp_path):
    (tmp_path / ".out.lock").write_text("mine")
    with claimed(tmp_path / "out"):
        assert Claim.take(tmp_path / "out") is None
    assert (tmp_path / ".out.lock").read_text() == "mine"


def test_what_cannot_be_locked_for_a_reason_is_said(tmp_path):
    (tmp_path / ".out.lock").mkdir()
    with pytest.raises(OutputError, match="out"):
        Claim.take(tmp_path / "out")


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_where_there_are_no_locks_work_goes_on(code: int, tmp_path, monkeypatch, caplog):
    def without(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", without)
    with claimed(tmp_path / "out"):
        assert "no locks" in caplog.text
    assert not list(tmp_path.iterdir())


def test_an_output_is_looked_at_again_once_it_is_ours(tmp_path, monkeypatch):
    """Another merge may have ended between the look and the claim."""
    out = tmp_path / "out"
    take = Claim.take

    def late(path: Path) -> Claim | None:
        out.mkdir()
        (out / "model.safetensors").write_text("another's")
        return take(path)

    monkeypatch.setattr(Claim, "take", late)
    with pytest.raises(OutputError, match="not empty"), claimed_output(out, []):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_another_process_has_half_made_is_not_called_someone_elses(tmp_path):
    stage = tmp_path / ".out.partial"
    stage.mkdir()
    (stage / "model.safetensors").touch()
    with pytest.raises(OutputError, match="not made by this program"):
        claimed_output(tmp_path / "out", []).__enter__()
    with claimed(tmp_path / "out"), pytest.raises(OutputError, match="Another merge or export"):
        claimed_output(tmp_path / "out", []).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == [".out.partial"]


@pytest.mark.parametrize("name", ["a" * 300, "zero\0", "file/below"])
def test_impossible_places_are_refused_as_ever(name: str, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        claimed_output(tmp_path / name, []).__enter__()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="only Linux has such folders")
def test_a_folder_in_which_nothing_can_be_made_is_not_called_taken():
    with pytest.raises(OutputError) as refused, claimed(Path("/proc/out")):
        pass
    assert "Another merge" not in refused.value.sentence


def test_a_link_in_the_place_of_a_lock_is_named_and_not_followed(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / ".out.lock").symlink_to(mine)
    with pytest.raises(OutputError, match=r"\.out\.lock.*link") as caught:
        Claim.take(tmp_path / "out")
    assert "Remove it" in caught.value.sentence
    assert mine.read_text() == "mine"
