"""Everything that opens models and recipes: dialogs, drops, recent files, the sample."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from ace_gui.errors import WorkbenchError
from ace_gui.formatting import printable
from ace_gui.gui.control.conductor import Conductor
from ace_gui.gui.control.output_operations import OutputOperations
from ace_gui.gui.saving import save
from ace_gui.gui.shell.dropped_paths import RECIPES, classify, expand
from ace_gui.gui.state.activity import State
from ace_gui.gui.state.session import Session
from ace_gui.paths import Sample
from ace_gui.recipe.values import model_name

WEIGHTS = "Model weights (*.safetensors)"
RECIPE = "Recipes (*.yaml *.yml)"
MERGEKIT = "Recipes for mergekit (*.yaml *.yml)"
REPORT = "Reports (*.html)"


class Opener(QObject):
    """Asks for paths and hands them to the conductor.

    ``base_unclear`` carries the paths of several models of which one must be named the base.
    """

    base_unclear = Signal(object)

    def __init__(
        self, session: Session, conductor: Conductor, output: OutputOperations, window: QWidget
    ) -> None:
        super().__init__(window)
        self._session = session
        self._conductor = conductor
        self._output = output
        self._window = window

    def open_paths(self, paths: Sequence[Path]) -> None:
        """Open a recipe, or models with the base first, in place of what is loaded."""
        if paths:
            self._conductor.open(paths)

    def open_sample(self) -> None:
        """Open the sample project."""
        self.open_paths([Sample.IMAGES.recipe])

    def open_base(self) -> None:
        """Ask for the folder of a base model."""
        self._ask_folder("Base model", lambda path: self.open_paths([path]))

    def open_base_file(self) -> None:
        """Ask for a base model in one file."""
        self._ask_files("Base model", WEIGHTS, lambda paths: self.open_paths(paths[:1]), many=False)

    def change_base(self) -> None:
        """Ask for another base under the same experts."""
        self._ask_folder("Base model", self._conductor.set_base)

    def add_experts(self) -> None:
        """Ask for the folder of an expert, or a folder of such folders."""
        self._ask_folder("Expert", lambda path: self._conductor.add_experts(expand([path])))

    def add_expert_files(self) -> None:
        """Ask for experts in one file each."""
        self._ask_files("Experts", WEIGHTS, self._conductor.add_experts)

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
        self._ask_files("Recipe", RECIPE, lambda paths: self.open_paths(paths[:1]), many=False)

    def save_recipe(self) -> None:
        """Ask where to save the recipe of what is loaded."""
        # Reading and writing YAML takes a moment to import; the person is choosing a name.
        threading.Thread(target=import_module, args=("ace_gui.recipe.recipe_file",)).start()
        dialog = QFileDialog(
            self._window, "Save recipe", "recipe.ace.yaml", f"{RECIPE};;{MERGEKIT}"
        )
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("yaml")

        def write(paths: list[Path]) -> None:
            self._write_recipe(paths[0], mergekit=dialog.selectedNameFilter() == MERGEKIT)

        self._show(dialog, write)

    def save_report(self) -> None:
        """Ask where to write the report of the finished merge."""
        base = self._session.draft.inputs.base
        name = f"{model_name(base)}-merge.html" if base is not None else "merge.html"
        dialog = QFileDialog(self._window, "Write report", name, REPORT)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("html")
        self._show(dialog, lambda paths: self._output.report(paths[0]))

    def drop(self, paths: Sequence[Path]) -> None:
        """Open what was dropped: a recipe, a base, experts, or several models to sort out."""
        session = self._session
        if session.activity.is_running(State.MERGING, State.EXPORTING):
            session.advice.emit("Wait for the merge to end, or cancel it, before opening models.")
            return
        dropped = classify(paths)
        if dropped.recipe is not None:
            self.open_paths([dropped.recipe])
        elif session.draft.inputs.base is not None:
            self._conductor.add_experts(dropped.models)
        elif len(dropped.models) == 1:
            self.open_paths(dropped.models)
        elif dropped.models:
            self.base_unclear.emit(dropped.models)

    def _write_recipe(self, path: Path, *, mergekit: bool = False) -> None:
        chosen = path
        path = path if path.suffix.lower() in RECIPES else path.with_name(f"{path.name}.yaml")
        try:
            text = self._recipe_text(path.parent, mergekit=mergekit)
            save(path, text.encode("utf-8", "backslashreplace"), chosen)
        except WorkbenchError as error:
            self._session.fail(error)
            return
        notes = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
        self._session.advice.emit(" ".join([f"The recipe is in {path}.", *notes]))

    def _recipe_text(self, folder: Path, *, mergekit: bool) -> str:
        """The recipe of what is loaded, or mergekit's of the same merge."""
        from ace_gui.recipe.mergekit.writing import dump_mergekit
        from ace_gui.recipe.recipe_file import dump_recipe

        recipe = self._session.draft.inputs.recipe()
        if mergekit:
            return dump_mergekit(recipe, self._session.draft.resolved_parameters(), folder)
        note = self._session.results.note_on(self._session.draft.inputs)
        tuned = f"# Tuned by ACE workbench: {printable(note)}.\n" if note else ""
        return tuned + dump_recipe(recipe, folder)

    def _ask_folder(self, title: str, use: Callable[[Path], object]) -> None:
        dialog = QFileDialog(self._window, title)
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        self._show(dialog, lambda paths: use(paths[0]))

    def _ask_files(
        self, title: str, kinds: str, use: Callable[[list[Path]], object], *, many: bool = True
    ) -> None:
        dialog = QFileDialog(self._window, title, "", kinds)
        modes = QFileDialog.FileMode
        dialog.setFileMode(modes.ExistingFiles if many else modes.ExistingFile)
        self._show(dialog, use)

    def _show(self, dialog: QFileDialog, use: Callable[[list[Path]], object]) -> None:
        dialog.filesSelected.connect(lambda chosen: use([Path(text) for text in chosen]))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()
