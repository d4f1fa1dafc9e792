"""The sample: the demo runs from beginning to end, and the help says what it prints."""

from pathlib import Path

import pytest

from ace_gui.architecture.loading import load_pretrained
from ace_gui.paths import resource_path
from tests.helpers.command import ace_gui

ROOT = Path(__file__).parents[2]
MODELS = ("base", "experts", "Weight averaging", "Task arithmetic", "ACE-Merging")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp("demo") / "out"
    result = ace_gui("demo", "--headless", "--out", out, seconds=300, QT_QPA_PLATFORM="offscreen")
    assert result.returncode == 0, result.stderr
    return result.stdout, out


def accuracies(text: str) -> dict[str, list[float]]:
    """The figures of the accuracy table in a text, by the model's first word or words."""
    found = {}
    for line in text.splitlines():
        for model in MODELS:
            if line.startswith(model):
                numbers = [word for word in line.split() if word.replace(".", "", 1).isdigit()]
                if len(numbers) == 7:
                    found[model] = [float(number) for number in numbers]
    return found


def test_it_prints_gamma_of_every_merged_matrix(demo: tuple[str, Path]) -> None:
    text, _ = demo
    lines = [line.split() for line in text.splitlines()]
    regimes = {"homogeneous", "heterogeneous"}
    merged = [line for line in lines if line[2:3] == ["merged"] and line[1] in regimes]
    assert len(merged) == 24
    assert all(float(line[0]) > 0 for line in merged)
    assert "2 of 24 matrices are heterogeneous" in text


def test_the_readme_says_what_it_prints(demo: tuple[str, Path]) -> None:
    text, _ = demo
    printed = accuracies(text)
    page = resource_path("help/sample.md").read_text(encoding="utf-8")
    written = accuracies(page.split("## Texts")[0])
    assert printed.keys() == written.keys() == set(MODELS)
    for model, figures in printed.items():
        # Another processor rounds differently: an image or two of 400 may change sides.
        assert figures == pytest.approx(written[model], abs=0.008)


def test_ace_leads_on_the_sample(demo: tuple[str, Path]) -> None:
    mean = {model: figures[5] for model, figures in accuracies(demo[0]).items()}
    assert mean["base"] < mean["Weight averaging"] < mean["ACE-Merging"] < mean["experts"]
    assert mean["Task arithmetic"] < mean["ACE-Merging"]


def test_it_writes_a_model_that_loads_and_a_picture(demo: tuple[str, Path]) -> None:
    _, out = demo
    _, report = load_pretrained(out)
    assert report.clean
    picture = (out / "window.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 50_000  # an empty window compresses to far less
