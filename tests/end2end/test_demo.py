"""The sample: the demo runs from beginning to end, and the help says what it prints."""

from pathlib import Path

import pytest
from PySide6.QtGui import QImage

from ace_gui.architecture.transformers_library import LoadReport
from ace_gui.paths import Sample, resource_path
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.recommended import TITLE, is_recommended
from tests.helpers.command import ace_gui
from tests.helpers.models import load_folder

ROOT = Path(__file__).parents[2]
MODELS = (
    "base",
    "experts",
    "Weight averaging",
    "Task arithmetic",
    "ACE, published",
    "ACE, automatic",
    TITLE,
)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp("demo") / "out"
    result = ace_gui("demo", "--headless", "--out", out)
    assert result.returncode == 0, result.stderr
    return result.stdout, out


def accuracies(text: str) -> dict[str, list[float]]:
    """The figures of the accuracy table in a text, by the model."""
    figures = {}
    for line in text.splitlines():
        numbers = [float(word) for word in line.split() if word.replace(".", "", 1).isdigit()]
        # On the command line one more column follows, the way from the base to the experts.
        for model in (name for name in MODELS if line.startswith(f"{name}  ")):
            if len(numbers) >= 7:
                figures[model] = numbers[:7]
    return figures


def test_it_prints_gamma_of_every_merged_matrix(demo: tuple[str, Path]) -> None:
    text, _ = demo
    lines = [line.split() for line in text.splitlines()]
    merged = [line for line in lines if line[1:2] == ["merged"] and line[0][0].isdigit()]
    assert len(merged) == 24
    assert all(float(line[0]) > 0 for line in merged)


def test_the_readme_says_what_it_prints(demo: tuple[str, Path]) -> None:
    text, _ = demo
    printed = accuracies(text)
    page = resource_path("help/sample.md").read_text(encoding="utf-8")
    written = accuracies(page.split("## Texts")[0])
    assert printed.keys() == written.keys() == set(MODELS)
    for model, figures in printed.items():
        # Another processor rounds differently: an image or two of 400 may change sides.
        assert figures == pytest.approx(written[model], abs=0.008)


def test_it_merges_with_the_recommended_settings(demo: tuple[str, Path]) -> None:
    _, out = demo
    assert is_recommended(load_recipe(out / "merge_recipe.yaml"))


@pytest.mark.parametrize("sample", list(Sample))
def test_the_samples_start_with_the_recommended_merge(sample: Sample) -> None:
    assert is_recommended(load_recipe(sample.recipe))


def test_ace_leads_on_the_sample(demo: tuple[str, Path]) -> None:
    mean = {model: figures[5] for model, figures in accuracies(demo[0]).items()}
    for ace in ("ACE, published", "ACE, automatic", TITLE):
        assert mean["base"] < mean["Weight averaging"] < mean[ace] < mean["experts"]
        assert mean["Task arithmetic"] < mean[ace]


def test_it_writes_a_model_that_loads_and_a_picture(demo: tuple[str, Path]) -> None:
    _, out = demo
    _, report = load_folder(out)
    assert report == LoadReport()
    picture = QImage(str(out / "window.png"))
    assert (picture.width(), picture.height()) == (1440, 900)
    colours = {picture.pixel(x, y) for x in range(0, 1440, 3) for y in range(0, 900, 3)}
    assert len(colours) > 50  # plots, text and swatches, not an empty page
