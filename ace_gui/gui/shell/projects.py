"""Opening and saving of models and recipes, and recent projects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QMimeData, QObject
from PySide6.QtWidgets import QMessageBox

from ace_gui.errors import WorkbenchError
from ace_gui.formatting import printable
from ace_gui.gui.control.persistence import (
    TUNED,
    is_written_by_program,
    project_of,
)
from ace_gui.gui.panels.welcome_page import last_use
from ace_gui.gui.saving import save
from ace_gui.gui.shell.actions import set_allowed
from ace_gui.gui.shell.base_window import Window
from ace_gui.gui.shell.dialogs import question
from ace_gui.gui.shell.open_project import RECIPES, Project
from ace_gui.gui.state.activity import Level
from ace_gui.gui.state.session import WAIT
from ace_gui.gui.state.settings import RecentProject
from ace_gui.gui.text import ENDING, plain, short_name
from ace_gui.gui.widgets.file_dialogs import (
    MODELS,
    ask_files,
    ask_folders,
    ask_paths,
    ask_target,
    show_once,
)
from ace_gui.paths import sessions_folder
from ace_gui.recipe.model_paths import cache_folder

if TYPE_CHECKING:
    from ace_gui.gui.dialogs.models_dialogs import ScanDialog

RECIPES_KIND: Final = "recipes"
WEIGHTS = "Model weights (*.safetensors *.gguf)"
RECIPE = "Recipes (*.yaml *.yml)"
MERGEKIT = "Recipes for mergekit (*.yaml *.yml)"
REPORT = "Reports (*.html)"
_MODEL_FILES = ("config.json", "adapter_config.json", "model_index.json", "modules.json")
_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth")


class Opener:
    """Asks for paths and opens them. ``scanned``: the dialog of the latest scan. ``box``: the
    latest question whether to continue a project."""

    def __init__(self, window: Window) -> None:
        self._session = window.session
        self._conductor = window.conductor
        self._window = window
        self._project: Project = window.project
        self._own_recipe: Path | None = None  # the recipe that this window wrote
        self.scanned: ScanDialog | None = None
        self.box: QMessageBox | None = None
        window.project.save_wanted.connect(self.save_recipe)

    def open_paths(self, paths: Sequence[Path]) -> None:
        """Open a recipe, or models with the base model first, and replace what is loaded."""
        if self._must_wait():
            return
        if len(paths) == 1 and is_collection(paths[0]):
            self.scan_folders(paths, None)
        elif paths:
            self._project.before_leaving(lambda: self._open_or_continue(paths))

    def _open_or_continue(self, paths: Sequence[Path]) -> None:
        """Open models, or the project of the same models that the person wants to continue."""
        earlier = project_of(paths, self._window.settings.recent) if len(paths) > 1 else None
        if earlier is None:
            self._conductor.open(paths)
            return
        text = f"Continue the project {short_name(earlier)}?"
        details = "It has these models, with the parameters, overrides and tasks that were set."
        self.box = box = question(self._window, text, details)
        resume = box.addButton("&Continue it", QMessageBox.ButtonRole.AcceptRole)
        begin = box.addButton("&New project", QMessageBox.ButtonRole.ActionRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(resume)
        resume.clicked.connect(lambda: self._conductor.open([earlier]))
        begin.clicked.connect(lambda: self._conductor.open(paths))
        show_once(box)

    def open_base(self) -> None:
        """Ask for a base model: a folder, or a file of weights."""
        ask_paths(self._window, "Base model: a folder or a file", WEIGHTS, MODELS, self._open)

    def _open(self, paths: Sequence[Path]) -> None:
        if len(paths) == 1:
            self.open_paths(paths)
        else:
            self.scan_folders(paths, None)

    def change_base(self) -> None:
        """Ask for another base model for the same experts."""

        def use(paths: Sequence[Path]) -> None:
            self._conductor.change(replace(self._session.draft.inputs, base=paths[0]))

        ask_paths(self._window, "Base model", WEIGHTS, MODELS, use)

    def add_experts(self) -> None:
        """Ask for experts: folders, files of weights, or a folder that contains them."""
        inputs = self._session.draft.inputs
        last = inputs.experts[-1].path if inputs.experts else inputs.base
        start = last.parent if last is not None else None
        title = "Experts: folders or files, one or several"
        ask_paths(self._window, title, WEIGHTS, MODELS, self.add, start=start)

    def add(self, paths: Sequence[Path]) -> None:
        """Add experts. For a folder that only contains models, let the user choose among them."""
        if any(is_collection(path) for path in paths):
            self._scan_for_more(paths)
        else:
            self._conductor.add_experts(paths)

    def scan(self) -> None:
        ask_folders(self._window, "Scan a folder", MODELS, self._scan_for_more)

    def _scan_for_more(self, paths: Sequence[Path]) -> None:
        self.scan_folders(paths, self._base)

    @property
    def _base(self) -> Path | None:
        """The base to which experts are added, open or being opened; None if there is none."""
        opening = self._conductor.opening
        if opening and opening[0].suffix.lower() not in RECIPES:
            return opening[0]
        return self._session.draft.inputs.base

    def open_cached(self) -> None:
        """Offer the models in the local Hugging Face cache."""
        self._scan_for_more([cache_folder()])

    def open_recipe(self) -> None:
        ask_files(self._window, "Recipe", RECIPE, RECIPES_KIND, self.open_paths)

    def save_recipe(self) -> None:
        """Save to the project's file if that loses nothing in it, or else ask for a path."""
        file = self._project.file
        if file is None or self._project.is_sample:
            self.save_recipe_as()
        elif file == self._own_recipe or is_written_by_program(file):
            self.write_recipe(file)
        else:
            self.save_recipe_as()

    def save_recipe_as(self) -> None:
        """Ask for a path and save the recipe there."""
        # Importing YAML takes a moment, so do it while the user chooses a name.
        threading.Thread(target=import_module, args=("ace_gui.recipe.recipe_file",)).start()
        project = self._project
        file = project.file
        if file is None or project.is_sample or file.is_relative_to(sessions_folder()):
            name = f"{project.name or 'recipe'}{ENDING}"  # not in the program's own folders
        else:
            name = str(file)

        def write(paths: list[Path]) -> None:
            self.write_recipe(paths[0], mergekit=dialog.selectedNameFilter() == MERGEKIT)

        kinds = f"{RECIPE};;{MERGEKIT}"
        dialog = ask_target(self._window, "Save as file", name, kinds, RECIPES_KIND, write)
        dialog.setDefaultSuffix("yaml")
        dialog.rejected.connect(self._project.stay)

    def save_report(self) -> None:
        """Ask for a path and write the report of the finished merge there."""
        name = f"{self._project.name}-merge.html" if self._project.name else "merge.html"

        write = self._window.output.report
        dialog = ask_target(
            self._window, "Write report", name, REPORT, "reports", lambda paths: write(paths[0])
        )
        dialog.setDefaultSuffix("html")

    def drop(self, paths: Sequence[Path]) -> None:
        """Open dropped paths: a recipe, a base model, experts, or several models to choose from."""
        if self._must_wait():
            return
        recipe = next((path for path in paths if path.suffix.lower() in RECIPES), None)
        if recipe is not None:
            self.open_paths([recipe])
        elif paths and self._base is not None:
            self.add(paths)
        elif paths:
            self._open(paths)

    def _must_wait(self) -> bool:
        """Whether a write is in progress. If so, show a message."""
        busy = self._session.activity.is_writing
        if busy:
            text = "Wait for the merge to end, or cancel it, before opening models."
            self._session.advice.emit(text)
        return busy

    def scan_folders(self, paths: Sequence[Path], base: Path | None) -> None:
        """Offer the models found in these paths."""
        from ace_gui.gui.dialogs.models_dialogs import ScanDialog

        self.scanned = dialog = ScanDialog(self._window.engine, paths, base, self._window)
        dialog.chosen.connect(self._take_scanned)
        show_once(dialog)

    def _take_scanned(self, base: Path | None, experts: Sequence[Path]) -> None:
        if base is None:
            self._conductor.add_experts(experts)
        else:
            self._project.before_leaving(lambda: self._open_or_continue([base, *experts]))

    def write_recipe(self, path: Path, *, mergekit: bool = False) -> None:
        """Write the recipe in this program's format or in mergekit's, and show a failure."""
        asked_path = path
        if path.suffix.lower() not in RECIPES:
            path = path.with_name(f"{path.name}.yaml")
        try:
            text = self.recipe_text(path.parent, mergekit=mergekit)
            save(path, text.encode("utf-8", "backslashreplace"), asked_path)
        except WorkbenchError as error:
            self._session.fail(error)
            self._project.stay()
            return
        notes = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
        text = " ".join([f"The recipe is in {path}.", *notes])
        self._session.written.emit(text, path)
        if not mergekit:
            self._own_recipe = path.absolute()
            self._project.saved(path)

    def recipe_text(self, folder: Path, *, mergekit: bool) -> str:
        """The recipe as YAML, in this program's format or in mergekit's."""
        from ace_gui.recipe.mergekit.writing import dump_mergekit
        from ace_gui.recipe.recipe_file import dump_recipe

        recipe = self._session.draft.inputs.recipe()
        if mergekit:
            return dump_mergekit(recipe, self._session.draft.resolved_parameters(), folder)
        note = self._session.results.note_on(self._session.draft.inputs)
        tuned = f"{TUNED}{printable(note)}.\n" if note else ""
        return tuned + dump_recipe(self._session.draft.recipe_to_save(), folder)


def local_paths(data: QMimeData) -> tuple[Path, ...]:
    """The local files and folders in the dragged data."""
    return tuple(Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile())


def is_collection(path: Path) -> bool:
    """Whether a folder contains models but is not a model itself."""
    inside = path.is_dir() and not _holds_model(path)
    return inside and any(child.is_dir() for child in path.iterdir())


def _holds_model(path: Path) -> bool:
    # A diffusers pipeline or a sentence-transformers model is one model with several parts.
    if any((path / name).exists() for name in _MODEL_FILES):
        return True
    return any(entry.suffix in _WEIGHTS for entry in path.iterdir() if entry.is_file())


class RecentProjects(QObject):
    """Shows recent projects in the menu and on the welcome page, and reopens them."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        settings = window.settings
        opener = window.opener
        self._window = window
        self._settings = settings
        self._opener = opener
        self._menus = window.menus
        self._help = window.help
        self._recent_shown: tuple[RecentProject, ...] | None = None
        self._is_known = False  # whether there is anything to reopen
        self._recovered = next(iter(window.sessions.recover()), None)
        if self._recovered is not None:
            settings.remember(self._recovered)
        for chosen in (window.menus.recent_chosen, window.welcome.recent.chosen):
            chosen.connect(lambda path: opener.open_paths([path]))
        window.welcome.recent.lost.connect(self.locate)
        window.project.changed.connect(self.refresh)
        window.session.activity.changed.connect(self._allow)
        window.actions_.connect(window.actions_.reopen, self.reopen)
        self.refresh()
        if self._recovered is not None:
            self._show_crash({"Reopen last session": self.reopen})

    def refresh(self) -> None:
        projects = self._settings.recent_projects
        reopen = self._window.actions_.reopen
        self._is_known = bool(projects)
        self._allow()
        if projects == self._recent_shown:
            return
        self._recent_shown = projects
        self._menus.set_recent([project.path for project in projects])
        self._allow()
        self._window.welcome.recent.show_projects(projects)
        if projects:
            name = plain(short_name(projects[0].path))
            reopen.setToolTip(f"Open {name}")
            text = ", ".join(filter(None, (name, last_use(projects[0]))))
            self._window.welcome.starts.say(reopen, text)

    def _allow(self) -> None:
        busy = self._window.session.activity.is_writing
        why = WAIT if busy else "" if self._is_known else "There is no last session."
        set_allowed(self._window.actions_.reopen, why)
        self._menus.recent.setEnabled(bool(self._recent_shown) and not busy)

    def reopen(self) -> None:
        """Reopen what a crashed window left, or else the latest recipe."""
        recovered = self._recovered
        self._recovered = None
        if recovered is not None:
            self._window.notice.hide()  # its offer is accepted now
            self._opener.open_paths([recovered])
        elif self._settings.recent:
            self._opener.open_paths(self._settings.recent[:1])

    def locate(self, lost: Path) -> None:
        """Ask for the new path of a recent recipe, and open it."""

        def take(paths: list[Path]) -> None:
            self._settings.replace_recent(lost, paths[0])
            self._opener.open_paths(paths)

        ask_files(self._window, f"Locate {lost}", RECIPE, RECIPES_KIND, take)

    def show_crash(self, words: str) -> None:
        """Report that an earlier window crashed, with its last output, or nothing for ""."""
        if not words:
            return
        self._help.crash = words
        reopen = {"Reopen last session": self.reopen} if self._recovered else {}
        self._show_crash({**reopen, "Report a problem": self._help.report_problem})

    def _show_crash(self, answers: Mapping[str, Callable[[], object]]) -> None:
        if self._recovered:
            text = "The last session crashed. Its project and its merges are kept."
        else:
            text = "The last session crashed."
        self._window.notice.ask(Level.WARNING, text, self._help.crash, answers)
