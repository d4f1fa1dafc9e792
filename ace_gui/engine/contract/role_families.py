"""Families of roles; each has one colour and one symbol in all plots."""

from __future__ import annotations

from typing import Final

ROLE_FAMILIES: Final = ("attention", "MLP", "embedding", "norm", "other")
_ATTENTION: Final = frozenset({"query", "key", "value", "query+key+value", "attention output"})


def role_family(role: str) -> str:
    """The one of ``ROLE_FAMILIES`` for a role ("query", "MLP up", "position embedding")."""
    if role in _ATTENTION:
        return "attention"
    if role.startswith("MLP"):
        return "MLP"
    if "embedding" in role or role == "vocabulary head":
        return "embedding"
    return "norm" if role == "norm" else "other"
