"""The report: its numbers are the oracle's, its page is safe, whole and complete."""

import math
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from ace_gui.cli.commands import app
from ace_gui.engine.contract.events import Event, GpuPeak, JobProgress, MergeFinished
from ace_gui.engine.contract.jobs import MergeJob, ReportJob
from ace_gui.engine.contract.plan import Disposition
from ace_gui.engine.inspecting.layer_context import InspectionCache
from ace_gui.engine.inspecting.statistics import analyse
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.report.page import COMPARING, DECOMPOSING, content_of, report
from ace_gui.engine.report.page import page as page_of
from ace_gui.engine.report.report_content import number
from ace_gui.engine.runner import Runner
from ace_gui.errors import FileChangedError, OutputError
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.values import NonFinite
from tests.helpers.ace_oracle import ace_oracle
from tests.helpers.aligned_merges import INPUTS, recipe_with
from tests.helpers.calibrated_models import bert_family
from tests.helpers.merges import deltas_of, merged_folder, row_named, singular_values
from tests.helpers.models import Family, roberta_family
from tests.helpers.pages import Page
from tests.helpers.recipes import file_of, recipe_of

CPU = torch.device("cpu")
ACE = {"epsilon": 1e-3, "tau": 0.02}


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def prepared(roberta: Family) -> Prepared:
    return prepare(recipe_of(roberta, parameters=ACE))


@pytest.fixture(scope="module")
def text(prepared: Prepared, tmp_path_factory) -> str:
    return written(prepared, tmp_path_factory.mktemp("report"))


def written(prepared: Prepared, folder: Path) -> str:
    file = folder / "report.html"
    list(report(prepared, file, CPU, InspectionCache(folder / "cache")))
    return file.read_text(encoding="utf-8")


def svgs(text: str) -> Iterator[ElementTree.Element]:
    for svg in re.findall(r"<figure>(<svg.*?</svg>)", text, re.DOTALL):
        yield ElementTree.fromstring(svg)


def agree(printed: str, exact: float, tolerance: float = 0.0) -> bool:
    """Whether a printed number is the exact one to the digits it has, and within a tolerance."""
    mantissa, _, exponent = printed.partition("e")
    digits = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - digits)
    return abs(float(printed) - exact) <= 0.5 * unit + 1e-9 * abs(exact) + tolerance


def test_the_figures_of_every_tensor_are_the_oracles(prepared: Prepared, text: str):
    table = Page(text).table("All tensors")
    gammas = table.column("γ")
    norms = table.column("‖ΔW‖")
    ratios = table.column("by experts' mean")
    regimes = table.column("regime")
    merged = [row for row in prepared.plan.rows if row.disposition == Disposition.MERGED]
    assert len(table.rows) == sum(row.in_base for row in prepared.plan.rows)
    for row in merged:
        deltas = list(deltas_of(prepared, row).values())
        oracle = ace_oracle(np.stack(deltas), **ACE)
        norm = float(np.linalg.norm(oracle.merged))
        mean = np.mean([np.linalg.norm(delta) for delta in deltas])
        assert agree(gammas[row.name], oracle.gamma)
        assert agree(norms[row.name], norm, 1e-5 * norm)
        assert agree(ratios[row.name], norm / mean, 1e-5 * norm / mean)
        assert regimes[row.name] == ("heterogeneous" if oracle.heterogeneous else "homogeneous")


def test_energies_and_cosines_are_those_of_the_files(prepared: Prepared, text: str):
    page = Page(text)
    energies = page.table("Energies")
    squares = np.zeros(3)
    products = np.zeros((3, 3))
    for row in prepared.plan.rows:
        if row.disposition not in {Disposition.MERGED, Disposition.AVERAGED} or not row.in_base:
            continue
        deltas = deltas_of(prepared, row)
        for name, delta in deltas.items():
            printed = energies.column(name)[row.name]
            assert agree(printed, float((delta**2).sum()))
        if len(deltas) == 3:
            flat = np.stack([delta.ravel() for delta in deltas.values()])
            products += flat @ flat.T
            squares += (flat**2).sum(axis=1)
    cosines = products / np.sqrt(np.outer(squares, squares))
    table = page.table("Cosines")
    for a, line in enumerate(table.rows):
        for b, cell in enumerate(line[1:]):
            assert float(cell.replace("−", "-")) == pytest.approx(cosines[a, b], abs=0.0051)


def test_the_figures_of_the_spectra_are_those_of_the_matrices(prepared: Prepared, text: str):
    page = Page(text)
    names = re.findall(r"<h3>(.*?)</h3>", text)
    tables = [table for table in page.tables if table.caption == "Figures of the spectra"]
    assert 2 <= len(names) == len(tables) <= 4
    gammas = page.table("All tensors").column("γ")
    assert gammas[names[0]] == max(
        gammas.values(), key=lambda gamma: float(gamma.replace("–", "0"))
    )
    for name, table in zip(names, tables, strict=True):
        for expert, delta in deltas_of(prepared, row_named(prepared, name)).items():
            sigma = singular_values(delta)
            assert agree(table.column("‖ΔW‖")[expert], np.linalg.norm(delta), 1e-6)
            assert agree(table.column("nuclear norm")[expert], sigma.sum(), 1e-5)
            assert agree(
                table.column("stable rank")[expert], (sigma**2).sum() / sigma[0] ** 2, 1e-4
            )
            top = 100 * (sigma[:2] ** 2).sum() / (sigma**2).sum()
            assert float(table.column("energy in top 5 %")[expert].rstrip("%")) == pytest.approx(
                top, abs=0.006
            )
        assert "merged" in table.column("σ₁")


def test_the_page_needs_nothing_and_runs_nothing(text: str):
    page = Page(text)
    names = {name for name, _ in page.elements}
    assert not names & {"script", "img", "link", "iframe", "object", "embed", "base", "form"}
    for _, attributes in page.elements:
        assert not [key for key in attributes if key.startswith("on") or key in {"src", "action"}]
        assert attributes.get("href", "#").startswith("#")
    assert "url(" not in text
    assert "@import" not in text
    assert (
        "meta",
        {
            "http-equiv": "Content-Security-Policy",
            "content": "default-src 'none'; style-src 'unsafe-inline'",
        },
    ) in page.elements
    anchors = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    links = {attributes["href"][1:] for name, attributes in page.elements if name == "a"}
    assert links <= anchors


def test_every_plot_is_named_described_and_tabulated(text: str):
    pictures = list(svgs(text))
    assert len(pictures) >= 5
    for picture in pictures:
        children = {child.tag.rpartition("}")[2]: child.text for child in picture}
        assert picture.get("role") == "img"
        assert children["title"]
        assert children["desc"]
        numbers = [float(n) for n in re.findall(r"-?\d+\.?\d*", picture.get("viewBox") or "")]
        assert numbers[2] == pytest.approx(220 / 25.4 * 72), "points"
    tables = [table.caption for table in Page(text).tables]
    for title in ("γ by role", "Energies", "Cosines", "Figures of the spectra", "All tensors"):
        assert any(caption.startswith(title) for caption in tables), title
    headings = [attributes.get("scope") for name, attributes in Page(text).elements if name == "th"]
    assert set(headings) == {"col", "row"}


def test_marks_lie_where_the_numbers_say(prepared: Prepared, text: str):
    gammas = Page(text).table("All tensors").column("γ")
    heights: dict[str, float] = {}
    for use in next(svgs(text)).iter("{http://www.w3.org/2000/svg}use"):
        for title in use:
            name, _, said = (title.text or "").partition(": ")
            assert said == gammas[name]
            heights[name] = float(use.get("y", "nan"))
    merged = [row.name for row in prepared.plan.rows if row.disposition == Disposition.MERGED]
    assert set(heights) == set(merged)
    values = np.array([float(gammas[name]) for name in merged])
    if values.max() > 10 * values.min():
        scale = np.log(values)
    else:
        scale = values
    places = np.array([heights[name] for name in merged])
    line = np.polynomial.Polynomial.fit(scale, places, 1)
    assert np.abs(line(scale) - places).max() < 0.5, "points"
    assert line.convert().coef[1] < 0, "upwards"


def test_figures_have_the_colours_and_letters_of_the_page(prepared: Prepared, text: str):
    sheet = text[text.index("<style>") : text.index("</style>")]
    names = set(re.findall(r"--(\w+):", sheet))
    for picture in re.findall(r"<figure>(<svg.*?</svg>)", text, re.DOTALL):
        assert not re.search(r"#[0-9a-fA-F]{6}", picture)
        assert set(re.findall(r"var\(--(\w+)\)", picture)) <= names
        assert "font-family" not in picture
    identifiers = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    every = [name for part in identifiers for name in re.findall(r' id="([^"]+)"', part)]
    assert len(every) == len(set(every)), "one page has each identifier once"


def test_a_report_is_the_same_file_each_time(prepared: Prepared, tmp_path):
    first, second = (tmp_path / name for name in ("first", "second"))
    for folder in (first, second):
        folder.mkdir()
    pictures = [
        list(re.findall(r"<svg.*?</svg>", written(prepared, folder), re.DOTALL))
        for folder in (first, second)
    ]
    assert pictures[0] == pictures[1]
    assert len(pictures[0]) >= 5


HOSTILE = (
    "layer.0.<script>alert(1)</script>.weight",
    'layer.1."onmouseover=alert(1) x=".weight',
    "layer.2.</title></svg><img src=x onerror=alert(1)>.weight",
    "layer.3.\u202egnp.{{ 7*7 }}&lt;.weight",
)


def test_names_from_files_stay_text(tmp_path):
    generator = torch.Generator().manual_seed(0)
    base = {name: torch.randn(8, 8, generator=generator) for name in HOSTILE}
    folders = [tmp_path / "<b onclick=alert(1)>base", tmp_path / "a", tmp_path / "b"]
    for index, folder in enumerate(folders):
        folder.mkdir()
        tensors = {name: (1 + 0.1 * index) * value for name, value in base.items()}
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    family = Family(base=folders[0], experts={"a": folders[1], "b": folders[2]})
    hostile = written(prepare(recipe_of(family)), tmp_path)
    page = Page(hostile)
    assert not {"script", "img", "b"} & {name for name, _ in page.elements}
    for _, attributes in page.elements:
        assert not [key for key in attributes if key.startswith("on")]
    assert "\u202e" not in hostile
    assert "{{ 7*7 }}&lt;" in page.text, "as it is in the file"
    assert "<script>alert(1)</script>" in page.text
    assert len(list(svgs(hostile))) >= 3


@pytest.mark.parametrize("method", ["linear", "iso_c", "ties"])
def test_other_methods_have_a_report_too(roberta: Family, tmp_path, method: str):
    page = Page(written(prepare(recipe_of(roberta, merge_method=method)), tmp_path))
    assert page.table("γ by role").column(
        "median γ"
    )  # a property of the experts, not of the method
    assert page.table("All tensors").column("‖ΔW‖")


def test_a_merge_of_vectors_alone_has_a_report(tmp_path):
    for index, name in enumerate(("base", "a", "b")):
        (tmp_path / name).mkdir()
        tensors = {"norm.weight": torch.arange(4.0) + index, "count": torch.tensor([1])}
        save_file(tensors, tmp_path / name / "model.safetensors", {"format": "pt"})
    experts = {name: tmp_path / name for name in ("a", "b")}
    text = written(prepare(recipe_of(Family(base=tmp_path / "base", experts=experts))), tmp_path)
    assert "No matrix is merged" in text
    assert not list(svgs(text))


def test_tensors_that_are_kept_for_their_nan_are_in_the_report(tmp_path):
    family = roberta_family(tmp_path / "models", experts=2)
    file = family.experts["task0"] / "model.safetensors"
    tensors = load_file(file)
    for name, tensor in tensors.items():
        if name.endswith("dense.weight"):
            tensor[0, 0] = float("nan")
    save_file(tensors, file, {"format": "pt"})
    page = Page(written(prepare(recipe_of(family, non_finite=NonFinite.KEEP_BASE)), tmp_path))
    (sentence, *_) = [row[-1] for row in page.table("Findings").rows]
    assert "The base's tensor is kept" in sentence
    gammas = page.table("All tensors").column("γ")
    names = [name for name in gammas if name.endswith("intermediate.dense.weight")]
    assert names
    assert all(gammas[name] == "–" for name in names)


def run(runner: Runner, job: object) -> list[Event]:
    return [event for event in steps_of(job, runner) if event is not None]


def test_a_finished_merge_is_reported_as_it_was(tmp_path):
    family = roberta_family(tmp_path / "models", experts=2)
    recipe: Recipe = recipe_of(family, parameters=ACE)
    runner = Runner()
    store = tmp_path / "store"
    file = tmp_path / "report.html"
    run(runner, MergeJob(recipe=recipe, store=store, device="cpu"))
    *progress, last = run(runner, ReportJob(store=store, file=file, device="cpu"))
    assert last.bytes == file.stat().st_size
    assert all(isinstance(event, JobProgress) for event in progress)
    stages = groupby(progress, key=lambda event: event.title)
    reported = {title: [(event.done, event.total) for event in events] for title, events in stages}
    assert list(reported) == [COMPARING, DECOMPOSING], "no stage is begun twice"
    for counts in reported.values():
        assert counts == sorted(counts)
    assert reported[COMPARING][-1][0] == reported[COMPARING][-1][1]
    assert [done for done, _ in reported[DECOMPOSING]] == list(range(reported[DECOMPOSING][0][1]))
    ours = Page(file.read_text(encoding="utf-8")).table("All tensors").rows
    fresh = Page(written(prepare(recipe), tmp_path)).table("All tensors").rows
    assert ours == fresh, "merged then or now"

    expert = family.experts["task0"] / "model.safetensors"
    save_file(load_file(expert), expert, {"format": "pt", "again": "yes"})
    with pytest.raises(FileChangedError, match=r"task0\S* changed since this merge"):
        run(runner, ReportJob(store=store, file=file))


def test_the_alignment_of_a_merge_is_in_its_report(tmp_path):
    file = recipe_with(bert_family(tmp_path), distil={"inputs": INPUTS, "steps": 3})
    runner = Runner()
    store = tmp_path / "store"
    page = tmp_path / "report.html"
    events = run(runner, MergeJob(recipe=load_recipe(file), store=store, device="cpu"))
    (finished,) = [event for event in events if isinstance(event, MergeFinished)]
    run(runner, ReportJob(store=store, file=page, device="cpu"))
    rows = Page(page.read_text(encoding="utf-8")).table("Divergence from the expert").rows
    assert [row[0] for row in rows] == ["two", "three"]
    for row, task in zip(rows, finished.distilled.tasks, strict=True):
        agree(row[-2], task.before)
        agree(row[-1], task.after)


def test_a_report_appears_whole_or_not_at_all(prepared: Prepared, tmp_path):
    target = tmp_path / "a folder"
    target.mkdir()
    with pytest.raises(OutputError):
        list(report(prepared, target, CPU, InspectionCache(tmp_path / "cache")))
    assert {path.name for path in tmp_path.iterdir()} <= {"a folder", "cache"}


@pytest.fixture
def terminal() -> Iterator[CliRunner]:
    before = signal.getsignal(signal.SIGTERM)
    yield CliRunner()
    signal.signal(signal.SIGTERM, before)


def test_the_command_writes_it(roberta: Family, tmp_path, terminal: CliRunner):
    recipe = file_of(tmp_path, roberta)
    out = tmp_path / "report.html"
    result = terminal.invoke(app, ["report", str(recipe), "--out", str(out), "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert "report.html" in result.stdout
    assert "ACE, published: 3 experts on base" in Page(out.read_text(encoding="utf-8")).text
    missing = terminal.invoke(app, ["report", str(tmp_path / "no.yaml"), "--out", str(out)])
    assert missing.exit_code == 1
    assert missing.stderr.startswith("Error: ")
    assert terminal.invoke(app, ["report", str(recipe)]).exit_code == 2


def test_numbers_are_written_shortly():
    values = [0.12345, 12345.0, 1.23456e-7, 0.0, -0.5, math.inf]
    assert [number(value) for value in values] == [
        "0.1235",
        "12340",
        "1.235×10⁻⁷",
        "0",
        "−0.5000",
        "∞",
    ]
    assert number(None) == number(math.nan) == "–"


def test_says_in_which_numbers_and_with_what_of_a_gpu(prepared: Prepared, text: str):
    merged = [row for row in prepared.plan.rows if row.disposition is Disposition.MERGED]
    page = text[text.index('id="recipe"') : text.index('id="heterogeneity"')]
    rows = re.findall(r"<th[^>]*>(Computed in [^<]*)</th>\s*<td[^>]*>(\d+)</td>", page)
    assert sum(int(count) for _, count in rows) == len(merged), page
    assert "Of the GPU" not in text
    statistics = {layer.statistics.name: layer.statistics for layer in analyse(prepared)}
    with_gpu = replace(
        content_of(prepared, statistics, {}, ()),
        gpu_peak=GpuPeak(allocated=10**9, reserved=3 * 10**9),
    )
    assert "Of the GPU's memory: 1.0 GB, 3.0 GB reserved." in unescape(page_of(with_gpu))


def test_a_gamma_of_changes_with_norms_near_1_is_marked(prepared: Prepared, text: str):
    assert "question mark" not in text
    statistics = {layer.statistics.name: layer.statistics for layer in analyse(prepared)}
    name = next(layer.name for layer in statistics.values() if layer.gamma is not None)
    near_one = replace(statistics[name], gamma=6.0, mean_log_energy=0.01)
    text = page_of(content_of(prepared, {**statistics, name: near_one}, {}, ()))
    assert Page(text).table("All tensors").column("γ")[name] == "6.000 ?"
    assert "with a question mark, γ is unreliable" in text


def test_parameters_without_effect_are_in_neither_report_nor_card(roberta: Family, tmp_path):
    recipe = recipe_of(roberta, parameters={"variant": "automatic"})
    parameters = Page(written(prepare(recipe), tmp_path)).table("Parameters").column("value")
    assert {"alpha", "delta"} <= set(parameters)
    assert not {"epsilon", "tau", "k_frac"} & set(parameters)
    card = (merged_folder(recipe, tmp_path / "out") / "README.md").read_text(encoding="utf-8")
    assert "| alpha |" in card
    assert "| tau |" not in card
