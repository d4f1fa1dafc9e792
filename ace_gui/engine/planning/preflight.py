"""Checks of a merge before any tensor is read, each with a verdict.

Problems that make a merge impossible raise errors in planning. These checks are for the user to
judge.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

from ace_gui.architecture.names import whole_stacks
from ace_gui.architecture.traits import Role
from ace_gui.checkpoints.derived import ChangedInfo
from ace_gui.checkpoints.folder import PIPELINE, part_of
from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.input_files import FileStamp, open_regular, read_at
from ace_gui.checkpoints.reader import DerivedInfo
from ace_gui.engine.contract.plan import (
    Check,
    CheckVerdict,
    Disposition,
    PlanRow,
    bytes_in_store,
    disk_check,
    worst_first,
)
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.prepared import Prepared
from ace_gui.engine.planning.requirements import free_disk_bytes
from ace_gui.engine.planning.rowless_tokens import VOCABULARY, rowless_checks
from ace_gui.engine.planning.tie_checks import TIED_WEIGHTS, base_tie_checks, find_ties
from ace_gui.engine.planning.token_ids import compare, has_tokenizer, tokenizer_stamps
from ace_gui.engine.planning.vocabulary import match
from ace_gui.errors import CheckpointError
from ace_gui.formatting import conjunction, counted, dimensions, listing, path_text, plain
from ace_gui.paths import merges_folder
from ace_gui.recipe.values import BY_TOKEN, Vocabulary
from ace_gui.stored_formats import is_float

_HEADS: Final = frozenset({Role.HEAD, Role.VOCABULARY_HEAD, Role.BUFFER})
_VITAL: Final = frozenset({Role.EMBEDDING, Role.POSITION, Role.NORM})
# Half a unit in the last place, relative to a weight.
_ROUNDING: Final = {"F64": 2.0**-53, "F32": 2.0**-24, "F16": 2.0**-11, "BF16": 2.0**-8}
_NOISY: Final = 2.0**-9
"""Formats with a rounding as large as the change by fine-tuning."""

TENSORS_SAMPLED: Final = 48
BLOCK: Final = 4096
"""Bytes of a tensor that are compared with those of other models."""


def preflight(prepared: Prepared) -> tuple[Check, ...]:
    """Every check of the models, the disk and the memory, worst first."""
    base = prepared.base
    experts = prepared.experts
    plan = prepared.plan
    checks = _of_base(base)
    agreed = base.checkpoint.dtype or "no floating-point format"
    if experts and not base.slices:
        checks += _together("Names", _names, base, experts, "Every tensor of the base is there.")
        checks.append(Check("Shapes", "Every shared tensor has the base's shape."))
        checks += _together("Number format", _format, base, experts, f"All in {agreed}.")
        checks.append(_quantisation(base, experts))
        checks += _together(TIED_WEIGHTS, find_ties, base, experts, "Tied as in the base.")
        checks += base_tie_checks(base)
        checks.append(_heads(plan.rows, experts))
        fine = "No model has a tokenizer: there is nothing to compare."
        if has_tokenizer(base.checkpoint):
            fine = "In every tokenizer, the base's ids are the same tokens."
        vocabulary = partial(_vocabulary, plan.recipe.matching)
        checks += _together(VOCABULARY, vocabulary, base, experts, fine)
        checks += rowless_checks(plan.recipe, base, experts)
        checks += _together("Configuration", _config, base, experts, "No important difference.")
        checks += _duplicates(base, experts, plan.rows)
        checks += _together("Files", _files, base, experts, "Nothing to remark.")
    advice = _DISK_ADVICE.format(folder=path_text(merges_folder()))
    needed = bytes_in_store(plan.rows) + plan.bytes_for_experts
    checks += [disk_check(needed, free_disk_bytes(), advice), plan.memory_check(None)]
    return worst_first(checks)


_DISK_ADVICE: Final = (
    "Merges wait in {folder}: free some space on that disk, or choose another scratch folder. The "
    "export needs as much again in its own folder."
)
_Finding = tuple[CheckVerdict, str, Sequence[str]] | None
_Finder = Callable[[OpenedModel, OpenedModel], _Finding]


def _together(
    title: str, find: _Finder, base: OpenedModel, experts: Sequence[OpenedModel], fine: str
) -> list[Check]:
    """One check for the experts with the same finding, or a single check if all is fine."""
    groups: dict[tuple[CheckVerdict, str, str], list[str]] = {}
    for expert in experts:
        if (result := find(base, expert)) is not None:
            verdict, sentence, lines = result
            key = (verdict, sentence, _plain_lines(lines))
            groups.setdefault(key, []).append(plain(expert.name))
    checks = []
    for (verdict, sentence, details), names in groups.items():
        checks.append(Check(title, sentence, verdict, details, ", ".join(names)))
    return checks or [Check(title, fine)]


def _plain_lines(lines: Iterable[str]) -> str:
    return "\n".join(map(plain, lines))


def _of_base(base: OpenedModel) -> list[Check]:
    """Whether the base has everything that an output needs."""
    checkpoint = base.checkpoint
    verdict = CheckVerdict.OK
    sentence = "Its config and side files go into the output."
    remarks = list(base.summary.warnings)
    if not any(file.endswith(("config.json", PIPELINE)) for file in checkpoint.side_files):
        verdict = CheckVerdict.NOTE
        sentence = (
            "No config.json: roles are read off the tensors' names, and the output will have no "
            "config either. Open the model's folder if there is one."
        )
    elif remarks:
        verdict = CheckVerdict.NOTE
        sentence = remarks[0]
    return [Check("Base model", sentence, verdict, "\n".join(remarks), plain(base.name))]


def _names(base: OpenedModel, expert: OpenedModel) -> _Finding:
    """Tensors that the expert lacks or names differently, except heads and buffers."""
    traits = base.architecture.traits
    missing = []
    for name in traits:
        may_lack = part_of(name, base.checkpoint.parts) in expert.lacks
        if not expert.has(name) and traits[name].role not in _HEADS and not may_lack:
            missing.append(name)
    stacks = whole_stacks(base.checkpoint.tensors, expert.own_names)
    if stacks and not expert.lacks:
        sentence = (
            f"Has only a part of the base: {len(missing)} tensors, such as "
            f"{listing(sorted(stacks))}, are merged without it, and kept from the base if no "
            "expert has them."
        )
        return CheckVerdict.NOTE, sentence, missing
    if outside := sorted(expert.outside):
        sentence = (
            f"Has more than the base: {len(outside)} tensors, such as {listing(outside[:1])}, are "
            "saved in heads/, not merged. To merge them, choose a base that has them."
        )
        return CheckVerdict.NOTE, sentence, outside
    if missing:
        vital = any(traits[name].role in _VITAL for name in missing)
        sentence = f"Lacks {listing(missing)}, outside the blocks: merged without this expert."
        return CheckVerdict.WARNING if vital else CheckVerdict.NOTE, sentence, missing
    if parts := sorted(expert.lacks):
        sentence = f"Has no part {listing(parts)} of the base: merged without this expert."
        return CheckVerdict.NOTE, sentence, parts
    return _more(expert)


def _more(expert: OpenedModel) -> _Finding:
    """Tensors that only the expert has, or else those that it names differently."""
    traits = expert.architecture.traits
    if extra := [name for name in expert.extra if traits[name].role not in _HEADS]:
        sentence = f"Has {listing(extra)}, which the base lacks: saved in heads/, not merged."
        return CheckVerdict.NOTE, sentence, extra
    renamed = [(theirs, name) for theirs, name in expert.answers.items() if theirs != name]
    if renamed:
        theirs, name = renamed[0]
        sentence = (
            f"{len(renamed)} tensors have another prefix (`{plain(theirs)}` is `{plain(name)}` in "
            "the base): matched by the rest of the name."
        )
        return CheckVerdict.NOTE, sentence, [f"{theirs} is {name}" for theirs, name in renamed]
    return None


def _quantisation(base: OpenedModel, experts: Sequence[OpenedModel]) -> Check:
    """Which models are quantised, and what that means for the merge."""
    title = "Quantisation"
    quantised = [model for model in (base, *experts) if model.checkpoint.quantised]
    if not quantised:
        return Check(title, "No model is quantised.")
    formats = sorted({name for model in quantised for name in model.checkpoint.quantised})
    sentences = [f"Dequantised as it is read: {', '.join(formats)}."]
    adapters = any(expert.checkpoint.adapter is not None for expert in experts)
    if base.checkpoint.quantised and adapters:
        sentences.append(
            "An adapter that was trained on this quantised base is rightly merged onto it as it is."
        )
    if not adapters or len(quantised) > 1 or not base.checkpoint.quantised:
        sentences.append(
            "The rounding stays in the merged weights: open the original ones if they can be had."
        )
    lines = []
    for model in quantised:
        for format_, count in model.checkpoint.quantised.items():
            lines.append(f"{model.name}: {format_}, {counted(count, 'tensor', 'tensors')}")
    names = ", ".join(plain(model.name) for model in quantised)
    return Check(title, " ".join(sentences), CheckVerdict.NOTE, _plain_lines(lines), names)


def _is_dequantised(model: OpenedModel, info: TensorInfo) -> bool:
    return bool(model.checkpoint.quantised) and isinstance(info, DerivedInfo)


def _format(base: OpenedModel, expert: OpenedModel) -> _Finding:
    """Task vectors are differences: the coarser of the two formats determines their noise."""
    if expert.checkpoint.adapter is not None:
        return None
    pairs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, expert_name in expert.own_names.items():
        ours = base.checkpoint.tensors[name]
        theirs = expert.checkpoint.tensors[expert_name]
        if _is_dequantised(base, ours) or _is_dequantised(expert, theirs):
            continue
        first = ours.dtype
        second = theirs.dtype
        if first != second and is_float(first) and is_float(second):
            pairs[first, second].append(name)
    if not pairs:
        return None
    (first, second), names = max(pairs.items(), key=lambda pair: len(pair[1]))
    coarse = max(_ROUNDING.get(tag, 0.0) for pair in pairs for tag in pair)
    sentence = f"{len(names)} tensors are {second}, in the base {first}"
    lines = []
    for (of_base, of_expert), tensors in pairs.items():
        lines += [f"{name}: {of_expert}, in the base {of_base}" for name in tensors]
    if coarse < _NOISY:
        return CheckVerdict.NOTE, f"{sentence}: both are widened before they are subtracted.", lines
    return (
        CheckVerdict.WARNING,
        f"{sentence}: BF16 rounds to {coarse:.1%} of a weight, about as much as fine-tuning "
        "changes it. Use base and expert in the format the expert was tuned in.",
        lines,
    )


def _heads(rows: Sequence[PlanRow], experts: Sequence[OpenedModel]) -> Check:
    heads = []
    for row in rows:
        is_head = row.in_base or row.role in (Role.HEAD, Role.VOCABULARY_HEAD)
        if is_head and row.disposition == Disposition.PER_EXPERT:
            heads.append(row)
    if heads:
        owners = sorted(set[int]().union(*(row.experts for row in heads)))
        names = ", ".join(plain(experts[t].name) for t in owners)
        lines = []
        for t in owners:
            expert = experts[t]
            for row in heads:
                if t in row.experts:
                    info = expert.checkpoint.tensors[expert.own_names.get(row.name, row.name)]
                    lines.append(f"{expert.name}: {row.name} {dimensions(info.shape)}")
        names_listed = listing([row.name for row in heads])
        sentence = f"Kept per expert, in heads/, for {names}: {names_listed}."
        return Check("Heads", sentence, CheckVerdict.NOTE, _plain_lines(lines))
    merged = [row for row in rows if row.role == Role.HEAD and row.is_combined]
    if not merged:
        return Check("Heads", "No expert has a task head of its own.")
    sentence = (
        f"Merged: {listing([row.name for row in merged])}. Under Heads in the method's options "
        "(heads: keep) every expert's own is saved instead."
    )
    lines = [f"{row.name}: {row.reason}" for row in merged]
    return Check("Heads", sentence, CheckVerdict.NOTE, _plain_lines(lines))


def _vocabulary(choice: Vocabulary, base: OpenedModel, expert: OpenedModel) -> _Finding:
    try:
        theirs, ours = (tokenizer_stamps(m.checkpoint) for m in (base, expert))
        if ours and not theirs:
            sentence = (
                "Has a tokenizer, but the base has none to compare it with or to export. Copy the "
                "right tokenizer files into the base's folder."
            )
            return CheckVerdict.WARNING, sentence, [str(stamp.path) for stamp in ours]
        comparison = compare(theirs, ours) if ours else None
    except CheckpointError as error:
        return CheckVerdict.WARNING, f"Tokens cannot be compared. {error.sentence}", ()
    if comparison is None or not comparison.tokens:
        return None
    sentence = (
        f"{comparison.tokens} of {comparison.size} token ids are other tokens than "
        f"in the base: {plain(comparison.examples[0])}. "
    )
    verdict, outcome = _rows_outcome(choice, base, expert)
    return verdict, sentence + outcome, comparison.examples


def _rows_outcome(
    choice: Vocabulary, base: OpenedModel, expert: OpenedModel
) -> tuple[CheckVerdict, str]:
    """How the rows of two different vocabularies are merged."""
    if choice is Vocabulary.BASE:
        return CheckVerdict.NOTE, "The rows of the base are kept, as chosen under Vocabulary."
    if choice in BY_TOKEN:
        matched = match(base, expert)
    else:
        matched = None
    if matched is None:
        return CheckVerdict.WARNING, (
            "The output has the base's tokenizer, but the rows of these ids are merged by index. "
            "Under Vocabulary, choose to match them by token, or to keep the base's."
        )
    if base.joined is not None:
        added = base.joined.added
    else:
        added = ()
    new = []
    if here := [token for token in added if token in matched.extra]:
        new.append(f"{len(here)} new tokens ({listing(here)}) are added to the merged model")
    if left_out := sorted(matched.extra.difference(added)):
        new.append(
            f"{len(left_out)} tokens that not every expert has are left out ({listing(left_out)})"
        )
    return CheckVerdict.NOTE, (
        f"Rows are matched by token: {matched.moved} have other rows here, {matched.lacking} of "
        "the base's tokens are missing here and count as unchanged, and "
        f"{' and '.join(new) or 'no token is new'}."
    )


def _config(base: OpenedModel, expert: OpenedModel) -> _Finding:
    theirs = base.checkpoint.config
    ours = expert.checkpoint.config
    if theirs is None or ours is None:
        if theirs is None:
            return None
        return CheckVerdict.NOTE, "Has no config.json: assumed to be built like the base.", ()
    theirs, ours = same_part(theirs, ours)
    if theirs.get("model_type") != ours.get("model_type") and (
        base.architecture.family != expert.architecture.family
    ):
        sentence = (
            f"Is of family {plain(str(expert.architecture.family))}, the base of "
            f"{plain(str(base.architecture.family))}: equal shapes may mean different things."
        )
        return CheckVerdict.WARNING, sentence, ()
    differences = list(config_differences(theirs, ours))
    if not differences:
        return None
    kinds = list(dict.fromkeys(kind for kind, _ in differences))
    named = conjunction(kinds)
    lines = [line for _, line in differences]
    sentence = (
        f"Its {named} differ{'s' if len(kinds) == 1 else ''} from the base's: {plain(lines[0])}"
        f"{f' and {len(lines) - 1} more' if len(lines) > 1 else ''}. The output has the base's "
        "config, under which this expert computes something else."
    )
    return CheckVerdict.WARNING, sentence, lines


def _duplicates(
    base: OpenedModel, experts: Sequence[OpenedModel], rows: Sequence[PlanRow]
) -> list[Check]:
    """Models with equal weights, judged by a few blocks of each."""
    combined = (row for row in rows if row.in_base and row.is_combined)
    names = list(dict.fromkeys(row.tensor for row in combined))
    seen: dict[str, str] = {}
    checks = []
    for model in (base, *experts):
        digest = _sample(model, names)
        if digest is None:
            continue
        if digest not in seen:
            seen[digest] = "the base" if model is base else plain(model.name)
            continue
        sentence = (
            f"Probably the same weights as {seen[digest]}: every block that was sampled is equal. "
            "Remove it unless it is meant to count."
        )
        checks.append(
            Check("Duplicates", sentence, CheckVerdict.WARNING, subject=plain(model.name))
        )
    return checks or [Check("Duplicates", "No two models hold the same weights.")]


def _sample(model: OpenedModel, names: Sequence[str]) -> str | None:
    """A digest of one block from each of several tensors, spread over ``names`` (the base's names).

    Copies have equal digests; fine-tunes differ in nearly every block. None for an adapter, or for
    a model that lacks one of the tensors. Raises CheckpointError.
    """
    if not names:
        return None
    step = max(1, len(names) // TENSORS_SAMPLED)
    chosen = names[::step]
    if not all(model.has(name) for name in chosen):
        return None
    infos = tuple(model.checkpoint.tensors[model.own_names[name]] for name in chosen)
    if any(isinstance(info, ChangedInfo) for info in infos):
        return None
    return _digest(model.checkpoint.files, infos)


@lru_cache(maxsize=256)
def _digest(_files: tuple[FileStamp, ...], infos: tuple[TensorInfo, ...]) -> str:
    """``_files`` is part of the cache key: a changed file is read again."""
    digest = hashlib.sha256()
    for info in infos:
        block = bytearray(min(BLOCK, info.stored_bytes))
        middle = (info.stored_bytes - len(block)) // 2
        with open_regular(info.file) as (descriptor, _):
            read_at(descriptor, memoryview(block), info.start + middle)
        digest.update(f"{info.dtype} {info.shape}".encode())
        digest.update(block)
    return digest.hexdigest()


def _files(_base: OpenedModel, expert: OpenedModel) -> _Finding:
    remarks = expert.summary.warnings
    if remarks:
        return (CheckVerdict.NOTE, remarks[0], remarks)
    return None


_MEANINGFUL: Final = {
    "position encoding": (
        *("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor"),
        *("position_embedding_type", "rope_local_base_freq", "rotary_pct", "rotary_dim"),
        *("relative_attention_num_buckets", "relative_attention_max_distance", "alibi"),
    ),
    "norm epsilon": ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps"),
    "norm placement": (
        *("do_layer_norm_before", "normalize_before", "parallel_attn", "use_parallel_residual"),
        *("new_decoder_architecture", "apply_residual_connection_post_layernorm"),
    ),
    "activation": (
        *("hidden_act", "hidden_activation", "activation_function", "activation"),
        *("feed_forward_proj", "dense_act_fn", "is_gated_act"),
    ),
    "attention": (
        *("sliding_window", "use_sliding_window", "max_window_layers", "layer_types"),
        *("attention_window", "scale_attn_weights", "scale_attn_by_inverse_layer_idx"),
        *("query_pre_attn_scalar", "attention_multiplier", "attn_logit_softcapping", "is_causal"),
        *("is_decoder", "use_qk_norm", "attention_bias"),
    ),
    "scale": (
        *("final_logit_softcapping", "logit_scale", "embedding_multiplier", "residual_multiplier"),
        *("logits_scaling", "scale_embedding"),
    ),
    "image geometry": ("patch_size", "image_size"),
    "mixture of experts": ("num_experts_per_tok", "norm_topk_prob", "routed_scaling_factor"),
}
_HEAD_COUNTS: Final = (
    *("num_attention_heads", "num_key_value_heads", "n_head", "num_heads", "head_dim"),
    *("encoder_attention_heads", "decoder_attention_heads"),
)


def _kinds_by_key() -> dict[str, str]:
    """What a key of a config says, by key."""
    kinds: dict[str, str] = {}
    for kind, keys in _MEANINGFUL.items():
        kinds |= dict.fromkeys(keys, kind)
    return kinds | dict.fromkeys(_HEAD_COUNTS, "attention heads")


_KINDS: Final = _kinds_by_key()
_NONE_IS_A_VALUE: Final = frozenset({"rope_scaling", "sliding_window"})
_PARTS: Final = ("text_config", "vision_config", "audio_config", "encoder", "decoder")


def config_differences(
    base: Mapping[str, object], expert: Mapping[str, object], prefix: str = ""
) -> Iterator[tuple[str, str]]:
    """The differences: kind ("norm epsilon") and "`rms_norm_eps` is 1e-06, in the base 1e-05".

    A key that only one config has is ignored, as its default depends on the model class. A missing
    RoPE scaling however means that there is none.
    """
    ours = _with_plain_rope(expert)
    theirs = _with_plain_rope(base)
    for key, kind in _KINDS.items():
        in_both = key in ours and key in theirs
        either = key in _NONE_IS_A_VALUE and (key in ours or key in theirs)
        if (in_both or either) and ours.get(key) != theirs.get(key):
            yield kind, f"`{prefix}{key}` is {ours.get(key)!r}, in the base {theirs.get(key)!r}"
    for part in _PARTS:
        first = base.get(part)
        second = expert.get(part)
        if isinstance(first, Mapping) and isinstance(second, Mapping):
            yield from config_differences(first, second, f"{prefix}{part}.")


def same_part(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The configs, or that which is nested in one of them and has the type of the other.

    For example, that of a tower in the config of the whole model.
    """

    def part_of(config: Mapping[str, Any], model_type: object) -> Mapping[str, Any]:
        parts = (value for value in config.values() if isinstance(value, Mapping))
        if model_type is None or config.get("model_type") == model_type:
            return config
        return next((part for part in parts if part.get("model_type") == model_type), config)

    return part_of(first, second.get("model_type")), part_of(second, first.get("model_type"))


def _with_plain_rope(config: Mapping[str, object]) -> dict[str, object]:
    """The config with its RoPE parameters under the keys of older configs."""
    plain = dict(config)
    rope = plain.pop("rope_parameters", None)
    if not isinstance(rope, Mapping):
        return plain
    if any(isinstance(value, Mapping) for value in rope.values()):  # one set per kind of layer
        return {**plain, "rope_parameters": rope}
    if "rope_theta" in rope:
        plain["rope_theta"] = rope["rope_theta"]
    scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
    if scaling.get("rope_type", "default") != "default":
        plain["rope_scaling"] = scaling
    return plain
