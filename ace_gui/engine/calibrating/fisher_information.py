"""The diagonal Fisher information: E_x E_{y ~ p(y|x)} (∂ ln p(y|x) / ∂θ)², elementwise.

Each example's gradient is squared separately, following the definition (M. Matena, C. Raffel,
Merging Models with Fisher-Weighted Averaging, NeurIPS 2022, arXiv:2111.09832, Eq. 3). The answers y
come from the model, so that the data need no labels. A head with few labels uses all of them,
weighted by probability; otherwise one answer is drawn with a fixed seed. A numerical answer counts
as the mean of a Gaussian.

One backward pass gives the squares of many examples. Uses of a parameter are recorded while the
model runs. At each use, the inputs and the gradient of the batch's sum are still separate by
example. For a linear layer the gradient of example n is G_nᵀ X_n, which is squared before summing
over examples. No list of architectures could tell whether the examples of a batch stay independent.
So two examples are also computed alone; if both ways disagree, all examples are computed alone.

N examples, M rows of each (tokens), I inputs, O outputs, V rows of an embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ace_gui.engine.calibrating.model_parameters import Pieces, pieces
from ace_gui.engine.evaluating.evaluators import Evaluator, Inputs
from ace_gui.engine.evaluating.kinds import KINDS
from ace_gui.engine.evaluating.loaded_models import stacked_batches
from ace_gui.engine.planning.models import OpenedModel
from ace_gui.engine.streaming import packed
from ace_gui.errors import TaskError
from ace_gui.linalg.products import full_float32
from ace_gui.machine import free_memory
from ace_gui.recipe.task_kinds import TaskKind

_ENTRIES: Final = 1 << 19
"""Entries of gradients computed at a time, so that they stay in the CPU cache."""

Square = Callable[[Tensor], Tensor]
"""Maps the gradient at an output to the sum of the examples' squares, in a parameter's shape."""


def gradients_of(
    values: Sequence[Tensor], inputs: Sequence[Tensor] | Sequence[GradientEdge]
) -> Iterator[Sequence[Tensor | None]]:
    """The gradients of the sum of each value (N each); None if there is no dependence."""
    for index, value in enumerate(values, 1):
        yield torch.autograd.grad(
            value.sum(), inputs, retain_graph=index < len(values), allow_unused=True
        )


class ExampleGradients(TorchFunctionMode):
    """Context in which a model records its uses of ``parameters`` (by name) for ``count`` examples.

    ``left``: names of parameters used more than once, or in unsupported ways.
    """

    def __init__(self, parameters: Mapping[str, Tensor], count: int) -> None:
        super().__init__()
        self._names = {id(tensor): name for name, tensor in parameters.items()}
        self._count = count
        self._uses: dict[str, tuple[GradientEdge, Square]] = {}
        self.left: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        arguments = [*args, *kwargs.values()]
        names = {}
        for argument in arguments:
            if id(argument) in self._names:
                names[self._names[id(argument)]] = argument
        if not names:
            return func(*args, **kwargs)
        use = _USES.get(func)
        if func is functional.embedding and args[0].ndim > 1 and len(args[0]) == 1:
            args = (args[0].expand(self._count, *args[0].shape[1:]), *args[1:])  # shared by all
        output = func(*args, **kwargs)
        if not isinstance(output, Tensor) or not output.requires_grad or id(output) in self._names:
            return output
        for name, tensor in names.items():
            square = use and use(_Use(tensor, output, self._count), *args, **kwargs)
            if square is None or name in self._uses or len(output) % self._count:
                self.left.add(name)
            else:
                self._uses[name] = get_gradient_edge(output), square
        return output

    def squares(self, values: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
        """Σ_n (∂ value_n / ∂ parameter)² by name, for each value (N)."""
        names = [name for name in self._uses if name not in self.left]
        edges = [self._uses[name][0] for name in names]
        for gradients in gradients_of(values, edges):
            for name, gradient in zip(names, gradients, strict=True):
                if gradient is not None:
                    yield name, self._uses[name][1](gradient)


@dataclass(frozen=True, eq=False)
class _Use:
    """One use of a parameter by ``count`` examples, and its output."""

    parameter: Tensor
    out: Tensor
    count: int

    @property
    def is_broadcast(self) -> bool:
        """Whether all examples share the tensor by broadcasting."""
        shared = self.out.ndim > self.parameter.ndim or len(self.parameter) == 1 or self.count == 1
        return shared and len(self.out) == self.count

    def of_rows(self, gradient: Tensor) -> Tensor:
        """The squares for a tensor shared by all rows."""
        return _rows(gradient, self.count).sum(dim=1).square().sum(dim=0)

    def of_broadcast(self, gradient: Tensor) -> Tensor:
        """The squares for a tensor shared by all examples, possibly with further broadcasting."""
        shape = self.parameter.shape
        full_shape = (self.count, *[1] * (gradient.ndim - len(shape) - 1), *shape)[-gradient.ndim :]
        by_example = gradient.sum_to_size(self.count, *full_shape[1:])
        return by_example.square().sum(dim=0).reshape(shape)


def _rows(tensor: Tensor, count: int) -> Tensor:
    """N × M × the last dimension."""
    return tensor.reshape(count, -1, tensor.shape[-1])


def _not_zero(rows_NMK: Tensor) -> Tensor:
    """Whether each of the M rows has an entry other than 0 in any example."""
    used_M = rows_NMK[..., 0].any(dim=0)  # mostly decides
    if used_M.all():
        return used_M
    return rows_NMK.any(dim=2).any(dim=0)


def _of_products(left_NMO: Tensor, right_NMI: Tensor) -> Tensor:
    """Σ_n (left_nᵀ right_n)², O × I, without the rows that are zero in all examples."""
    shape = left_NMO.shape[-1], right_NMI.shape[-1]
    used_M = _not_zero(left_NMO) & _not_zero(right_NMI)
    if not used_M.all():
        left_NMO = left_NMO[:, used_M]
        right_NMI = right_NMI[:, used_M]
    if left_NMO.shape[1] == 1:
        return left_NMO[:, 0].square().T @ right_NMI[:, 0].square()
    total = left_NMO.new_zeros(shape)
    size = max(1, _ENTRIES // prod(shape))
    for left, right in zip(*(torch.split(e, size) for e in (left_NMO, right_NMI)), strict=True):
        total += torch.bmm(left.mT, right).square_().sum(dim=0)
    return total


def _linear(use: _Use, x: Tensor, weight: Tensor, *_: Any, **__: Any) -> Square | None:
    count = use.count
    x = x.detach()
    if x.numel() // x.shape[-1] % count:
        return None
    if use.parameter is weight:
        return lambda gradient: _of_products(_rows(gradient, count), _rows(x, count))
    return use.of_rows


def _addmm(use: _Use, _bias: Tensor, x: Tensor, weight: Tensor) -> Square | None:
    """GPT-2's Conv1D, whose matrix is inputs × outputs."""
    count = use.count
    if use.parameter is x or len(x) % count:
        return None
    x = x.detach()
    if use.parameter is weight:
        return lambda gradient: _of_products(_rows(x, count), _rows(gradient, count))
    return use.of_rows


def _layer_norm(
    use: _Use, x: Tensor, shape: Sequence[int], weight: Tensor | None = None, **options: Any
) -> Square | None:
    if len(shape) != 1 or x.numel() // x.shape[-1] % use.count:
        return None
    if use.parameter is not weight:
        return use.of_rows
    normal = functional.layer_norm(x.detach(), shape, eps=options["eps"])
    return lambda gradient: use.of_rows(gradient * normal)


def _embedding(
    use: _Use, chosen: Tensor, weight: Tensor, padding_idx: int | None = None, *_: Any, **__: Any
) -> Square | None:
    if use.parameter is not weight or len(chosen) != use.count:
        return None

    def square(gradient: Tensor) -> Tensor:
        rows = len(weight)
        width = gradient.shape[-1]
        first = torch.arange(use.count, device=chosen.device)[:, None] * rows
        numbered = first + chosen.reshape(use.count, -1)
        keys, where = torch.unique(numbered, return_inverse=True)
        by_key = gradient.new_zeros(len(keys), width)
        by_key.index_add_(0, where.reshape(-1), gradient.reshape(-1, width))
        total = gradient.new_zeros(weight.shape).index_add_(0, keys % rows, by_key.square_())
        if padding_idx is not None:
            total[padding_idx] = 0
        return total

    return square


def _convolution(
    use: _Use,
    x: Tensor,
    weight: Tensor,
    _bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Square | None:
    if len(x) != use.count or groups != 1 or isinstance(padding, str):
        return None
    if use.parameter is not weight:
        return lambda gradient: use.of_rows(gradient.flatten(2).mT)

    def square(gradient: Tensor) -> Tensor:
        patches_NIM = functional.unfold(x.detach(), weight.shape[2:], dilation, padding, stride)
        squares = _of_products(gradient.flatten(2).mT, patches_NIM.mT)
        return squares.reshape(weight.shape)

    return square


def _broadcast(use: _Use, *_: Any, **options: Any) -> Square | None:
    """Added to all examples, such as position embeddings, or once to each of them."""
    if use.is_broadcast and not options:
        return use.of_broadcast
    return None


def _multiplied(use: _Use, *factors: Any) -> Square | None:
    partner = next((candidate for candidate in factors if candidate is not use.parameter), None)
    if not isinstance(partner, Tensor) or not use.is_broadcast:
        return None
    factor = partner.detach()
    return lambda gradient: use.of_broadcast(gradient * factor)


_USES: Final[Mapping[Any, Callable[..., Square | None]]] = {
    functional.linear: _linear,
    torch.addmm: _addmm,
    functional.layer_norm: _layer_norm,
    functional.embedding: _embedding,
    functional.conv2d: _convolution,
    Tensor.add: _broadcast,
    torch.add: _broadcast,
    Tensor.expand: _broadcast,
    Tensor.mul: _multiplied,
    torch.mul: _multiplied,
}


_TRIED: Final = 2
"""Examples with which both ways are compared."""

_MOST: Final = 32
"""Examples that pass through the model together."""

_SHARE: Final = 0.25
"""Fraction of the free memory for the activations of a pass."""

Values = Callable[[Inputs, int], Sequence[Tensor]]
"""Maps inputs, and the number of examples before them, to the values to differentiate (N)."""

Sums = dict[str, Tensor]


class SquaredGradients:
    """Σ_n (∂ value_n / ∂ parameter)² of a model's ``parameters``, by name, over all ``values``."""

    def __init__(self, values: Values, parameters: Mapping[str, Tensor]) -> None:
        self._values = values
        self._parameters = parameters
        self._together: int | None = None

    def add(self, inputs: Inputs, first: int, sums: Sums) -> Iterator[int]:
        """Add the squares of a batch to ``sums``; yields the number of added examples."""
        count = _examples(inputs)
        start = 0
        while start < count:
            part = _cut(inputs, start, start + (self._together or _TRIED))
            size = _examples(part)
            with torch.enable_grad(), full_float32():
                if self._together is None and size == _TRIED:
                    self._together = self._tried(part, first + start)
                if self._together is None or self._together == 1:
                    self._one_by_one(part, first + start, sums)
                else:
                    self._at_once(part, first + start, sums)
            start += size
            yield size

    def _at_once(self, inputs: Inputs, first: int, sums: Sums) -> bool:
        """Whether all parameters' squares were added in one pass."""
        with ExampleGradients(self._parameters, _examples(inputs)) as gradients:
            values = self._values(inputs, first)
        for name, squares in gradients.squares(values):
            _add(sums, name, squares)
        return not gradients.left

    def _one_by_one(self, inputs: Inputs, first: int, sums: Sums) -> None:
        for n in range(_examples(inputs)):
            values = self._values(_cut(inputs, n, n + 1), first + n)
            for gradients in gradients_of(values, list(self._parameters.values())):
                for name, gradient in zip(self._parameters, gradients, strict=True):
                    if gradient is not None:
                        _add(sums, name, gradient.float().square())

    def _tried(self, inputs: Inputs, first: int) -> int:
        """How many examples may share a pass: 1 if sharing is incorrect."""
        held = 0

        def kept(tensor: Tensor) -> Tensor:
            nonlocal held
            held += tensor.nbytes
            return tensor

        joint: Sums = {}
        single: Sums = {}
        with torch.autograd.graph.saved_tensors_hooks(kept, lambda tensor: tensor):
            complete = self._at_once(inputs, first, joint)
        self._one_by_one(inputs, first, single)
        room = _SHARE * free_memory() * _TRIED / max(held, 1)
        if complete and _agree(joint, single):
            return max(1, min(_MOST, int(room)))
        return 1


def _agree(joint: Sums, single: Sums) -> bool:
    """Whether both ways agree except for rounding, which is all that remains of a zero gradient."""
    if joint.keys() != single.keys():
        return False
    norms = {name: float(torch.linalg.vector_norm(value)) for name, value in single.items()}
    largest = max(norms.values(), default=0.0)
    for name, norm in norms.items():
        difference = float(torch.linalg.vector_norm(joint[name] - single[name]))
        if difference > 1e-3 * norm + 1e-6 * largest:
            return False
    return True


def _add(sums: Sums, name: str, squares: Tensor) -> None:
    if name in sums:
        sums[name] += squares
    else:
        sums[name] = squares.float()


def _examples(inputs: Inputs) -> int:
    return len(next(iter(inputs.values())))


def _cut(inputs: Inputs, start: int, stop: int) -> Inputs:
    return {name: tensor[start:stop] for name, tensor in inputs.items()}


FEW: Final = 16
"""Largest number of labels that are all used, weighted by probability."""

_LEAST_BYTES: Final = 256_000_000
_GROUP_SHARE: Final = 0.5
"""Multiple of the model's bytes that squared gradients may take, if it exceeds the least."""


def fisher_groups(
    evaluator: Evaluator, expert: OpenedModel, names: Sequence[str]
) -> tuple[dict[str, str], list[FisherSums]]:
    """The stored name of each base tensor (the same), and the groups measured together."""
    located = pieces(evaluator.model, expert, names)
    budget = max(
        _LEAST_BYTES, int(_GROUP_SHARE * sum(p.nbytes for p in evaluator.model.parameters()))
    )
    chosen = packed(located, lambda name: 8 * prod(expert.shape(name)), budget)
    groups = []
    for group in chosen:
        shapes = {name: expert.shape(name) for name in group}
        groups.append(FisherSums({name: located[name] for name in group}, shapes))
    return {name: name for name in located}, groups


def require_probabilities(kind: TaskKind, name: str) -> None:
    """Raise TaskError for a kind of task whose answers have no probabilities here."""
    if not KINDS[kind].has_gradients:
        raise TaskError(
            f"The task {name} is {kind.value}, for which no gradients of ln p are taken; choose a "
            "method that needs only inputs, such as regmean.",
            key="kind",
        )


class FisherSums:
    """The running sums of squared gradients of a group of tensors.

    ``pieces``, ``shapes``: of each tensor, by the base's name.
    """

    def __init__(self, pieces: Mapping[str, Pieces], shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.names = tuple(pieces)
        self._pieces = pieces
        self._shapes = shapes
        self._squares: dict[str, Tensor] = {}
        self._examples = 0

    def add(self, evaluator: Evaluator) -> Iterator[int]:
        """Add the evaluator's examples; yields the number of added examples."""
        require_probabilities(evaluator.data.kind, evaluator.data.name)
        named = dict(evaluator.model.named_parameters(remove_duplicate=False))
        names = sorted({piece[0] for parts in self._pieces.values() for piece in parts})
        parameters = list(evaluator.model.parameters())
        needed_gradients = [parameter.requires_grad for parameter in parameters]
        evaluator.model.requires_grad_(False)
        for name in names:
            named[name].requires_grad_(True)
        gradients = SquaredGradients(partial(_answers, evaluator), {n: named[n] for n in names})
        try:
            for batch in stacked_batches(evaluator):
                for count in gradients.add(batch.inputs, self._examples, self._squares):
                    self._examples += count
                    yield count
        finally:
            for parameter, needed in zip(parameters, needed_gradients, strict=True):
                parameter.requires_grad_(needed)

    def result(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """The means by the base's names, in its shapes, and the number of examples."""
        means = {}
        rows = {}
        for name, parts in self._pieces.items():
            rows[name] = self._examples
            squares = []
            for parameter, first, last in parts:
                if parameter not in self._squares:
                    continue
                if self._squares[parameter].ndim:
                    squares.append(self._squares[parameter][first:last])
                else:
                    squares.append(self._squares[parameter][None])
            if len(squares) == len(parts):
                means[name] = (torch.cat(squares) / self._examples).reshape(self._shapes[name])
            else:  # no answer depends on it
                means[name] = torch.zeros(self._shapes[name])
        self._squares = {}
        return means, rows


def _answers(evaluator: Evaluator, inputs: Inputs, first: int) -> list[Tensor]:
    """The values to differentiate (N each); their squared gradients add up to the information.

    ``first``: index of the first example, from which answers are drawn.
    """
    logits = evaluator.choices(inputs)
    if evaluator.answers_numbers:  # E (y − f)² = 1
        return [logits[:, 0]]
    if logits.ndim == 2 and logits.shape[1] <= FEW:
        return _of_all_labels(logits)
    if not logits.numel():
        return []
    log_p = logits.log_softmax(dim=-1)
    drawn = torch.stack([_drawn(row, first + n) for n, row in enumerate(log_p.detach())])
    chosen = log_p.gather(-1, drawn.to(log_p.device)[..., None])
    return [chosen.flatten(1).sum(dim=1)]


def _of_all_labels(logits_NC: Tensor) -> list[Tensor]:
    """R ᵀ z of each example, with R Rᵀ = diag(p) − p pᵀ: C − 1 values, as 1 is in its kernel.

    Σ_c p_c (∂ ln p_c)² = Jᵀ (diag(p) − p pᵀ) J on the diagonal, J = ∂z / ∂θ.
    """
    p_NC = logits_NC.detach().double().softmax(dim=1)
    covariance_NCC = torch.diag_embed(p_NC) - p_NC[:, :, None] * p_NC[:, None]
    values_NC, vectors_NCC = torch.linalg.eigh(covariance_NCC)
    root_NCC = vectors_NCC * values_NC.clamp(min=0).sqrt()[:, None]
    values = []
    for c in range(1, logits_NC.shape[1]):
        root_NC = root_NCC[:, :, c].to(logits_NC.dtype)
        values.append((root_NC * logits_NC).sum(dim=1))
    return values


def _drawn(log_p: Tensor, number: int) -> Tensor:
    """Answers to one example, drawn with its index as the seed; in the shape of log_p[..., 0]."""
    generator = torch.Generator().manual_seed(number)
    chances = log_p.exp().cpu()
    chosen = torch.multinomial(chances.reshape(-1, chances.shape[-1]), 1, generator=generator)
    return chosen.reshape(chances.shape[:-1])
