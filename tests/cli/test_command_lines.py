"""Every command line ends with a known status, and a failing one with one sentence."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig
from typer.testing import CliRunner

from ace_gui.cli import commands as cli
from ace_gui.cli.commands import app
from ace_gui.cli.options import recipe_given
from ace_gui.cli.streams import reported
from ace_gui.methods import METHODS
from ace_gui.paths import Sample
from ace_gui.recipe.recommended import SHELF_NAMES
from tests.helpers.command import Ended
from tests.helpers.command import ace_gui as ace
from tests.helpers.recipes import file_over
from tests.helpers.scored_models import save_scored_family
from tests.helpers.sparse_models import sparse_model

STATUSES = {0, 1, 2, 130}


@pytest.fixture(autouse=True)
def _as_before(tmp_path_factory) -> Iterator[None]:
    """The working and the log folder are the tests' again."""
    here = Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("DISPLAY", raising=False)
        patch.delenv("WAYLAND_DISPLAY", raising=False)
        patch.delenv("QT_QPA_PLATFORM", raising=False)  # without a display no window can open
        yield
    os.chdir(here)


def require_good_end(ended: Ended) -> None:
    assert ended.returncode in STATUSES
    assert "Traceback" not in ended.stderr
    if ended.returncode in {1, 2}:
        lines = ended.stderr.splitlines()
        assert lines[-1].startswith("Error: "), ended.stderr
        assert ended.stderr.count("Error: ") == 1
        assert len(lines[-1]) < 2100
        assert "Something unexpected" not in lines[-1], ended.stderr


LONG = "x" * 5000
_TEXTS = st.one_of(
    st.sampled_from(
        ["", " ", ".", "/", "~nosuchuser/x", "~", LONG, "a\0b", "\udcff", "nan", "inf"]
    ),
    st.sampled_from(["-1", "0", "1e400", "1e300", "9" * 6000, "0x" + "f" * 6000, "-0.0", "١٢"]),
    st.sampled_from(["\x1b[31m", "\n", "γ", "a=", "=b", "scaling=1e300", "seed=" + "9" * 6000]),
    st.sampled_from(["ace", "linear", "all", "cpu", "cuda:99999999999999999999", "auto", "sample"]),
    st.text(max_size=8),
)
_COMMANDS = (
    "merge",
    "init",
    "inspect",
    "report",
    "compare",
    "mergekit",
    "methods",
    "devices",
    "task",
    "open",
    "demo",
)
_VALUED = ("--out", "--device", "--threads", "--memory", "--json", "--csv", "--base")
_FLAGS = ("--resume", "--complete-heads", "--convert", "--headless", "-h", "--version", "--", "-x")
_OPTIONS = (*_VALUED, "--methods", "--method", "--set", "--parameter", *_FLAGS)
_LINES = st.lists(
    st.one_of(st.sampled_from(_COMMANDS), st.sampled_from(_OPTIONS), _TEXTS), max_size=7
)
_CALLS = st.one_of(
    _LINES,
    st.tuples(st.sampled_from(_COMMANDS), _LINES).map(lambda pair: [pair[0], *pair[1]]),
).filter(lambda line: not {"demo", "sample"} & set(line))  # these do more than read a recipe


@pytest.mark.parametrize("examples", [60, pytest.param(20_000, marks=pytest.mark.long)])
def test_no_command_line_ends_in_a_traceback(tmp_path_factory, examples: int):
    @settings(
        max_examples=examples,
        derandomize=examples == 60,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(line=_CALLS)
    def run(line: list[str]) -> None:
        folder = tmp_path_factory.mktemp("line")
        os.chdir(folder)
        require_good_end(ace(*line))
        written = {path.name for path in folder.iterdir()}
        assert written <= ({*line} if "--json" in line else set())  # `--json FILE` writes it

    run()


@pytest.mark.parametrize("value", ["", "a\0b", "\udcff"])
def test_a_wild_path_is_wrong_usage(value: str):
    ended = ace("merge", "recipe.yaml", "--out", value)
    assert ended.returncode == 2
    assert "--out" in ended.stderr
    require_good_end(ended)


def test_a_command_that_is_misspelt():
    ended = ace("merg", "a", "b")
    assert ended.returncode == 2
    assert "'merge'" in ended.stderr
    assert not re.search(r"[?.]{2}", ended.stderr)


def test_the_version():
    ended = ace("--version")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"ace-gui {cli.__version__}\n", "")


def test_a_path_that_is_not_there_is_named():
    for path in ("nosuch.yaml", "no/such"):
        ended = ace(path)
        assert ended.returncode == 2
        assert f"{path} does not exist" in ended.stderr


def test_what_was_not_foreseen_is_logged(monkeypatch):
    monkeypatch.setattr("ace_gui.cli.listing.known_methods", lambda: {}["no such key"])
    ended = ace("methods")
    assert ended.returncode == 1
    assert "KeyError" in ended.stderr
    [sentence] = ended.stderr.splitlines()
    log = Path(sentence.rpartition("Details are in ")[2].rstrip("."))
    assert "Traceback" in log.read_text()
    assert str(os.environ["XDG_STATE_HOME"]) in str(log)
    assert "Traceback" in ace("methods", "--verbose").stderr


@pytest.mark.parametrize("options", [["--out"], ["--headless", "--out"]])
def test_the_demo_writes_its_folder_where_a_window_could_open_too(
    monkeypatch, tmp_path, options: list[str]
):
    written: list[Path | None] = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("ace_gui.gui.app.run", lambda *_, **__: 0)
    monkeypatch.setattr("ace_gui.cli.demo.run_headless", lambda _, out: written.append(out))
    assert ace("demo", *options, str(tmp_path / "out")).returncode == 0
    assert written == [tmp_path / "out"]


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("line", [[], ["demo"]], ids=["alone", "demo"])
def test_the_engine_is_started_before_the_window(monkeypatch, line: list[str], refused: bool):
    calls: list[object] = []
    engine = object()

    def start() -> object:
        calls.append("engine")
        if refused:
            raise OSError("no more processes")
        return engine

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("ace_gui.cli.window.EngineProcess", start)
    monkeypatch.setattr("ace_gui.gui.app.run", lambda _, first, **__: calls.append(first) or 0)
    assert ace(*line).returncode == 0
    assert calls == ["engine", None if refused else engine]


def test_without_a_log_folder_the_temporary_one_is_used(capfd, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    for temporary in (tmp_path, tmp_path / "file"):
        error = ValueError() if temporary is tmp_path else MemoryError()
        with monkeypatch.context() as patch:
            patch.setattr("tempfile.tempdir", str(temporary))
            with pytest.raises(SystemExit), reported(False):
                raise error
    [log] = tmp_path.glob("*.log")
    first, second = capfd.readouterr().err.splitlines()
    assert str(log) in first
    assert "not enough memory" in second
    assert "Add --verbose" in second


@pytest.mark.parametrize("error", [MemoryError(), KeyError("no such key")])
@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize(
    "place", ["traceback.format_exception", "tempfile.mkstemp", "ace_gui.cli.streams.printable"]
)
def test_without_memory_for_the_report_one_sentence_is_left(
    capfd, monkeypatch, place: str, verbose: bool, error: Exception
):
    def fails(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(place, fails)
    with pytest.raises(SystemExit) as ended, reported(verbose):
        raise error
    assert ended.value.code == 1
    *_, last = capfd.readouterr().err.splitlines()
    assert last == "Error: There was not enough memory; close other programs and try again."


def test_tensors_of_a_failed_merge_make_room_for_the_report(monkeypatch):
    class Large:
        pass

    references: list[weakref.ref[Large]] = []

    def merge() -> None:
        tensor = Large()
        references.append(weakref.ref(tensor))
        raise MemoryError

    at_report: list[bool] = []
    monkeypatch.setattr(
        "ace_gui.cli.streams._logged", lambda _: at_report.append(references[0]() is None)
    )
    with pytest.raises(SystemExit), reported(False):
        merge()
    assert at_report == [True]


def test_the_devices_and_why_there_is_no_gpu(monkeypatch):
    monkeypatch.setattr("ace_gui.cli.merging.devices_not_used", lambda: ("No driver.",))
    ended = ace("devices")
    assert ended.returncode == 0
    assert ended.stdout.startswith("cpu  Processor (CPU)")
    assert ended.stdout.endswith("No driver.\n")


def test_a_folder_of_the_samples_name_does_not_hide_the_sample(tmp_path, monkeypatch):
    (tmp_path / "sample").mkdir()
    monkeypatch.chdir(tmp_path)
    assert recipe_given("sample") == Sample.IMAGES.recipe
    (tmp_path / "text-sample").touch()
    assert recipe_given("text-sample") == Path("text-sample"), "a file is meant as it is named"


@pytest.mark.parametrize("command", ["inspect", "estimate", "merge"])
def test_sentences_end_once(command: str, tmp_path):
    out = ["--out", str(tmp_path / "out")] if command == "merge" else []
    ended = ace(command, "sample", *out)
    assert ended.returncode == 0, ended.stderr
    assert not re.findall(r".*[^.]\.\.(?:[^.].*|$)", ended.stdout + ended.stderr, re.MULTILINE)


def test_a_comparison_in_which_every_merge_fails():
    ended = ace("compare", "sample", "--methods", "slerp")
    assert ended.returncode == 1
    require_good_end(ended)
    assert "SLERP merges 2 experts" in ended.stdout
    mixed = ace("compare", "sample", "--methods", "slerp,linear", "--json", "-")
    assert mixed.returncode == 0, mixed.stderr


_NUMBERS = ("--speed", "--disk", "--workers", "--threads", "--memory", "--limit", "--merges")


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "9" * 6000, "1e400", "1e300", "-1", "0"])
@pytest.mark.parametrize("option", _NUMBERS)
def test_numbers_that_are_none(option: str, value: str, tmp_path):
    command = {"--memory": "merge", "--limit": "evaluate", "--merges": "tune"}.get(
        option, "estimate"
    )
    more = {"merge": ["--out", str(tmp_path / "out")], "tune": ["--parameter", "scaling=0..1"]}
    ended = ace(command, "sample", option, value, *more.get(command, []))
    assert ended.returncode == 2, ended.stderr
    require_good_end(ended)


_TWO_MODELS = tuple(str(Sample.IMAGES.recipe.parent / name) for name in ("base", "experts/digits"))
_THREE_MODELS = (*_TWO_MODELS, str(Sample.IMAGES.recipe.parent / "experts" / "glyphs"))
_WITH_JSON: dict[str, tuple[list[str], str]] = {
    "merge": (["--out", "NEW"], "files"),
    "merge --dry-run": ([], "units"),
    "extract": (["--rank", "2", "--out", "NEW"], "files"),
    "report": (["--out", "NEW.html"], "files"),
    "inspect": ([], "layers"),
    "estimate": (["--speed", "10", "--disk", "100"], "units"),
    "diff": ([], "tensors"),
    "verify": ([], "experts"),
    "methods": ([], "methods"),
    "devices": ([], "devices"),
    "cache": ([], "caches"),
    "compare": (["--methods", "linear"], "methods"),
    "evaluate": (["--limit", "4"], "scores"),
    "tune": (["--parameter", "scaling=0.5..1", "--merges", "2", "--limit", "8"], "points"),
}


_SCORING = {"compare", "evaluate", "tune"}
_COMPUTING = {"figure", "merge", "extract", "report", "estimate", "inspect", *_SCORING}
_SHARED = {
    "--quiet": None,
    "--verbose": None,
    "--threads": {*_COMPUTING, "diff", "verify"},
    "--device": _COMPUTING,
    "--limit": {*_SCORING, "merge", "report"},
    "--convert": {*_COMPUTING, "diff", "verify"},
    "--cluster": {*_SCORING, "merge", "estimate"},
    "--json": {line.split()[0] for line in _WITH_JSON},
}


@pytest.mark.parametrize("option", _SHARED)
def test_a_shared_option_is_one_everywhere(option: str):
    commands = typer.main.get_command(app).commands
    by_command = {
        name: [
            (parameter.help, parameter.metavar, parameter.default)
            for parameter in command.params
            if option in parameter.opts
        ]
        for name, command in commands.items()
        if name != "plan"
    }
    having = {name for name, entries in by_command.items() if entries}
    assert having == (_SHARED[option] or set(by_command))
    assert len({entries[0] for entries in by_command.values() if entries}) == 1
    assert all(entries[0][0] for entries in by_command.values() if entries), "a help text"


def test_the_shell_completes_commands(monkeypatch):
    monkeypatch.setenv("COMP_WORDS", "ace-gui est")
    monkeypatch.setenv("COMP_CWORD", "1")
    monkeypatch.setenv("_ACE_GUI_COMPLETE", "complete_bash")
    done = CliRunner().invoke(app, [], prog_name="ace-gui")
    assert done.output.split() == ["estimate"]


def test_the_former_name_of_estimate_says_so():
    old = ace("plan", "sample", "--speed", "10")
    assert old.returncode == 0
    assert "ace-gui estimate" in old.stderr
    new = ace("estimate", "sample", "--speed", "10")
    assert (new.stdout.splitlines()[0], new.stderr) == (old.stdout.splitlines()[0], "")


def test_an_estimate_says_where_its_figures_come_from(tmp_path):
    ended = ace("estimate", "sample", "--speed", "10", "--json", str(tmp_path / "found"))
    estimate = json.loads((tmp_path / "found").read_text())
    assert estimate["speed_from"] == {"flops": "given", "read": "assumed", "write": "assumed"}
    assert "10.0 G operations a second (given)" in ended.stdout
    assert "500 MB a second (assumed)" in ended.stdout
    [first] = [line for line in ended.stdout.splitlines() if "0.6 G" in line]
    assert first.split()[:2] == ["×", "4"]
    assert "layer.*" in first
    assert "free at" in ended.stdout
    assert "GPU: " in ended.stdout


def test_models_of_zeros_are_no_measure(tmp_path):
    config = LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, vocab_size=256,
        num_attention_heads=4,
    )  # fmt: skip
    models = [sparse_model(config, tmp_path / f"model-{t}") for t in range(3)]
    recipe = file_over(tmp_path / "recipe", models[0], models[1:])
    ended = ace("estimate", str(recipe))
    assert ended.returncode == 0, ended.stderr
    assert "only zeros" in ended.stderr
    assert str(models[0]) in ended.stderr
    assert "measured on" not in ended.stdout


@pytest.mark.parametrize("out", [(), ("--out", "out")])
def test_a_dry_run_writes_nothing(out: tuple[str, ...], tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for models in (["sample"], [*_TWO_MODELS, str(Sample.IMAGES.recipe.parent / "experts/shapes")]):
        ended = ace("merge", *models, "--dry-run", *out)
        assert ended.returncode == 0, ended.stderr
        words = ("tensors merged", "Memory: ", "Disk: ", "workers", "Nothing was written")
        assert all(word in ended.stdout for word in words)
        assert ": averaged\n" not in ended.stdout, "that they are averaged was said before"
        assert not list(tmp_path.iterdir())
    assert ace("merge", "sample", "--dry-run", "--convert").returncode == 2


@pytest.mark.parametrize(
    "options",
    [
        ["--memory", "0.001"],
        ["--out", "full"],
        ["--out", f"{_TWO_MODELS[0]}/inside"],
        ["--as", "adapter"],
        ["--as", "adapter", "--rank", "2", "--complete-heads"],
    ],
)
def test_a_dry_run_ends_as_its_merge_would(options: list[str], tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("full").mkdir()
    Path("full", "file").touch()
    words = ["merge", *_TWO_MODELS, "--out", "out", *options]
    real = ace(*words)
    dry = ace(*words, "--dry-run")
    assert (real.returncode, dry.returncode) == (1, 1)
    require_good_end(dry)
    assert dry.stderr.splitlines()[-1] == real.stderr.splitlines()[-1]
    assert "Disk: " in dry.stdout
    assert "workers" in dry.stdout


def test_lists_of_methods():
    shelf = ace("methods").stdout
    assert [line.split()[0] for line in shelf.splitlines() if line][:-1] == [*SHELF_NAMES]
    every = [line.split()[0] for line in ace("methods", "--all").stdout.splitlines()]
    assert set(METHODS) <= set(every)
    assert not set("─│┃━┌") & set(shelf)
    printed = ace("methods", "ace").stdout
    assert all(word in printed for word in ("epsilon", "tau", "k_frac", "scaling", "2603.02945"))
    methods = json.loads(ace("methods", "ties", "--json", "-").stdout)["methods"]
    assert [method["name"] for method in methods] == ["ties"]
    ended = ace("methods", "tiess")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert len(ended.stderr) < 100, "the nearest name, not all"


def test_the_list_needs_no_torch_and_is_never_stale(tmp_path):
    code = (
        "import sys; sys.argv = ['ace-gui', 'methods']\n"
        "from ace_gui.cli.commands import main\n"
        "try: main()\n"
        "finally: print('torch' in sys.modules)\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}

    def listed() -> list[str]:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    first = listed()
    again = listed()
    assert (first[-1], again[-1]) == ("True", "False")
    assert first[:-1] == again[:-1]
    [cached] = tmp_path.rglob("methods/*.json")
    cached.rename(cached.with_name("of-other-files.json"))
    assert listed()[-1] == "True"


@pytest.fixture(scope="module")
def scored(tmp_path_factory) -> Path:
    return save_scored_family(tmp_path_factory.mktemp("family"), 20)


@pytest.mark.parametrize("line", _WITH_JSON)
def test_json_goes_to_standard_output_alone(line: str, scored: Path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (command, *flags) = line.split()
    (options, first_key) = _WITH_JSON[line]
    two = {"diff": _TWO_MODELS, "extract": _TWO_MODELS, "methods": (), "devices": (), "cache": ()}
    two["verify"] = _THREE_MODELS
    words = [command, *two.get(command, (str(scored),)), *flags, *options, "--json", "-"]
    ended = ace(*(word.replace("NEW", "first") for word in words))
    assert ended.returncode == 0, ended.stderr
    assert not ended.stderr.startswith("\n"), "no progress bar is left in a file"
    assert next(iter(json.loads(ended.stdout))) == first_key
    assert len(ended.stderr.splitlines()) >= 1 + (command != "report"), "the tables"
    quiet = ace(*(word.replace("NEW", "second") for word in words), "--quiet")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert json.loads(quiet.stdout).keys() == json.loads(ended.stdout).keys()
    assert {path.stem for path in tmp_path.iterdir()} <= {"first", "second"}
    ended = ace("devices")
    assert ended.stdout.startswith("cpu"), "the next command has the standard output again"


SVG = "{http://www.w3.org/2000/svg}"


def test_a_picture_of_what_differs(tmp_path):
    file = tmp_path / "change.svg"
    words = ["diff", *_TWO_MODELS, "--json", "-", "--quiet", "--picture", str(file)]
    for _ in range(2):  # its own file may be replaced
        ended = ace(*words)
        assert ended.returncode == 0, ended.stderr
    tensors = json.loads(ended.stdout)["tensors"]
    svg = ElementTree.parse(file).getroot()
    marks = [title.text or "" for use in svg.iter(f"{SVG}use") for title in use]
    named = {mark.partition(":")[0] for mark in marks}
    assert svg.find(f"{SVG}title") is not None
    assert {tensor["name"] for tensor in tensors if tensor["change"]} <= named
    assert not {tensor["name"] for tensor in tensors if not tensor["change"]} & named
    assert "var(" not in file.read_text()
    file.write_text("mine")
    assert ace(*words).returncode == 1
    assert file.read_text() == "mine"
    assert ElementTree.fromstring(ace(*words[:3], "--picture", "-").stdout).tag == svg.tag
    assert ace(*words, "--picture", "-").returncode == 2


def test_the_json_of_a_merge_names_what_was_written(tmp_path):
    out = tmp_path / "merged"
    file = tmp_path / "merge.json"
    words = ["merge", *_TWO_MODELS, "--out", str(out), "--json", str(file)]
    assert ace(*words).returncode == 0
    document = json.loads(file.read_text())
    assert Path(document["folder"]) == out
    assert {str(path.relative_to(out)) for path in out.rglob("*.*")} >= set(document["files"])
    assert document["bytes"] == sum(
        path.stat().st_size for path in out.rglob("*") if path.is_file()
    )
    assert document["seconds"] > 0
    assert {"warnings", "notes", "checks"} <= document.keys()
    out = tmp_path / "other"
    assert ace(*words[:3], "--out", str(out), "--json", str(file)).returncode == 0
    file.write_text("mine")
    ended = ace(*words[:3], "--out", str(tmp_path / "third"), "--json", str(file))
    assert (ended.returncode, file.read_text()) == (1, "mine")
    assert not (tmp_path / "third").exists(), "refused before any work"
