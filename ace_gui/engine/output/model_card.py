"""The model card: what was merged, how, and how to use the heads."""

from __future__ import annotations

import json
import shlex
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import yaml

from ace_gui.architecture.traits import Role
from ace_gui.engine.contract.figures.findings import LayerReport, Regime
from ace_gui.engine.contract.libraries import Library, library_of
from ace_gui.engine.contract.plan import Disposition
from ace_gui.engine.contract.scored.scores import TaskScore, line_of, means, remarks
from ace_gui.engine.merging.store import Manifest
from ace_gui.engine.output.lineage import Lineage, lineage_of
from ace_gui.formatting import counted
from ace_gui.methods import get_method
from ace_gui.recipe.recipe_file import dump_recipe
from ace_gui.recipe.values import BY_TOKEN, NonFinite, Vocabulary, model_name


def model_card(
    title: str,
    folder: Path,
    manifest: Manifest,
    reports: Mapping[str, LayerReport],
    heads: Mapping[str, tuple[str, ...]],
    dtype: str | None,
    hashes: Mapping[str, str],
    *,
    complete_heads: bool = False,
    scores: Sequence[TaskScore] = (),
) -> str:
    """The text of README.md, with the front matter for model hubs.

    ``folder``: the model as far as it is written. ``complete_heads``: ``heads/EXPERT/`` has a whole
    model for each of ``heads``. ``scores``: of base, experts and this model.
    """
    library, lineage = library_of(folder), lineage_of(manifest.recipe)
    sections = (
        front_lines(manifest.recipe.merge_method, library, lineage),
        about_lines(title, manifest, dtype),
        method_lines(manifest),
        _score_lines(scores),
        ["## What happened to the tensors", "", *_count_lines(manifest, reports)],
        warning_lines(manifest.warnings),
        _head_lines(heads, manifest, complete_heads),
        _use_lines(library),
        _task_lines(manifest),
        licence_lines(lineage),
        file_lines(hashes),
        recipe_lines(manifest),
    )
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def front_lines(
    method: str, library: Library, lineage: Lineage, *, relation: str = "merge"
) -> list[str]:
    """The front matter; unknown values are left out.

    ``relation``: to the models in it, in the hub's words; of an "adapter" that is the base alone.
    """
    models = list(lineage.models)
    if relation == "adapter":
        models = [lineage.base] if lineage.base else []
    front = {
        "library_name": library.name,
        "pipeline_tag": lineage.task or library.task,
        "license": lineage.licence,
        **(lineage.licence_details if lineage.licence else {}),
        "language": list(lineage.languages),
        "base_model": models,
        "base_model_relation": relation if models else "",
        "tags": list(
            dict.fromkeys(["merge", method, *(["lora"] if relation == "adapter" else [])])
        ),
    }
    known = {key: value for key, value in front.items() if value}
    text = yaml.safe_dump(known, sort_keys=False, allow_unicode=True)
    return ["---", text.rstrip(), "---"]


def _use_lines(library: Library) -> list[str]:
    return ["## Use", "", "```python", *library.lines("MERGED_FOLDER"), "```"]


def licence_lines(lineage: Lineage) -> list[str]:
    """The licences of the models' cards, if they do not share a single one."""
    named = [
        f"{plain_text(model)}: {plain_text(licence)}"
        for model, licence in lineage.licences
        if licence
    ]
    if lineage.licence or not named:
        return []
    more = " The others' cards name none." if len(named) < len(lineage.licences) else ""
    return [
        "## Licence",
        "",
        f"No licence is given here, because the models do not all name the same one.{more} Before "
        "you pass this model on, see what they allow:",
        "",
        *(f"- {line}" for line in named),
    ]


def about_lines(
    title: str, manifest: Manifest, dtype: str | None, *, what: str = "one model"
) -> list[str]:
    """What was merged, from what; ``what``: that it became."""
    recipe = manifest.recipe
    method = get_method(recipe.merge_method)
    merged = f"{counted(len(recipe.models), 'expert', 'experts')} merged into {what}"
    if recipe.slices:
        merged = f"One model of {len(recipe.slices)} slices of blocks, merged"
    adapter = f" with the adapter {model_name(recipe.adapter)}" if recipe.adapter else ""
    return [
        f"# {plain_text(title)}",
        "",
        f"{merged} with **{method.title}** by ACE workbench {manifest.program}.",
        "",
        f"- Base model: {plain_text(model_name(recipe.base_model) + adapter)}",
        *(f"- Expert: {plain_text(name)}" for name in recipe.expert_names),
        f"- Number format: {dtype or 'as the base'}",
    ]


def method_lines(manifest: Manifest) -> list[str]:
    """The method, its citation and its parameters."""
    method = get_method(manifest.recipe.merge_method)
    lines = ["## Method", "", method.summary, "", method.citation, ""]
    return lines + _parameter_lines(manifest)


def _score_lines(scores: Sequence[TaskScore]) -> list[str]:
    """The scores of this model on the recipe's tasks, next to the base and each task's expert."""
    if not scores:
        return []
    tasks = list({each.task: (each.task, each.metric, each.n) for each in scores}.values())
    lines = list(dict.fromkeys(line_of(each) for each in scores))
    cells = {(line_of(each), each.task): each.text for each in scores}
    return [
        "## Scores",
        "",
        "On the tasks of the recipe, with standard errors; each expert on its own task.",
        "",
        f"| task | metric | examples | {' | '.join(map(plain_text, lines))} |",
        f"|---|---|{'---|' * (len(lines) + 1)}",
        *(
            f"| {plain_text(task)} | {metric} | {n} | "
            + " | ".join(cells.get((line, task), "") for line in lines)
            + " |"
            for task, metric, n in tasks
        ),
        "",
        *(
            f"- {plain_text(mean.model)}: {mean.normalised:.1%} of the experts' scores on average"
            for mean in means(scores)
            if mean.normalised is not None
        ),
        *(f"- {plain_text(remark)}" for remark in remarks(scores)),
    ]


def file_lines(hashes: Mapping[str, str]) -> list[str]:
    """The files and their digests."""
    return [
        "## Files",
        "",
        "Every tensor was read back after writing: names, shapes and number formats are as "
        "planned, and all values are finite.",
        "",
        "| file | SHA-256 |",
        "|---|---|",
        *(f"| {name} | `{digest}` |" for name, digest in hashes.items()),
    ]


def recipe_lines(manifest: Manifest) -> list[str]:
    """The recipe."""
    return [
        "## Recipe",
        "",
        "The file `merge_recipe.yaml` runs again with `ace-gui merge`; its paths are those of the "
        "machine that made it.",
        "",
        "```yaml",
        dump_recipe(manifest.resolved_recipe, None).rstrip(),
        "```",
    ]


def _parameter_lines(manifest: Manifest) -> list[str]:
    if not manifest.parameters:
        return ["The method has no parameters."]
    return [
        "| parameter | value |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in manifest.parameters.items()),
    ]


def _count_lines(manifest: Manifest, reports: Mapping[str, LayerReport]) -> list[str]:
    counts = Counter(row.disposition for row in manifest.rows)
    lines = [f"- {count} {disposition.value}" for disposition, count in counts.items()]
    own = sum(row.override is not None for row in manifest.rows)
    if own:
        lines.append(f"- {own} by an override of the recipe, as `overrides` below says")
    several = {row.tensor for row in manifest.rows if row.part is not None}
    if several:
        lines.append(f"- {len(several)} tensors hold several matrices, each counted for itself")
    merged = {Disposition.MERGED, Disposition.AVERAGED}
    if any(row.role == Role.HEAD and row.disposition in merged for row in manifest.rows):
        lines.append("- the experts' task heads were merged; the labels in config.json are theirs")
    if manifest.recipe.matching in BY_TOKEN:
        added = {
            Vocabulary.TOKENS: "tokens that the base lacks and all experts have were added",
            Vocabulary.UNION: "tokens that the base lacks and any expert has were added",
        }.get(manifest.recipe.matching, "no token was added")
        if manifest.recipe.tokenizer:
            added = f"the tokens are those of {plain_text(manifest.recipe.tokenizer)}"
        lines.append(f"- rows of the vocabulary were matched by token; {added}")
    regimes = Counter(report.regime for report in reports.values() if report.regime is not None)
    if regimes:
        lines.append(
            f"- of the merged ones, {regimes[Regime.HETEROGENEOUS]} heterogeneous (refined) and "
            f"{regimes[Regime.HOMOGENEOUS]} homogeneous"
        )
    lines += _precision_lines(reports)
    lines += _after_lines(reports) + _cap_lines(reports)
    noted = sum(bool(report.notes or report.warnings) for report in reports.values())
    if noted:
        lines.append(f"- {noted} with a departure from the published procedure or a warning")
    return lines + _non_finite_lines(manifest, reports)


def _precision_lines(reports: Mapping[str, LayerReport]) -> list[str]:
    """The number formats of the computation, with numbers of matrices and reasons, if known."""
    numbers = Counter(report.precision.split(",")[0].rstrip(".") for report in reports.values())
    return [f"- {count} {text[0].lower()}{text[1:]}" for text, count in numbers.items() if text]


def _after_lines(reports: Mapping[str, LayerReport]) -> list[str]:
    """How the spectra were changed after the method."""
    found = [each for r in reports.values() if (each := r.effective_ranks) is not None]
    if not found:
        return []
    before, after = (fmean(ranks) for ranks in zip(*found, strict=True))
    return [
        f"- {len(found)} merged changes were given other singular values (`after` below): in the "
        f"mean, their effective rank went from {before:.0f} to {after:.0f}"
    ]


def _cap_lines(reports: Mapping[str, LayerReport]) -> list[str]:
    """The effect of a cap on the change, whether from the recipe or the method."""
    factors = [r.cap_factor for r in reports.values() if r.cap_factor is not None]
    shortened = [factor for factor in factors if factor < 1]
    if not factors:
        return []
    least = f", at most to {min(shortened):.3g} of its length" if shortened else ""
    return [f"- {len(shortened)} of {len(factors)} capped changes were shortened by the cap{least}"]


def warning_lines(warnings: Sequence[str]) -> list[str]:
    """The warnings from before the merge."""
    if not warnings:
        return []
    return ["## Warnings", "", *(f"- {plain_text(line)}" for line in warnings)]


def _non_finite_lines(manifest: Manifest, reports: Mapping[str, LayerReport]) -> list[str]:
    """Tensors that were not merged from all experts, because of NaN or Inf."""
    found = [report for report in reports.values() if report.non_finite]
    if not found:
        return []
    kept = manifest.recipe.non_finite is NonFinite.KEEP_BASE
    what = "the base's tensor was kept" if kept else "these experts were left out"
    return [
        f"- {len(found)} with NaN or Inf in an expert, where {what}:",
        *(
            f"  - {plain_text(report.name)}: {', '.join(map(plain_text, report.non_finite))}"
            for report in found
        ),
    ]


def _head_lines(
    heads: Mapping[str, tuple[str, ...]], manifest: Manifest, complete: bool
) -> list[str]:
    """How to use an expert's head with the merged backbone."""
    if not heads:
        return []
    first = next(iter(heads))
    classes = dict(zip(manifest.recipe.expert_names, manifest.expert_classes, strict=True))
    model_class = classes.get(first) or "AutoModel"
    return [
        "## Heads",
        "",
        "The experts' own heads were not merged. Each is in `heads/`, under the expert's tensor "
        "names:",
        "",
        *(
            f"- `heads/{plain_text(name)}.safetensors`: {', '.join(map(plain_text, names[:4]))}"
            + (f" and {len(names) - 4} more" if len(names) > 4 else "")
            for name, names in heads.items()
        ),
        "",
        *(_whole_lines if complete else _loading_lines)(first, model_class),
    ]


def _task_lines(manifest: Manifest) -> list[str]:
    """How to reconstruct the experts' models, if the method stored modules."""
    if get_method(manifest.recipe.merge_method).modules is None:
        return []
    name = manifest.recipe.expert_names[0]
    return [
        "## Models of single tasks",
        "",
        "`modules.safetensors` holds what the method leaves for each expert, and `modules.json` "
        "how a model works with it. In place:",
        "",
        "```python",
        "import ace_gui",
        "",
        f"model = ace_gui.load_model(MERGED_FOLDER, task={json.dumps(name)})",
        "```",
        "",
        "One expert's model as a plain folder (needs the base if the modules change base weights):",
        "",
        "```sh",
        f"ace-gui task MERGED_FOLDER {shlex.quote(name)} --out TASK_FOLDER --base BASE_FOLDER",
        "```",
    ]


def _whole_lines(first: str, model_class: str) -> list[str]:
    return [
        "Each is also on the merged backbone in a folder of its own, which loads by itself:",
        "",
        "```python",
        f"from transformers import {model_class}",
        "",
        f"model = {model_class}.from_pretrained(MERGED_FOLDER + {json.dumps(f'/heads/{first}')})",
        "```",
    ]


def _loading_lines(first: str, model_class: str) -> list[str]:
    return [
        "To use one, load the merged model with the expert's own class and config, then its head:",
        "",
        "```python",
        "from safetensors.torch import load_file",
        f"from transformers import AutoConfig, {model_class}",
        "",
        "config = AutoConfig.from_pretrained(EXPERT_FOLDER)",
        f"model = {model_class}.from_pretrained(",
        "    MERGED_FOLDER, config=config, ignore_mismatched_sizes=True",
        ")",
        f"head = load_file(MERGED_FOLDER + {json.dumps(f'/heads/{first}.safetensors')})",
        "model.load_state_dict(head, strict=False)",
        "```",
    ]


def plain_text(text: str) -> str:
    """Text from a file, safe for Markdown: no control or direction characters, no markup."""
    kept = "".join(
        character for character in text if unicodedata.category(character) not in {"Cc", "Cf"}
    )
    for mark in "\\`*_[]<>|#":
        kept = kept.replace(mark, "\\" + mark)
    return kept
