"""Metadata of the models of a merge: hub names, licences, languages.

A card links to the names in it, so names must come from a reliable source. These are the folder's
path in the Hugging Face cache, a card, or the agreement of several files about the base. Paths of
this machine are never given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from ace_gui.checkpoints import is_adapter
from ace_gui.checkpoints.input_files import open_regular, read_at, read_json
from ace_gui.errors import CheckpointError
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import hub_name, model_name, public_name

_CARD_BYTES: Final = 64_000
"""Number of bytes read of a card: the front matter is at its beginning."""

_JSON_BYTES: Final = 10_000_000
_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[\w.-]*\w)?(?:/[A-Za-z0-9](?:[\w.-]*\w)?)?", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z0-9](?:[\w.+-]{0,60}\w)?", re.ASCII)

FrontMatter = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """``models``: the hub names of the base and the experts, as far as they are certain; ``base``:
    that of the base, else empty.

    ``licences``: by model, base first, from its card; empty if the card has none.
    """

    models: tuple[str, ...]
    licences: tuple[tuple[str, str], ...]
    licence_details: Mapping[str, str]
    languages: tuple[str, ...]
    task: str
    base: str = ""

    @property
    def licence(self) -> str:
        """The licence of every model, empty if one is missing or different."""
        found = {licence for _, licence in self.licences}
        return found.pop() if len(found) == 1 else ""


def lineage_of(recipe: Recipe) -> Lineage:
    """Metadata from the files of the recipe's models; invalid content causes no error."""
    paths = list(dict.fromkeys(recipe.paths))
    experts = dict(zip((e.model for e in recipe.models), recipe.expert_names, strict=True))
    names = [experts.get(path, model_name(path)) for path in paths]
    cards = [_front_matter(_folder(path)) for path in paths]
    public = [hub_name(path) or hub_name(_folder(path)) for path in paths]
    named = _stated_name(paths[0])
    public[0] = public[0] or public_name(_folder(paths[0]), {"_name_or_path": named})
    public[0] = public[0] or _not_a_path(_name_of_base(paths, cards), paths[0])
    licences = [_word(card.get("license")) for card in cards]
    return Lineage(
        models=tuple(dict.fromkeys(name for name in public if _is_name(name))),
        licences=tuple(zip(names, licences, strict=True)),
        licence_details=_common_details(cards),
        languages=tuple(dict.fromkeys(word for card in cards for word in _languages(card))),
        task=_word(cards[0].get("pipeline_tag")),
        base=public[0] if _is_name(public[0]) else "",
    )


def _name_of_base(paths: list[Path], cards: list[FrontMatter]) -> str:
    """The base's hub name as given by other models, if they agree and are reliable.

    A card names the base on purpose. ``_name_or_path`` in a config may be somebody's local path. It
    counts if two configs have it, or if the base's folder has this name. What an adapter claims
    does not count: it fits every base of these shapes.
    """
    certain = [
        _only(card.get("base_model"))
        for path, card in zip(paths[1:], cards[1:], strict=True)
        if not is_adapter(path)
    ]
    guessed = [_stated_name(path) for path in paths]
    sure = {name for name in certain if name}
    if sure:
        return sure.pop() if len(sure) == 1 else ""
    named = [name for name in guessed if name]
    same_folder = named[:1] == guessed[:1] and named[0].endswith("/" + model_name(paths[0]))
    return named[0] if len(set(named)) == 1 and (len(named) > 1 or same_folder) else ""


def _not_a_path(name: str, base: Path) -> str:
    """The name, unless it is just the base's path: ``models/llama`` looks like a hub name."""
    return "" if base.absolute().as_posix().endswith(f"/{name}") else name


def _stated_name(path: Path) -> str:
    """``_name_or_path`` of a model's config if it has the form ``org/name``, else empty."""
    try:
        return _only(
            read_json(_folder(path) / "config.json", limit=_JSON_BYTES).get("_name_or_path")
        )
    except CheckpointError:
        return ""


def _only(name: object) -> str:
    """A hub name, alone or as the only one of a list."""
    if isinstance(name, list) and len(name) == 1:
        name = name[0]
    return name if isinstance(name, str) and _HUB_NAME.fullmatch(name) else ""


def _is_name(name: str) -> bool:
    """Whether this is a valid hub name."""
    return (
        len(name) <= 96
        and _NAME.fullmatch(name) is not None
        and not {"--", ".."} & {name[index : index + 2] for index in range(len(name))}
    )


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _front_matter(folder: Path) -> FrontMatter:
    """The YAML between the first two lines of dashes of README.md; empty if there is none."""
    try:
        with open_regular(folder / "README.md") as (descriptor, stamp):
            raw = bytearray(min(stamp.size, _CARD_BYTES))
            read_at(descriptor, memoryview(raw), 0)
    except CheckpointError:
        return {}
    found = re.match(r"\s*---[ \t]*\r?\n(.*?)\r?\n---", raw.decode("utf-8-sig", "replace"), re.S)
    try:
        content = yaml.safe_load(found[1]) if found else None
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _word(value: object) -> str:
    """A licence, language or task as spelled on hubs; empty for anything else."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else ""


def _languages(card: FrontMatter) -> Iterator[str]:
    found = card.get("language")
    for value in found if isinstance(found, list) else [found]:
        word = "no" if value is False else _word(value)  # YAML reads `no`, Norwegian, as false
        if word:
            yield word


def _common_details(cards: list[FrontMatter]) -> dict[str, str]:
    """Name and link of a licence unknown to hubs, if all cards have the same."""
    details = {}
    for key in ("license_name", "license_link"):
        found = {value if isinstance(value, str) else "" for value in (c.get(key) for c in cards)}
        value = found.pop() if len(found) == 1 else ""
        if value and len(value) <= 200 and value.isprintable():
            details[key] = value
    return details
