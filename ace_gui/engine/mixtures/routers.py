"""The weights of routers: drawn at random, or from what prompts look like inside the base.

A token goes to the experts whose rows of the router have the largest products with its hidden
state. A row is therefore the mean hidden state of prompts that belong to the expert, of length 1,
less that of prompts that do not. B blocks, E experts (the shared one last), H hidden size, L tokens
of a prompt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from ace_gui.architecture.transformers_library import quiet, transformers
from ace_gui.checkpoints.index import Checkpoint
from ace_gui.checkpoints.reader import ReadChecksums, TensorReader
from ace_gui.engine.contract.events import JobProgress
from ace_gui.engine.kept_files import is_there, keep_tensors, open_tensors, warn_recomputed
from ace_gui.errors import CheckpointError, RecipeError, TaskError
from ace_gui.formatting import plain
from ace_gui.recipe.mixtures import GateMode, MixtureExpert

_SMALLEST: Final = 1e-8
"""The least length that a vector is divided by."""

_EMBEDDING: Final = "model.embed_tokens.weight"
_PROCESSOR: Final = torch.device("cpu")
_ALIKE: Final = 5.0
"""A condition number of a block's router above which some experts get almost no tokens."""


@dataclass(frozen=True, kw_only=True)
class FixedRouters:
    """Router weights in memory: B × E × H."""

    weights_BEH: Tensor

    def computed(self, _file: Path, _checksums: ReadChecksums) -> Iterator[JobProgress]:
        """Nothing is left to compute."""
        return iter(())

    def of_block(self, block: int) -> Tensor:
        """The rows of a block, E × H."""
        return self.weights_BEH[block]


def check_prompts(mode: GateMode, experts: Sequence[MixtureExpert]) -> None:
    """Raise RecipeError if an expert lacks prompts, or if all have the same."""
    if not mode.needs_prompts:
        return
    for entry in experts:
        if not any(prompt.strip() for prompt in entry.positive):
            raise RecipeError(
                f"{plain(entry.name)} has no `positive_prompts`, which routers of the mode "
                f"{mode.value} are made of; add some, or choose `gate_mode: random`.",
                key="positive_prompts",
            )
    if len({(entry.positive, entry.negative) for entry in experts}) < 2:
        raise RecipeError(
            "All experts have the same prompts, so the router cannot choose between them; give "
            "each expert prompts of its own.",
            key="positive_prompts",
        )


def random_routers(mode: GateMode, blocks: int, experts: int, hidden: int, seed: int) -> Tensor:
    """Random router weights, B × E × H; ``mode`` is one of the two random ones."""
    generator = torch.Generator().manual_seed(seed)
    size = (blocks, experts, hidden)
    if mode is GateMode.RANDOM:
        return torch.randn(size, generator=generator)
    scale = math.sqrt(1.0 / hidden)
    return torch.rand(size, generator=generator) * 2 * scale - scale


Tokens = tuple[tuple[int, ...], ...]
"""The tokens of each prompt."""


def tokens_of(tokenizer: Any, prompts: Sequence[str]) -> Tokens:
    """The tokens of prompts, each after the token of a beginning if there is one.

    Raises TaskError for a prompt without tokens.
    """
    start = getattr(tokenizer, "bos_token", None) or ""
    tokens = []
    for prompt in prompts:
        numbers = tuple(tokenizer(start + prompt, add_special_tokens=False)["input_ids"])
        if not numbers:
            raise TaskError("A prompt has no tokens; write some text.", key="positive_prompts")
        tokens.append(numbers)
    return tuple(tokens)


@dataclass(frozen=True, kw_only=True)
class TokenPrompts:
    """The prompts of an expert as tokens."""

    positive: Tokens
    negative: Tokens = ()


class PromptRouters:
    """Routers from prompts. One block of the base is in memory at a time.

    ``mode`` is one that needs prompts. ``device``: what computes the blocks.
    """

    def __init__(
        self,
        mode: GateMode,
        base: Checkpoint,
        experts: Sequence[TokenPrompts],
        device: torch.device = _PROCESSOR,
    ) -> None:
        self._mode = mode
        self._base = base
        self._experts = experts
        self._device = device
        self._rows: list[Tensor] = []

    @property
    def blocks(self) -> int:
        """Their number."""
        return int(_config(self._base)["num_hidden_layers"])

    @property
    def weights_BEH(self) -> Tensor:
        """Those that are computed."""
        return torch.stack(self._rows)

    def of_block(self, block: int) -> Tensor:
        """The rows of a block that is computed, E × H."""
        return self._rows[block]

    def computed(self, file: Path, checksums: ReadChecksums) -> Iterator[JobProgress]:
        """As ``RouterWeights.computed``. Raises the errors of reading the base."""
        with TensorReader(self._base, checksums) as reader:
            if self._mode is GateMode.CHEAP_EMBED:
                sums = [states_LH.sum(0) for states_LH in self._embedded(reader)]
                self._rows = [_router(self._experts, sums, _unit_sum)] * self.blocks
                return
            states = self._kept(file) or self._embedded(reader)
            for states_before in self._before_blocks(reader, states):
                vectors = [_summary(self._mode, states_LH) for states_LH in states_before]
                self._rows.append(_router(self._experts, vectors, _mean).cpu())
                self._keep(file, states_before)
                yield JobProgress(done=len(self._rows), total=self.blocks, title="routers")

    def _embedded(self, reader: TensorReader) -> list[Tensor]:
        """The embeddings of all prompts, positive ones before negative ones of each expert."""
        prompts: list[Sequence[int]] = []
        for entry in self._experts:
            prompts += entry.positive + entry.negative
        return [_embedded(self._base, reader, prompt) for prompt in prompts]

    def _keep(self, file: Path, states: Sequence[Tensor]) -> None:
        """Write the rows so far, and the states before the last block that they are of."""
        rows = {f"router.{block}": row_EH for block, row_EH in enumerate(self._rows)}
        prompts = {f"states.{number}": states_LH for number, states_LH in enumerate(states)}
        keep_tensors(file, {**rows, **prompts})

    def _kept(self, file: Path) -> list[Tensor]:
        """The states before the last block whose router is kept; empty if there are none."""
        if not is_there(file):
            return []
        try:
            kept = open_tensors(file)
        except CheckpointError as error:
            warn_recomputed(file, error)
            return []
        names = kept.checkpoint.tensors
        count = sum(name.startswith("router.") for name in names)
        self._rows = [kept.read(f"router.{block}") for block in range(count - 1)]
        return [kept.read(f"states.{number}") for number in range(len(names) - count)]

    def _before_blocks(
        self, reader: TensorReader, states: Sequence[Tensor]
    ) -> Iterator[Sequence[Tensor]]:
        """The hidden states of all prompts before each block, L × H each.

        ``states``: those before the first block that is not computed.
        """
        states = [states_LH.to(self._device) for states_LH in states]
        models: dict[str, Any] = {}
        kinds = getattr(_config_object(self._base), "layer_types", None) or [""] * self.blocks
        for block in range(len(self._rows), self.blocks):
            yield states
            if block == self.blocks - 1:
                return
            kind = kinds[block]
            if kind not in models:
                models[kind] = _one_block_model(self._base, block).to(self._device)
            _fill(models[kind], self._base, reader, block)
            states = [_after_block(models[kind], states_LH) for states_LH in states]


def _router(
    experts: Sequence[TokenPrompts],
    vectors: Sequence[Tensor],
    together: Callable[[Sequence[Tensor]], Tensor],
) -> Tensor:
    """The rows of all experts from one vector for each prompt; ``together``: of several prompts."""
    rows = []
    at = 0
    for entry in experts:
        middle = at + len(entry.positive)
        end = middle + len(entry.negative)
        row = together(vectors[at:middle])
        if entry.negative:
            row = row - together(vectors[middle:end])
        rows.append(_of_length_one(row))
        at = end
    return torch.stack(rows)


def _mean(vectors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(vectors)).mean(0)


def _unit_sum(vectors: Sequence[Tensor]) -> Tensor:
    return _of_length_one(torch.stack(list(vectors)).sum(0))


def _of_length_one(vector: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(vector)
    return vector / length.clamp(min=_SMALLEST)


def _summary(mode: GateMode, states_LH: Tensor) -> Tensor:
    """What a prompt's hidden states are in one vector."""
    if mode is GateMode.HIDDEN_AVG:
        return states_LH.mean(0)
    return states_LH[-1]


def _embedded(base: Checkpoint, reader: TensorReader, prompt: Sequence[int]) -> Tensor:
    """The embeddings of tokens, L × H in float32; only their rows are read."""
    rows, width = base.tensors[_EMBEDDING].shape
    vectors = []
    for token in prompt:
        if not 0 <= token < rows:
            raise TaskError(
                f"The tokenizer has the token {token}, but the base's embedding has {rows} rows; "
                "copy the base's own tokenizer into its folder.",
                path=base.path,
                tensor=_EMBEDDING,
            )
        vectors.append(reader.read_part(_EMBEDDING, token * width, (token + 1) * width).float())
    return torch.stack(vectors)


def _config(base: Checkpoint) -> Mapping[str, Any]:
    return base.config or {}


def _config_object(base: Checkpoint) -> Any:
    config = _config(base)
    return transformers().AutoConfig.for_model(**config)


def _one_block_model(base: Checkpoint, block: int) -> Any:
    """A model of one block like this one, with an embedding of one row, on the processor."""
    config = _config_object(base)
    types = getattr(config, "layer_types", None)
    if types is not None:
        config.layer_types = [types[block]]
    config.num_hidden_layers = 1
    config.vocab_size = 1
    config.pad_token_id = None
    config.dtype = "float32"
    with quiet():
        model = transformers().AutoModel.from_config(config)
    return model.float().eval()


def _fill(model: Any, base: Checkpoint, reader: TensorReader, block: int) -> None:
    """Give the model's block the weights of a block of the base."""
    start = f"model.layers.{block}."
    names = [name for name in base.tensors if name.startswith(start)]
    tensors = {name.removeprefix(start): reader.read(name).float() for name in names}
    names_of_block = model.layers[0].state_dict().keys()
    model.layers[0].load_state_dict({name: tensors[name] for name in names_of_block})


@torch.no_grad()
def _after_block(model: Any, states_LH: Tensor) -> Tensor:
    """The hidden states after the model's block, before its last norm."""
    outputs: list[Tensor] = []

    def record(_module: Any, _inputs: Any, output: Any) -> None:
        outputs.append(output[0] if isinstance(output, tuple) else output)

    hook = model.layers[0].register_forward_hook(record)
    try:
        model(inputs_embeds=states_LH[None], use_cache=False)
    finally:
        hook.remove()
    return outputs[-1][0]


def blocks_alike(weights_BEH: Tensor) -> list[int]:
    """Blocks whose experts have almost the same rows, so that some get almost no tokens."""
    conditions = torch.linalg.cond(weights_BEH.double())
    return [block for block, value in enumerate(conditions.tolist()) if value > _ALIKE]
