"""The lock serves every platform; its bill of materials is valid; its audit says what it did."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "packaging"
PLATFORMS = {
    "linux": {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"},
    "win32": {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt"},
    "darwin": {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix"},
}


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SCRIPTS)


def applies(marker: str, platform: str, python: str) -> bool:
    machine = "AMD64" if platform == "win32" else "arm64" if platform == "darwin" else "x86_64"
    environment: dict[str, Any] = {
        **default_environment(),
        **PLATFORMS[platform],
        "platform_machine": machine,
        "python_version": python,
        "python_full_version": f"{python}.7",
    }
    return not marker or Marker(marker).evaluate(environment)


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_requirement_has_one_version_on_every_platform(platform: str, python: str) -> None:
    from lock_file import plain_name, read_lock, requirements
    from make_lock import EXTRAS

    locked = [entry for entry in read_lock() if applies(entry.marker, platform, python)]
    names = [entry.name for entry in locked]
    assert len(names) == len(set(names))
    versions = {entry.name: entry.version for entry in locked}
    for text in requirements(*EXTRAS):
        requirement = Requirement(text)
        assert requirement.specifier.contains(versions[plain_name(requirement.name)]), text


def imported_packages() -> set[str]:
    """The packages that the program's modules import, by their names in the index."""
    from lock_file import plain_name

    modules = set()
    for file in (ROOT / "ace_gui").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.partition(".")[0])
    distributions = packages_distributions()
    modules -= {"ace_gui", *sys.stdlib_module_names}
    return {plain_name(name) for module in modules for name in distributions.get(module, [module])}


def test_the_program_imports_what_it_requires_and_nothing_else() -> None:
    from lock_file import needed_by, read_lock, wanted_directly

    imported = imported_packages()
    assert wanted_directly() <= imported
    extras = wanted_directly("cluster", "tune", "frames", "text-metrics", "lm-eval")
    assert imported <= needed_by(extras, read_lock())


def test_the_lock_names_no_machine() -> None:
    from lock_file import LOCK, read_lock

    locked = read_lock()
    text = LOCK.read_text()
    assert "://" not in text
    assert "find-links" not in text
    assert "index" not in text
    assert all(entry.hashes and "+" not in entry.version for entry in locked)


def test_what_a_local_build_leaves_out() -> None:
    from lock_file import needed_by, needed_only_by, read_lock, wanted_directly

    locked = read_lock()
    alone = needed_only_by("torch", locked)
    assert {"torch", "triton", "nvidia-cublas"} <= alone
    assert not {"numpy", "filelock", "transformers"} & alone
    assert alone <= needed_by(["torch"], locked)
    assert "pytest" not in needed_by(wanted_directly(), locked)
    assert "pytest" in needed_by(wanted_directly("dev"), locked)


def test_differences_are_named() -> None:
    from install_locked import differences
    from lock_file import read_lock

    locked = read_lock()
    versions = {entry.name: entry.version for entry in locked}
    torch = versions["torch"]
    assert differences(locked, {**versions, "pip": "1"}) == []
    lines = differences(locked, {**versions, "torch": f"{torch}+cpu", "other": "1.0"})
    assert lines == ["other 1.0 (lock: none)", f"torch {torch}+cpu (lock: {torch})"]


def test_the_bill_of_materials_is_valid_and_whole() -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator
    from lock_file import needed_by, read_lock, wanted_directly
    from make_sbom import sbom

    locked = read_lock()
    text = sbom(locked)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    shipped = needed_by(wanted_directly(), locked)
    assert {part["name"] for part in bill["components"]} == shipped
    assert bill["metadata"]["component"]["name"] == "ace-workbench"
    dependencies = {entry["ref"]: set(entry.get("dependsOn", ())) for entry in bill["dependencies"]}
    versions = {entry.name: entry.version for entry in locked}
    typer = f"pkg:pypi/typer@{versions['typer']}"
    assert any(f"pkg:pypi/rich@{versions['rich']}" == ref for ref in dependencies[typer])


@contextmanager
def service(bad: dict[str, str], *, honest: bool = True) -> Iterator[str]:
    """A vulnerability service that knows something against some packages."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
            vulnerabilities = {"jinja2": "OLD-1", **bad} if honest else {}
            names = [vulnerabilities.get(query["package"]["name"]) for query in queries]
            results = [{"vulns": [{"id": name}]} if name else {} for name in names]
            if honest:
                results[1:] = [
                    {} if query["package"]["name"] == "jinja2" else result
                    for query, result in zip(queries[1:], results[1:], strict=True)
                ]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"results": results}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/querybatch"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def audit(address: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPTS / "audit_lock.py"), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"ACE_AUDIT_SERVICE": address, "PATH": "", "no_proxy": "127.0.0.1"},
    )


def test_an_audit() -> None:
    with service({}) as address:
        clean = audit(address)
    assert clean.returncode == 0
    assert "versions audited, 0 with advisories" in clean.stdout
    with service({"rich": "BAD-7"}) as address:
        process = audit(address)
    assert process.returncode == 1
    assert "BAD-7" in process.stdout


def test_no_audit_is_said() -> None:
    with service({}, honest=False) as address:
        silent = audit(address)
    for done in (silent, audit(address)):  # the second: nobody is there any more
        assert done.returncode == 0
        assert "NOT audited" in done.stdout
    assert audit(address, "--required").returncode == 1
