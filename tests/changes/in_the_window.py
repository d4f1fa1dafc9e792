"""``python -m tests.changes.in_the_window FOLDER`` prints as JSON what the window has of them."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["QT_QPA_PLATFORM"] = "offscreen"  # before Qt is imported

from PySide6.QtCore import QSettings

from ace_gui.engine.contract import jobs
from ace_gui.engine.contract.events import JobDone
from ace_gui.engine.contract.scored import TaskDescribed
from ace_gui.gui.app import make_application
from ace_gui.gui.control.merge_stores import MergeStores
from ace_gui.gui.dialogs.help_dialogs import HelpDialog
from ace_gui.gui.dialogs.output_dialogs import ExportDialog
from ace_gui.gui.models.figures_model import rows_of
from ace_gui.gui.models.layer_columns import COLUMNS, exported
from ace_gui.gui.models.layers_model import LayersModel
from ace_gui.gui.panels.tasks_tab import TaskEditor
from ace_gui.gui.shell.help_desk import commands_of_menus
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.shell.window_frame import Space
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.theme import apply_theme
from ace_gui.recipe.output_forms import Output
from ace_gui.recipe.task_kinds import TaskKind
from ace_gui.recipe.values import Task
from tests.gui.fakes import BASE, COLA, ENGINE, SST2, FakeWorker, finished_merge, load, started


def of_the_editor() -> dict[str, Any]:
    """The form of a task of the new kind."""
    kind = TaskKind("masked-word")
    task = Task(data=Path("words.csv"), kind=kind)
    traits = kind.traits
    described = TaskDescribed(
        task=task,
        kind=kind,
        kinds=(kind,),
        metrics=traits.metrics,
        roles=traits.roles,
        optional=traits.optional,
    )
    editor = TaskEditor()
    editor.show_task(task, described, None, ())
    options = editor.form.fields
    return {
        "fields": list(options),
        "metrics": list(options["metric"].field.values),
        "pictures": kind.has_pictures,
    }


def of_the_export(window: MainWindow) -> dict[str, Any]:
    """What the dialog offers of the new form."""
    dialog = ExportDialog(window.session, window.output, window)
    before = dialog.bytes_needed()
    dialog.form_choice.choose(Output("numpy"))
    choice = dialog.form_choice
    return {
        "forms": [choice.itemText(index) for index in range(choice.count())],
        "fields": list(dialog.form.fields),
        "contents": dialog.contents.text(),
        "models": dialog.bytes_needed() / before,
    }


def of_the_window(folder: Path) -> dict[str, Any]:
    worker = FakeWorker()
    window = MainWindow(worker, Settings(), MergeStores(folder / "merges"))
    window.show()
    worker.say(ENGINE, job=0)
    before = commands_of_menus(window.menuBar())
    window.opener.open_paths([BASE, COLA, SST2])
    load(worker, COLA, SST2)
    worker.say(JobDone())
    window.merge.start()
    worker.say(started(), finished_merge(), JobDone())
    session = window.session
    workspace = window.workspace
    workspace.show_space(Space.SCORES)
    tabs = workspace.scores.tabs
    layers = LayersModel(session, workspace.healths).shown
    praise = {command.title: command for command in commands_of_menus(window.menuBar())}["Praise"]
    option = window.workspace.method.options.fields["quietly"].field
    return {
        "export": of_the_export(window),
        "tabs": [tabs.tabText(index) for index in range(tabs.count())],
        "action": {"shortcut": praise.shortcut, "why": praise.why, "menu": praise.menu},
        "action before": next(command.why for command in before if command.title == "Praise"),
        "headings": [column.title for column in COLUMNS],
        "csv": rows_of(exported(layers, ["cola", "sst2"])),
        "option": {"label": option.label, "help": option.help},
        "recipe": replace(session.draft.inputs, quietly=True).recipe().quietly,
    }


def main(folder: Path) -> dict[str, Any]:
    QSettings.setDefaultFormat(QSettings.Format.IniFormat)
    QSettings.setPath(QSettings.Format.IniFormat, QSettings.Scope.UserScope, str(folder))
    application = make_application()
    apply_theme(application)
    pages = HelpDialog()
    titles = [pages.pages.item(index).text() for index in range(pages.pages.count())]
    return {
        **of_the_window(folder),
        "editor": of_the_editor(),
        "pages": titles,
        "job": jobs.PraiseJob(name="this").name,
        "torch": "torch" in sys.modules,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))))
    sys.stdout.flush()
    os._exit(0)  # without the teardown of a window that nobody closed
