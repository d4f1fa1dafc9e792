"""The choice to align a merge with its experts."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final, Literal

from PySide6.QtCore import Signal

from ace_gui.field_info import Option
from ace_gui.gui.widgets.form import OptionForm
from ace_gui.recipe.distillation import Distillation, How, Trained
from ace_gui.recipe.overrides import limits_of

_ALIGN: Final = (
    "After the merge, a few of its numbers are trained until it answers inputs of every task as "
    "the task's expert does. Labels are not used. It takes about as long as scoring the tasks a "
    "few times. Inputs must be of the right task: others make the merge worse."
)


_ALIGNED: Final = "with the experts"


@dataclass(frozen=True, kw_only=True)
class _AlignmentChoice:
    """The fields of the form."""

    align: bool = False
    inputs: int = Distillation().inputs
    steps: int = Distillation().steps
    train: Trained = Trained.AUTO
    how: How = How.AUTO


_OPTIONS: Final = (
    Option(
        name="align",
        label="Align",
        help=_ALIGN,
        values={"no": False, _ALIGNED: True},
    ),
    Option(
        name="inputs",
        label="Inputs",
        help="Inputs of each task. Fewer than 64 may harm.",
        kind="int",
        default=Distillation().inputs,
        **limits_of(Distillation, "inputs"),
        read=int,
        applies_when=("align", _ALIGNED),
    ),
    Option(
        name="steps",
        label="Steps",
        help="Training steps. The best of them is taken, by inputs that are kept back.",
        kind="int",
        default=Distillation().steps,
        **limits_of(Distillation, "steps"),
        read=int,
        applies_when=("align", _ALIGNED),
    ),
    Option(
        name="train",
        label="Trains",
        help="What is trained. Automatic: an addition of rank 8 to each merged matrix.",
        values={
            "automatic": Trained.AUTO,
            "biases and norms": Trained.BIASES,
            "rank 8 on matrices": Trained.RANK_8,
            "all merged matrices": Trained.ALL,
        },
        applies_when=("align", _ALIGNED),
    ),
    Option(
        name="how",
        label="In pieces",
        help=(
            "Automatic: the whole model at once; one block after another if the memory is too "
            "small for that. Full fine-tunes gain nothing by block."
        ),
        values={
            "automatic": How.AUTO,
            "the whole model": How.WHOLE,
            "block by block": How.BLOCKS,
        },
        applies_when=("align", _ALIGNED),
    ),
)


class AlignmentForm(OptionForm):
    """A form of the recipe's ``distil``. ``chosen`` carries a Distillation, or False."""

    chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._distil = Distillation()
        self.changed.connect(self._choose)

    def show_choice(self, distil: Distillation | Literal[False]) -> None:
        """Show a recipe's choice."""
        self._distil = distil or self._distil
        names = [item.name for item in fields(_AlignmentChoice) if item.name != "align"]
        values = {name: getattr(self._distil, name) for name in names}
        record = _AlignmentChoice(align=bool(distil), **values)
        self.show_record(_OPTIONS, record, _AlignmentChoice())

    def _choose(self, choice: _AlignmentChoice) -> None:
        distil = replace(
            self._distil,
            inputs=choice.inputs,
            steps=choice.steps,
            train=choice.train,
            how=choice.how,
        )
        self.chosen.emit(distil if choice.align else False)
