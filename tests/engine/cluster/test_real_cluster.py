"""The command line with a real cluster of two processes on this machine."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.helpers.command import ace_gui
from tests.helpers.models import gpt2_family
from tests.helpers.recipes import file_of

pytest.importorskip("ray")


def heard_addresses(process: psutil.Process) -> set[str]:
    """Where a process and its children listen."""
    found = set()
    for each in [process, *process.children(recursive=True)]:
        try:
            sockets = each.net_connections("tcp")
        except psutil.Error:
            continue
        found |= {index.laddr.ip for index in sockets if index.status == psutil.CONN_LISTEN}
    return found


def is_loopback(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback


def test_merge_on_a_cluster_of_this_machine(tmp_path: Path) -> None:
    recipe = file_of(tmp_path / "recipe", gpt2_family(tmp_path / "family"))
    alone = ace_gui("merge", recipe, "--out", tmp_path / "alone", "--threads", "1")
    assert alone.returncode == 0, alone.stderr
    command = [sys.executable, "-m", "ace_gui", "merge", str(recipe)]
    command += ["--out", str(tmp_path / "many"), "--cluster", "local:2", "--threads", "1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ)
    ) as merging:
        watched, heard = psutil.Process(merging.pid), set[str]()
        children: list[psutil.Process] = []
        while True:
            try:
                merging.wait(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                heard |= heard_addresses(watched)
                children = watched.children(recursive=True) or children
        assert merging.stdout is not None
        assert merging.returncode == 0, merging.stdout.read()
    files = [tmp_path / name / "model.safetensors" for name in ("alone", "many")]
    assert files[0].read_bytes() == files[1].read_bytes()
    # Nobody but this machine can reach the cluster, and nothing of it stays.
    assert heard
    assert all(map(is_loopback, heard)), heard
    _, left = psutil.wait_procs(children, timeout=20)
    assert not left
