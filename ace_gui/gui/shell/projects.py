"""The open project with its file, opening and saving of models and recipes, and recent projects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QMimeData, QObject, Signal
from PySide6.QtWidgets import QMessageBox

from ace_gui.errors import OutputError, WorkbenchError
from ace_gui.formatting import printable
from ace_gui.gui.control.persistence import (
    TUNED,
    is_written_by_program,
    move_project,
    project_name,
    project_of,
)
from ace_gui.gui.control.project_notes import read_notes, write_notes
from ace_gui.gui.panels.welcome_page import last_use
from ace_gui.gui.saving import save
from ace_gui.gui.shell.actions import set_allowed
from ace_gui.gui.shell.base_window import Window
from ace_gui.gui.shell.dialogs import question
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
from ace_gui.paths import Sample, sessions_folder
from ace_gui.recipe.model_paths import cache_folder

if TYPE_CHECKING:
    from ace_gui.gui.dialogs.models_dialogs import ScanDialog

RECIPES: Final = (".yaml", ".yml")


class Project(QObject):
    """The open project. ``file``: its recipe, or None for models alone. ``changed``: of the project
    or its file. ``save_wanted``: the person wants to save before the project is closed."""

    changed = Signal()
    save_wanted = Signal()

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        session = window.session
        history = window.history
        self._session = session
        self._history = history
        self._sessions = window.sessions
        self._settings = window.settings
        self._window = window
        self._then: Callable[[], object] | None = None
        self.file: Path | None = None
        self._chosen_name = ""
        """The user's name for a project that has no file yet."""

        self.notes = ""
        """What the user has written about the project."""

        self.box: QMessageBox | None = None
        # the tasks as they were opened or saved; undo steps do not contain them
        self._tasks = session.draft.planned.tasks
        self._was_modified = False
        self._is_discarded = False
        history.stack.cleanChanged.connect(lambda _: self._follow())
        session.draft.changed.connect(self._follow)

    def _follow(self) -> None:
        if self.is_modified != self._was_modified:
            self._emit_changed()

    def _emit_changed(self) -> None:
        self._was_modified = self.is_modified
        self.changed.emit()

    @property
    def is_modified(self) -> bool:
        """Whether anything has changed since it was opened or saved."""
        planned = self._session.draft.planned
        changed = not self._history.stack.isClean() or planned.tasks != self._tasks
        return changed and bool(planned.experts)

    @property
    def is_autosaved(self) -> bool:
        """Whether it is kept as it is, without a question: all but files that the user keeps."""
        return self.is_sample or self.can_be_renamed

    @property
    def is_unsaved(self) -> bool:
        """Whether the user's own file lacks changes."""
        return self.is_modified and not self.is_autosaved

    @property
    def is_sample(self) -> bool:
        return self.file in {sample.recipe for sample in Sample}

    @property
    def name(self) -> str:
        """The name of its file, or of the file that it will get; empty if nothing is open."""
        if self.file is not None:
            return short_name(self.file)
        inputs = self._session.draft.inputs
        if inputs.base is None:
            return ""
        return self._chosen_name or project_name(inputs.recipe())

    @property
    def can_be_renamed(self) -> bool:
        """Whether its name is not that of a file that the user keeps."""
        return self.file is None or self._is_in_folder

    @property
    def _is_in_folder(self) -> bool:
        """Whether its file is in the program's folder."""
        return self.file is not None and self.file.is_relative_to(sessions_folder())

    def write_notes(self, text: str) -> None:
        """Keep the user's notes."""
        self.notes = text
        self._sessions.keep_notes(text)

    def rename(self, name: str) -> None:
        """Give the project another name; its file, if it has one, moves to a free name."""
        if not self.can_be_renamed:
            return
        if self.file is None:
            self._chosen_name = name
        else:
            self._move(self.file, name)
        self._emit_changed()

    def _move(self, file: Path, name: str) -> None:
        try:
            moved = move_project(file, name)
        except OSError as error:
            sentence = f"{file} cannot be renamed: {error.strerror or error}."
            self._session.fail(OutputError(sentence, path=file))
            return
        self._settings.replace_recent(file, moved)
        self.file = moved

    def open(self, paths: tuple[Path, ...]) -> None:
        """Record that a recipe or models were opened."""
        is_recipe = len(paths) == 1 and paths[0].suffix.lower() in RECIPES
        self.file = paths[0].absolute() if is_recipe else None
        self._chosen_name = ""
        self.notes = "" if self.file is None else read_notes(self.file)
        self._sessions.keep_notes(self.notes)
        self._history.reset()
        self._tasks = self._session.draft.planned.tasks
        if self.file is not None and not self.is_sample:
            self._settings.remember(self.file)
        self._emit_changed()

    def saved(self, file: Path) -> None:
        """Record the file that the project was saved to."""
        self.file = file.absolute()
        self._tasks = self._session.draft.planned.tasks
        self._history.stack.setClean()
        self._settings.remember(self.file)
        self._emit_changed()
        self._go_on()

    def leave(self) -> None:
        """Close the project. Unsaved work is kept for later, unless it was to be discarded."""
        unsaved = self.is_modified and not self._is_discarded
        name = self.name if self.file is None else ""
        own_file = self.file if self._is_in_folder else None
        keeps = self.file is None or unsaved
        saved_file = self._sessions.leave(keep=keeps, name=name, file=own_file)
        self._is_discarded = False
        if saved_file is not None:
            self._settings.remember(saved_file)
        file = saved_file or self.file
        if file is not None:
            self._settings.note(RecentProject.of(self._session, file))
            write_notes(file, self.notes)
        self.file = None
        self.notes = ""
        self._emit_changed()

    def before_leaving(self, then: Callable[[], object]) -> None:
        """Continue; if the user's own file lacks changes, ask about them first."""
        self._is_discarded = False
        if not self.is_unsaved:
            then()
            return
        self._then = then
        if self.box is not None:
            return
        buttons = QMessageBox.StandardButton
        text = f"Save the changes to the project {self.name}?"
        self.box = box = question(self._window, text, "Finished merges are always kept.")
        box.setStandardButtons(buttons.Save | buttons.Discard | buttons.Cancel)
        box.button(buttons.Discard).setText("&Don't save")
        box.setDefaultButton(buttons.Save)
        box.finished.connect(self._answer)
        show_once(box)

    def stay(self) -> None:
        """Drop the step that was to follow the save, because saving has failed."""
        self._then = None

    def _answer(self, answer: int) -> None:
        self.box = None
        if answer == QMessageBox.StandardButton.Discard:
            self._is_discarded = True
            self._go_on()
        elif answer == QMessageBox.StandardButton.Save:
            self.save_wanted.emit()  # ``saved`` continues
        else:
            self._then = None

    def _go_on(self) -> None:
        then = self._then
        self._then = None
        if then is not None:
            then()


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
