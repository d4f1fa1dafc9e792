"""The type of the main window for its parts: the session and its controllers."""

from __future__ import annotations

from typing import Any

from PySide6.QtWidgets import QMainWindow

from ace_gui.gui.control.conductor import Conductor
from ace_gui.gui.control.engine_client import EngineClient, EngineThread, Operation
from ace_gui.gui.control.figure_operation import FigureOperation
from ace_gui.gui.control.layer_queries import LayerQueries
from ace_gui.gui.control.merge_operation import MergeOperation, OutputOperations, RunOperations
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.control.merge_times import MergeTimes
from ace_gui.gui.control.method_comparison import MethodComparison
from ace_gui.gui.control.persistence import Preferences, Sessions
from ace_gui.gui.control.scoring import Scoring
from ace_gui.gui.control.what_if import Forecasting, WhatIf
from ace_gui.gui.panels.notice import Notice
from ace_gui.gui.panels.welcome_page import WelcomePanel
from ace_gui.gui.shell.actions import Actions, Menus
from ace_gui.gui.shell.window_frame import WindowHeader
from ace_gui.gui.state.history import UndoHistory
from ace_gui.gui.state.session import Session
from ace_gui.gui.state.settings import Settings


class Window(QMainWindow):
    """The modules of the parts without a type here import this one."""

    actions_: Actions
    header: WindowHeader
    menus: Menus
    notice: Notice
    welcome: WelcomePanel
    project: Any
    opener: Any
    dialogs: Any
    help: Any
    workspace: Any

    def __init__(self, worker: EngineThread, settings: Settings, stores: MergeStores) -> None:
        super().__init__()
        self.settings = settings
        self.session = session = Session(self)
        self.engine = engine = EngineClient(session, worker)
        self.runs = runs = RunOperations(engine, stores)
        self.preferences = Preferences(settings, engine, runs)
        self.merge = MergeOperation(engine, runs)
        self.output = OutputOperations(engine, runs)
        self.conductor = Conductor(engine, runs)
        self.comparison = MethodComparison(engine, runs)
        self.two_models = Operation(engine)
        self.contents = Operation(engine)
        self.figure = FigureOperation(engine)
        self.history = UndoHistory(session.draft, self)
        self.sessions = Sessions(session)
        self.queries = LayerQueries(engine)
        self.what_if = WhatIf(engine)
        self.scoring = Scoring(engine, runs)
        self.forecasting = Forecasting(engine)
        self.merge_times = MergeTimes(engine)
