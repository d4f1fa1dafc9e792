"""The models that are scored, and the source of each for a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ace_gui.architecture.loading import read_config
from ace_gui.checkpoints import Checkpoint, find_converted, is_adapter
from ace_gui.engine.modules.in_model import ModulesOf, modules_of
from ace_gui.engine.modules.task_tensors import kept_head
from ace_gui.engine.planning.expert_files import HEADS, head_tensors
from ace_gui.engine.planning.models import OpenedModel, open_files
from ace_gui.engine.planning.prepare import Prepared
from ace_gui.errors import RecipeError, TaskError
from ace_gui.formatting import path_text
from ace_gui.paths import conversions_folder
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.tasks import Task

BASE: Final = "base"
RECIPE: Final = "merge_recipe.yaml"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model that is scored. ``expert``: its index among the recipe's experts, None for others.

    ``model``: in memory; then ``path`` is the folder that it was loaded from, if any.
    """

    name: str
    path: Path
    expert: int | None = None
    is_base: bool = False
    model: Any = None


@dataclass(frozen=True, kw_only=True)
class Own:
    """Tensors that replace some of a model's: by the model's name, the name in ``checkpoint``.

    ``fills``: tensors that the model lacks are taken from it as well.
    """

    checkpoint: Checkpoint = field(compare=False)
    names: Mapping[str, str]
    fills: bool = True


@dataclass(frozen=True, kw_only=True)
class Loading:
    """The source of a model; equal ones give the same model.

    ``config``: of the model with its head. ``modules``: modules to attach. ``preprocessing``:
    folders that may have a tokenizer or image processor; the first that has one is used.
    ``model``: one in memory, which is used as it is.
    """

    folder: Path
    config: Mapping[str, Any]
    own: Own | None = None
    modules: ModulesOf | None = None
    model: Any = None
    preprocessing: tuple[Path, ...] = field(compare=False)

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that answers may depend on."""
        found = [
            entry
            for folder in (self.folder, *self.preprocessing)
            for entry in sorted(_files(folder))
        ]
        found += [] if self.own is None else [stamp.path for stamp in self.own.checkpoint.files]
        if self.modules is not None and self.modules.base is not None:
            found += [stamp.path for stamp in open_files(self.modules.base).files]
        return tuple(dict.fromkeys(found))


def _files(folder: Path) -> list[Path]:
    return [entry for entry in folder.iterdir() if entry.is_file()]


@dataclass(frozen=True, kw_only=True)
class Models:
    """The recipe's models, if there is a recipe, and more folders or models in memory.

    ``with_base``: whether the base is scored too.
    """

    prepared: Prepared | None
    with_base: bool = True
    folders: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()

    def subjects(self) -> list[Subject]:
        """All models to score: the base, the experts, the folders by name."""
        found = []
        if self.prepared is not None:
            recipe = self.prepared.plan.recipe
            if self.with_base:
                found.append(Subject(name=BASE, path=recipe.base_model, is_base=True))
            named = zip(recipe.expert_names, recipe.models, strict=True)
            found += [
                Subject(name=name, path=entry.model, expert=t)
                for t, (name, entry) in enumerate(named)
            ]
        pairs = zip(self.names, self.folders, strict=True)
        return found + [_subject(name, given) for name, given in pairs]

    def owner(self, task: Task, name: str) -> int | None:
        """The expert of a task: the one it names, or else the one with the task's name.

        Raises TaskError if the recipe has no such expert.
        """
        if self.prepared is None:
            return None
        names = self.prepared.plan.recipe.expert_names
        if task.expert is not None and task.expert not in names:
            expert_list = ", ".join(names)
            raise TaskError(
                f"The task {name} belongs to {task.expert!r}, but the recipe's experts are "
                f"{expert_list}.",
                key="expert",
            )
        wanted = task.expert or name
        return names.index(wanted) if wanted in names else None

    def owner_name(self, task: Task, name: str) -> str | None:
        """The name of the expert whose head a merged model may have kept."""
        owner = self.owner(task, name)
        if self.prepared is None or owner is None:
            return task.expert or name
        return self.prepared.plan.recipe.expert_names[owner]

    def reference(self, task: Task, name: str) -> Mapping[str, Any]:
        """The config of the task's own model, from which its kind is inferred."""
        owner = self.owner(task, name)
        if self.prepared is not None and owner is not None:
            return self._expert_config(self.prepared, owner)
        subject = self.subjects()[-1]
        return self.loading(subject, task, name).config

    def loading(self, subject: Subject, task: Task, name: str) -> Loading:
        """The source of a model for a task. Raises CheckpointError and TaskError."""
        owner = self.owner(task, name)
        if subject.model is not None:
            return _in_memory(subject, self._others(owner))
        if self.prepared is not None and subject.expert is not None:
            return self._expert(self.prepared, subject.expert)
        if self.prepared is not None and subject.is_base and (base := self._base(self.prepared)):
            return base
        if self.prepared is not None and subject.is_base and owner is not None:
            return self._base_with_head(self.prepared, owner)
        known = None
        if self.prepared is not None and owner is not None:
            known = self._expert_config(self.prepared, owner)
        return loading_of(
            subject.path,
            self.owner_name(task, name),
            config=known,
            base=None if self.prepared is None else self.prepared.plan.recipe.base_model,
            others=self._others(owner),
        )

    def _others(self, owner: int | None) -> tuple[Path, ...]:
        """Folders of the recipe that may have a tokenizer or processor missing from the model."""
        if self.prepared is None:
            return ()
        recipe = self.prepared.plan.recipe
        first = () if owner is None else (recipe.models[owner].model,)
        return tuple(path for path in (*first, recipe.base_model) if path.is_dir())

    def _expert_config(self, prepared: Prepared, t: int) -> Mapping[str, Any]:
        config = prepared.experts[t].checkpoint.config
        return (
            read_config(_folder(prepared.plan.recipe.models[t].model)) if config is None else config
        )

    def _expert(self, prepared: Prepared, t: int) -> Loading:
        path, expert = prepared.plan.recipe.models[t].model, prepared.experts[t]
        if not is_adapter(path):
            folder = _folder(path)
            preprocessing = (folder, *self._others(t))
            return Loading(folder=folder, config=read_config(folder), preprocessing=preprocessing)
        on = prepared.plan.recipe.models[t].on
        names = dict(expert.own_names)
        if on is not None:
            names = {name: name for name in expert.checkpoint.tensors}
        return _with_adapter(on or prepared.plan.recipe.base_model, path, expert, names)

    def _base(self, prepared: Prepared) -> Loading | None:
        """The base with its adapter; None if it is a plain model."""
        recipe, base = prepared.plan.recipe, prepared.base
        if recipe.adapter is None:
            return None
        return _with_adapter(recipe.base_model, recipe.adapter, base, dict(base.own_names))

    def _base_with_head(self, prepared: Prepared, owner: int) -> Loading:
        """The base, with the expert's head if the base has none for the task."""
        base, expert = _folder(prepared.plan.recipe.base_model), prepared.experts[owner]
        config, own_config = read_config(base), self._expert_config(prepared, owner)
        kept = [each.name for each in head_tensors(prepared.plan.rows, expert, owner)]
        preprocessing = (base, *self._others(owner))
        if not kept and class_of(config) == class_of(own_config):
            return Loading(folder=base, config=config, preprocessing=preprocessing)
        return Loading(
            folder=base,
            config=_with_vocabulary(own_config, config),
            preprocessing=preprocessing,
            own=Own(checkpoint=expert.checkpoint, names={name: name for name in kept}),
        )


def _with_adapter(
    base: Path, adapter: Path, model: OpenedModel, names: Mapping[str, str]
) -> Loading:
    """A model with an adapter on it; ``names``: the model's → those of ``model``."""
    folder = _folder(base)
    return Loading(
        folder=folder,
        config=read_config(folder),
        preprocessing=(adapter, folder),
        own=Own(checkpoint=model.checkpoint, names=names, fills=False),
    )


def loading_of(
    path: Path,
    expert: str | None,
    *,
    config: Mapping[str, Any] | None = None,
    base: Path | None = None,
    others: Sequence[Path] = (),
) -> Loading:
    """The source of a merged model for the task of an expert, with its head and modules.

    ``config``: of the expert's model, ``base``: the base's folder, if known; otherwise the folder's
    recipe gives them. ``others``: more folders for preprocessing. Raises CheckpointError and
    TaskError.
    """
    folder = _folder(path)
    own_config, preprocessing = read_config(folder), (folder, *others)
    modules = modules_of(folder, expert, base)
    head = None if expert is None else kept_head(folder, expert)
    if head is None or expert is None:
        return Loading(
            folder=folder, config=own_config, preprocessing=preprocessing, modules=modules
        )
    head_folder = folder / HEADS / expert
    if (head_folder / "config.json").is_file():
        config = read_config(head_folder)
    elif config is None:
        config = _recipe_config(folder, expert)
    return Loading(
        folder=folder,
        config=_with_vocabulary(config, own_config),
        preprocessing=preprocessing,
        own=Own(checkpoint=head, names={each: each for each in head.tensors}),
        modules=modules,
    )


def _recipe_config(folder: Path, kept: str) -> Mapping[str, Any]:
    """The config for a kept head, from the expert's own folder."""
    try:
        recipe = load_recipe(folder / RECIPE)
        expert = dict(zip(recipe.expert_names, recipe.models, strict=True))[kept]
        return read_config(_folder(expert.model))
    except (RecipeError, KeyError):
        raise TaskError(
            f"{path_text(folder)} keeps a head of {kept}, but the model it belongs to is unknown;"
            " name the recipe too.",
            path=folder,
        ) from None


def _subject(name: str, given: Any) -> Subject:
    if isinstance(given, Path):
        return Subject(name=name, path=given)
    return Subject(name=name, path=Path(given.name_or_path or name), model=given)


def _in_memory(subject: Subject, others: Sequence[Path]) -> Loading:
    """A model in memory. Raises TaskError if no folder may have its tokenizer or processor."""
    folders = [path for path in (subject.path, *others) if path.is_dir()]
    if not folders:
        raise TaskError(
            f"{subject.name}: the folder of its tokenizer or image processor is unknown; load it "
            "with from_pretrained(FOLDER), or give the folder instead.",
            key="models",
        )
    config = {**subject.model.config.to_dict(), "architectures": [type(subject.model).__name__]}
    preprocessing = tuple(folders)
    return Loading(
        folder=folders[0], config=config, preprocessing=preprocessing, model=subject.model
    )


def models_of(
    prepared: Prepared | None, folders: Sequence[Any], names: Sequence[str] = ()
) -> Models:
    """The models of a recipe, and folders with these names, or named by their paths."""
    named = tuple(names) or tuple(map(str, folders))
    return Models(prepared=prepared, folders=tuple(folders), names=named)


def experts_of(prepared: Prepared, folders: Sequence[Path]) -> Models:
    """The experts alone, and folders that are compared with them."""
    return replace(models_of(prepared, folders), with_base=False)


def class_of(config: Mapping[str, Any]) -> str:
    """The name of the model class in a config.json; empty if it has none."""
    named = config.get("architectures")
    return named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""


def _folder(path: Path) -> Path:
    """The folder a model is loaded from; for a pickle, the converted model."""
    checkpoint = open_files(path)
    if checkpoint.folder is None:
        sentence = f"{path_text(path)} holds weights alone; a model needs its folder to be scored."
        raise TaskError(sentence, path=path)
    return find_converted(checkpoint.folder, conversions_folder()) or checkpoint.folder


def _with_vocabulary(config: Mapping[str, Any], body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config of a head, adapted to a body whose vocabulary may differ."""
    size = body.get("vocab_size")
    return {**config, "vocab_size": size} if size is not None and "vocab_size" in config else config
