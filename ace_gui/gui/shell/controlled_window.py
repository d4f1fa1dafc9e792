"""The session of a window and what controls it, for all parts of the shell."""

from __future__ import annotations

from PySide6.QtWidgets import QMainWindow, QWidget

from ace_gui.gui.control.conductor import Conductor
from ace_gui.gui.control.engine_client import EngineClient, EngineThread
from ace_gui.gui.control.layer_queries import LayerQueries
from ace_gui.gui.control.merge_operation import MergeOperation, OutputOperations, RunOperations
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.control.operations import MethodComparison, ModelComparison
from ace_gui.gui.control.persistence import Preferences, Sessions
from ace_gui.gui.control.scoring import Scoring
from ace_gui.gui.control.what_if import Forecasting, WhatIf
from ace_gui.gui.state.history import History
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
        self.runs = runs = RunOperations(engine, stores)
        self.preferences = Preferences(settings, engine, runs)
        self.merge = MergeOperation(engine, runs)
        self.output = OutputOperations(engine, runs)
        self.conductor = Conductor(engine, runs)
        self.comparison = MethodComparison(engine, runs)
        self.two_models = ModelComparison(engine)
        self.history = History(session.draft, self)
        self.sessions = Sessions(session, parent=self)
        self.queries = LayerQueries(engine)
        self.what_if = WhatIf(engine)
        self.scoring = Scoring(engine, runs)
        self.forecasting = Forecasting(engine)
