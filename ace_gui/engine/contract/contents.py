"""What a merged model contains: its change as a combination of the experts' changes, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ace_gui.engine.contract.model_figures import LARGE_CHANGE
from ace_gui.formatting import conjunction, counted, listing, plain

NEGLIGIBLE: Final = 0.005
"""Coefficients and shares of a change that are not mentioned."""

COARSE: Final = 0.1
"""Share of a change from which its rounding is mentioned."""


@dataclass(frozen=True, kw_only=True)
class TensorContents:
    """The change of one tensor from the base to the merged model, by the experts' changes."""

    name: str
    """In the base."""

    shape: tuple[int, ...]
    """The base's as stored."""

    change: float
    """‖W − W₀‖ of the merged model."""

    coefficients: tuple[float, ...]
    """Of each expert's change in the best combination, the shortest one where several are best; 0
    for an expert without a change here."""

    left_over: float
    """‖rest‖ / ‖change‖ of that combination; 0 where rounding explains the rest."""

    differs: bool
    """Whether the tensor is not the combination that most tensors are."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ModelContents:
    """The change of a merged model as a combination of its experts' changes.

    Over all matrices; over all other tensors where there is no matrix.
    """

    experts: tuple[str, ...]
    """Their names, in the given order."""

    coefficients: tuple[float, ...]
    """Of each expert's change in the best combination over all matrices."""

    left_over: float
    """‖rest‖ / ‖change‖ of that combination; 0 where rounding explains the rest."""

    rounding: float
    """About which share of the change is the rounding of the files' number formats."""

    relative_change: float
    """‖change‖ / ‖W₀‖."""

    shares: tuple[float, ...] | None
    """The combination that most matrices are; None if there is none."""

    layers: tuple[TensorContents, ...]
    """One per compared tensor."""

    missing: tuple[str, ...] = ()
    """Tensors of the base that the merged model lacks."""

    extra: tuple[str, ...] = ()
    """Tensors of the merged model that the base lacks."""

    other_shape: tuple[str, ...] = ()
    """Tensors of another shape in the merged model, which are not compared."""

    def __repr__(self) -> str:
        return f"<ModelContents: {self.sentences[0]}>"

    @property
    def differing(self) -> tuple[str, ...]:
        """Names of the tensors that are not the combination that most are."""
        return tuple(layer.name for layer in self.layers if layer.differs)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What it contains, and what should be looked at."""
        return (_verdict(self), *_remarks(self))

    def record(self) -> dict[str, Any]:
        """The values for JSON."""
        experts = zip(self.experts, self.coefficients, strict=True)
        return {
            "experts": [{"model": name, "coefficient": value} for name, value in experts],
            "left_over": self.left_over,
            "rounding": self.rounding,
            "sentences": list(self.sentences),
            "layers": [self._layer_record(layer) for layer in self.layers],
            "missing": self.missing,
            "extra": self.extra,
            "other_shape": self.other_shape,
        }

    def _layer_record(self, layer: TensorContents) -> dict[str, Any]:
        coefficients: Mapping[str, float] = dict(zip(self.experts, layer.coefficients, strict=True))
        return {
            "name": layer.name,
            "coefficients": coefficients,
            "left_over": layer.left_over,
            "change": layer.change,
            "differs": layer.differs,
        }


def share_text(share: float) -> str:
    """A coefficient as in "contains 30 % of"."""
    return f"{100 * share:.0f} %".replace("-", "−")


def _verdict(contents: ModelContents) -> str:
    if contents.shares is None:
        return _uneven(contents)
    sentence = _shares_sentence(contents.experts, contents.shares)
    if not contents.differing:
        return f"{sentence}."
    tensors = counted(len(contents.layers), "tensor", "tensors")
    return f"{sentence}, except in {len(contents.differing)} of {tensors}."


def _shares_sentence(experts: Sequence[str], shares: Sequence[float]) -> str:
    parts = []
    for name, share in zip(experts, shares, strict=True):
        if abs(share) > NEGLIGIBLE:
            parts.append((name, share))
    if not parts:
        return "It is the base"
    values = [share for _, share in parts]
    mean = 1 / len(parts)
    if len(parts) > 1 and all(abs(share - mean) <= NEGLIGIBLE for share in values):
        return f"It is the mean of {conjunction([f'`{plain(name)}`' for name, _ in parts])}"
    words = [f"{share_text(share)} of `{plain(name)}`" for name, share in parts]
    return f"It contains {conjunction(words)}, nothing else"


def _uneven(contents: ModelContents) -> str:
    """What is said where no combination holds in most matrices."""
    if contents.left_over <= NEGLIGIBLE or _is_sum_in_each(contents):
        return "In each matrix it is a sum of the experts' changes, with other shares in each."
    return (
        "It is not a sum of the experts' changes: "
        f"{share_text(contents.left_over)} of its change is left over."
    )


def _is_sum_in_each(contents: ModelContents) -> bool:
    return all(layer.left_over <= 2 * NEGLIGIBLE for layer in contents.layers)


def _remarks(contents: ModelContents) -> list[str]:
    remarks = []
    if contents.shares is None and not _is_sum_in_each(contents):
        remarks.append(
            "TIES, DARE, ACE and other methods that are no plain sums leave much over. So do other "
            "experts, and another base."
        )
    if contents.relative_change > LARGE_CHANGE:
        remarks.append(
            f"Its change is {share_text(contents.relative_change)} of the base's norm, which is "
            "too far for fine-tunes; probably it was made from another base."
        )
    if contents.rounding > COARSE:
        remarks.append(
            f"Rounding to the files' number formats is about "
            f"{share_text(contents.rounding)} of the change, so the shares are less certain."
        )
    for names, what in (
        (contents.missing, "It lacks"),
        (contents.extra, "Only it has"),
        (contents.other_shape, "Of another shape, so not compared:"),
    ):
        if names:
            remarks.append(f"{what} {listing(names)}.")
    return remarks
