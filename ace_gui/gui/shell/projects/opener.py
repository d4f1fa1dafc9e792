"""Everything that opens models and recipes: dialogs, drops, recent files, the sample."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from ace_gui.errors import WorkbenchError
from ace_gui.formatting import printable
from ace_gui.gui.control.conductor import Conductor
from ace_gui.gui.control.operations.output_operations import OutputOperations
from ace_gui.gui.saving import save
from ace_gui.gui.shell.projects.dropped_paths import RECIPES, classify, is_collection
from ace_gui.gui.shell.projects.project import Project
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.session import Session
from ace_gui.gui.text import ENDING
from ace_gui.gui.widgets.files.file_dialogs import ask_files, ask_folders, ask_target
from ace_gui.paths import Sample

if TYPE_CHECKING:
    from ace_gui.gui.dialogs.scan_dialog import ScanDialog

MODELS: Final = "models"
RECIPES_KIND: Final = "recipes"
WEIGHTS = "Model weights (*.safetensors)"
RECIPE = "Recipes (*.yaml *.yml)"
MERGEKIT = "Recipes for mergekit (*.yaml *.yml)"
REPORT = "Reports (*.html)"


class Opener(QObject):
    """Asks for paths and hands them on. ``scanned``: the dialog of the latest scan."""

    def __init__(
        self,
        session: Session,
        conductor: Conductor,
        output: OutputOperations,
        project: Project,
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._session = session
        self._conductor = conductor
        self._output = output
        self._project = project
        self._window = window
        self._own: Path | None = None  # the recipe that this window wrote
        self.scanned: ScanDialog | None = None

    def open_paths(self, paths: Sequence[Path]) -> None:
        """Open a recipe, or models with the base first, in place of what is loaded."""
        if self._must_wait():
            return
        if len(paths) == 1 and is_collection(paths[0]):
            self._scan(paths, None)
        elif paths:
            self._project.before_leaving(lambda: self._conductor.open(paths))

    def open_sample(self) -> None:
        """Open the sample project."""
        self.open_paths([Sample.IMAGES.recipe])

    def open_base(self) -> None:
        """Ask for the folder of a base model."""
        ask_folders(self._window, "Base model", MODELS, self._open_folders)

    def _open_folders(self, folders: Sequence[Path]) -> None:
        if len(folders) == 1:
            self.open_paths(folders)
        else:
            self._scan(folders, None)

    def open_base_file(self) -> None:
        """Ask for a base model in one file."""
        ask_files(self._window, "Base model", WEIGHTS, MODELS, self.open_paths)

    def change_base(self) -> None:
        """Ask for another base under the same experts."""
        use = self._conductor.set_base
        ask_folders(self._window, "Base model", MODELS, lambda paths: use(paths[0]))

    def add_experts(self) -> None:
        """Ask for the folders of experts, or a folder of such folders."""
        ask_folders(self._window, "Experts", MODELS, self.add, start=self._beside())

    def add_expert_files(self) -> None:
        """Ask for experts in one file each."""
        ask_files(
            self._window,
            "Experts",
            WEIGHTS,
            MODELS,
            self.add,
            many=True,
            start=self._beside(),
        )

    def add(self, paths: Sequence[Path]) -> None:
        """Add experts; where a folder only holds models, those that the person chooses in it."""
        if any(is_collection(path) for path in paths):
            self._scan(paths, self._session.draft.inputs.base)
        else:
            self._conductor.add_experts(paths)

    def scan(self) -> None:
        """Ask for folders, and look for models in them."""
        base = self._session.draft.inputs.base
        ask_folders(self._window, "Scan a folder", MODELS, lambda paths: self._scan(paths, base))

    def open_cached(self) -> None:
        """Offer the models in the local Hugging Face cache."""
        from ace_gui.gui.dialogs.hub_cache_dialog import HubCacheDialog

        has_base = self._session.draft.inputs.base is not None
        dialog = HubCacheDialog(self._conductor, self._window, can_add=has_base)
        dialog.base_chosen.connect(lambda path: self.open_paths([path]))
        dialog.experts_chosen.connect(self._conductor.add_experts)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def open_recipe(self) -> None:
        """Ask for a recipe."""
        ask_files(self._window, "Recipe", RECIPE, RECIPES_KIND, self.open_paths)

    def save_recipe(self) -> None:
        """Save to the recipe that this window wrote before; else ask where to."""
        if self._project.file is not None and self._project.file == self._own:
            self._write_recipe(self._own)
        else:
            self.save_recipe_as()

    def save_recipe_as(self) -> None:
        """Ask where to save the recipe of what is loaded."""
        # Reading and writing YAML takes a moment to import; the person is choosing a name.
        threading.Thread(target=import_module, args=("ace_gui.recipe.recipe_file",)).start()
        project = self._project
        own = project.file if not project.is_sample else None  # not into the program's own folder
        name = str(own or f"{project.name or 'recipe'}{ENDING}")

        def write(paths: list[Path]) -> None:
            self._write_recipe(paths[0], mergekit=dialog.selectedNameFilter() == MERGEKIT)

        kinds = f"{RECIPE};;{MERGEKIT}"
        dialog = ask_target(self._window, "Save recipe", name, kinds, RECIPES_KIND, write)
        dialog.setDefaultSuffix("yaml")
        dialog.rejected.connect(self._project.stay)

    def save_report(self) -> None:
        """Ask where to write the report of the finished merge."""
        name = f"{self._project.name}-merge.html" if self._project.name else "merge.html"

        def write(paths: list[Path]) -> None:
            self._output.report(paths[0])

        dialog = ask_target(self._window, "Write report", name, REPORT, "reports", write)
        dialog.setDefaultSuffix("html")

    def drop(self, paths: Sequence[Path]) -> None:
        """Open what was dropped: a recipe, a base, experts, or several models to sort out."""
        if self._must_wait():
            return
        dropped = classify(paths)
        if dropped.recipe is not None:
            self.open_paths([dropped.recipe])
        elif dropped.models:
            self._sort_out(dropped.models)

    def _must_wait(self) -> bool:
        """Whether something is being written; then it says so."""
        busy = self._session.activity.is_running(State.MERGING, State.EXPORTING)
        if busy:
            said = "Wait for the merge to end, or cancel it, before opening models."
            self._session.advice.emit(said)
        return busy

    def _sort_out(self, models: Sequence[Path]) -> None:
        """Experts where a base is open; else a base, or several models of which one is it."""
        if self._session.draft.inputs.base is not None:
            self.add(models)
        else:
            self._open_folders(models)

    def _scan(self, paths: Sequence[Path], base: Path | None) -> None:
        """Offer the models in these places."""
        from ace_gui.gui.dialogs.scan_dialog import ScanDialog

        self.scanned = dialog = ScanDialog(self._conductor, paths, base, self._window)
        dialog.chosen.connect(self._take_scanned)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def _take_scanned(self, base: Path | None, experts: Sequence[Path]) -> None:
        if base is None:
            self._conductor.add_experts(experts)
        else:
            self._project.before_leaving(lambda: self._conductor.open([base, *experts]))

    def _beside(self) -> Path | None:
        """Where experts are looked for first: where the last one is, else beside the base."""
        inputs = self._session.draft.inputs
        last = inputs.experts[-1].path if inputs.experts else inputs.base
        return last.parent if last is not None else None

    def _write_recipe(self, path: Path, *, mergekit: bool = False) -> None:
        chosen = path
        path = path if path.suffix.lower() in RECIPES else path.with_name(f"{path.name}.yaml")
        try:
            text = self._recipe_text(path.parent, mergekit=mergekit)
            save(path, text.encode("utf-8", "backslashreplace"), chosen)
        except WorkbenchError as error:
            self._session.fail(error)
            self._project.stay()
            return
        notes = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
        said = " ".join([f"The recipe is in {path}.", *notes])
        self._session.written.emit(said, path)
        if not mergekit:
            self._own = path.absolute()
            self._project.saved(path)

    def _recipe_text(self, folder: Path, *, mergekit: bool) -> str:
        """The recipe of what is loaded, or mergekit's of the same merge."""
        from ace_gui.recipe.mergekit.writing import dump_mergekit
        from ace_gui.recipe.recipe_file import dump_recipe

        recipe = self._session.draft.inputs.recipe()
        if mergekit:
            return dump_mergekit(recipe, self._session.draft.resolved_parameters(), folder)
        note = self._session.results.note_on(self._session.draft.inputs)
        tuned = f"# Tuned by ACE workbench: {printable(note)}.\n" if note else ""
        return tuned + dump_recipe(self._session.draft.recipe_to_save(), folder)
