"""Memory and processors under the limits of control groups and ulimit."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace_gui.machine import free_memory, processors, total_memory

MB = 1_000_000
MOUNT_2 = "30 23 0:26 {group} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
MOUNTS_1 = (
    "31 23 0:27 {group} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "32 23 0:28 {group} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
)


def tree(root: Path, group: str, mounts: str, files: Mapping[str, str]) -> Path:
    """A fake ``/proc`` and ``/sys``."""
    mounted = f"22 1 0:21 / / rw - ext4 /dev/sda rw\nnonsense\n{mounts}\n"
    everything = {"proc/self/cgroup": group, "proc/self/mountinfo": mounted, **files}
    for name, text in everything.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def version_2(root: Path, group: str = "/", *, mounted_group: str = "/", **files: str) -> Path:
    """``files``: by name, ``__`` for a slash and ``_`` for a dot, under the mount."""
    named = {
        "sys/fs/cgroup/" + name.replace("__", "/").replace("_", ".", 1): text
        for name, text in files.items()
    }
    return tree(root, f"0::{group}\n", MOUNT_2.format(group=mounted_group), named)


def test_the_group_of_a_container(tmp_path: Path) -> None:
    stat = f"anon 1\nfile {70 * MB}\nactive_file {20 * MB}\ninactive_file {30 * MB}\nshmem 9\n"
    root = version_2(
        tmp_path,
        memory_max=f"{200 * MB}\n",
        memory_high="max\n",
        memory_current=f"{150 * MB}\n",
        memory_stat=stat,
        cpu_max="50000 100000\n",
    )
    assert free_memory(root) == 100 * MB  # what file caches hold is given back
    assert total_memory(root) == 200 * MB
    assert processors(root) == 1


def test_high_is_a_limit_too(tmp_path: Path) -> None:
    root = version_2(
        tmp_path,
        memory_max=str(200 * MB),
        memory_high=str(120 * MB),
        memory_current=str(20 * MB),
        memory_stat="",
    )
    assert free_memory(root) == 100 * MB


def test_the_tightest_of_nested_groups(tmp_path: Path) -> None:
    folder = tmp_path / "sys/fs/cgroup/a/b"
    root = version_2(tmp_path, "/a/b")
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text("max")
    (folder / "memory.current").write_text(str(10 * MB))
    (folder.parent / "memory.max").write_text(str(100 * MB))
    (folder.parent / "memory.current").write_text(str(70 * MB))
    (folder.parent / "cpu.max").write_text("150000 100000")
    assert free_memory(root) == 30 * MB
    assert processors(root) == min(2, psutil.cpu_count() or 1)


@pytest.mark.parametrize(
    ("group", "mounted_group"), [("/docker/x", "/docker/x"), ("/docker/x", "/other")]
)
def test_a_mount_that_shows_the_own_group(tmp_path: Path, group: str, mounted_group: str) -> None:
    root = version_2(
        tmp_path,
        group,
        mounted_group=mounted_group,
        memory_max=str(50 * MB),
        memory_current=str(20 * MB),
    )
    assert free_memory(root) == 30 * MB


def test_version_1(tmp_path: Path) -> None:
    memory = "sys/fs/cgroup/memory/"
    cpu = "sys/fs/cgroup/cpu,cpuacct/"
    root = tree(
        tmp_path,
        "5:memory:/box/inner\n4:cpu,cpuacct:/box\n1:name=systemd:/\n",
        MOUNTS_1.format(group="/"),
        {
            f"{memory}box/inner/memory.limit_in_bytes": "9223372036854771712",
            f"{memory}box/inner/memory.usage_in_bytes": str(10 * MB),
            f"{memory}box/memory.limit_in_bytes": str(100 * MB),
            f"{memory}box/memory.usage_in_bytes": str(60 * MB),
            f"{memory}box/memory.stat": f"inactive_file 1\ntotal_inactive_file {20 * MB}\n",
            f"{cpu}box/cpu.cfs_quota_us": "100000",
            f"{cpu}box/cpu.cfs_period_us": "100000",
            f"{cpu}cpu.cfs_quota_us": "-1",
        },
    )
    assert free_memory(root) == 60 * MB
    assert processors(root) == 1


def test_without_groups_the_machine_counts(tmp_path: Path) -> None:
    assert total_memory(tmp_path) == psutil.virtual_memory().total
    assert 0 < free_memory(tmp_path) <= psutil.virtual_memory().total
    assert processors(tmp_path) == len(psutil.Process().cpu_affinity())


def test_more_is_used_than_allowed(tmp_path: Path) -> None:
    root = version_2(tmp_path, memory_max="10", memory_current=str(20 * MB))
    assert free_memory(root) == 0


@settings(max_examples=60, deadline=None)
@given(
    texts=st.tuples(
        *[st.one_of(st.text(max_size=12), st.sampled_from(["max", "-1", "9" * 40, "0", "0 0"]))] * 5
    )
)
def test_nonsense_is_no_limit_and_no_error(
    tmp_path_factory: pytest.TempPathFactory, texts: tuple[str, ...]
) -> None:
    names = ("memory_max", "memory_high", "memory_current", "memory_stat", "cpu_max")
    usable = [text.encode("utf-8", "replace").decode() for text in texts]
    files = dict(zip(names, usable, strict=True))
    root = version_2(tmp_path_factory.mktemp("groups"), texts[0].replace("\n", "") or "/", **files)
    assert free_memory(root) >= 0
    assert processors(root) >= 1


def test_the_limit_of_the_address_space() -> None:
    code = "from ace_gui.machine import free_memory; print(free_memory())"
    limit = 900 * MB
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert 0 < int(done.stdout) < limit
