"""Rows of embeddings and vocabulary heads: matched by token, and extended with new tokens.

Both happen only if the recipe says so.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from math import prod
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ace_gui.architecture.traits import Role, TensorTraits
from ace_gui.checkpoints.derived import NOWHERE, ExtendedInfo, TensorSource, extend
from ace_gui.checkpoints.header import TensorInfo
from ace_gui.checkpoints.input_files import JSON_LIMIT, FileStamp, read_json
from ace_gui.checkpoints.reader import DerivedInfo
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.planning.token_ids import (
    Joined,
    Known,
    extended,
    join,
    renumbered,
    resized,
    side_files_of,
    token_indices,
    tokenizer_stamps,
    tokens_of,
)
from ace_gui.errors import RecipeError
from ace_gui.formatting import listing, plain
from ace_gui.recipe import Recipe
from ace_gui.recipe.values import BY_TOKEN, TokenSource, Vocabulary
from ace_gui.stored_formats import FORMATS, is_float


@dataclass(frozen=True, kw_only=True)
class TokenMatch:
    """The rows of the base's tokens in an expert.

    ``rows``: for each row of the base its row in the expert, or ``NOWHERE``. ``lacking``: number of
    the base's tokens that the expert lacks; ``extra``: the expert's tokens that the base lacks.
    """

    rows: NDArray[np.int64]
    lacking: int
    extra: frozenset[str]

    @property
    def moved(self) -> int:
        """The number of tokens with another row in the expert."""
        return int(np.sum((self.rows != NOWHERE) & (self.rows != np.arange(len(self.rows)))))


def vocabulary_tensors(model: OpenedModel) -> tuple[str, ...]:
    """The tensors with one row per token: the longest embedding, and tensors of the same length."""
    traits = model.architecture.traits
    tensors = model.checkpoint.tensors
    longest = 0
    for name, info in tensors.items():
        if traits[name].role is Role.EMBEDDING and len(info.shape) == 2:
            longest = max(longest, info.shape[0])
    names = []
    for name, info in tensors.items():
        is_vocabulary = traits[name].role in (Role.EMBEDDING, Role.VOCABULARY_HEAD)
        if is_vocabulary and info.shape and info.shape[0] == longest:
            names.append(name)
    return tuple(names)


def matched_by_token(
    base: OpenedModel, experts: Sequence[OpenedModel], choice: Vocabulary
) -> tuple[OpenedModel, ...]:
    """The experts, each with ``token_rows`` if its vocabulary differs from the base's.

    Only if the recipe matches rows by token. Raises RecipeError if a required tokenizer is missing.
    """
    if choice not in BY_TOKEN:
        return tuple(experts)
    names = vocabulary_tensors(base)
    matched = []
    for expert in experts:
        shared = [name for name in names if expert.has(name)]
        pairs = match(base, expert)
        same = [n for n in shared if pairs and expert.shape(n)[0] == expert.shape(shared[0])[0]]
        if pairs is None:
            rows = {}
        else:
            rows = dict.fromkeys(same, pairs.rows)
        matched.append(replace(expert, token_rows=rows))
    return tuple(matched)


def deciding_tokenizers(models: Sequence[OpenedModel], choice: Vocabulary) -> tuple[FileStamp, ...]:
    """The tokenizer files that the merged rows depend on, with their current stamps.

    None unless the recipe matches rows by token. Raises CheckpointError.
    """
    if choice not in BY_TOKEN:
        return ()
    stamps = [tokenizer_stamps(model.checkpoint) for model in models]
    return tuple(chain.from_iterable(stamps))


def differs(base: OpenedModel, expert: OpenedModel) -> bool:
    """Whether a row of the expert's vocabulary may belong to another token than in the base.

    Vocabularies of one size without a tokenizer on either side are assumed equal. Raises
    CheckpointError if a tokenizer cannot be read.
    """
    shared = [name for name in vocabulary_tensors(base) if expert.has(name)]
    if not shared:
        return False
    before, after = (tokenizer_stamps(model.checkpoint) for model in (base, expert))
    other_tokens = bool(before and after) and tokens_of(before) != tokens_of(after)
    return other_tokens or base.shape(shared[0])[0] != expert.shape(shared[0])[0]


def match(base: OpenedModel, expert: OpenedModel) -> TokenMatch | None:
    """The rows of the base's tokens in the expert; None if every row has the same token.

    Raises RecipeError if a tokenizer needed for this is missing.
    """
    if not differs(base, expert):
        return None
    before, after = (tokenizer_stamps(model.checkpoint) for model in (base, expert))
    for model, vocabulary in ((base, before), (expert, after)):
        if not vocabulary:
            raise RecipeError(
                f"Rows cannot be matched by token: {plain(model.name)} has no tokenizer file. Copy "
                "it into the folder.",
                key="vocabulary",
                path=model.checkpoint.path,
            )
    first = next(name for name in vocabulary_tensors(base) if expert.has(name))
    return _match(before, after, base.shape(first)[0], expert.shape(first)[0])


@lru_cache(maxsize=64)
def _match(
    before: tuple[FileStamp, ...], after: tuple[FileStamp, ...], rows: int, expert_rows: int
) -> TokenMatch:
    theirs = tokens_of(before)
    expert = Known(name="", tokens=tokens_of(after), rows=expert_rows)
    tokens = {token for index, token in theirs.items() if index < rows}
    return TokenMatch(
        rows=token_indices(theirs, rows, expert, padding=False),
        lacking=len(tokens - expert.held),
        extra=frozenset(expert.held - tokens),
    )


def rows_digest(model: OpenedModel, name: str) -> str:
    """Digest of the row order of the base's tensor ``name``; "" for the base's own order."""
    rows = model.token_rows.get(name)
    if rows is None:
        return ""
    return hashlib.sha256(rows.tobytes()).hexdigest()


_TOKENIZER: Final = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.*", "merges.txt", "*.model", "*.spm", "*.tiktoken", "*.bpe", "normalizer.json"),
)
_TEMPLATES: Final = ("chat_template.*", "additional_chat_templates/*")
_WITH_IDS: Final = ("config.json", "generation_config.json")

_TOKEN_ID: Final = re.compile(r"_token_ids?$")

_BASE: Final = "base"
"""The name of the base as the source of a token's row."""

_Changes = dict[str, dict[str, object]]


def with_new_tokens(
    base: OpenedModel, experts: Sequence[OpenedModel], recipe: Recipe
) -> tuple[OpenedModel, tuple[OpenedModel, ...]]:
    """The models, with a row in the base for each token that is added to its vocabulary.

    Raises RecipeError if a tokenizer is missing or tokens cannot be added, and CheckpointError.
    """
    names = vocabulary_tensors(base)
    owners = tuple(expert for expert in experts if any(map(expert.has, names)))
    single = bool(recipe.tokens or recipe.pad_to_multiple_of)
    if single and recipe.matching not in BY_TOKEN:
        raise RecipeError(
            "tokens and pad_to_multiple_of need rows that are matched by token; set vocabulary: "
            "union.",
            key="vocabulary",
        )
    adding = single or recipe.matching in (Vocabulary.TOKENS, Vocabulary.UNION)
    as_wide = all(_is_as_wide(expert, base, names) for expert in owners)
    if not adding or not owners or not as_wide or not tokenizer_stamps(base.checkpoint):
        return base, tuple(experts)
    of_base, *of_owners = (_vocabulary_of(model, base, names) for model in (base, *owners))
    joined = _joined(of_base, of_owners, recipe)
    if joined is None:
        return base, tuple(experts)
    extension = _Extended(
        base=base,
        owners=owners,
        ours=of_base,
        known=tuple(of_owners),
        joined=joined,
        names=names,
        recipe=recipe,
    )
    return extension.model(), tuple(map(extension.expert, experts))


def _joined(of_base: Known, of_owners: Sequence[Known], recipe: Recipe) -> Joined | None:
    """The vocabulary of the merged model; None if it is the base's."""
    if recipe.tokenizer:
        joined = _tokens_of(recipe.tokenizer, of_base, of_owners)
    else:
        union = recipe.vocabulary is Vocabulary.UNION
        of_experts = () if recipe.vocabulary is Vocabulary.BASE_TOKENS else of_owners
        advice = recipe.keep_base_rows
        joined = join(of_base, of_experts, union=union, also=recipe.tokens, advice=advice)
    if not (recipe.tokens or recipe.pad_to_multiple_of):
        return joined
    joined = joined or Joined(
        tokens=of_base.tokens, rows=of_base.rows, added=(), owner=None, left_out=frozenset()
    )
    missing = [token for token in recipe.tokens if token not in joined.tokens.values()]
    if missing:
        raise RecipeError(
            f"The tokenizer of {plain(recipe.tokenizer)} lacks {listing(missing)}; name these "
            "tokens with tokenizer: union.",
            key="tokens",
        )
    padding = -joined.rows % (recipe.pad_to_multiple_of or 1)
    return replace(joined, rows=joined.rows + padding, padding=padding)


def _tokens_of(name: str, of_base: Known, of_owners: Sequence[Known]) -> Joined | None:
    """The tokens of one expert in its order; None if they are the base's. Raises RecipeError."""
    owner = next((t for t, vocabulary in enumerate(of_owners) if vocabulary.name == name), None)
    if owner is None:
        raise RecipeError(
            f"tokenizer is {plain(name)}, which is no expert with a vocabulary; name "
            "base, union, or one of "
            f"{', '.join(plain(vocabulary.name) for vocabulary in of_owners)}.",
            key="tokenizer",
        )
    chosen = of_owners[owner]
    before = set(of_base.tokens.values())
    if (chosen.tokens, chosen.rows) == (of_base.tokens, of_base.rows):
        return None
    added = tuple(token for _, token in sorted(chosen.tokens.items()) if token not in before)
    unassigned = set[str]().union(*(vocabulary.held for vocabulary in of_owners)) - set(
        chosen.tokens.values()
    )
    return Joined(
        tokens=chosen.tokens,
        rows=chosen.rows,
        added=added,
        owner=owner,
        left_out=frozenset(unassigned),
    )


def _is_as_wide(expert: OpenedModel, base: OpenedModel, names: Sequence[str]) -> bool:
    """Whether rows of the expert's tensors are as long as the base's. Those it lacks are fine."""
    held = [name for name in names if expert.has(name)]
    return all(expert.shape(name)[1:] == base.shape(name)[1:] for name in held)


def _vocabulary_of(model: OpenedModel, base: OpenedModel, names: Sequence[str]) -> Known:
    """The vocabulary of a model; without a tokenizer and with the base's size it is the base's."""
    match(base, model)
    stamps = tokenizer_stamps(model.checkpoint) or tokenizer_stamps(base.checkpoint)
    rows = next(model.shape(name)[0] for name in names if model.has(name))
    return Known(name=model.name, tokens=tokens_of(stamps), rows=rows)


@dataclass(frozen=True, kw_only=True)
class _Extended:
    """A vocabulary that is extended."""

    base: OpenedModel
    """The base model."""
    owners: tuple[OpenedModel, ...]
    """The experts with a vocabulary."""
    ours: Known
    """The base's vocabulary."""
    known: tuple[Known, ...]
    """The vocabularies of ``owners``."""
    joined: Joined
    """The merged model's vocabulary."""
    names: tuple[str, ...]
    """Tensors with one row per token."""
    recipe: Recipe
    """The recipe."""

    def model(self) -> OpenedModel:
        """The extended base."""
        tensors = self.base.checkpoint.tensors
        traits = self.base.architecture.traits
        names = list(self.names)
        for name, info in tensors.items():
            # Buffers with one number per token, such as the bias of BART's vocabulary head.
            is_per_token = info.shape == (1, self.ours.rows) and is_float(info.dtype)
            if is_per_token and traits[name].role is Role.BUFFER:
                names.append(name)
        extensions = {
            name: self._extension_of(name, self._resized(tensors[name])) for name in names
        }
        checkpoint = extend(self.base.checkpoint, extensions, self._changes(), self._files())
        return replace(self.base, checkpoint=checkpoint, joined=self.joined)

    def _resized(self, info: TensorInfo) -> TensorInfo:
        axis = info.shape.index(self.ours.rows)
        shape = (*info.shape[:axis], self.joined.rows, *info.shape[axis + 1 :])
        return replace(info, shape=shape, nbytes=prod(shape) * FORMATS[info.dtype].bits // 8)

    def _extension_of(self, name: str, info: TensorInfo) -> ExtendedInfo:
        base_source = self._source(self.base, name, _BASE, self.ours)
        traits = self.base.architecture.traits
        tied = traits[name].tied_to
        weights = weights_for(tied or name, traits[tied or name], self.recipe)
        names = (name,) if tied is None else (name, tied)
        sources = []
        for owner, vocabulary in zip(self.owners, self.known, strict=True):
            stored_name = next(filter(owner.has, names), None)
            if stored_name is not None:
                weight = weights[owner.name]
                sources.append(self._source(owner, stored_name, owner.name, vocabulary, weight))
        unknown = base_source.rows == NOWHERE
        unknown[len(unknown) - self.joined.padding :] = False
        unknown[[row for row, token_row in self._single.items() if token_row.zero]] = False
        for source in sources:
            unknown &= source.rows == NOWHERE
        rowless = [i for i, token in self.joined.tokens.items() if token in self.joined.rowless]
        unknown[rowless] = False
        if unknown.any():
            row = int(np.flatnonzero(unknown)[0])
            raise RecipeError(
                f"No expert has row {row} of `{plain(name)}`, for the token "
                f"{plain(self.joined.tokens.get(row, ''))!r}, which would be added; "
                f"{self.recipe.keep_base_rows}.",
                key="vocabulary",
            )
        merged = tuple(row for row, token_row in self._single.items() if not token_row.force)
        padding = self.joined.padding
        return ExtendedInfo(
            **info.fields,
            own=base_source,
            sources=tuple(sources),
            padding=padding,
            merged=merged,
            unknown=tuple(sorted(set(rowless) - self._single.keys())),
            written=info.written if isinstance(info, DerivedInfo) else "",
        )

    @cached_property
    def _single(self) -> Mapping[int, TokenSource]:
        """The tokens with a source, by their rows, where the base has that source's row."""
        rows = {token: row for row, token in self.joined.tokens.items()}
        by_row = {}
        for token, token_row in self.recipe.tokens.items():
            if not token_row.zero and not token_row.model:
                continue
            if token in self.ours.held and not token_row.force:
                lacking = []
                for vocabulary in self.known:
                    if token not in vocabulary.held:
                        lacking.append(vocabulary.name)
                if lacking and token_row.model != _BASE:
                    raise RecipeError(
                        f"The base has the token {plain(token)!r}, which {plain(lacking[0])} lacks;"
                        " it gets the base's row. Name model: base, or force: true.",
                        key=f"tokens.{token}",
                    )
                continue
            by_row[rows[token]] = token_row
        return by_row

    def _source(
        self, model: OpenedModel, tensor: str, name: str, vocabulary: Known, weight: float = 1.0
    ) -> TensorSource:
        """A model as the source of the rows of a tensor.

        It has its own rows of single tokens only if it is their source. Raises RecipeError if the
        source has no such row.
        """
        rows = token_indices(self.joined.tokens, self.joined.rows, vocabulary, padding=True)
        ids = {token: row for row, token in vocabulary.tokens.items() if row < vocabulary.rows}
        for row, token_row in self._single.items():
            token = token_row.token or self.joined.tokens[row]
            if token_row.token_id is not None:
                index = token_row.token_id
            else:
                index = ids.get(token, NOWHERE)
            rows[row] = index if token_row.model == name and not token_row.zero else NOWHERE
            if token_row.model == name and not token_row.zero and not 0 <= index < vocabulary.rows:
                raise RecipeError(
                    f"{plain(name)} has no row for {plain(token)!r}, from which the token "
                    f"{plain(self.joined.tokens[row])!r} is wanted; name another.",
                    key=f"tokens.{self.joined.tokens[row]}",
                )
        return TensorSource(
            owner=model.name,
            checkpoint=model.checkpoint,
            name=model.own_names[tensor],
            rows=rows,
            weight=weight,
        )

    def expert(self, expert: OpenedModel) -> OpenedModel:
        """The expert, unchanged in the rows of new tokens; these already are the experts' mean."""
        position = next((t for t, owner in enumerate(self.owners) if owner is expert), None)
        if position is None:
            return expert
        vocabulary = self.known[position]
        forced = {token for token, token_row in self.recipe.tokens.items() if token_row.force}
        single_tokens = {self.joined.tokens[row] for row, token_row in self._single.items()}
        ours = {*self.ours.held, *single_tokens} - forced
        tokens = {index: token for index, token in self.joined.tokens.items() if token in ours}
        rows = token_indices(tokens, self.joined.rows, vocabulary, padding=False)
        shared = [n for n in self.names if expert.has(n) and expert.shape(n)[0] == vocabulary.rows]
        return replace(expert, token_rows={**expert.token_rows, **dict.fromkeys(shared, rows)})

    def _changes(self) -> _Changes:
        """Changes to the side files of the base: sizes, ids, and the tokenizer if necessary."""
        after = {token: index for index, token in self.joined.tokens.items()}
        moved = {i: after[t] for i, t in self.ours.tokens.items() if after.get(t, i) != i}
        files = self.base.checkpoint.side_files
        changes: _Changes = {}
        for file in _WITH_IDS:
            if file in files:
                config = read_json(files[file], limit=JSON_LIMIT)
                sizes: dict[str, object] = {}
                if file == "config.json" and self.joined.rows != self.ours.rows:
                    sizes = resized(config, self.ours.rows, self.joined.rows)
                changes[file] = sizes | renumbered({**config, **sizes}, moved)
        if self.joined.owner is None:
            return changes | self._extended()
        theirs = side_files_of(self.owners[self.joined.owner].checkpoint)
        chosen = bool(self.recipe.tokenizer) and "generation_config.json" in theirs
        if chosen and "generation_config.json" in changes:
            settings = read_json(theirs["generation_config.json"], limit=JSON_LIMIT)
            ids = {key: value for key, value in settings.items() if _TOKEN_ID.search(key)}
            changes["generation_config.json"] |= ids
        return changes

    def _extended(self) -> _Changes:
        ids = {token: index for index, token in self.joined.tokens.items()}
        entry_of = {}
        for name, path in self.base.checkpoint.side_files.items():
            if name in ("tokenizer.json", "tokenizer_config.json", "added_tokens.json"):
                entry_of[name] = read_json(path, limit=JSON_LIMIT)
        contents = []
        for owner in self.owners:
            tokenizer = side_files_of(owner.checkpoint).get("tokenizer.json")
            if tokenizer is not None:
                contents.append(read_json(tokenizer, limit=JSON_LIMIT))
        return extended(entry_of, contents, {token: ids[token] for token in self.joined.added})

    def _files(self) -> Mapping[str, Path]:
        """The base's files, with the tokenizer of the expert that has these tokens."""
        files = self.base.checkpoint.side_files
        if self.joined.owner is None:
            return files
        theirs = side_files_of(self.owners[self.joined.owner].checkpoint)
        remaining = {name: path for name, path in files.items() if not _matches(name, _TOKENIZER)}
        taken = (*_TOKENIZER, *_TEMPLATES)
        return remaining | {name: path for name, path in theirs.items() if _matches(name, taken)}


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def weights_for(name: str, traits: TensorTraits, recipe: Recipe) -> dict[str, float]:
    """The weight of each expert in a tensor, by name, from the recipe and its rules."""
    weights = dict(zip(recipe.expert_names, recipe.weights, strict=True))
    for rule in recipe.overrides:
        if rule.holds_for(name, traits.role.value, traits.block):
            weights |= rule.weights
    return weights
