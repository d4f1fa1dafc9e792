"""What is found in a folder of models, and which of them seems to be the base."""

import json
import shutil
from pathlib import Path

import pytest

from ace_gui.engine.contract.events import ModelsFound
from ace_gui.engine.planning.scan import scan
from tests.helpers.models import Family, gpt2_family, roberta_family


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return roberta_family(tmp_path_factory.mktemp("models"), experts=2)


def found(*paths: Path, base: Path | None = None) -> ModelsFound:
    *_, last = scan(paths, base)
    assert isinstance(last, ModelsFound)
    return last


def test_the_base_is_found_among_its_experts(family: Family) -> None:
    models = found(family.base.parent)
    assert {model.path for model in models.models} == {family.base, *family.experts.values()}
    assert models.base is not None
    assert models.models[models.base].path == family.base
    assert models.alike[models.base] == frozenset(range(3))
    assert models.models[models.base].architecture == "RobertaForMaskedLM"
    assert all(model.bytes > 0 and not model.problem for model in models.models)


def test_the_open_model_is_the_base_wherever_it_lies(family: Family, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "mine"
    shutil.copytree(family.base, copy)
    models = found(*family.experts.values(), base=copy)
    assert models.base == 0
    assert models.models[0].path == copy
    assert len(models.models) == 3


def test_what_cannot_be_opened_says_why_and_what_differs_does_not_fit(
    family: Family, tmp_path: Path
) -> None:
    other = gpt2_family(tmp_path / "gpt2", experts=1)
    broken = tmp_path / "gpt2" / "broken"
    broken.mkdir()
    (broken / "model.safetensors").touch()
    models = found(family.base, other.base, broken)
    assert "0 bytes" in models.models[2].problem
    assert [sorted(alike) for alike in models.alike] == [[0], [1], []]


def test_the_base_is_whom_the_others_name(family: Family, tmp_path: Path) -> None:
    for name, source in (("one", family.base), ("two", family.base)):
        shutil.copytree(source, tmp_path / name)
    assert found(tmp_path).base is None, "nothing says which it is"
    config = json.loads((tmp_path / "one/config.json").read_text())
    config["_name_or_path"] = "someone/two"
    (tmp_path / "one/config.json").write_text(json.dumps(config))
    models = found(tmp_path)
    assert models.base is not None
    assert models.models[models.base].path == tmp_path / "two"


def test_a_folder_without_models_has_none(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    assert found(tmp_path).models == ()
