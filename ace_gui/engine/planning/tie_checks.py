"""Checks of tensors that one model ties, such as head and embedding, and another one does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ace_gui.architecture.traits import Role
from ace_gui.engine.contract.plan import Check, CheckVerdict
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.formatting import listing, plain

TIED_WEIGHTS: Final = "Tied weights"
"""The title of these checks."""

Finding = tuple[CheckVerdict, str, Sequence[str]] | None


def find_ties(base: OpenedModel, expert: OpenedModel) -> Finding:
    """Heads that share the embedding in only one of the two models."""
    if finding := _own_tensors(base, expert):
        return finding
    if changes := expert.checkpoint.tied_changes:
        return CheckVerdict.WARNING, changes[0], changes
    if expert.checkpoint.adapter is not None:
        return None
    tied = base.architecture.traits
    tied_traits = expert.architecture.traits
    heads = [name for name in expert.extra if tied_traits[name].role == Role.VOCABULARY_HEAD]
    if heads and _config_ties(base) is not False and _config_ties(expert) is False:
        sentence = f"Has its own {listing(heads)}, which the base lacks: saved in heads/."
        return CheckVerdict.WARNING, sentence, heads
    untied_heads = [n for n, t in tied.items() if t.role == Role.VOCABULARY_HEAD and not t.tied_to]
    answers = expert.answers.values()
    if shared := [name for name in untied_heads if expert.has(name) and name not in answers]:
        sentence = (
            f"Ties its head to the embedding, which is merged into the base's {listing(shared)} as "
            "this expert's head."
        )
        return CheckVerdict.NOTE, sentence, shared
    alone = [name for name in untied_heads if not expert.has(name)]
    if alone and _config_ties(base) is False and _config_ties(expert) is not False:
        sentence = f"Has no {listing(alone)}: merged without this expert."
        return CheckVerdict.WARNING, sentence, alone
    return None


def _own_tensors(base: OpenedModel, expert: OpenedModel) -> Finding:
    """Tensors of an expert that differ from those to which the base ties them."""
    names = [name for name, untied in base.untied.items() if expert.name in untied.owners]
    if not names:
        return None
    sources = list(dict.fromkeys(base.untied[name].source for name in names))
    sentence = (
        f"Has its own {listing(names)}, which the base ties to {listing(sources)}: merged each by "
        f"itself, and {_kept_apart(base, names)}. A model that ties them counts with one tensor "
        "for both."
    )
    return CheckVerdict.NOTE, sentence, [f"{n}: {base.untied[n].reason}" for n in names]


def base_tie_checks(base: OpenedModel) -> list[Check]:
    """Tensors of the base that its config ties, but that differ in its files."""
    names = [name for name, untied in base.untied.items() if not untied.owners]
    if not names:
        return []
    sources = list(dict.fromkeys(base.untied[name].source for name in names))
    sentence = (
        f"Its config ties {listing(names)} to {listing(sources)}, but its files have different "
        f"tensors, which transformers keeps: merged each by itself, and {_kept_apart(base, names)}."
    )
    return [Check(TIED_WEIGHTS, sentence, CheckVerdict.NOTE, subject=plain(base.name))]


def _kept_apart(base: OpenedModel, names: Sequence[str]) -> str:
    """How the merged model keeps untied tensors apart."""
    if all(base.untied[name].in_config for name in names):
        return "the merged model's config says that they are not tied (tie_word_embeddings: false)"
    return (
        "the merged model keeps its config, with which transformers ties only equal tensors; "
        "before version 5 it ties these, too"
    )


def _config_ties(model: OpenedModel) -> object:
    return (model.checkpoint.config or {}).get("tie_word_embeddings")
