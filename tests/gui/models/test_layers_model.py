from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester

from ace_gui.engine.contract.findings import LayerStatistics
from ace_gui.engine.contract.plan import Disposition, RowOverride
from ace_gui.gui.models.layer_columns import (
    COLUMNS,
    GAMMA,
    OUTCOME,
    REGIME,
    SHAPE,
    STATE,
    TENSOR,
    Column,
    exported,
)
from ace_gui.gui.models.layer_figures import Healths
from ace_gui.gui.models.layers_model import COUNT, LAYER, RANGE, LayersModel
from ace_gui.gui.state.activity import ActivityState, MergeRun
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.state.session import Session
from tests.gui.fakes import (
    BASE,
    COLA,
    GAMMAS,
    ROWS,
    SST2,
    TWO,
    adopt_two,
    finished_tensor,
    plan,
    recipe,
    record_gammas,
    row,
)

Fatal = QAbstractItemModelTester.FailureReportingMode.Fatal
Ascending = Qt.SortOrder.AscendingOrder
Descending = Qt.SortOrder.DescendingOrder
IN_ORDER = ["layer.0.q", "layer.0.q.bias", "layer.2.q", "layer.10.q", "head"]
MANY = 20_000


@pytest.fixture
def healths(session: Session) -> Iterator[Healths]:
    healths = Healths(session)
    yield healths
    healths.deleteLater()


@pytest.fixture
def model(session: Session, healths: Healths) -> Iterator[LayersModel]:
    model = LayersModel(session, healths)
    model.tester = QAbstractItemModelTester(model, Fatal)
    adopt_two(session)
    record_gammas(session, GAMMAS)
    yield model
    model.deleteLater()


def test_the_same_plan_again_keeps_the_view_where_it_is(model, session, qtbot):
    with qtbot.assertNotEmitted(model.modelReset), qtbot.waitSignal(model.figures_changed):
        adopt_two(session)


def names(model: LayersModel) -> list[str]:
    return [layer.row.name for layer in model.shown]


def cell(model: LayersModel, name: str, column: Column, role: int = 0) -> str:
    return model.index_of(name, column.index).data(role)


def test_the_plan_is_shown_from_the_models_input_to_its_output(model):
    assert names(model) == IN_ORDER
    assert cell(model, "layer.10.q", SHAPE) == "8 × 3"
    assert cell(model, "head", OUTCOME) == Disposition.PER_EXPERT.value


def test_names_sort_as_people_count(model):
    model.sort(TENSOR.index, Ascending)
    assert names(model) == ["head", "layer.0.q", "layer.0.q.bias", "layer.2.q", "layer.10.q"]


@pytest.mark.parametrize(("order", "first"), [(Ascending, "layer.0.q"), (Descending, "layer.10.q")])
def test_gamma_sorts_as_a_number_and_unknown_comes_last(model, order, first):
    model.sort(GAMMA.index, order)
    assert names(model)[0] == first
    assert set(names(model)[3:]) == {"layer.0.q.bias", "head"}


def test_every_column_sorts_to_a_permutation(model):
    before = sorted(names(model))
    for column in range(len(COLUMNS)):
        for order in (Ascending, Descending):
            model.sort(column, order)
            assert sorted(names(model)) == before
    model.sort(-1, Ascending)
    assert names(model) == IN_ORDER


def test_filters_by_text_whatever_its_case_and_by_role(model):
    model.set_filter("LAYER", "")
    assert "head" not in names(model)
    model.set_filter("layer", "key")
    assert names(model) == ["layer.10.q"]
    assert model.position("layer.0.q") == -1
    model.set_filter("", "")
    assert len(model.shown) == model.total


def test_only_what_is_merged_is_shown_where_anything_is(model):
    model.set_filter("", "", merged=True)
    assert names(model) == ["layer.0.q", "layer.2.q", "layer.10.q"]
    assert model.total == 5
    assert model.total_merged == 3


def test_what_no_expert_changes_is_not_among_the_merged(model, session):
    model.set_filter("", "", merged=True)
    still = LayerStatistics(name="layer.2.q", energies=dict.fromkeys(("sst2", "cola"), 0.0))
    session.layers.record_statistics(still)
    assert "layer.2.q" in names(model), "rows stay where they are while others are read"
    session.layers.learnt.emit("")
    assert names(model) == ["layer.0.q", "layer.10.q"]
    assert model.total_merged == 2
    model.set_filter("", "")
    assert "layer.2.q" in names(model)
    assert model.total_merged == 2
    block = model.index_of("layer.2.q").parent()
    assert model.index(block.row(), TENSOR.index).data(COUNT) == "1 unchanged"


def test_a_tensor_that_an_override_names_stays_among_the_merged(model, session):
    model.set_filter("", "", merged=True)
    override = RowOverride(method="ace", parameters={}, weights=(1.0, 1.0), rules=(0,))
    for name, fate in product(("layer.2.q", "layer.0.q.bias"), Disposition):
        planned = plan(recipe(COLA))
        rows = tuple(
            replace(row, disposition=fate, override=override) if row.name == name else row
            for row in planned.rows
        )
        session.adopt(TWO, replace(planned, rows=rows))
        assert name in names(model)
        assert model.total_merged == len(model.shown)


def test_regimes_follow_the_threshold_strictly(model, session):
    session.draft.preview_tau(0.5)
    assert cell(model, "layer.2.q", REGIME) == "homogeneous"
    assert cell(model, "layer.10.q", REGIME) == "heterogeneous"
    accessible = Qt.ItemDataRole.AccessibleTextRole
    assert cell(model, "layer.10.q", REGIME, accessible) == "heterogeneous"
    session.draft.preview_tau(0.49)
    assert cell(model, "layer.2.q", REGIME) == "heterogeneous"


def test_states_through_a_merge(model, session):
    run = MergeRun(
        recipe=session.draft.inputs.recipe(),
        parameters=session.draft.resolved_parameters(),
        store=BASE,
    )
    session.activity.begin(ActivityState.MERGING)
    session.results.start_merge(run)
    assert "waiting" in cell(model, "layer.0.q", STATE)
    session.record_report(finished_tensor("layer.0.q").report)
    assert "done" in cell(model, "layer.0.q", STATE)
    assert "a note" in cell(model, "layer.0.q", STATE, Qt.ItemDataRole.ToolTipRole)
    session.draft.set_parameter("tau", 0.9)
    assert "outdated" in cell(model, "layer.0.q", STATE)


@pytest.mark.parametrize("column", [-1, TENSOR.index])
def test_streaming_figures_are_signalled_once_for_many(model, session, qtbot, column):
    model.sort(column, Ascending)
    with qtbot.waitSignal(model.figures_changed):
        pass  # what the fixture recorded
    signals: list[None] = []
    model.figures_changed.connect(lambda: signals.append(None))
    with qtbot.waitSignal(model.figures_changed):
        record_gammas(session, {"layer.0.q": 0.2, "layer.10.q": 0.3, "layer.2.q": 0.4})
    assert len(signals) == 1
    assert cell(model, "layer.10.q", GAMMA).strip() == "0.300"
    session.draft.preview_tau(0.7)
    assert len(signals) == 2


def test_hostile_names_are_shown_plainly(session, healths):
    model = LayersModel(session, healths)
    session.adopt(
        Inputs(base=BASE).with_experts([COLA]),
        plan(recipe(COLA), rows=(row("a\u202eb<img src=x>"),)),
    )
    assert model.index_of("a\u202eb<img src=x>").data() == "ab<img src=x>"
    assert "<img" not in model.index_of("a\u202eb<img src=x>").data(Qt.ItemDataRole.ToolTipRole)


def test_twenty_thousand_rows_sort_and_filter(session, healths):
    generator = np.random.default_rng(0)
    rows = tuple(
        row(f"model.layers.{index // 8}.block.{index % 8}.weight", role=f"role {index % 5}")
        for index in range(MANY)
    )
    model = LayersModel(session, healths)
    session.adopt(Inputs(base=BASE).with_experts([COLA]), plan(recipe(COLA), rows=rows))
    for entry, gamma in zip(rows, generator.random(MANY), strict=True):
        session.layers.statistics[entry.name] = LayerStatistics(
            name=entry.name, energies={"cola": 1.0, "sst2": 2.0}, gamma=float(gamma)
        )
    session.layers.learnt.emit("")
    for column in range(len(COLUMNS)):
        model.sort(column, Descending)
        assert model.rowCount() == MANY
    model.sort(GAMMA.index, Descending)
    gammas = [model.index(position, GAMMA.index).data(LAYER).gamma for position in range(MANY)]
    assert gammas == sorted(gammas, reverse=True)
    model.set_filter("layers.7", "role 1")
    expected = [entry for entry in rows if "layers.7" in entry.name and entry.role == "role 1"]
    assert len(model.shown) == len(expected) > 0


def test_no_index_no_data(model):
    assert model.data(QModelIndex()) is None
    assert model.headerData(len(COLUMNS), Qt.Orientation.Horizontal) is None


def blocks(model: LayersModel) -> dict[str, list[str]]:
    """Titles of the groups, with the names below each."""
    groups = {}
    for position in range(model.rowCount()):
        above = model.index(position, 0)
        below = [model.index(row, 0, above) for row in range(model.rowCount(above))]
        groups[above.data()] = [model.name_at(model.position_of(index)) for index in below]
    return groups


def test_tensors_stand_below_their_blocks(model):
    assert blocks(model) == {
        "Block 0": ["layer.0.q", "layer.0.q.bias"],
        "Block 2": ["layer.2.q"],
        "Block 10": ["layer.10.q"],
        "After the blocks": ["head"],
    }


def test_a_group_says_how_many_of_what_are_in_it(model):
    assert model.index(0, 0).data(COUNT) == "1 merged, 1 averaged"
    assert model.index(1, 0).data(COUNT) == "1 matrix"
    spoken = model.index(1, 0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "Block 2, 1 matrix"


def test_a_group_spans_the_gammas_below_it(model):
    gamma = GAMMAS["layer.2.q"]
    assert model.index(1, GAMMA.index).data(RANGE) == pytest.approx((gamma, gamma, False))
    assert model.index(3, GAMMA.index).data(RANGE) is None


def test_a_group_says_whether_its_largest_gamma_is_reliable(model, session):
    statistics = LayerStatistics(
        name="layer.2.q", energies={"cola": 1.0, "sst2": 1.2}, gamma=6.0, mean_log_energy=0.05
    )
    session.layers.record_statistics(statistics)
    session.layers.learnt.emit("")
    assert model.index(1, GAMMA.index).data(RANGE) == (6.0, 6.0, True)


def test_a_group_with_vectors_has_tensors(model, session):
    merged = tuple(replace(row, disposition=Disposition.MERGED) for row in ROWS)
    session.adopt(TWO, plan(recipe(COLA, SST2), merged))
    assert model.index(0, 0).data(COUNT) == "2 tensors"


def test_every_tensor_is_found_where_it_is_shown(model):
    for position in range(model.total):
        index = model.index_of(model.name_at(position))
        assert model.position_of(index) == position
        assert index.parent().isValid()
    assert not model.index_of("no such tensor").isValid()
    assert model.position_of(model.index(0, 0)) == -1
    assert model.position_of(QModelIndex()) == -1


def test_sorted_rows_are_one_list_and_blocks_come_back(model):
    model.sort(GAMMA.index, Qt.SortOrder.DescendingOrder)
    assert not model.groups
    assert model.rowCount() == 5
    assert model.name_at(model.position_of(model.index(0, 0))) == "layer.10.q"
    model.sort(-1, Qt.SortOrder.AscendingOrder)
    assert len(model.groups) == 4


def test_groups_without_rows_are_not_shown(model):
    model.set_filter("layer.2", "")
    assert list(blocks(model)) == ["Block 2"]
    model.set_filter("nothing has this name", "")
    assert model.rowCount() == 0


def test_groups_are_not_selected(model):
    selectable = Qt.ItemFlag.ItemIsSelectable
    assert not model.flags(model.index(0, 0)) & selectable
    assert model.flags(model.index_of("layer.2.q")) & selectable


def test_the_first_click_on_gamma_brings_the_largest_first(model):
    role = Qt.ItemDataRole.InitialSortOrderRole
    across = Qt.Orientation.Horizontal
    assert model.headerData(GAMMA.index, across, role) == Descending.value
    assert model.headerData(TENSOR.index, across, role) == Ascending.value


@pytest.mark.parametrize(
    ("gamma", "text"),
    [(0.413, "0.413"), (71.162, "71.2"), (3e-5, "3.0×10⁻⁵"), (4e-4, "4.0×10⁻⁴"), (0.0, "0")],
)
def test_a_small_gamma_does_not_look_like_zero(model, session, gamma, text):
    record_gammas(session, {"layer.2.q": gamma})
    assert cell(model, "layer.2.q", GAMMA).strip() == text


def test_columns_that_say_nothing_are_not_useful(model, session):
    assert {OUTCOME.index, REGIME.index} <= model.useful
    model.set_filter("", "", merged=True)
    assert OUTCOME.index not in model.useful


def test_a_csv_says_why_a_gamma_is_unreliable(model, session):
    for name, mean in {"layer.0.q": 0.1, "layer.2.q": -5.0}.items():
        energies = {"cola": 1.0, "sst2": 2.0}
        statistics = LayerStatistics(name=name, energies=energies, gamma=0.9, mean_log_energy=mean)
        session.layers.record_statistics(statistics)
    columns = {column.title: column.values for column in exported(model.shown, ("cola", "sst2"))}
    names = [layer.row.name for layer in model.shown]
    reasons = columns["γ unreliable"]
    assert "norms near 1" in reasons[names.index("layer.0.q")]
    assert not reasons[names.index("layer.2.q")]
