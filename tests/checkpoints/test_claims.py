"""Claims: one at a time, gone with whoever held it, and no file of anyone else's is touched."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ace_gui.checkpoints import Claim, claimed, claimed_output
from ace_gui.errors import OutputError

HOLD = """
import sys
from pathlib import Path
from ace_gui.checkpoints import claimed
with claimed(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_place_is_claimed_once(tmp_path: Path) -> None:
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


def test_by_another_name_it_is_the_same_place(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    with claimed(tmp_path / "there" / "out"):
        assert Claim.take(tmp_path / "link" / "out") is None
        assert Claim.take(tmp_path / "there" / ".." / "there" / "out") is None


def test_another_process_holds_it_until_it_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, out], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert Claim.take(out) is None
        holder.kill()
        holder.wait()
    assert (tmp_path / ".out.lock").exists()  # left, and in nobody's way
    with claimed(out):
        pass
    assert not list(tmp_path.iterdir())


def test_a_file_of_that_name_with_something_in_it_stays(tmp_path: Path) -> None:
    (tmp_path / ".out.lock").write_text("mine")
    with claimed(tmp_path / "out"):
        assert Claim.take(tmp_path / "out") is None
    assert (tmp_path / ".out.lock").read_text() == "mine"


def test_what_cannot_be_locked_for_a_reason_is_said(tmp_path: Path) -> None:
    (tmp_path / ".out.lock").mkdir()
    with pytest.raises(OutputError, match="out"):
        Claim.take(tmp_path / "out")


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_where_there_are_no_locks_work_goes_on(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def without(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", without)
    with claimed(tmp_path / "out"):
        assert "no locks" in caplog.text
    assert not list(tmp_path.iterdir())


def test_an_output_is_looked_at_again_once_it_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another merge may have ended between the look and the claim."""
    out, take = tmp_path / "out", Claim.take

    def late(path: Path) -> Claim | None:
        out.mkdir()
        (out / "model.safetensors").write_text("another's")
        return take(path)

    monkeypatch.setattr(Claim, "take", late)
    with pytest.raises(OutputError, match="not empty"), claimed_output(out, []):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_another_process_has_half_made_is_not_called_someone_elses(tmp_path: Path) -> None:
    stage = tmp_path / ".out.partial"
    stage.mkdir()
    (stage / "model.safetensors").touch()
    with pytest.raises(OutputError, match="not made by this program"):
        claimed_output(tmp_path / "out", []).__enter__()
    with claimed(tmp_path / "out"), pytest.raises(OutputError, match="Another merge or export"):
        claimed_output(tmp_path / "out", []).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == [".out.partial"]


@pytest.mark.parametrize("name", ["a" * 300, "zero\0", "file/below"])
def test_impossible_places_are_refused_as_ever(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        claimed_output(tmp_path / name, []).__enter__()
