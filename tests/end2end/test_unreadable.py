"""What may not be read or written is named in one sentence; a cache that is so is no cache.

All cases in a few processes that have no right to ignore permissions, whoever runs the tests.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.models import Family, gpt2_family
from tests.helpers.recipes import file_of

# Root reads and writes everything by two capabilities. Given away, they are gone in what is
# started next, which stays the same user, so that it still gets at the tests' own files.
_DROP = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if os.geteuid() == 0:
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        if libc.prctl(24, capability, 0, 0, 0):  # PR_CAPBSET_DROP
            raise OSError(ctypes.get_errno(), "a capability cannot be dropped")
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def run_unprivileged(
    *arguments: str | Path, seconds: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, without the right to ignore permissions."""
    return subprocess.run(
        [sys.executable, "-c", _DROP, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        env={**os.environ, **environment},
    )


# Runs commands with permissions changed before and put back after each.
DRIVER = """
import json, os, shutil, sys
from pathlib import Path
from typer.testing import CliRunner
from ace_gui.cli.commands import app
for line in Path(sys.argv[1]).read_text().splitlines():
    case = json.loads(line)
    modes = {path: os.stat(path).st_mode & 0o777 for path in case["modes"]}
    for path, mode in case["modes"].items():
        os.chmod(path, mode)
    try:
        result = CliRunner().invoke(app, case["arguments"])
    finally:
        for path, mode in modes.items():
            os.chmod(path, mode)
    shutil.rmtree(case["out"], ignore_errors=True)
    said = {"name": case["name"], "status": result.exit_code, "stderr": result.stderr}
    print(json.dumps({**said, "error": repr(result.exception)}), flush=True)
"""


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return gpt2_family(tmp_path_factory.mktemp("gpt2") / "models", experts=2)


def case(name: str, arguments: list[object], out: Path, **modes: int) -> dict[str, object]:
    return {"name": name, "arguments": list(map(str, arguments)), "out": str(out), "modes": modes}


def reported(
    folder: Path, cases: list[dict[str, object]], **environment: str
) -> Iterator[dict[str, object]]:
    """What came of every case."""
    (folder / "driver.py").write_text(DRIVER)
    (folder / "cases").write_text("\n".join(map(json.dumps, cases)))
    root = str(Path(__file__).parents[2])
    done = run_unprivileged(
        folder / "driver.py", folder / "cases", seconds=300, PYTHONPATH=root, **environment
    )
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(reports) == len(cases), done.stderr
    yield from reports


EVERY = pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
"""Every fourth case in the ordinary run."""


@EVERY
def test_inputs_and_outputs(family: Family, tmp_path: Path, every: int) -> None:
    recipe = file_of(tmp_path / "recipes", family, merge_method="linear", schema=1)
    out = tmp_path / "out"
    base = family.base
    expert = family.experts["task1"]
    (base / "vocab.json").write_text("{}")
    merge = ["merge", recipe, "--device", "cpu", "--out", out]
    unreadable = [
        *(base, expert, base.parent, recipe, recipe.parent, base / "config.json"),
        *(base / "model.safetensors", expert / "model.safetensors", expert / "config.json"),
        base / "vocab.json",
    ]
    cases = [case(f"{path} 0", merge, out, **{str(path): 0}) for path in unreadable]
    cases += [case(f"{path} unlisted", merge, out, **{str(path): 0o111}) for path in (base, expert)]
    (tmp_path / "closed").mkdir()
    closed, hidden = ({str(tmp_path / "closed"): mode} for mode in (0o555, 0))
    mine = tmp_path / "mine.json"
    mine.write_text('{\n "layers": []}')
    inside = tmp_path / "closed" / "x"
    cases += [
        case("merge into closed", [*merge[:-1], inside], out, **closed),
        case("json into closed", ["inspect", recipe, "--json", inside], out, **closed),
        case("csv into closed", ["inspect", recipe, "--csv", inside], out, **closed),
        case("report into closed", ["report", recipe, "--out", inside], out, **closed),
        case("mergekit into closed", ["mergekit", recipe, "--out", inside], out, **closed),
        case("demo into closed", ["demo", "--headless", "--out", inside], out, **closed),
        case("json unreadable", ["inspect", recipe, "--json", mine], out, **{str(mine): 0}),
        case("task of closed", ["task", inside.parent, "a", "--out", out], out, **hidden),
    ]
    for report in reported(tmp_path, cases[::every]):
        said = str(report["stderr"])
        lines = [line for line in said.splitlines() if line.startswith("Error:")]
        assert (report["status"], len(lines)) == (1, 1), report
        assert "unexpected" not in said, report
        assert "Traceback" not in said, report
        assert "permission" in said.lower() or "not be read" in said, report


@EVERY
def test_caches_homes_and_settings(family: Family, tmp_path: Path, every: int) -> None:
    recipe = file_of(tmp_path / "recipes", family, merge_method="linear", schema=1)
    out = tmp_path / "out"
    cache = tmp_path / "cache"
    inner = [
        cache / "ace-workbench" / name for name in ("inspection", "architectures", "converted")
    ]
    for folder in inner:
        folder.mkdir(parents=True)
    (tmp_path / "hub").mkdir()
    commands = {
        "merge": ["merge", recipe, "--device", "cpu", "--out", out],
        "inspect": ["inspect", recipe],
        "report": ["report", recipe, "--device", "cpu", "--out", out.with_suffix(".html")],
    }
    cases = [case(f"{name} as it is", command, out) for name, command in commands.items()]
    for path in (cache, cache / "ace-workbench", *inner, tmp_path / "hub"):
        for mode in (0, 0o555):
            name = "report" if path.name == "inspection" else "merge"
            cases.append(case(f"{name} {path} {mode:o}", commands[name], out, **{str(path): mode}))
    environment = {
        "XDG_CACHE_HOME": str(cache),
        "HF_HUB_CACHE": str(tmp_path / "hub"),
        "HOME": str(tmp_path / "nowhere"),
    }
    for report in reported(tmp_path, cases[::every], **environment):
        assert report["status"] == 0, report
