"""Scope presets: which tensors a merge changes, as in the ACE authors' scripts for each family.

Their merging step uses every named parameter that matches no exclusion pattern. Parameters with two
dimensions that are not text projections are merged by ACE as stored (no transposition, embeddings
included). The others are averaged. Excluded tensors keep the base's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from ace_gui.errors import RecipeError

DEFAULT = "default"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """``excluded``: parts of a name that keep a tensor at the base's value."""

    name: str
    description: str
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ScopeDecision:
    """The decision of a scope on one tensor: matrices are merged in the file's orientation."""

    kind: Literal["merge", "average", "base"]
    reason: str


_ALL: Final = (
    Scope(
        name=DEFAULT,
        description="Matrices of linear modules are merged, oriented outputs × inputs; "
        "embeddings, norms, biases and convolutions are averaged, except by elementwise "
        "methods, which merge them too.",
    ),
    Scope(
        name="authors-roberta",
        description="As the authors' RoBERTa script: only dense matrices are merged; "
        "classifiers, biases, LayerNorms and embeddings stay as in the base.",
        excluded=("classifier", "bias", "LayerNorm", "embeddings"),
    ),
    Scope(
        name="authors-gpt2",
        description="As the authors' GPT-2 script: every matrix is merged as it is stored, "
        "token and position embeddings too; the score head stays as in the base.",
        excluded=("score",),
    ),
    Scope(
        name="authors-llama",
        description="As the authors' Llama script: matrices are merged and norms averaged; "
        "embed_tokens and lm_head stay as in the base.",
        excluded=("embed_tokens", "lm_head.weight"),
    ),
    Scope(
        name="authors-vit",
        description="As the authors' CLIP vision script: every matrix is merged as it is "
        "stored, embeddings and visual.proj too; text_projection is averaged.",
    ),
)

SCOPES: Mapping[str, Scope] = MappingProxyType({scope.name: scope for scope in _ALL})


def decide(scope: str, name: str, ndim: int) -> ScopeDecision | None:
    """The decision of ``scope`` on the trained tensor ``name``; None for the default scope.

    Only for parameters: buffers keep the base's value in every scope, and a head that each expert
    has for itself is kept per expert. Raises RecipeError for an unknown scope.
    """
    preset = SCOPES.get(scope)
    if preset is None:
        raise RecipeError(
            f"There is no scope {scope!r}; choose one of {', '.join(SCOPES)}.", key="scope"
        )
    if preset.name == DEFAULT:
        return None
    part = next((part for part in preset.excluded if part in name), None)
    if part is not None:
        return ScopeDecision(kind="base", reason=f"{scope} leaves out names with {part!r}")
    if "text_projection" in name:
        return ScopeDecision(kind="average", reason=f"{scope} averages text projections")
    if ndim != 2:
        return ScopeDecision(kind="average", reason=f"{scope} averages what is not a matrix")
    return ScopeDecision(kind="merge", reason=f"{scope} merges every matrix as it is stored")
