"""How a cluster of our own is kept from others, how it ends, and how long an address may hang."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event

import psutil
import pytest

from ace_gui.engine.cluster import leftovers, ray_cluster
from ace_gui.engine.cluster.ray_cluster import Address, RayCluster
from ace_gui.errors import ClusterError

REPORTING = """
import ray._private.worker as worker
from ace_gui.engine.cluster import ray_cluster
report = {"lines": ["A worker died or was killed"], "pid": "raylet", "is_err": False}
worker.print_to_stdstream(report, ignore_prefix=False)
ray_cluster._prepare_ray()
worker.print_to_stdstream({**report, "lines": ["Another one"]}, ignore_prefix=False)
"""
SLEEPING = "import time; time.sleep(600)"
NESTING = (
    "import subprocess, sys, time; "
    f"subprocess.Popen([sys.executable, '-c', {SLEEPING!r}], start_new_session=True); "
    "time.sleep(600)"
)


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    processes = []

    def start(code: str, token: str | None) -> subprocess.Popen[bytes]:
        environment = {} if token is None else {leftovers.TOKEN: token}
        command = [sys.executable, "-c", code]
        processes.append(subprocess.Popen(command, env={**os.environ, **environment}))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_reports_of_rays_servers_are_not_printed_among_results():
    done = subprocess.run(
        [sys.executable, "-c", REPORTING], capture_output=True, text=True, check=True, timeout=60
    )
    assert "A worker died" in done.stdout, "Ray prints it"
    assert "Another one" not in done.stdout + done.stderr


@pytest.mark.parametrize("how", ["input ends", "owner is killed"])
def test_whoever_has_the_token_ends_and_nobody_else(
    how: str, started: Callable[..., subprocess.Popen[bytes]], tmp_path
):
    ours = started(NESTING, "secret")
    strangers = [started(SLEEPING, None), started(SLEEPING, "another")]
    child = until(lambda: psutil.Process(ours.pid).children())[0]
    folder = tmp_path / "folder"
    (folder / "sockets").mkdir(parents=True)
    guarding = [sys.executable, "-P", leftovers.__file__]
    line = f"secret\n{folder}\n"
    if how == "input ends":
        subprocess.run(guarding, input=line, text=True, check=True, timeout=30)
    else:
        owner = subprocess.Popen(
            [sys.executable, "-c", OWNER, *guarding], stdin=subprocess.PIPE, text=True
        )
        owner.stdin.write(line)
        owner.stdin.close()
        time.sleep(0.5)
        assert ours.poll() is None
        owner.kill()
        owner.wait()
    until(lambda: not folder.exists())
    assert ours.wait(10)
    child.wait(10)
    assert [process.poll() for process in strangers] == [None, None]


OWNER = """
import subprocess, sys, time
guard = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, text=True, start_new_session=True)
guard.stdin.write(sys.stdin.read())
guard.stdin.flush()
time.sleep(600)
"""


def until(condition: Callable[[], object], seconds: float = 20.0) -> object:
    end = time.monotonic() + seconds
    while not (what := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return what


def test_the_folder_is_ours_alone_and_the_token_in_no_file(monkeypatch, tmp_path):
    """Also where the temporary folder's path is too long for sockets in it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = os.environ.copy()
    cluster = RayCluster(Address.of("local:1"), 1, needs_gpus=False)
    cluster._begin_guard()
    folder = Path(cluster._folder)
    guard = cluster._guard
    assert guard is not None
    try:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert folder.stat().st_uid == os.getuid()
        assert len(str(folder)) < 40
        token = ray_cluster._token()
        assert len(token) == 64
        assert token not in " ".join(psutil.Process(guard.pid).cmdline())
        assert os.environ == before
    finally:
        cluster._end_leftovers()
    assert not folder.exists()
    assert guard.returncode == 0


def answers(_url: str, connection: Connection) -> None:
    connection.send("")
    connection.send("")


def refuses(_url: str, connection: Connection) -> None:
    connection.send("")
    connection.send("wrong token")


def hangs(_url: str, connection: Connection) -> None:
    connection.send("")
    time.sleep(600)


def dies(_url: str, connection: Connection) -> None:
    connection.close()


@pytest.mark.parametrize("asking", [refuses, hangs, dies])
def test_a_cluster_that_does_not_answer_is_said_to_be_unreachable(
    asking: Callable[..., None], monkeypatch
):
    monkeypatch.setattr(ray_cluster, "_ask", asking)
    monkeypatch.setattr(ray_cluster, "REACH_SECONDS", 0.5)
    before = set(psutil.Process().children())
    with pytest.raises(ClusterError, match="auto cannot be reached") as caught:
        ray_cluster._require_answer("auto", Event())
    assert caught.value.details
    monkeypatch.setattr(ray_cluster, "_ask", answers)
    ray_cluster._require_answer("auto", Event())
    remaining = set(psutil.Process().children()) - before
    assert all("resource_tracker" in " ".join(process.cmdline()) for process in remaining)


def test_a_person_does_not_wait_for_it(monkeypatch):
    monkeypatch.setattr(ray_cluster, "_ask", hangs)
    over = Event()
    over.set()
    with pytest.raises(ClusterError):
        ray_cluster._require_answer("auto", over)


def test_addresses():
    assert Address.of("local:4") == Address(workers=4)
    assert Address.of("auto") == Address(url="auto")
    assert Address.of("ray://head.example:10001").url == "ray://head.example:10001"


@pytest.mark.parametrize(
    "text",
    ["", "local", "local:", "local:0", "local:-1", "local:99999", "4", "ray://", "ray://host",
     "http://host:1", "ray://host:1/../x", "local:2\n", "ray://a b:1"],
)  # fmt: skip
def test_what_is_none(text: str):
    with pytest.raises(ClusterError, match="is not a cluster; give"):
        Address.of(text)
