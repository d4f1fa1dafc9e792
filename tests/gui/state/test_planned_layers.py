from dataclasses import replace

from ace_gui.engine.contract.plan import Disposition, MatrixPart, PlanRow
from ace_gui.gui.state.found.planned_layers import model_order


def row(name: str, block: int | None = None, role: str = "query+key+value") -> PlanRow:
    return PlanRow(
        name=name,
        role=role,
        shape=(2, 2),
        dtype="F32",
        disposition=Disposition.MERGED,
        reason="",
        block=block,
    )


def parts(whole: PlanRow, labels: list[str]) -> list[PlanRow]:
    return [
        replace(
            whole,
            name=f"{whole.name}[{label}]",
            part=MatrixPart(
                tensor=whole.name,
                tensor_shape=(2 * len(labels), 2),
                start=4 * index,
                stop=4 * index + 4,
                period=4,
                first=0,
                last=4,
            ),
        )
        for index, label in enumerate(labels)
    ]


def test_blocks_are_counted_and_parts_stay_as_they_lie() -> None:
    embedding = row("wte.weight", role="embedding")
    fused = parts(row("h.2.attn.c_attn.weight", 2), ["query", "key", "value"])
    stack = parts(row("h.10.mlp.experts.down_proj", 10), [str(index) for index in range(12)])
    last = row("ln_f.weight", role="norm")
    mixed = [last, *stack, *fused, embedding]
    assert model_order(mixed) == (embedding, *fused, *stack, last)
