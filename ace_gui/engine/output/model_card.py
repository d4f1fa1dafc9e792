"""The cards of merged models and adapters: what was merged, how, and how to use the result.

Their text is ``card.md.jinja``. A card links to the names of models in it, so names must come from
a reliable source: the folder's path in the Hugging Face cache, a card, or the agreement of several
files about the base. Paths of this machine are never given.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import jinja2
import yaml

from ace_gui.architecture.traits import Role
from ace_gui.checkpoints.adapters import is_adapter
from ace_gui.checkpoints.input_files import open_regular, read_at, read_json
from ace_gui.engine.contract.distilled import Distilled
from ace_gui.engine.contract.findings import LayerReport, Regime
from ace_gui.engine.contract.libraries import PEFT, Library, library_of
from ace_gui.engine.contract.sanity import SanityResult
from ace_gui.engine.contract.scored import TaskScore, line_of, means, remarks
from ace_gui.engine.merging.merge_manifest import Manifest
from ace_gui.engine.planning.adapter_tensors import AdapterPlan
from ace_gui.errors import CheckpointError
from ace_gui.field_info import applying
from ace_gui.formatting import counted, number_text, printable
from ace_gui.methods import get_method, parameter_fields
from ace_gui.recipe import Recipe
from ace_gui.recipe.recipe_file import dump_recipe
from ace_gui.recipe.recommended import merge_label
from ace_gui.recipe.values import BY_TOKEN, NonFinite, Vocabulary, hub_name, model_name, public_name

CARD: Final = "README.md"

_CARD_BYTES: Final = 64_000
"""Number of bytes read of a card: the front matter is at its beginning."""

_JSON_BYTES: Final = 10_000_000
_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[\w.-]*\w)?(?:/[A-Za-z0-9](?:[\w.-]*\w)?)?", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z0-9](?:[\w.+-]{0,60}\w)?", re.ASCII)

FrontMatter = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """The origin of a merge."""

    models: tuple[str, ...]
    """Hub names of base and experts that are certain."""
    licences: tuple[tuple[str, str], ...]
    """By model, base first, from its card; empty if the card has none."""
    licence_details: Mapping[str, str]
    """Name and link of a licence unknown to hubs, if all cards have the same."""
    languages: tuple[str, ...]
    """Of all cards."""
    task: str
    """The pipeline tag; empty if unknown."""
    base: str = ""
    """Hub name of the base, else empty."""

    @property
    def licence(self) -> str:
        """The licence of every model, empty if one is missing or different."""
        names = {licence for _, licence in self.licences}
        if len(names) == 1:
            return names.pop()
        return ""


def lineage_of(recipe: Recipe) -> Lineage:
    """Metadata from the files of the recipe's models; invalid content causes no error."""
    paths = list(dict.fromkeys(recipe.paths))
    experts = dict(zip((e.model for e in recipe.models), recipe.expert_names, strict=True))
    names = [experts.get(path, model_name(path)) for path in paths]
    cards = [_front_matter(_folder(path)) for path in paths]
    public = [hub_name(path) or hub_name(_folder(path)) for path in paths]
    named = _stated_name(paths[0])
    public[0] = public[0] or public_name(_folder(paths[0]), {"_name_or_path": named})
    public[0] = public[0] or _not_a_path(_name_of_base(paths, cards), paths[0])
    licences = [_word(card.get("license")) for card in cards]
    return Lineage(
        models=tuple(dict.fromkeys(name for name in public if _is_name(name))),
        licences=tuple(zip(names, licences, strict=True)),
        licence_details=_common_details(cards),
        languages=tuple(dict.fromkeys(chain.from_iterable(map(_languages, cards)))),
        task=_word(cards[0].get("pipeline_tag")),
        base=public[0] if _is_name(public[0]) else "",
    )


def _name_of_base(paths: list[Path], cards: list[FrontMatter]) -> str:
    """The base's hub name as given by other models, if they agree and are reliable.

    A card names the base on purpose. ``_name_or_path`` in a config may be somebody's local path. It
    counts if two configs have it, or if the base's folder has this name. The name in an adapter
    does not count, as an adapter fits every base of these shapes.
    """
    sure = set[str]()
    for path, card in zip(paths[1:], cards[1:], strict=True):
        name_in_card = "" if is_adapter(path) else _only(card.get("base_model"))
        if name_in_card:
            sure.add(name_in_card)
    guessed = [_stated_name(path) for path in paths]
    if sure:
        if len(sure) == 1:
            return sure.pop()
        return ""
    named = [name for name in guessed if name]
    same_folder = named[:1] == guessed[:1] and named[0].endswith("/" + model_name(paths[0]))
    if len(set(named)) == 1 and (len(named) > 1 or same_folder):
        return named[0]
    return ""


def _not_a_path(name: str, base: Path) -> str:
    """The name, unless it is just the base's path: ``models/llama`` looks like a hub name."""
    if base.absolute().as_posix().endswith(f"/{name}"):
        return ""
    return name


def _stated_name(path: Path) -> str:
    """``_name_or_path`` of a model's config if it has the form ``org/name``, else empty."""
    try:
        return _only(
            read_json(_folder(path) / "config.json", limit=_JSON_BYTES).get("_name_or_path")
        )
    except CheckpointError:
        return ""


def _only(name: object) -> str:
    """A hub name, alone or as the only one of a list."""
    if isinstance(name, list) and len(name) == 1:
        name = name[0]
    if isinstance(name, str) and _HUB_NAME.fullmatch(name):
        return name
    return ""


def _is_name(name: str) -> bool:
    """Whether this is a valid hub name."""
    return (
        len(name) <= 96
        and _NAME.fullmatch(name) is not None
        and not {"--", ".."} & {name[index : index + 2] for index in range(len(name))}
    )


def _folder(path: Path) -> Path:
    if path.is_dir():
        return path
    return path.parent


def _front_matter(folder: Path) -> FrontMatter:
    """The YAML between the first two lines of dashes of README.md; empty if there is none."""
    try:
        with open_regular(folder / CARD) as (descriptor, stamp):
            raw = bytearray(min(stamp.size, _CARD_BYTES))
            read_at(descriptor, memoryview(raw), 0)
    except CheckpointError:
        return {}
    match = re.match(r"\s*---[ \t]*\r?\n(.*?)\r?\n---", raw.decode("utf-8-sig", "replace"), re.S)
    try:
        if match:
            content = yaml.safe_load(match[1])
        else:
            content = None
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    if isinstance(content, dict):
        return content
    return {}


def _word(value: object) -> str:
    """A licence, language or task as spelled on hubs; empty for anything else."""
    if isinstance(value, str) and _WORD.fullmatch(value):
        return value
    return ""


def _languages(card: FrontMatter) -> Iterator[str]:
    listed = card.get("language")
    for value in listed if isinstance(listed, list) else [listed]:
        # YAML reads `no`, Norwegian, as false
        if value is False:
            word = "no"
        else:
            word = _word(value)
        if word:
            yield word


def _common_details(cards: list[FrontMatter]) -> dict[str, str]:
    """Name and link of a licence unknown to hubs, if all cards have the same."""
    details = {}
    for key in ("license_name", "license_link"):
        entries = [card.get(key) for card in cards]
        values = {entry if isinstance(entry, str) else "" for entry in entries}
        if len(values) == 1:
            value = values.pop()
        else:
            value = ""
        if value and len(value) <= 200 and value.isprintable():
            details[key] = value
    return details


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
    distilled: Distilled | None = None,
    sanity: SanityResult | None = None,
) -> str:
    """The text of README.md, with the front matter for model hubs.

    ``folder``: the model as far as it is written. ``complete_heads``: ``heads/EXPERT/`` has a whole
    model for each of ``heads``. ``scores``: of base, experts and this model. ``distilled``: what
    aligning the merge with its experts gave. ``sanity``: what trying it on usual text gave.
    """
    recipe = manifest.recipe
    library = library_of(folder)
    lineage = lineage_of(recipe)
    classes = dict(zip(recipe.expert_names, manifest.expert_classes, strict=True))
    return _card(
        title,
        manifest,
        lineage,
        library=library,
        front=front_matter(recipe.merge_method, library, lineage),
        result="one model",
        dtype=dtype,
        counts=_count_lines(manifest, reports),
        warnings=manifest.warnings,
        heads=heads,
        head_class=classes.get(next(iter(heads), "")) or "AutoModel",
        complete_heads=complete_heads,
        hashes=hashes,
        scores={(line_of(score), score.task): score.text for score in scores},
        scored=list(dict.fromkeys(line_of(score) for score in scores)),
        tasks=list({score.task: (score.task, score.metric, score.n) for score in scores}.values()),
        score_remarks=_score_remarks(scores),
        distilled=distilled,
        sanity=sanity,
    )


def adapter_card(
    title: str,
    manifest: Manifest,
    plan: AdapterPlan,
    shares: Mapping[str, float],
    hashes: Mapping[str, str],
) -> str:
    """The text of README.md. ``shares``: the share of energy that each factored tensor keeps."""
    lineage = lineage_of(manifest.recipe)
    return _card(
        title,
        manifest,
        lineage,
        library=PEFT,
        front=front_matter(manifest.recipe.merge_method, PEFT, lineage, adapter=True),
        result="one adapter",
        dtype=manifest.recipe.out_dtype or "float32",
        plan=plan,
        kept=shares,
        warnings=(*manifest.warnings, *plan.notes),
        hashes=hashes,
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("ace_gui.engine.output", ""),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters = {
        "plain": plain_text,
        "quoted": json.dumps,
        "shell": shlex.quote,
        "counted": counted,
        "number": number_text,
    }
    environment.filters |= filters
    return environment.get_template("card.md.jinja")


def _card(title: str, manifest: Manifest, lineage: Lineage, *, result: str, **values: Any) -> str:
    recipe = manifest.recipe
    merged = f"{counted(len(recipe.models), 'expert', 'experts')} merged into {result}"
    if recipe.slices:
        merged = f"One model of {len(recipe.slices)} slices of blocks, merged"
    method = get_method(recipe.merge_method)
    if recipe.adapter:
        adapter = f" with the adapter {model_name(recipe.adapter)}"
    else:
        adapter = ""
    return _template().render(
        title=title,
        manifest=manifest,
        recipe=recipe,
        method=method,
        label=merge_label(recipe, method.title, manifest.parameters.get("variant")),
        parameters=applying(parameter_fields(method), manifest.parameters),
        merged=merged,
        base=model_name(recipe.base_model) + adapter,
        lineage=lineage,
        licences=[] if lineage.licence else [pair for pair in lineage.licences if pair[1]],
        recipe_text=dump_recipe(manifest.resolved_recipe, None).rstrip(),
        **values,
    )


def front_matter(method: str, library: Library, lineage: Lineage, *, adapter: bool = False) -> str:
    """The YAML at the beginning, without unknown values. An adapter names only the base."""
    models = list(lineage.models)
    if adapter:
        if lineage.base:
            models = [lineage.base]
        else:
            models = []
    front = {
        "library_name": library.name,
        "pipeline_tag": lineage.task or library.task,
        "license": lineage.licence,
        **(lineage.licence_details if lineage.licence else {}),
        "language": list(lineage.languages),
        "base_model": models,
        "base_model_relation": ("adapter" if adapter else "merge") if models else "",
        "tags": list(dict.fromkeys(["merge", method, *(["lora"] if adapter else [])])),
    }
    present = {key: value for key, value in front.items() if value}
    return yaml.safe_dump(present, sort_keys=False, allow_unicode=True).rstrip()


def _score_remarks(scores: Sequence[TaskScore]) -> list[str]:
    sentences = []
    for mean in means(scores):
        if mean.normalised is not None:
            share = f"{mean.normalised:.1%} of the experts' scores on average"
            sentences.append(f"{mean.model}: {share}")
    return [*sentences, *remarks(scores)]


def _count_lines(manifest: Manifest, reports: Mapping[str, LayerReport]) -> list[str]:
    counts = Counter(row.disposition for row in manifest.rows)
    lines = [f"- {count} {disposition.value}" for disposition, count in counts.items()]
    overridden = sum(row.override is not None for row in manifest.rows)
    if overridden:
        lines.append(f"- {overridden} by an override of the recipe (`overrides` below)")
    several = {row.tensor for row in manifest.rows if row.part is not None}
    if several:
        lines.append(f"- {len(several)} tensors hold several matrices, each counted separately")
    if any(row.role == Role.HEAD and row.is_combined for row in manifest.rows):
        lines.append("- the experts' task heads were merged; config.json has their labels")
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
    """The number formats of the computation, and the number of matrices for each, if known."""
    numbers = Counter(report.precision.split(",")[0].rstrip(".") for report in reports.values())
    return [f"- {count} {text[0].lower()}{text[1:]}" for text, count in numbers.items() if text]


def _after_lines(reports: Mapping[str, LayerReport]) -> list[str]:
    """How the spectra were changed after the method."""
    pairs = [rank_pair for r in reports.values() if (rank_pair := r.effective_ranks) is not None]
    if not pairs:
        return []
    before, after = (fmean(ranks) for ranks in zip(*pairs, strict=True))
    return [
        f"- {len(pairs)} merged changes have reshaped singular values (`after` below); their mean "
        f"effective rank went from {before:.0f} to {after:.0f}"
    ]


def _cap_lines(reports: Mapping[str, LayerReport]) -> list[str]:
    """The effect of a cap on the change, whether from the recipe or the method."""
    factors = [r.cap_factor for r in reports.values() if r.cap_factor is not None]
    scaled = [factor for factor in factors if factor < 1]
    if not factors:
        return []
    if scaled:
        least = f", at most to {min(scaled):.3g} of the norm"
    else:
        least = ""
    return [f"- {len(scaled)} of {len(factors)} capped changes were scaled down by the cap{least}"]


def _non_finite_lines(manifest: Manifest, reports: Mapping[str, LayerReport]) -> list[str]:
    """Tensors that were not merged from all experts, because of NaN or Inf."""
    affected = [report for report in reports.values() if report.non_finite]
    if not affected:
        return []
    keeps_base = manifest.recipe.non_finite is NonFinite.KEEP_BASE
    if keeps_base:
        what = "the base's tensor was kept"
    else:
        what = "these experts were left out"
    lines = [f"- {len(affected)} with NaN or Inf in an expert, where {what}:"]
    for report in affected:
        experts = ", ".join(map(plain_text, report.non_finite))
        lines.append(f"  - {plain_text(report.name)}: {experts}")
    return lines


def plain_text(text: str) -> str:
    """Text from a file, safe for Markdown: ``printable``, and without markup."""
    escaped = printable(text)
    for mark in "\\`*_[]<>|#":
        escaped = escaped.replace(mark, "\\" + mark)
    return escaped
