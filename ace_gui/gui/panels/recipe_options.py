"""The choices of a recipe that few users change, each declared once as a row of the form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ace_gui.field_info import FieldInfo
from ace_gui.gui.state.chosen.inputs import Inputs
from ace_gui.recipe.values import Heads, NonFinite, Poolers, Vocabulary


@dataclass(frozen=True, kw_only=True)
class Option:
    """``name``: the field of ``Inputs``. ``values``: by their names in the form; none: a number."""

    name: str
    label: str
    help: str
    values: Mapping[str, object] = field(default_factory=dict)

    @property
    def info(self) -> FieldInfo:
        return FieldInfo(
            name=self.name,
            kind="str",
            default=self.shown(Inputs()),
            label=self.label,
            help=self.help,
            choices=tuple(self.values),
        )

    def shown(self, inputs: Inputs) -> str:
        """What the row shows for these inputs."""
        value = getattr(inputs, self.name)
        return next((text for text, each in self.values.items() if each == value), str(value))

    def edited(self, inputs: Inputs, text: str | None) -> Inputs:
        """The inputs with what the row says; None: the usual. Nonsense changes nothing."""
        usual = getattr(inputs.usual, self.name)
        value: Any = usual if text is None else self.values.get(text, text)
        if text is not None and not self.values:
            value = int(text) if text.isdecimal() and int(text) < 2**63 else inputs.seed
        return replace(inputs, **{self.name: value})


SEED: Final = "seed"
OPTIONS: Final = (
    Option(
        name=SEED,
        label="Seed",
        help="This method uses random numbers. The same seed gives the same ones for any order and "
        "device; another seed shows how much the result varies.",
    ),
    Option(
        name="split_fused",
        label="Fused",
        help="Some models keep the matrices for query, key and value, or for gate and up, "
        "in one tensor. The published procedure treats them as one. If they are "
        "split, each has its own γ, regime and spectrum. The merged model's tensors "
        "keep their shapes either way.",
        values={"as one matrix": False, "split": True},
    ),
    Option(
        name="heads",
        label="Heads",
        help="Heads of one task have the same shape and the same labels. They can be "
        "merged if all experts have that one task, always, or never. Heads that are "
        "not merged are saved with the merged model.",
        values={
            "merge if one task": Heads.AUTO,
            "save separately": Heads.KEEP,
            "always merge": Heads.MERGE,
        },
    ),
    Option(
        name="poolers",
        label="Poolers",
        help="A pooler feeds only the task head, and is trained for it. It can be merged, "
        "or saved with each expert's head if the heads are saved.",
        values={"merge": Poolers.MERGE, "keep with head": Poolers.KEEP},
    ),
    Option(
        name="vocabulary",
        label="Vocabulary",
        help="Embeddings and vocabulary heads have a row for each token. “Row by row” "
        "needs vocabularies of one size. “Matched by token” combines the rows of the "
        "same token, at any index; an expert without the token counts as unchanged. "
        "Tokens that the base lacks and all experts have are added, with the mean of "
        "their rows. “Union of all tokens” also adds tokens of only some experts, and "
        "“the base's tokens” adds none. “As in the base” keeps the base's rows.",
        values={
            "row by row": Vocabulary.POSITION,
            "matched by token": Vocabulary.TOKENS,
            "union of all tokens": Vocabulary.UNION,
            "the base's tokens": Vocabulary.BASE_TOKENS,
            "as in the base": Vocabulary.BASE,
        },
    ),
    Option(
        name="out_dtype",
        label="Output",
        help="Number format of the merged tensors; rounded once, on writing.",
        values={"as the base": None}
        | {name: name for name in ("float32", "bfloat16", "float16", "float64")},
    ),
    Option(
        name="non_finite",
        label="NaN, Inf",
        help="The treatment of a tensor in which an expert has NaN (not a number) or Inf "
        "(infinity), for example after a training run that diverged. The layer's notes and the "
        "model card name every such tensor.",
        values={
            "stop": NonFinite.STOP,
            "keep the base's": NonFinite.KEEP_BASE,
            "leave expert out": NonFinite.SKIP_EXPERT,
        },
    ),
)


def scope_option(scopes: Mapping[str, str]) -> Option:
    """Which tensors are merged. ``scopes``: descriptions by name, from the engine."""
    lines = "\n".join(f"{name}: {description}" for name, description in scopes.items())
    return Option(
        name="scope",
        label="Scope",
        help="Which tensors the method merges, and in which orientation; the authors' presets "
        f"reproduce their scripts.\n{lines}",
        values={name: name for name in scopes},
    )
