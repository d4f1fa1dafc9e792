"""The catalogue of bad inputs as recipes: what people open, and the sentence that they read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file

from tests.helpers.adapters import factors, save_adapter
from tests.helpers.catalogue import ADAPTERS, CONVERTED, OPENED
from tests.helpers.checkpoints import save_model
from tests.helpers.models import Family
from tests.helpers.recipes import file_over

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
        index = folder / f"{number}" / "expert-a"
        index.mkdir(parents=True)
        file = write(index.parent, family.base, case.make(index))
        yield BadRecipe(str(case), file, case.sentence, converts=case in CONVERTED)
    index = folder / "network" / "expert-a"
    remote = r"\\host\share"
    save_adapter(index, factors(QUERY, 32, 32), base_model_name_or_path=remote)
    sentence = "Names a network location as its base. Not contacted; choose the base yourself."
    yield BadRecipe("23", write(index.parent, family.base, index), sentence)
    index = folder / "nan" / "expert-a"
    held = load_file(family.experts["task0"] / "model.safetensors")
    held[f"{QUERY}.weight"][0, 3:6] = math.nan
    save_model(index, held, config={"model_type": "roberta"})
    sentence = f"`{QUERY}.weight` of `expert-a` has 3 NaN values (first at [0, 3])."
    yield BadRecipe("25", write(index.parent, family.base, index), sentence)
    yield from unlike_the_base(folder, family)
    yield from wrong_in_themselves(folder, family)


def unlike_the_base(folder: Path, family: Family) -> Iterator[BadRecipe]:
    """Experts that are models, but not of this base."""
    one = family.experts["task0"]
    held = load_file(one / "model.safetensors")
    config = {"model_type": "roberta"}
    other = save_model(folder / "names" / "a", {"x.weight": torch.ones(2, 2)}, config=config)
    file = write(folder / "names", family.base, other)
    yield BadRecipe("other names", file, "has no tensor in common with the base")
    kept = {name: tensor for name, tensor in held.items() if "layer.1." not in name}
    fewer = save_model(folder / "fewer" / "a", kept, config=config)
    file = write(folder / "fewer", family.base, fewer)
    yield BadRecipe("fewer layers", file, "lacks 16 tensors of the base: `roberta.encoder.layer.1.")
    wide = {**held, f"{QUERY}.weight": torch.ones(32, 40)}
    wider = save_model(folder / "shapes" / "a", wide, config=config)
    file = write(folder / "shapes", family.base, wider)
    yield BadRecipe("other shapes", file, f"`{QUERY}.weight` is 32×40 in a but 32×32 in the base")
    (folder / "itself").mkdir()
    link = folder / "itself" / "another-name"
    link.symlink_to(family.base)
    file = write(folder / "itself", family.base, link)
    yield BadRecipe("the base itself", file, "is the same model as the base")
    file = write(folder / "twice", family.base, one, one)
    yield BadRecipe("an expert twice", file, "is the same model as task0-1")


def wrong_in_themselves(folder: Path, family: Family) -> Iterator[BadRecipe]:
    """Folders without a model, and recipes that no method fits."""
    one = family.experts["task0"]
    (folder / "empty" / "a").mkdir(parents=True)
    file = write(folder / "empty", family.base, folder / "empty" / "a")
    yield BadRecipe("empty folder", file, "The folder is empty. Choose the folder of a model.")
    (folder / "bare" / "a").mkdir(parents=True)
    (folder / "bare" / "a" / "config.json").write_text("{}")
    file = write(folder / "bare", family.base, folder / "bare" / "a")
    yield BadRecipe("no weights", file, "No weights here.")
    file = write(folder / "absent", family.base, folder / "absent" / "a")
    yield BadRecipe("no such folder", file, "No such file or folder. Check the path.")
    for title, keys, sentence in (
        ("method", {"merge_method": "acee"}, "acee"),
        ("parameter", {"parameters": {"tauu": 1.0}}, "tauu"),
        ("range", {"parameters": {"k_frac": 7.0}}, "k_frac"),
        ("key", {"scop": "default"}, "did you mean 'scope'"),
    ):
        yield BadRecipe(title, write(folder / title, family.base, one, **keys), sentence)


def write(folder: Path, base: Path, *experts: Path, **keys: object) -> Path:
    return file_over(folder, base, experts, **keys)
