"""Every bad input of the catalogue, through the command line and through the window."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from pytestqt.qtbot import QtBot
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from ace_gui.cli.commands import app
from ace_gui.errors import PickleConsentError, WorkbenchError
from ace_gui.gui.app import Workbench
from ace_gui.gui.panels.notice import Notice
from tests.helpers.adapters import factors, save_adapter
from tests.helpers.catalogue import ADAPTERS, CONVERTED, OPENED
from tests.helpers.checkpoints import save_model
from tests.helpers.models import Family, roberta_family
from tests.helpers.recipes import file_over
from tests.helpers.windows import PATIENCE

SHORTENED = re.compile(r"(?<![^\s(])[\w-]+/[^\s]*\.(?:json|safetensors|yaml|bin)\b")
"""A path of a file without its first folders."""


QUERY = "roberta.encoder.layer.0.attention.self.query"


@dataclass(frozen=True)
class BadRecipe:
    """``converts``: the sentence comes once the conversion of a pickle is agreed to."""

    title: str
    file: Path
    sentence: str
    converts: bool = False


def bad_recipes(folder: Path, family: Family) -> Iterator[BadRecipe]:
    """A recipe for every line of the catalogue; each in a folder of its own."""
    for number, case in enumerate((*OPENED, *CONVERTED, *ADAPTERS)):
        expert = folder / f"{number}" / "expert-a"
        expert.mkdir(parents=True)
        file = file_over(expert.parent, family.base, [case.make(expert)])
        yield BadRecipe(str(case), file, case.sentence, converts=case in CONVERTED)
    expert = folder / "network" / "expert-a"
    remote = r"\\host\share"
    save_adapter(expert, factors(QUERY, 32, 32), base_model_name_or_path=remote)
    sentence = "Names a network location as its base. Not contacted; choose the base yourself."
    yield BadRecipe("23", file_over(expert.parent, family.base, [expert]), sentence)
    expert = folder / "nan" / "expert-a"
    held = load_file(family.experts["task0"] / "model.safetensors")
    held[f"{QUERY}.weight"][0, 3:6] = math.nan
    save_model(expert, held, config={"model_type": "roberta"})
    sentence = f"`{QUERY}.weight` of `expert-a` has 3 NaN values (first at [0, 3])."
    yield BadRecipe("25", file_over(expert.parent, family.base, [expert]), sentence)
    yield from unlike_the_base(folder, family)
    yield from wrong_in_themselves(folder, family)


def unlike_the_base(folder: Path, family: Family) -> Iterator[BadRecipe]:
    """Experts that are models, but not of this base."""
    expert = family.experts["task0"]
    held = load_file(expert / "model.safetensors")
    config = {"model_type": "roberta"}
    renamed = save_model(folder / "names" / "a", {"x.weight": torch.ones(2, 2)}, config=config)
    file = file_over(folder / "names", family.base, [renamed])
    yield BadRecipe("other names", file, "has no tensor in common with the base")
    shortened = {name: tensor for name, tensor in held.items() if "layer.1." not in name}
    fewer = save_model(folder / "fewer" / "a", shortened, config=config)
    file = file_over(folder / "fewer", family.base, [fewer])
    yield BadRecipe("fewer layers", file, "lacks 16 tensors of the base: `roberta.encoder.layer.1.")
    wide = {**held, f"{QUERY}.weight": torch.ones(32, 40)}
    wider = save_model(folder / "shapes" / "a", wide, config=config)
    file = file_over(folder / "shapes", family.base, [wider])
    yield BadRecipe("other shapes", file, f"`{QUERY}.weight` is 32×40 in a but 32×32 in the base")
    (folder / "itself").mkdir()
    link = folder / "itself" / "another-name"
    link.symlink_to(family.base)
    file = file_over(folder / "itself", family.base, [link])
    yield BadRecipe("the base itself", file, "is the same model as the base")
    file = file_over(folder / "twice", family.base, [expert, expert])
    yield BadRecipe("an expert twice", file, "is the same model as task0-1")


def wrong_in_themselves(folder: Path, family: Family) -> Iterator[BadRecipe]:
    """Folders without a model, and recipes that no method fits."""
    expert = family.experts["task0"]
    (folder / "empty" / "a").mkdir(parents=True)
    file = file_over(folder / "empty", family.base, [folder / "empty" / "a"])
    yield BadRecipe("empty folder", file, "The folder is empty. Choose the folder of a model.")
    (folder / "bare" / "a").mkdir(parents=True)
    (folder / "bare" / "a" / "config.json").write_text("{}")
    file = file_over(folder / "bare", family.base, [folder / "bare" / "a"])
    yield BadRecipe("no weights", file, "No weights here.")
    file = file_over(folder / "absent", family.base, [folder / "absent" / "a"])
    yield BadRecipe("no such folder", file, "No such file or folder. Check the path.")
    for title, keys, sentence in (
        ("method", {"merge_method": "acee"}, "acee"),
        ("parameter", {"parameters": {"tauu": 1.0}}, "tauu"),
        ("range", {"parameters": {"k_frac": 7.0}}, "k_frac"),
        ("key", {"scop": "default"}, "did you mean 'scope'"),
    ):
        yield BadRecipe(title, file_over(folder / title, family.base, [expert], **keys), sentence)


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return roberta_family(tmp_path_factory.mktemp("family"), experts=1)


@pytest.fixture(scope="module")
def recipes(family: Family, tmp_path_factory: pytest.TempPathFactory) -> list[BadRecipe]:
    cases = list(bad_recipes(tmp_path_factory.mktemp("bad"), family))
    assert len(cases) > 45
    return cases


def test_the_command_line(
    recipes: list[BadRecipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for bad in recipes:
        consent = ["--convert"] if bad.converts else []
        done = CliRunner().invoke(app, ["inspect", str(bad.file), *consent])
        if bad.title == "23":  # it is said, and no reason to stop
            assert done.exit_code == 0, done.stderr
            assert bad.sentence in done.stdout
            continue
        assert done.exit_code == 1, bad.title
        error = done.stderr.splitlines()[-1]
        assert error.startswith("Error: "), bad.title
        assert bad.sentence in error, bad.title
        assert not SHORTENED.findall(error), bad.title
    weights = (tmp_path / "cache").rglob("*.safetensors")
    assert all(path.parent.name == "inspection" for path in weights)  # findings about layers


NOT_READ = {
    **{kind: kind for kind in ("IA3", "OFT", "BOFT", "VERA", "HRA", "POLY", "PREFIX_TUNING")},
    "GLoRA": "lycoris_q.a1.weight",
    "IA³": "lycoris_q.on_input",
    "OFT of LyCORIS": "lycoris_q.oft_blocks",
    "VeRA": "base_model.model.q.vera_lambda_b",
    "DoRA": "lora_unet_q.dora_scale",
}


@pytest.mark.parametrize("kind", NOT_READ)
def test_a_merge_of_an_adapter_that_is_not_read_writes_nothing(
    kind: str, family: Family, tmp_path: Path
) -> None:
    adapter = tmp_path / f"{kind}.safetensors"
    if kind == NOT_READ[kind]:
        adapter = save_adapter(tmp_path / "adapter", factors("q", 4, 4), peft_type=kind)
    else:
        save_file({NOT_READ[kind]: torch.ones(4, 4)}, adapter)
    recipe = file_over(tmp_path, family.base, [adapter])
    done = CliRunner().invoke(app, ["merge", str(recipe), "--out", str(tmp_path / "out")])
    assert done.exit_code == 1
    (error,) = done.stderr.splitlines()
    assert str(adapter) in error
    assert kind.split(" of ")[0] in error
    assert not (tmp_path / "out").exists()


def test_the_window(
    bench: Workbench, family: Family, recipes: list[BadRecipe], qtbot: QtBot
) -> None:
    window = bench.window
    window.opener.open_paths([family.base, *family.experts.values()])
    qtbot.waitUntil(lambda: window.session.layers.is_analysed, timeout=PATIENCE)
    for bad in recipes:
        if bad.title in {"23", "25"}:  # these are models; they come last
            continue
        received: list[WorkbenchError] = []
        window.session.problem.connect(received.append)
        window.opener.open_paths([bad.file])
        qtbot.waitUntil(lambda received=received: bool(received), timeout=PATIENCE)
        if bad.converts:
            assert isinstance(received[0], PickleConsentError), bad.title
            window.notice.answers[0].click()
            qtbot.waitUntil(lambda received=received: len(received) == 2, timeout=PATIENCE)
        window.session.problem.disconnect(received.append)
        assert bad.sentence in received[-1].sentence, bad.title
        notice = plainly(window.notice)
        assert bad.sentence.replace("`", "") in notice, bad.title
        assert window.notice.isVisible()
        assert window.session.draft.inputs.base == family.base, bad.title
        assert window.session.draft.inputs.names == ("task0",), bad.title
    check_models_that_open(bench, recipes, qtbot)


def plainly(notice: Notice) -> str:
    """Its sentence, without quotation marks and places to break."""
    return notice.sentence.text().translate(dict.fromkeys(map(ord, "\u200b“”")))


def check_models_that_open(bench: Workbench, recipes: list[BadRecipe], qtbot: QtBot) -> None:
    session = bench.window.session
    notice = bench.window.notice
    network, nan = (bad for bad in recipes if bad.title in {"23", "25"})
    bench.window.opener.open_paths([network.file])
    qtbot.waitUntil(lambda: session.draft.inputs.names == ("expert-a",), timeout=PATIENCE)
    qtbot.waitUntil(lambda: session.layers.is_analysed, timeout=PATIENCE)
    assert any(network.sentence in check.sentence for check in session.checks.all)
    bench.window.opener.open_paths([nan.file])
    qtbot.waitUntil(lambda: len(notice.answers) == 2, timeout=PATIENCE)
    assert nan.sentence.replace("`", "") in plainly(notice)
    notice.answers[1].click()
    qtbot.waitUntil(lambda: session.layers.is_analysed, timeout=PATIENCE)
