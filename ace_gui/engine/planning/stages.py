"""The results of a recipe's stages: what they were made from, and whether they may be used again.

Beside the folder of a result, ``NAME.json`` has the SHA-256 of every file that it was merged from
and of every file in it. A result without this record, or with one that no longer holds, is never
read as a model.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from ace_gui.checkpoints.input_files import content_digest
from ace_gui.checkpoints.staging import discard, mark
from ace_gui.engine.kept_files import keep_json, open_json
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.token_ids import side_files_of
from ace_gui.errors import CheckpointError, RecipeError
from ace_gui.formatting import path_text, plain
from ace_gui.methods import added_sources
from ace_gui.output_files import MARK, there, writing
from ace_gui.recipe import Recipe
from ace_gui.versions import COMPUTING, code_digest, library_versions


@dataclass(frozen=True, kw_only=True)
class StageRecord:
    """What a stage was merged from, and what its result consists of."""

    stage: str
    """The name of the stage in the recipe's file."""

    inputs: Mapping[str, str]
    """SHA-256 of every file that was read, by absolute path: weights, side files, data."""

    methods: Mapping[str, str]
    """Digest of the source of each method that is not of this program."""

    code: str = field(default_factory=lambda: code_digest(*COMPUTING))
    """Digest of this program's source."""

    libraries: Mapping[str, str] = field(default_factory=lambda: dict(library_versions()))
    """Versions of the libraries that compute, by name."""

    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of every file of the result, by its name in the folder."""


_RECORD: Final = TypeAdapter(StageRecord)


def record_beside(folder: Path) -> Path:
    """The file with the record of the result in ``folder``."""
    return folder.with_suffix(".json")


def inputs_of(prepared: Prepared, data: Iterable[Path]) -> StageRecord:
    """The record of a merge that has not begun. ``data``: the files of its methods' inputs.

    Raises CheckpointError if a file cannot be read.
    """
    models = (prepared.base, *prepared.experts)
    paths = {stamp.path for stamp in prepared.files}
    for model in models:
        paths.update(side_files_of(model.checkpoint).values())
    paths.update(data)
    recipe = prepared.recipe
    return StageRecord(
        stage=recipe.stage_name,
        inputs={str(path): content_digest(path) for path in sorted(paths)},
        methods=added_sources(recipe.methods),
    )


def accept_result(folder: Path, before: StageRecord) -> None:
    """Record that ``folder`` is the result of what ``before`` says.

    Raises CheckpointError if an input has another content now, and OutputError or ResourceError.
    """
    problem = next(_changed_inputs(before), None)
    if problem is not None:
        raise CheckpointError(f"{plain(problem)} while it was merged. Merge again.", path=folder)
    with writing(folder):
        mark(folder)
    record = {**asdict(before), "files": _digests(folder)}
    keep_json(record_beside(folder), record)


def problem_of(folder: Path, recipe: Recipe) -> str | None:
    """Why the result of a stage cannot be used, as the end of a sentence; None if it can.

    Reads all inputs and the whole result, once per process and state of a file. ``recipe``: the
    stage's.
    """
    try:
        record = _RECORD.validate_python(open_json(record_beside(folder)))
        problem = next(_changes(record, folder, recipe), None)
        if problem is None:
            os.utime(record_beside(folder))  # used now: nobody clears it away
    except ValidationError:
        return "its record is of another version"
    except CheckpointError as error:
        return error.sentence.rstrip(".")
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return problem


def require_results(recipe: Recipe) -> None:
    """Raise RecipeError if a stage's result is there, but is not what a merge would give now."""
    for folder, stage in recipe.stages.items():
        if not there(folder):
            continue
        problem = problem_of(folder, stage)
        if problem is not None:
            raise RecipeError(
                f"The stage {plain(stage.stage_name)!r} has to be merged again: {problem}. "
                "`ace-gui merge` does so first.",
                path=folder,
                key="models",
            )


def forget_result(folder: Path) -> None:
    """Remove the result of a stage, or a link in its place. Raises OutputError."""
    with writing(folder):
        record_beside(folder).unlink(missing_ok=True)
        if folder.is_symlink():
            folder.unlink()
    discard(folder)


def _changes(record: StageRecord, folder: Path, recipe: Recipe) -> Iterator[str]:
    """What differs between a record and now, each as the end of a sentence."""
    yield from _changed_inputs(record)
    if record.code != code_digest(*COMPUTING):
        yield "this program's own code has changed"
    for name, version in library_versions().items():
        if record.libraries.get(name) != version:
            yield f"{name} is {version} now"
    if record.methods != added_sources(recipe.methods):
        yield "the code of an added method has changed"
    link = next(_links(folder), None)
    if link is not None:
        yield f"{path_text(link)} is a link, which is not followed"
    elif _digests(folder) != record.files:
        yield f"{path_text(folder)} does not match its checksums"


def _changed_inputs(record: StageRecord) -> Iterator[str]:
    for name, digest in record.inputs.items():
        if content_digest(Path(name)) != digest:
            yield f"{path_text(Path(name))} has changed"


def _links(folder: Path) -> Iterator[Path]:
    """The folder and everything in it that is a link."""
    for item in (folder, *sorted(folder.rglob("*"))):
        if stat.S_ISLNK(item.lstat().st_mode):
            yield item


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in a folder, without its mark. Raises CheckpointError."""
    names = []
    for path in folder.rglob("*"):
        if path.name != MARK and not path.is_dir():
            names.append(path.relative_to(folder).as_posix())
    return {name: content_digest(folder / name, follow=False) for name in sorted(names)}
