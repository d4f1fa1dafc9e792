from dataclasses import replace

from ace_gui.engine.contract.findings import LayerStatistics
from ace_gui.engine.contract.plan import Disposition, MatrixPart, PlanRow
from ace_gui.gui.state.planned_layers import model_order
from tests.gui.fakes import GAMMAS, adopt_two, record_gammas


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


def parts(row: PlanRow, labels: list[str]) -> list[PlanRow]:
    return [
        replace(
            row,
            name=f"{row.name}[{label}]",
            part=MatrixPart(
                tensor=row.name,
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


def test_blocks_are_counted_and_parts_stay_as_they_lie():
    embedding = row("wte.weight", role="embedding")
    fused = parts(row("h.2.attn.c_attn.weight", 2), ["query", "key", "value"])
    stack = parts(row("h.10.mlp.experts.down_proj", 10), [str(index) for index in range(12)])
    last = row("ln_f.weight", role="norm")
    mixed = [last, *stack, *fused, embedding]
    assert model_order(mixed) == (embedding, *fused, *stack, last)


def test_a_block_is_listed_in_the_order_of_computation():
    roles = {
        "ln_1": "norm",
        "attention.query": "query",
        "attention.key": "key",
        "attention.value": "value",
        "attention.output.dense": "attention output",
        "attention.output.LayerNorm": "norm",
        "intermediate.dense": "MLP up",
        "output.dense": "MLP down",
        "output.LayerNorm": "norm",
    }
    block = []
    for name, role in roles.items():
        block.append(row(f"layer.3.{name}.weight", 3, role))
        block.append(row(f"layer.3.{name}.bias", 3, "norm" if role == "norm" else "bias"))
    named = [layer.name.removeprefix("layer.3.").rpartition(".")[0] for layer in block[::2]]
    listed = [layer.name for layer in model_order(sorted(block, key=lambda layer: layer.name))]
    order = [name.removeprefix("layer.3.").rpartition(".")[0] for name in listed]
    assert list(dict.fromkeys(order)) == named
    assert listed[2:4] == ["layer.3.attention.query.weight", "layer.3.attention.query.bias"]


def test_the_most_heterogeneous_layer_has_a_reliable_gamma(session):
    adopt_two(session)
    record_gammas(session, GAMMAS)
    energies = {"cola": 1.0, "sst2": 1.2}
    near_one = LayerStatistics(name="layer.0.q", energies=energies, gamma=6.0, mean_log_energy=0.05)
    session.layers.record_statistics(near_one)
    assert session.layers.most_heterogeneous == "layer.10.q"
