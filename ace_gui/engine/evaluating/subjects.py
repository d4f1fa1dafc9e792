"""The models that are scored, and the source of each for a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ace_gui.architecture.names import head_role
from ace_gui.checkpoints.adapters import is_adapter
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.input_files import FileStamp, read_config
from ace_gui.engine.evaluating.adapter_heads import config_with_head, head_tensors
from ace_gui.engine.modules.in_model import ModulesInModel, modules_of
from ace_gui.engine.modules.task_tensors import kept_head
from ace_gui.engine.planning.models import OpenedModel, open_files
from ace_gui.engine.planning.recipe_models import HEADS, RecipeModels
from ace_gui.errors import RecipeError, TaskError
from ace_gui.formatting import path_text
from ace_gui.output_files import RECIPE
from ace_gui.paths import conversions_folder
from ace_gui.recipe.recipe_file import load_recipe
from ace_gui.recipe.values import Task

BASE: Final = "base"


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
class ReplacedTensors:
    """Tensors that replace some of a model's. ``names``: from the model to the ``checkpoint``.

    ``fills``: tensors that the model lacks are taken from the checkpoint as well.
    """

    checkpoint: Checkpoint = field(compare=False)
    names: Mapping[str, str]
    fills: bool = True
    files: tuple[FileStamp, ...] = field(init=False)
    """The checkpoint's files: those of other heads or adapters may have the same names."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", tuple(self.checkpoint.files))


@dataclass(frozen=True, kw_only=True)
class Loading:
    """The source of a model; equal sources give the same model."""

    folder: Path
    """Its folder."""
    config: Mapping[str, Any]
    """That of the model with its head."""
    replaced: ReplacedTensors | None = None
    """Tensors from other files that are put into the model; None without any."""
    modules: ModulesInModel | None = None
    """Modules to attach; None without any."""
    model: Any = None
    """One in memory, which is used unchanged; None to load it."""
    preprocessing: tuple[Path, ...] = field(compare=False)
    """Folders that may have a tokenizer or image processor; the first that has one is used."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that answers may depend on."""
        paths = []
        for folder in (self.folder, *self.preprocessing):
            paths += [entry for entry in sorted(folder.iterdir()) if entry.is_file()]
        if self.replaced is not None:
            paths += [stamp.path for stamp in self.replaced.checkpoint.files]
        if self.modules is not None and self.modules.base is not None:
            paths += [stamp.path for stamp in open_files(self.modules.base).files]
        return tuple(dict.fromkeys(paths))


@dataclass(frozen=True)
class Models:
    """The recipe's models, if there is a recipe, and more folders or models in memory.

    ``names``: of the folders; if empty, their paths. ``with_base``: also score the base.
    """

    opened: RecipeModels | None
    folders: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    with_base: bool = field(default=True, kw_only=True)

    def subjects(self) -> list[Subject]:
        """All models to score: the base, the experts, the folders by name."""
        subjects = []
        if self.opened is not None:
            recipe = self.opened.recipe
            if self.with_base:
                subjects.append(Subject(name=BASE, path=recipe.base_model, is_base=True))
            for t, name in enumerate(recipe.expert_names):
                subjects.append(Subject(name=name, path=recipe.models[t].model, expert=t))
        pairs = zip(self.names or map(str, self.folders), self.folders, strict=True)
        return subjects + [_subject(name, path) for name, path in pairs]

    def owner(self, task: Task) -> int | None:
        """The expert of a task: the one it names, or else the one with the task's name.

        Raises TaskError if the recipe has no such expert.
        """
        if self.opened is None:
            return None
        names = self.opened.recipe.expert_names
        if task.expert is not None and task.expert not in names:
            raise TaskError(
                f"The task {task.title} belongs to {task.expert!r}, but the recipe's experts are "
                f"{', '.join(names)}.",
                key="expert",
            )
        name = task.expert or task.title
        if name in names:
            return names.index(name)
        return None

    def reference(self, task: Task) -> Mapping[str, Any]:
        """The config of the task's own model, from which its kind is inferred."""
        owner = self.owner(task)
        if self.opened is not None and owner is not None:
            return _expert_config(self.opened, owner)
        return self.loading(self.subjects()[-1], task).config

    def loading(self, subject: Subject, task: Task) -> Loading:
        """The source of a model for a task. Raises CheckpointError and TaskError."""
        opened = self.opened
        owner = self.owner(task)
        if subject.model is not None:
            return _in_memory(subject, _others(opened, owner))
        if opened is None:
            return loading_of(subject.path, task.expert or task.title)
        recipe = opened.recipe
        if subject.expert is not None:
            return _expert(opened, subject.expert)
        if subject.is_base and recipe.adapter is not None:
            names = opened.base.own_names
            return _with_adapter(recipe.base_model, recipe.adapter, opened.base, names)
        if subject.is_base and owner is not None:
            return _base_with_head(opened, owner)
        return loading_of(
            subject.path,
            (task.expert or task.title) if owner is None else recipe.expert_names[owner],
            config=None if owner is None else _expert_config(opened, owner),
            base=recipe.base_model,
            preprocessing=_others(opened, owner),
        )


def _others(opened: RecipeModels | None, owner: int | None) -> tuple[Path, ...]:
    """Folders of the recipe that may have a tokenizer or processor missing from the model."""
    if opened is None:
        return ()
    recipe = opened.recipe
    first = () if owner is None else (recipe.models[owner].model,)
    return tuple(path for path in (*first, recipe.base_model) if path.is_dir())


def _expert_config(opened: RecipeModels, t: int) -> Mapping[str, Any]:
    entry = opened.recipe.models[t]
    checkpoint = opened.experts[t].checkpoint
    config = checkpoint.config
    if config is None:
        return _config(_folder(entry.model))
    if not is_adapter(entry.model):
        return config
    return config_with_head(config, entry.model, checkpoint) or config


def _config(folder: Path) -> Mapping[str, Any]:
    return read_config(folder / "config.json")


def _expert(opened: RecipeModels, t: int) -> Loading:
    entry = opened.recipe.models[t]
    expert = opened.experts[t]
    if not is_adapter(entry.model):
        return _as_it_is(entry.model, _others(opened, t))
    if entry.on is not None:
        names = {name: name for name in expert.checkpoint.tensors}
        return _with_adapter(entry.on, entry.model, expert, names)
    return _with_adapter(opened.recipe.base_model, entry.model, expert, expert.own_names)


def _base_with_head(opened: RecipeModels, owner: int) -> Loading:
    """The base, with the expert's head if the base has none for the task."""
    base = _as_it_is(opened.recipe.base_model, _others(opened, owner))
    expert = opened.experts[owner]
    own_config = _expert_config(opened, owner)
    kept_names = opened.kept_T[owner]
    if not kept_names and class_of(base.config) == class_of(own_config):
        return base
    source = ReplacedTensors(
        checkpoint=expert.checkpoint, names={name: name for name in kept_names}
    )
    return replace(base, config=_with_vocabulary(own_config, base.config), replaced=source)


def _as_it_is(path: Path, preprocessing: Sequence[Path]) -> Loading:
    """A model with its own head."""
    folder = _folder(path)
    return Loading(folder=folder, config=_config(folder), preprocessing=(folder, *preprocessing))


def _with_adapter(
    base: Path, adapter: Path, model: OpenedModel, names: Mapping[str, str]
) -> Loading:
    """A model with an adapter on it. ``names``: from the loaded model to ``model``."""
    loading = _as_it_is(base, ())
    preprocessing = (adapter, loading.folder)
    config = config_with_head(loading.config, adapter, model.checkpoint)
    if config is None:
        source = ReplacedTensors(checkpoint=model.checkpoint, names=dict(names), fills=False)
        return replace(loading, preprocessing=preprocessing, replaced=source)
    body = {name: stored for name, stored in names.items() if head_role(name) is None}
    heads = {name: name for name in head_tensors(model.checkpoint)}
    source = ReplacedTensors(checkpoint=model.checkpoint, names=body | heads)
    return replace(loading, config=config, preprocessing=preprocessing, replaced=source)


def loading_of(
    path: Path,
    expert: str | None,
    *,
    config: Mapping[str, Any] | None = None,
    base: Path | None = None,
    preprocessing: Sequence[Path] = (),
) -> Loading:
    """The source of a merged model for the task of an expert, with its head and modules.

    ``config``: of the expert's model, ``base``: the base's folder, if known; otherwise the folder's
    recipe gives them. ``preprocessing``: more folders for preprocessing. Raises CheckpointError and
    TaskError.
    """
    loading = _as_it_is(path, preprocessing)
    folder = loading.folder
    if expert is None:
        head = None
    else:
        head = kept_head(loading.folder, expert)
    if head is not None and expert is not None:
        source = ReplacedTensors(checkpoint=head, names={name: name for name in head.tensors})
        if (folder / HEADS / expert / "config.json").is_file():
            config = _config(folder / HEADS / expert)
        config = _with_vocabulary(config or _recipe_config(folder, expert, head), loading.config)
        loading = replace(loading, config=config, replaced=source)
    return replace(loading, modules=modules_of(folder, expert, base))


def _recipe_config(folder: Path, owner: str, head: Checkpoint) -> Mapping[str, Any]:
    """The config for a kept head, from the expert's own folder; for an adapter, with its base's."""
    try:
        recipe = load_recipe(folder / RECIPE)
        expert = dict(zip(recipe.expert_names, recipe.models, strict=True))[owner]
        if not is_adapter(expert.model):
            return _config(_folder(expert.model))
        base_config = _config(_folder(expert.on or recipe.base_model))
        return config_with_head(base_config, expert.model, head) or base_config
    except (RecipeError, KeyError):
        raise TaskError(
            f"{path_text(folder)} keeps a head of {owner}, but the model it belongs to is unknown;"
            " name the recipe too.",
            path=folder,
        ) from None


def _subject(name: str, model: Any) -> Subject:
    if isinstance(model, Path):
        return Subject(name=name, path=model)
    return Subject(name=name, path=Path(model.name_or_path or name), model=model)


def _in_memory(subject: Subject, further_preprocessing: Sequence[Path]) -> Loading:
    """A model in memory. Raises TaskError if no folder may have its tokenizer or processor."""
    folders = [path for path in (subject.path, *further_preprocessing) if path.is_dir()]
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


def class_of(config: Mapping[str, Any]) -> str:
    """The name of the model class in a config.json; empty if it has none."""
    named = config.get("architectures")
    if isinstance(named, list) and named and isinstance(named[0], str):
        return named[0]
    return ""


def _folder(path: Path) -> Path:
    """The folder a model is loaded from; for a pickle, the converted model."""
    checkpoint = open_files(path)
    if checkpoint.folder is None:
        sentence = f"{path_text(path)} holds only weights; a model needs its folder to be scored."
        raise TaskError(sentence, path=path)
    weights = checkpoint.files[0].path.parent
    if conversions_folder() in weights.parents:
        return weights
    return checkpoint.folder


def _with_vocabulary(config: Mapping[str, Any], body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config of a head, adapted to a body whose vocabulary may differ."""
    size = body.get("vocab_size")
    if size is not None and "vocab_size" in config:
        return {**config, "vocab_size": size}
    return config
