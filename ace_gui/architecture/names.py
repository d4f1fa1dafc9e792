"""Traits from a tensor's name and shape, if no model class is known.

Covers the names of Hugging Face models, GPT-2, open_clip, timm and plain torch modules. Plain
strings and regular expressions: no torch, no transformers.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache

from ace_gui.architecture.traits import Role, TensorTraits

Shape = tuple[int, ...]

# Prefixes added to a whole model by DataParallel, torch.compile and PEFT; they carry no meaning.
_WRAPPER = re.compile(r"(?:^|(?<=\.))(?:_orig_mod\.|module\.(?!\d)|base_model\.model\.)")

# The attribute under which a task class keeps its base model (`base_model_prefix`).
_BASE_PREFIX = re.compile(
    r"^(?:model|transformer|bert|roberta|distilbert|albert|electra|deberta|camembert|mpnet|esm"
    r"|longformer|big_bird|mobilebert|xlm|gpt_neox|backbone|vit|deit|beit|dinov2|swin|swinv2"
    r"|convnext|resnet|clip|wav2vec2|hubert)\."
)
# Older files of one CLIP tower carry its prefix, newer ones do not.
_TOWER = re.compile(r"^(?:vision_model|text_model)\.")
_LEGACY_NORM = re.compile(r"(?<=norm\.)(gamma|beta)$", re.IGNORECASE)

_BLOCK = re.compile(
    r"(?:^|\.)(?:layers?|h|blocks?|resblocks|decoder_layers|encoder_layers)\.(\d+)(?:\.|$)"
)
_LEAF = re.compile(r"(?:^|[._])(?:weight|bias)$")
_WEIGHT_LEAF = re.compile(r"(?:(?:^|[._])weight|(?:^|\.)weight_[ih]h_l\d+(?:_reverse)?)$")
_BIAS_LEAF = re.compile(r"(?:(?:^|[._])bias|(?:^|\.)bias_[ih]h_l\d+(?:_reverse)?)$")

_BUFFER = re.compile(
    r"(?:^|\.)(?:position_ids|token_type_ids|inv_freq|masked_bias|num_batches_tracked"
    r"|running_mean|running_var|attn_mask|causal_mask|relative_position_index)$"
)
_POSITION = re.compile(
    r"(?:^|[._])(?:wpe|pos_embed\w*|embed_positions|position_embeddings?|positional_embedding"
    r"|position_embeddings_\w+|relative_attention_bias|rel_embeddings|relative_position_bias_table"
    r"|distance_embedding|rel_pos_[hw]|emb_rel_[kv]|position_enc|\w*positional_encoding"
    r"|attention_biases)$"
)
_EMBEDDING = re.compile(
    r"(?:^|[._])(?:wte|shared|embed_tokens|embed_in|embed|embedding|embeddings|tok_embeddings"
    r"|emb|emb_layer|embedding_table|cls_token|dist_token|distillation_token|mask_token"
    r"|register_tokens|storage_tokens)$"
)
_NORM = re.compile(r"(?:norm\w*|(?:^|\.)(?:ln|bn)\d*(?:_\w+)?)$", re.IGNORECASE)

_HEADS = frozenset(
    (
        *("classifier", "score", "qa_outputs", "pre_classifier", "head", "heads", "head_dist"),
        *("classification_head", "cls_classifier", "distillation_classifier"),
        *("multiple_choice_head", "decode_head", "class_labels_classifier", "bbox_predictor"),
    )
)
_VOCABULARY_HEADS = frozenset(
    (
        *("lm_head", "embed_out", "vocab_transform", "vocab_layer_norm", "vocab_projector"),
        *("generator_lm_head", "generator_predictions", "predictions", "lm_heads"),
        *("codebooks_head", "codec_head", "ctc_head", "audio_lm_head", "logits_dense"),
        *("mlm_head", "mim_head", "mmm_text_head", "mmm_image_head"),
    )
)
# Children of a module called `head` that pools by attention and does not map to labels.
_POOLING = frozenset(("attention", "attn", "mlp", "layernorm", "probe", "cls_token"))
_PRETRAINING_HEAD = re.compile(
    r"(?:cls\.seq_relationship|sop_classifier|discriminator_predictions|answer_head"
    r"|obj_predict_head)\."
)
_POOLER = re.compile(r"^(?:[^.]+\.)?pooler\.")
_LM_HEAD = re.compile(r"(?:^|\.)(?:lm_head|cls\.predictions)\.")

_ATTENTION = r"(?:attn|attention|mha)"
_MATRIX_PATTERNS: tuple[tuple[Role, str], ...] = (
    (
        Role.QKV,
        r"(?:^|\.)(?:c_attn|w?qkv|query_key_value|qkv_proj|w_pack|to_qkv|to_kv|kv_proj"
        rf"|kv_a_proj_with_mqa|kv_b_proj)$|{_ATTENTION}\.in_proj$",
    ),
    (
        Role.QUERY,
        r"(?:^|\.)(?:q|q_proj|query|query_proj|q_lin|to_q|wq|q_a_proj|q_b_proj|q_attn)$",
    ),
    (Role.KEY, r"(?:^|\.)(?:k|k_proj|key|key_proj|k_lin|to_k|wk)$"),
    (Role.VALUE, r"(?:^|\.)(?:v|v_proj|value|value_proj|v_lin|to_v|wv)$"),
    (
        Role.ATTENTION_OUTPUT,
        r"(?:^|\.)(?:o_proj|out_lin|to_out(?:\.0)?)$"
        rf"|{_ATTENTION}\.(?:output\.dense|out_proj|c_proj|proj|projection|dense|wo|o)$",
    ),
    (Role.MLP_GATE_UP, r"(?:^|\.)(?:gate_up_proj|weights_in|w12)$|mlp\.wi$"),
    (Role.MLP_GATE, r"(?:^|\.)(?:gate_proj|wi_0)$|\.w1$"),
    (
        Role.MLP_UP,
        r"(?:^|\.)(?:up_proj|dense_h_to_4h|wi|wi_1|fc_in)$"
        r"|\.(?:fc1|lin1|linear1|dense1|pwconv1|c_fc|intermediate[._]dense|ffn|w3)$",
    ),
    (
        Role.MLP_DOWN,
        r"(?:^|\.)(?:down_proj|dense_4h_to_h|wo|fc_out|weights_out)$"
        r"|\.(?:fc2|lin2|linear2|dense2|pwconv2|c_proj|output[._]dense|ffn_output|w2)$",
    ),
)
_MATRIX_ROLES: tuple[tuple[Role, re.Pattern[str]], ...] = tuple(
    (role, re.compile(pattern, re.IGNORECASE)) for role, pattern in _MATRIX_PATTERNS
)

_MLP_MATRICES = (Role.MLP_GATE_UP, Role.MLP_GATE, Role.MLP_UP, Role.MLP_DOWN)

_INDEX = re.compile(r"(?<=\.)\d+(?=\.)")
_GPT2_MATRIX = re.compile(
    r"(?:^|\.)h\.\d+\.(?:attn|crossattention|mlp)\.(?:c_attn|q_attn|c_proj|c_fc)\.weight$"
)
_GPT2_UP = re.compile(r"(?:^|\.)h\.\d+\.mlp\.c_fc\.weight$")
# CLIP keeps these as bare parameters and multiplies features by them from the right.
_RIGHT_FACTOR = re.compile(r"(?:^|\.)(?:visual\.proj|text_projection)$")


def unwrapped(name: str) -> str:
    """``name`` without the prefixes that DataParallel, torch.compile and PEFT add."""
    return _WRAPPER.sub("", name)


def canonical(name: str) -> str:
    """``name`` without wrappers and base-model prefixes, with LayerNorm's modern leaf names."""
    name = unwrapped(name)
    while prefix := _BASE_PREFIX.match(name):
        name = name[prefix.end() :]
    return modern_norm(name)


def modern_norm(name: str) -> str:
    """``LayerNorm.gamma`` and ``LayerNorm.beta`` (early BERT files) as ``weight`` and ``bias``."""
    return _LEGACY_NORM.sub(
        lambda leaf: "weight" if leaf.group().lower() == "gamma" else "bias", name
    )


def match_names(base_names: Iterable[str], expert_names: Iterable[str]) -> dict[str, str]:
    """The base's name of each tensor of an expert, by the expert's name.

    Equal names are matched first, then equal names without wrappers, then equal canonical names,
    and last canonical names of which only one has a CLIP tower's prefix. At each step a pair counts
    only if each side has exactly one tensor left for it. Tensors without a certain partner are
    absent.
    """
    base = list(base_names)
    expert = list(expert_names)
    matched: dict[str, str] = {}
    for key in (str, unwrapped, canonical, _without_tower):
        taken = set(matched.values())
        rest_of_base = _grouped((name for name in base if name not in taken), key)
        rest_of_expert = _grouped((name for name in expert if name not in matched), key)
        for common, names in rest_of_expert.items():
            candidates = rest_of_base.get(common, [])
            if len(names) == len(candidates) == 1 and _same_tower(names[0], candidates[0]):
                matched[names[0]] = candidates[0]
    return {name: matched[name] for name in expert if name in matched}


def _grouped(names: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[key(name)].append(name)
    return groups


def _without_tower(name: str) -> str:
    return _TOWER.sub("", canonical(name))


def _same_tower(first: str, second: str) -> bool:
    """Whether the names do not belong to different towers."""
    tower = _TOWER.match(canonical(first))
    second_tower = _TOWER.match(canonical(second))
    return not tower or not second_tower or tower.group() == second_tower.group()


def block_index(name: str) -> int | None:
    """Index of the transformer block ``name`` belongs to: the outermost numbered layer."""
    match = _BLOCK.search(name)
    if match:
        return int(match.group(1))
    return None


def block_list(name: str) -> str | None:
    """The part of ``name`` before the number of its block, without the model's prefixes."""
    bare = canonical(name)
    match = _BLOCK.search(bare)
    if match:
        return bare[: match.start(1)]
    return None


def head_role(name: str) -> Role | None:
    """HEAD or VOCABULARY_HEAD if the name alone shows an output head, else None."""
    bare = canonical(name)
    if is_vocabulary_head(bare) or _LM_HEAD.search(name):
        return Role.VOCABULARY_HEAD
    first, *further = bare.split(".")
    pooling = first == "head" and further and further[0] in _POOLING
    if (first in _HEADS and not pooling) or is_pretraining_head(bare):
        return Role.HEAD
    return None


def is_vocabulary_head(name: str) -> bool:
    """Whether the name, without its model's prefix, belongs to a vocabulary head."""
    inner = name.startswith(("cls.predictions.", "joint.head."))  # of BERT and of transducers
    return inner or name.partition(".")[0] in _VOCABULARY_HEADS


def is_pretraining_head(name: str) -> bool:
    """Whether the name, without its model's prefix, belongs to a head for pre-training."""
    return bool(_PRETRAINING_HEAD.match(name))


def is_pooler(name: str) -> bool:
    """Whether the name is that of a pooler of the whole body, with or without the body's prefix."""
    return bool(_POOLER.match(unwrapped(name)))


def module_of(name: str) -> str:
    """Name of the module that a weight or bias belongs to."""
    return _LEAF.sub("", name)


def matrix_role(name: str) -> Role:
    """The role of the matrix ``name`` in its block; OTHER if the name does not show it."""
    module = module_of(name)
    return next((role for role, rule in _MATRIX_ROLES if rule.search(module)), Role.OTHER)


def is_bias(name: str) -> bool:
    """Whether the name is that of a bias."""
    return bool(_BIAS_LEAF.search(name))


def embedding_role(name: str) -> Role | None:
    """POSITION or EMBEDDING if the name is that of an embedding, else None."""
    module = _LEAF.sub("", name)
    if _POSITION.search(module):
        return Role.POSITION
    if _EMBEDDING.search(module):
        return Role.EMBEDDING
    return None


def is_buffer(name: str, ndim: int) -> bool:
    """Whether the name is that of a mask, counter or table that is not trained."""
    old_gpt2_mask = ndim > 2 and bool(re.search(r"(?:^|\.)attn(?:\.attention)?\.bias$", name))
    return old_gpt2_mask or bool(_BUFFER.search(name))


def traits_from_names(shapes: Mapping[str, Shape]) -> dict[str, TensorTraits]:
    """Traits of every tensor of a checkpoint, from names and shapes alone."""
    transposed = _conv1d_names(shapes)
    return {
        name: _traits(name, len(shape), transposed=name in transposed)
        for name, shape in shapes.items()
    }


def _conv1d_names(shapes: Mapping[str, Shape]) -> frozenset[str]:
    """Matrices of GPT-2's Conv1D, stored inputs × outputs.

    Other models use GPT-2's names with Linear modules. The up-projections distinguish them, since
    an MLP is wider than the model: Linear stores them with more rows than columns.
    """
    ups = [shape for name, shape in shapes.items() if _GPT2_UP.search(name) and len(shape) == 2]
    tall = Counter(rows > columns for rows, columns in ups)
    if tall[True] > tall[False]:
        return frozenset()
    return frozenset(name for name in shapes if _GPT2_MATRIX.search(name))


def _traits(name: str, ndim: int, *, transposed: bool) -> TensorTraits:
    role = _role(_INDEX.sub("0", name), ndim)
    right_factor = ndim == 2 and bool(_RIGHT_FACTOR.search(name))
    not_matrices = (Role.BUFFER, Role.BIAS, Role.NORM, Role.EMBEDDING, Role.POSITION)
    matrix = ndim == 2 and bool(_WEIGHT_LEAF.search(name)) and role not in not_matrices
    stack = ndim == 3 and role in _MLP_MATRICES and "experts" in name.split(".")
    return TensorTraits(
        role=role,
        matrix=matrix or right_factor or stack,
        transposed=right_factor or (matrix and transposed),
        stack=stack,
        block=block_index(name),
        before_head=is_pooler(name),
    )


@lru_cache(maxsize=4096)
def _role(name: str, ndim: int) -> Role:
    """Role of a tensor. Names come with equal indices, so that the cache serves all blocks."""
    if is_buffer(name, ndim):
        return Role.BUFFER
    if head := head_role(name):
        return head
    if ndim < 3 and _NORM.search(_LEAF.sub("", modern_norm(name))):
        return Role.NORM
    if is_bias(name):
        return Role.BIAS
    weight = bool(_WEIGHT_LEAF.search(name))
    if ndim != 4 and not (weight and ndim == 3) and (embedding := embedding_role(name)):
        return embedding
    if ndim > 2 and weight and "experts" not in name.split("."):
        return Role.CONVOLUTION
    if ndim == 1 and weight:
        return Role.NORM  # in practice every one-dimensional `weight` scales a normalisation
    if ndim > 1:
        return matrix_role(name)
    return Role.OTHER


_STACK = re.compile(r"^(.*?(?:^|\.))(\d+)\.")


def stack_of(name: str) -> str:
    """The name of a tensor's numbered blocks ("vision_model.encoder.layers"); "" without blocks."""
    match = _STACK.match(name)
    if match:
        return match[1].rstrip(".")
    return ""


def match_part(base: Mapping[str, Shape], expert: Mapping[str, Shape]) -> dict[str, str]:
    """Map the expert's names to the base's if one model lies within the other under a prefix.

    Only tensors with rows of equal size count. The prefix with most of them is used, with
    everything before it. The map is empty if two prefixes fit equally well.
    """
    inner = _pairs(base, expert)
    outer = {expert_name: name for name, expert_name in _pairs(expert, base).items()}
    return max(inner, outer, key=len)


def _pairs(model: Mapping[str, Shape], part: Mapping[str, Shape]) -> dict[str, str]:
    """The name in the whole, by the name in the part."""
    ends: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in model:
        for prefix, end in _ends(canonical(name)):
            ends[end].append((prefix, name))
    candidates = []
    for inner, shape in part.items():
        for prefix, name in ends[canonical(inner)]:
            if len(model[name]) == len(shape) and model[name][1:] == shape[1:]:
                candidates.append((inner, prefix, name))
    stacked = {prefix for inner, prefix, _ in candidates if stack_of(inner)}
    votes = Counter(prefix for _, prefix, _ in candidates if prefix in stacked).most_common(2)
    if not votes or (len(votes) > 1 and votes[0][1] == votes[1][1]):
        return {}
    best = f"{votes[0][0]}."
    pairs: dict[str, str] = {}
    # The longest prefix comes first: a head is outside the model that has the blocks.
    for inner, prefix, name in sorted(candidates, key=lambda item: -len(item[1])):
        if best.startswith(f"{prefix}.") and inner not in pairs and name not in pairs.values():
            pairs[inner] = name
    return pairs


def _ends(name: str) -> Iterable[tuple[str, str]]:
    parts = name.split(".")
    for cut in range(1, len(parts)):
        yield ".".join(parts[:cut]), ".".join(parts[cut:])


def whole_stacks(names: Iterable[str], existing: Collection[str]) -> frozenset[str]:
    """The stacks of blocks in ``names`` that have no tensor among ``existing``."""
    stacks: dict[str, list[str]] = defaultdict(list)
    for name in names:
        if stack := stack_of(name):
            stacks[stack].append(name)
    return frozenset(
        stack for stack, members in stacks.items() if not any(name in existing for name in members)
    )
