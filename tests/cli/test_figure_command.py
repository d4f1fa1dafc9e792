"""``ace-gui figure``: what it draws is what the other commands print."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import ace_gui
from ace_gui.engine.contract.figure_panels import title_of
from ace_gui.engine.contract.jobs import SpectrumJob
from ace_gui.engine.service import run
from ace_gui.figures.charts import PanelKind
from ace_gui.paths import Sample
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.command import ace_gui as command

RECIPE = Sample.TEXT.recipe


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("scores") / "scores.json"
    done = command("evaluate", RECIPE, "--limit", "8", "--json", file)
    assert done.returncode == 0, done.stderr
    return file


def table(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("kind", PanelKind)
def test_every_panel_is_drawn(kind: PanelKind, scores: Path, tmp_path: Path) -> None:
    out = tmp_path / "figure.svg"
    done = command(
        *("figure", RECIPE, "--out", out, "--panels", kind, "--scores", scores, "--caption")
    )
    assert done.returncode == 0, done.stderr
    assert out.read_bytes().startswith(b"<?xml")
    assert table(tmp_path / "figure.csv")
    assert done.stdout.splitlines()[0].endswith(".")
    assert title_of(kind)
    assert {path.name for path in tmp_path.iterdir()} == {"figure.svg", "figure.csv"}


def test_the_data_are_those_of_inspect(tmp_path: Path) -> None:
    made = ace_gui.figure(RECIPE, tmp_path / "figure.pdf", panels=["gamma"])
    rows = table(made.files[1])
    expected = {}
    for layer in ace_gui.inspect(RECIPE).layers:
        if layer.disposition == "merged" and layer.gamma is not None:
            expected[layer.name] = layer.gamma
    assert {row["label"]: float(row["y"]) for row in rows} == pytest.approx(expected)
    assert f"{len(expected)} merged tensors" in made.caption


def test_spectra_are_those_of_the_chosen_matrix(tmp_path: Path) -> None:
    plan = ace_gui.plan(RECIPE)
    row = next(row for row in plan.rows if row.is_merged and len(row.shape) == 2)
    made = ace_gui.figure(
        RECIPE, tmp_path / "figure.png", panels=["spectra"], matrices=[row.name], device="cpu"
    )
    job = SpectrumJob(recipe=load_recipe(RECIPE), row=row, device="cpu")
    spectrum = list(run(job))[-1]
    merged = [float(row["y"]) for row in table(made.files[1]) if row["series"] == "merged"]
    assert merged == pytest.approx(spectrum.merged[: len(merged)], rel=1e-5)
    experts = {row["series"] for row in table(made.files[1])} & set(spectrum.experts)
    assert experts == set(spectrum.experts)


REFUSED = {
    "no panel": ["--panels", "gama"],
    "no matrix": ["--matrices", "*.nothing", "--panels", "spectra"],
    "all matrices": ["--matrices", "*", "--panels", "spectra"],
    "no scores": ["--panels", "scores"],
    "too small": ["--width", "3"],
    "no room": ["--width", "21", "--height", "21"],
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_drawn_is_refused_and_nothing_is_written(case: str, tmp_path: Path) -> None:
    done = command("figure", RECIPE, "--out", tmp_path / "figure.pdf", *REFUSED[case])
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) <= 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["figure.jpg", "figure", "figure.csv"])
def test_only_known_endings_are_written(name: str, tmp_path: Path) -> None:
    done = command("figure", RECIPE, "--out", tmp_path / name)
    assert done.returncode == 1
    assert ".pdf, .svg, .png" in done.stderr.replace("\n", " ")


@pytest.mark.parametrize("name", ["figure.pdf", "figure.csv"])
def test_files_of_others_stay_as_they_are(name: str, tmp_path: Path) -> None:
    there = tmp_path / name
    there.write_text("mine")
    arguments = ["figure", RECIPE, "--out", tmp_path / "figure.pdf", "--panels", "energies"]
    assert command(*arguments).returncode == 1
    assert there.read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1
    done = command(*arguments, "--overwrite")
    assert done.returncode == 0, done.stderr
    assert there.read_bytes()[:4] in (b"%PDF", b"pane")


def test_scores_must_be_those_of_evaluate(tmp_path: Path) -> None:
    file = tmp_path / "scores.json"
    for content in ("", "{}", "[]", json.dumps({"scores": [{"model": "base"}]})):
        file.write_text(content)
        arguments = ["--panels", "scores", "--scores", file]
        done = command("figure", RECIPE, "--out", tmp_path / "figure.pdf", *arguments)
        assert done.returncode == 1
        assert "evaluate --json" in done.stderr.replace("\n", " ")
