"""The session of a window and what controls it, for all parts of the shell."""

from __future__ import annotations

from PySide6.QtWidgets import QMainWindow, QWidget

from ace_gui.gui.control.conductor import Conductor
from ace_gui.gui.control.engine.engine_client import EngineClient, EngineThread
from ace_gui.gui.control.layers.forecasting import Forecasting
from ace_gui.gui.control.layers.layer_queries import LayerQueries
from ace_gui.gui.control.layers.what_if import WhatIf
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.control.operations.merge_operation import MergeOperation
from ace_gui.gui.control.operations.method_comparison import MethodComparison
from ace_gui.gui.control.operations.output_operations import OutputOperations
from ace_gui.gui.control.operations.run_operations import RunOperations
from ace_gui.gui.control.operations.scoring import Scoring
from ace_gui.gui.control.preferences import Preferences
from ace_gui.gui.control.sessions import Sessions
from ace_gui.gui.state.chosen.history import History
from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings


class ControlledWindow(QMainWindow):
    """A window without content."""

    def __init__(
        self,
        worker: EngineThread,
        settings: Settings,
        stores: MergeStores,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.settings = settings
        self.session = session = Session(self)
        self.engine = engine = EngineClient(session, worker, self)
        self.runs = runs = RunOperations(session, engine, stores, self)
        self.preferences = Preferences(settings, session, engine, stores, runs, self)
        self.merge = MergeOperation(session, engine, stores, runs)
        self.output = OutputOperations(session, engine, runs, self)
        self.conductor = Conductor(session, engine, runs, self)
        self.comparison = MethodComparison(session, engine, stores, runs, self)
        self.history = History(session.draft, self)
        self.sessions = Sessions(session, parent=self)
        self.queries = LayerQueries(session, engine, self)
        self.what_if = WhatIf(session, engine, self)
        self.scoring = Scoring(session, engine, self)
        self.forecasting = Forecasting(session, engine, self)
