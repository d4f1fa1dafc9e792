"""What goes wrong with a real Ray cluster: workers killed, stopped, without memory; its head."""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from ace_gui.engine.cluster.ray_cluster import LONGEST_FOLDER
from ace_gui.engine.cluster.worker import WORKER_TITLE
from tests.helpers.cluster_faults import DOOMED
from tests.helpers.command import ace_gui_process
from tests.helpers.models import gpt2_family
from tests.helpers.recipes import file_of

pytest.importorskip("ray")
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.helpers.cluster_faults"]
    folder = tmp_path_factory.mktemp("faults")
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "fault",
    ["well", "stopped", "two without memory", "killed, resumed", "all without memory, resumed"],
)
def test_the_same_bits(report: dict[str, Any], fault: str):
    assert report[fault] == report["alone"]


def test_a_tensor_over_which_every_worker_is_killed(report: dict[str, Any]):
    assert report["killed"].startswith(f"3 workers were lost while they worked on `{DOOMED}`")
    assert report["killed"].endswith("then resume.")


def test_workers_without_memory(report: dict[str, Any]):
    assert report["lost for want of memory"] >= 1
    sentence = report["all without memory"]
    assert "workers were lost" in sentence or "cannot be started" in sentence


def test_cancelling_while_ray_starts_is_immediate(report: dict[str, Any]):
    assert report["cancelled"] < 1.0


def test_no_process_is_left(report: dict[str, Any]):
    assert not report["left"]


def test_the_head_is_killed(tmp_path):
    """Its worker, which was stopped before, would never end by itself."""
    recipe = file_of(tmp_path / "recipe", gpt2_family(tmp_path / "family"))
    assert (
        ace_gui_process("merge", recipe, "--out", tmp_path / "one", "--threads", "1").returncode
        == 0
    )
    command = [sys.executable, "-m", "ace_gui", "merge", str(recipe), "--threads", "1"]
    out = tmp_path / "beheaded"
    merging = subprocess.Popen(
        [*command, "--out", str(out), "--cluster", "local:1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    watched = psutil.Process(merging.pid)
    while not (workers := called(watched, WORKER_TITLE)):
        assert merging.poll() is None
        time.sleep(0.01)
    for worker in workers:
        worker.suspend()
    everyone = watched.children(recursive=True)
    for server in called(watched, "gcs_server"):
        server.kill()
    started = time.monotonic()
    _, reported = merging.communicate(timeout=90)
    assert time.monotonic() - started < 45
    assert merging.returncode == 1
    assert "The cluster's server has ended" in reported.replace("\n", " ")
    _, survivors = psutil.wait_procs(everyone, timeout=20)
    assert not survivors
    resumed = ace_gui_process("merge", recipe, "--out", out, "--threads", "1", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    files = [folder / "model.safetensors" for folder in (out, tmp_path / "one")]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_all_of_it_within_seconds(number: signal.Signals, tmp_path):
    """Workers, servers and agents, and the folder, which only its owner may enter; the token is in
    no file of theirs."""
    recipe = file_of(tmp_path / "recipe", gpt2_family(tmp_path / "family"))
    command = [sys.executable, "-m", "ace_gui", "merge", str(recipe), "--threads", "1"]
    before = set(Path(ray_folder()).glob("ace-ray-*"))
    merging = subprocess.Popen(
        [*command, "--out", str(tmp_path / "out"), "--cluster", "local:1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    watched = psutil.Process(merging.pid)
    everyone = set[psutil.Process]()
    while not called(watched, WORKER_TITLE):
        assert merging.poll() is None
        everyone |= set(watched.children(recursive=True))
        time.sleep(0.05)
    everyone |= set(watched.children(recursive=True))
    (folder,) = set(Path(ray_folder()).glob("ace-ray-*")) - before
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not (tmp_path / ".ray").exists()
    merging.send_signal(number)
    started = time.monotonic()
    status = merging.wait(60)
    _, survivors = psutil.wait_procs(everyone, timeout=20)
    assert not survivors
    assert time.monotonic() - started < 25
    assert status == (130 if number is signal.SIGINT else -number)
    assert not folder.exists()


def ray_folder() -> str:
    folder = tempfile.gettempdir()
    return folder if len(folder) <= LONGEST_FOLDER else "/tmp"


def test_a_cluster_of_someone_else_answers_quickly(tmp_path):
    """``auto`` finds its server, but has not its token."""
    settings = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    foreign = subprocess.Popen(
        [sys.executable, "-c", FOREIGN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **settings},
    )  # fmt: skip
    assert "ready" in foreign.stdout.readline()
    recipe = file_of(tmp_path / "recipe", gpt2_family(tmp_path / "family"))
    started = time.monotonic()
    done = ace_gui_process(
        "merge", recipe, "--out", tmp_path / "out", "--cluster", "auto", seconds=200
    )
    assert time.monotonic() - started < 100  # most of which Ray is imported in
    assert done.returncode == 1
    assert "cannot be reached" in done.stderr.replace("\n", " ")
    assert not (tmp_path / "out").exists()
    foreign.communicate()


FOREIGN = """
import sys, ray
ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR")
print("ready", flush=True)
sys.stdin.read()
"""


def called(process: psutil.Process, name: str) -> list[psutil.Process]:
    children = []
    for child in process.children(recursive=True):
        try:
            if name in (child.cmdline() or [""])[0]:
                children.append(child)
        except psutil.Error:
            continue
    return children


def heard_addresses(process: psutil.Process) -> set[str]:
    """Where a process and its children listen."""
    addresses = set()
    for member in [process, *process.children(recursive=True)]:
        try:
            sockets = member.net_connections("tcp")
        except psutil.Error:
            continue
        addresses |= {
            connection.laddr.ip for connection in sockets if connection.status == psutil.CONN_LISTEN
        }
    return addresses


def is_loopback(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback


def test_merge_on_a_cluster_of_this_machine(tmp_path):
    recipe = file_of(tmp_path / "recipe", gpt2_family(tmp_path / "family"))
    alone = ace_gui_process("merge", recipe, "--out", tmp_path / "alone", "--threads", "1")
    assert alone.returncode == 0, alone.stderr
    command = [sys.executable, "-m", "ace_gui", "merge", str(recipe)]
    command += ["--out", str(tmp_path / "many"), "--cluster", "local:2", "--threads", "1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ)
    ) as merging:
        watched = psutil.Process(merging.pid)
        received = set[str]()
        children: list[psutil.Process] = []
        while True:
            try:
                merging.wait(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                received |= heard_addresses(watched)
                children = watched.children(recursive=True) or children
        assert merging.returncode == 0, merging.stdout.read()
    files = [tmp_path / name / "model.safetensors" for name in ("alone", "many")]
    assert files[0].read_bytes() == files[1].read_bytes()
    # Nobody but this machine can reach the cluster, and nothing of it stays.
    assert received
    assert all(map(is_loopback, received)), received
    _, survivors = psutil.wait_procs(children, timeout=20)
    assert not survivors
