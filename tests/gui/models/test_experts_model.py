import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester

from ace_gui.gui.models.list_models import NAME, STATUS, WEIGHT, ExpertsModel
from ace_gui.gui.state.draft import Inputs
from ace_gui.gui.state.session import Session
from tests.gui.fakes import BASE, COLA, SST2, plan, recipe, summary

Fatal = QAbstractItemModelTester.FailureReportingMode.Fatal


@pytest.fixture
def model(session: Session) -> ExpertsModel:
    model = ExpertsModel(session)
    model.tester = QAbstractItemModelTester(model, Fatal)
    session.adopt(Inputs(base=BASE).with_experts([COLA]), plan(recipe(COLA)))
    return model


def test_an_expert_whose_headers_are_being_read_says_so(model, session):
    session.draft.propose(session.draft.inputs.with_experts([SST2]))
    assert model.index(0, STATUS).data() == "✓ 1.0 MB"
    assert "reading" in model.index(1, STATUS).data()
    session.draft.reject()
    assert model.rowCount() == 1


def test_warnings_are_marked_and_told(model, session):
    warned = type(summary(COLA))(**{**vars(summary(COLA)), "warnings": ("an odd <config>",)})
    session.adopt(session.draft.inputs, plan(recipe(COLA), experts=(warned,)))
    assert model.index(0, STATUS).data().startswith("⚠")
    assert "an odd <config>" in model.index(0, NAME).data(Qt.ItemDataRole.ToolTipRole)


def test_editing_asks_for_the_expert_it_should_become(model, qtbot):
    with qtbot.waitSignal(model.expert_edited) as signal:
        assert model.setData(model.index(0, NAME), " grammar\u202e ")
    assert signal.args[1].name == "grammar"
    with qtbot.waitSignal(model.expert_edited) as signal:
        assert model.setData(model.index(0, WEIGHT), 0.5)
    assert signal.args[1].weight == 0.5
    assert model.index(0, WEIGHT).data() == 1  # nothing has changed before it is planned


def test_names_and_weights_can_be_edited_the_status_cannot(model):
    editable = [bool(model.flags(model.index(0, c)) & Qt.ItemFlag.ItemIsEditable) for c in range(3)]
    assert editable == [True, True, False]
