"""The layers by block."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester
from pytestqt.qtbot import QtBot

from ace_gui.gui.models.layer_columns import Column
from ace_gui.gui.models.layer_health import Healths
from ace_gui.gui.models.layer_tree import COUNT, RANGE, LayerTree
from ace_gui.gui.models.layers_model import LayersModel
from ace_gui.gui.state.chosen.inputs import Inputs
from ace_gui.gui.state.session import Session
from tests.gui.fakes import BASE, COLA, GAMMAS, adopt_two, plan, recipe, record_gammas, row

Fatal = QAbstractItemModelTester.FailureReportingMode.Fatal


@pytest.fixture
def tree(session: Session) -> Iterator[LayerTree]:
    healths = Healths(session)
    rows = LayersModel(session, healths)
    tree = LayerTree(rows)
    tree.tester = QAbstractItemModelTester(tree, Fatal)
    adopt_two(session)
    record_gammas(session, GAMMAS)
    rows.flush()
    yield tree
    for made in (tree, rows, healths):
        made.deleteLater()


def shown(tree: LayerTree) -> dict[str, list[str]]:
    """Titles of the groups, with the names below each."""
    found = {}
    for position in range(tree.rowCount()):
        above = tree.index(position, 0)
        below = [tree.index(row, 0, above) for row in range(tree.rowCount(above))]
        found[above.data()] = [tree.rows.name_at(tree.position(index)) for index in below]
    return found


def test_tensors_stand_below_their_blocks(tree: LayerTree) -> None:
    assert shown(tree) == {
        "Block 0": ["layer.0.q", "layer.0.q.bias"],
        "Block 2": ["layer.2.q"],
        "Block 10": ["layer.10.q"],
        "After the blocks": ["head"],
    }


def test_a_group_says_how_many_of_what_are_in_it(tree: LayerTree) -> None:
    assert tree.index(0, 0).data(COUNT) == "1 merged, 1 averaged"
    assert tree.index(1, 0).data(COUNT) == "1 matrix"
    spoken = tree.index(1, 0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "Block 2, 1 matrix"


def test_a_group_spans_the_gammas_below_it(tree: LayerTree) -> None:
    gamma = GAMMAS["layer.2.q"]
    assert tree.index(1, Column.GAMMA).data(RANGE) == pytest.approx((gamma, gamma))
    assert tree.index(3, Column.GAMMA).data(RANGE) is None


def test_every_tensor_is_found_where_it_is_shown(tree: LayerTree) -> None:
    for position in range(tree.rows.rowCount()):
        index = tree.index_of(tree.rows.name_at(position))
        assert tree.position(index) == position
        assert index.parent().isValid()
    assert not tree.index_of("no such tensor").isValid()
    assert tree.position(tree.index(0, 0)) == -1
    assert tree.position(QModelIndex()) == -1


def test_sorted_rows_are_one_list_and_blocks_come_back(tree: LayerTree) -> None:
    tree.sort(Column.GAMMA, Qt.SortOrder.DescendingOrder)
    assert not tree.groups
    assert tree.rowCount() == 5
    assert tree.rows.name_at(tree.position(tree.index(0, 0))) == "layer.10.q"
    tree.sort(-1, Qt.SortOrder.AscendingOrder)
    assert len(tree.groups) == 4


def test_groups_without_rows_are_not_shown(tree: LayerTree) -> None:
    tree.rows.set_filter("layer.2", "")
    assert list(shown(tree)) == ["Block 2"]
    tree.rows.set_filter("nothing has this name", "")
    assert tree.rowCount() == 0


def test_news_of_a_tensor_reach_its_group_too(
    tree: LayerTree, session: Session, qtbot: QtBot
) -> None:
    told: list[tuple[bool, int]] = []
    tree.dataChanged.connect(lambda first, _: told.append((first.parent().isValid(), first.row())))
    with qtbot.waitSignal(tree.dataChanged):
        record_gammas(session, {"layer.10.q": 0.9})
    assert (True, 0) in told
    assert (False, 2) in told


def test_news_of_many_groups_are_told_once(session: Session, qtbot: QtBot) -> None:
    healths = Healths(session)
    rows = LayersModel(session, healths)
    tree = LayerTree(rows)
    blocks = tuple(row(f"layer.{block}.q", block=block) for block in range(40))
    session.adopt(Inputs(base=BASE).with_experts([COLA]), plan(recipe(COLA), rows=blocks))
    assert len(tree.groups) == 40
    with qtbot.assertNotEmitted(tree.dataChanged), qtbot.waitSignal(tree.much_changed):
        session.draft.preview_tau(0.7)
    for made in (tree, rows, healths):
        made.deleteLater()


def test_groups_are_not_selected(tree: LayerTree) -> None:
    selectable = Qt.ItemFlag.ItemIsSelectable
    assert not tree.flags(tree.index(0, 0)) & selectable
    assert tree.flags(tree.index_of("layer.2.q")) & selectable
