"""What methods learn, as their papers write it: slowly, in float64, by autograd through all.

Sources: AdaRank arXiv:2503.22178, Concrete arXiv:2312.06173, Localize-and-Stitch arXiv:2408.13656,
Representation Surgery arXiv:2402.02705, WEMoE arXiv:2402.00433, Twin-Merging arXiv:2406.15479,
SAMerging arXiv:2512.21288, Expert Merging arXiv:2509.25712,
ProDistill arXiv:2502.12706.
T experts; a state is a model's tensors by name. A task is the list of logits (one row an example)
that a state gives for its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from tests.helpers.method_oracles import high_pass

State = dict[str, Tensor]
Task = Callable[[State], Tensor]
BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-8


@dataclass
class Learned:
    """Values after the last step; ``least`` is the smallest share that any |gradient| of an entry
    had of the largest: where it is near rounding, Adam's step follows the rounding's sign."""

    values: State
    least: State


def adam(start: State, loss: Callable[[State, int], Tensor], steps: int, rate: float) -> Learned:
    """Adam without weight decay; ``loss`` gets the number of the step, from 0."""
    values = {name: value.clone() for name, value in start.items()}
    first = {name: torch.zeros_like(value) for name, value in start.items()}
    second = {name: torch.zeros_like(value) for name, value in start.items()}
    least = {name: torch.ones_like(value) for name, value in start.items()}
    for step in range(steps):
        leaves = {name: value.clone().requires_grad_() for name, value in values.items()}
        gradients = torch.autograd.grad(loss(leaves, step), list(leaves.values()))
        largest = max(float(gradient.abs().max()) for gradient in gradients)
        for name, gradient in zip(leaves, gradients, strict=True):
            first[name] = BETA_1 * first[name] + (1 - BETA_1) * gradient
            second[name] = BETA_2 * second[name] + (1 - BETA_2) * gradient**2
            mean = first[name] / (1 - BETA_1 ** (step + 1))
            square = second[name] / (1 - BETA_2 ** (step + 1))
            values[name] = values[name] - rate * mean / (square.sqrt() + EPSILON)
            least[name] = torch.minimum(least[name], gradient.abs() / largest)
    return Learned(values, least)


def entropy(logits: Tensor) -> Tensor:
    """−Σ p ln p, the mean over examples."""
    p = torch.softmax(logits, dim=1)
    return -(p * torch.log(p)).sum(dim=1).mean()


def entropies(tasks: Sequence[Task], state: State) -> Tensor:
    return torch.stack([entropy(task(state)) for task in tasks]).sum()


def samerging(
    base: State,
    experts: Sequence[State],
    tasks: Sequence[Task],
    answers: Sequence[Tensor],
    *,
    steps: int,
    rate: float,
    scaling: float,
    radius: float,
    temperature: float,
) -> State:
    """θ₀ + Σ λ_t Δ_t, layer by layer; the gradient of Σ KL(p_t ‖ p) at λ + ρ g / ‖g‖, by Adam.

    ``answers``: the logits of every expert on its own task.
    """
    start = {name: torch.full((len(experts),), scaling).double() for name in base}

    def merged(values: State) -> State:
        state = {}
        for name in base:
            state[name] = base[name]
            for t, expert in enumerate(experts):
                state[name] = state[name] + values[name][t] * (expert[name] - base[name])
        return state

    def divergence(values: State) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        state = merged(values)
        for task, expected in zip(tasks, answers, strict=True):
            p = torch.softmax(expected / temperature, dim=1)
            q = torch.softmax(task(state) / temperature, dim=1)
            total = total + (p * torch.log(p / q)).sum(dim=1).mean()
        return total

    def sharp(values: State, _step: int) -> Tensor:
        gradients = torch.autograd.grad(divergence(values), list(values.values()))
        norm = torch.sqrt(sum((gradient**2).sum() for gradient in gradients))
        pairs = zip(values.items(), gradients, strict=True)
        return divergence({name: v + radius * g / norm for (name, v), g in pairs})

    return merged(adam(start, sharp, steps, rate).values)


def expert_merging(
    base: State,
    experts: Sequence[State],
    compared: Sequence[Callable[[State], tuple[Tensor, Tensor]]],
    expected: Sequence[tuple[Tensor, Tensor]],
    *,
    steps: int,
    rate: float,
    scaling: float,
    hidden: float,
    pull: float,
) -> State:
    """θ₀ + Σ σ(a_t) Δ_t, layer by layer, by Adam on the mean over tasks, and the pull of layers.

    ``compared``: of each task the divergence's logits and the hidden states, one row an input and
    one row a token; ``expected``: the expert's own.
    """
    logit = torch.logit(torch.tensor(scaling, dtype=torch.float64))
    start = {name: logit.repeat(len(experts)) for name in base}

    def merged(values: State) -> State:
        state = {}
        for name in base:
            shares = torch.sigmoid(values[name])
            state[name] = base[name]
            for t, expert in enumerate(experts):
                state[name] = state[name] + shares[t] * (expert[name] - base[name])
        return state

    def loss(values: State, _step: int) -> Tensor:
        state = merged(values)
        losses = []
        for task, (logits, states) in zip(compared, expected, strict=True):
            q, layer_states = task(state)
            p = torch.softmax(logits, dim=1)
            divergence = (p * (p.log() - torch.log_softmax(q, dim=1))).sum(dim=1).mean()
            distances = [
                torch.mean((merged_state - expert_state) ** 2)
                for merged_state, expert_state in zip(layer_states, states, strict=True)
            ]
            losses.append(divergence + hidden * torch.stack(distances).mean())
        pulls = [(torch.sigmoid(a) - torch.sigmoid(logit)).abs().sum() for a in values.values()]
        return torch.stack(losses).mean() + pull * torch.stack(pulls).mean()

    return merged(adam(start, loss, steps, rate).values)


def prodistill(
    base: State,
    experts: Sequence[State],
    blocks: Sequence[Sequence[str]],
    passed: Sequence[Callable[[State], Sequence[Sequence[Tensor]]]],
    *,
    steps: int,
    rate: float,
    scaling: float,
) -> State:
    """θ₀ + Σ λ_t ⊙ Δ_t, block by block by Adam on the squared difference of the block's outputs.

    ``blocks``: the names of each block's tensors. ``passed``: of each task what a state's blocks
    give, by block and input.
    """
    values = {
        name: torch.full((len(experts), *tensor.shape), scaling, dtype=torch.float64)
        for name, tensor in base.items()
    }
    expected = [task(expert) for task, expert in zip(passed, experts, strict=True)]

    def merged(coefficients: State) -> State:
        state = {}
        for name in base:
            state[name] = base[name]
            for t, expert in enumerate(experts):
                state[name] = state[name] + coefficients[name][t] * (expert[name] - base[name])
        return state

    for block, names in enumerate(blocks):

        def loss(
            leaves: State, _step: int, block: int = block, coefficients: State = values
        ) -> Tensor:
            state = merged({**coefficients, **leaves})
            terms = []
            for task, targets in zip(passed, expected, strict=True):
                for output, target in zip(task(state)[block], targets[block], strict=True):
                    terms.append(((output - target.detach()) ** 2).sum())
            return torch.stack(terms).sum()

        start = {name: values[name] for name in names}
        values |= adam(start, loss, steps, rate).values
    return merged(values)


def adarank(
    base: State,
    experts: Sequence[State],
    tasks: Sequence[Task],
    matrices: Sequence[str],
    *,
    steps: int,
    rate: float,
    scaling: float,
    ratio: float,
    temperature: float,
) -> tuple[State, Learned]:
    """θ₀ + Σ λ_t U_t diag(B_t ⊙ s_t) V_tᵀ; B by logits ±0.1, straight through σ(logit / temp)."""
    changes = {name: [expert[name] - base[name] for expert in experts] for name in base}
    parts = {
        name: [torch.linalg.svd(change, full_matrices=False) for change in changes[name]]
        for name in matrices
    }
    start = {f"{name}/lambda": torch.full((len(experts),), scaling).double() for name in base}
    for name in matrices:
        directions = len(parts[name][0][1])
        logits = torch.full((len(experts), directions), -0.1, dtype=torch.float64)
        logits[:, : int(ratio * directions)] = 0.1
        start[f"{name}/logits"] = logits

    def merged(values: State) -> State:
        state = {}
        for name in base:
            total = base[name]
            for t in range(len(experts)):
                change = changes[name][t]
                if name in parts:
                    u, s, vh = parts[name][t]
                    soft = torch.sigmoid(values[f"{name}/logits"][t] / temperature)
                    mask = soft + ((soft > 0.5).double() - soft).detach()
                    change = u @ torch.diag(mask * s) @ vh
                total = total + values[f"{name}/lambda"][t] * change
            state[name] = total
        return state

    learned = adam(start, lambda values, _step: entropies(tasks, merged(values)), steps, rate)
    return merged(learned.values), learned


def concrete(
    base: State,
    experts: Sequence[State],
    tasks: Sequence[Task],
    uniforms: Callable[[str, int], Tensor],
    *,
    steps: int,
    rate: float,
    scaling: float,
    temperature: float,
    coefficients: bool = False,
) -> tuple[State, Learned]:
    """θ₀ + Σ λ τ_t ⊙ m / mean(m); m = σ((x + ln u − ln(1 − u)) / temp), x from 0; then m = σ(x)."""
    start = {f"{name}/x": torch.zeros_like(base[name]) for name in base}
    if coefficients:
        for name in base:
            start[f"{name}/lambda"] = torch.full((len(experts),), scaling, dtype=torch.float64)

    def merged(values: State, masks: State) -> State:
        state = {}
        for name, mask in masks.items():
            factors = values.get(f"{name}/lambda", torch.full((len(experts),), scaling))
            total = sum(
                factor * (expert[name] - base[name])
                for factor, expert in zip(factors, experts, strict=True)
            )
            state[name] = base[name] + mask / mask.mean() * total
        return state

    def loss(values: State, step: int) -> Tensor:
        masks = {}
        for name in base:
            u = uniforms(name, step)
            noise = torch.log(u) - torch.log(1 - u)
            masks[name] = torch.sigmoid((values[f"{name}/x"] + noise) / temperature)
        return entropies(tasks, merged(values, masks))

    learned = adam(start, loss, steps, rate)
    masks = {name: torch.sigmoid(learned.values[f"{name}/x"]) for name in base}
    return merged(learned.values, masks), learned


def localized(
    base: State,
    expert: State,
    loss: Callable[[State], Tensor],
    *,
    density: float,
    steps: int,
    rate: float,
    pull: float,
) -> tuple[State, State]:
    """One expert's masks, round(σ(S)), and S after gradient steps; S = ±5 by the largest changes.

    S ← S − rate · ∂ℓ/∂S − pull · ∂Σσ(S)/∂S, so that ``pull`` is λ times the rate.
    """
    change = {name: expert[name] - base[name] for name in base}
    sizes = torch.cat([tensor.abs().reshape(-1) for tensor in change.values()]).sort().values
    threshold = sizes[-max(1, int(density * len(sizes)))]
    scores = {name: torch.where(tensor.abs() >= threshold, 5.0, -5.0).double()
              for name, tensor in change.items()}  # fmt: skip
    for _ in range(steps):
        leaves = {name: score.clone().requires_grad_() for name, score in scores.items()}
        state = {name: base[name] + torch.sigmoid(leaves[name]) * change[name] for name in base}
        gradients = torch.autograd.grad(loss(state), list(leaves.values()))
        for name, gradient in zip(leaves, gradients, strict=True):
            gate = torch.sigmoid(scores[name])
            scores[name] = scores[name] - rate * gradient - pull * gate * (1 - gate)
    return {name: torch.sigmoid(score).round() for name, score in scores.items()}, scores


def stitched(base: State, experts: Sequence[State], masks: Sequence[State]) -> State:
    """θ₀ + Σ γ_t / (Σ γ) ⊙ τ_t."""
    merged = {}
    for name in base:
        count = torch.stack([mask[name] for mask in masks]).sum(dim=0).clamp(min=1)
        merged[name] = base[name] + sum(
            mask[name] / count * (expert[name] - base[name])
            for mask, expert in zip(masks, experts, strict=True)
        )
    return merged


def surgery(
    inputs: Tensor, targets: Tensor, down: Tensor, up: Tensor, steps: int, rate: float
) -> Learned:
    """Adam on mean |h − Up max(0, Down h) − h_t| over examples and features."""

    def loss(values: State, _step: int) -> Tensor:
        corrected = [h - values["up"] @ torch.relu(values["down"] @ h) for h in inputs]
        return (torch.stack(corrected) - targets).abs().mean()

    return adam({"down": down, "up": up}, loss, steps, rate)


MLP = (
    "intermediate.dense.weight",
    "intermediate.dense.bias",
    "output.dense.weight",
    "output.dense.bias",
)


class RoutedBlock:
    """A BERT layer's MLP as WEMoE has it: θ₀ + Σ w_t τ_t.

    w is the mean over all tokens of a router, in training those of a batch.
    """

    def __init__(self, layer: Any, base: State, changes: Sequence[State]) -> None:
        self.layer = layer
        self.base = base
        self.changes = changes
        self.router: State = {}
        layer.feed_forward_chunk = self

    def __call__(self, hidden: Tensor) -> Tensor:
        router = self.router
        logits = [
            router["out"] @ torch.relu(router["hidden"] @ token + router["hidden_bias"])
            + router["out_bias"]
            for tokens in hidden
            for token in tokens
        ]
        weights = torch.stack(logits).mean(dim=0)
        w_1, b_1, w_2, b_2 = (
            self.base[name] + sum(w * c[name] for w, c in zip(weights, self.changes, strict=True))
            for name in MLP
        )
        inner = self.layer.intermediate.intermediate_act_fn(hidden @ w_1.T + b_1)
        return self.layer.output.LayerNorm(inner @ w_2.T + b_2 + hidden)


def wemoe(
    routed: Mapping[str, Sequence[RoutedBlock]],
    tasks: Sequence[Callable[[], Tensor]],
    start: State,
    steps: int,
    rate: float,
) -> Learned:
    """Adam on the entropies; ``routed`` are the blocks (one a task's model) by the name of each."""

    def loss(values: State, _step: int) -> Tensor:
        for name, blocks in routed.items():
            for block in blocks:
                block.router = {
                    part: values[f"{name}/{part}"]
                    for part in ("hidden", "hidden_bias", "out", "out_bias")
                }
        return torch.stack([entropy(task()) for task in tasks]).sum()

    return adam(start, loss, steps, rate)


def logistic_regression(features: Tensor, owners: Tensor, penalty: float, rounds: int) -> State:
    """Newton's steps on the mean cross-entropy + penalty ‖A‖² of standardised features."""
    centre = features.mean(dim=0)
    scale = features.std(dim=0)
    standardised = (features - centre) / scale
    classes = int(owners.max()) + 1
    width = standardised.shape[1]
    flat = torch.zeros(classes * (width + 1), dtype=torch.float64)

    def loss(values: Tensor) -> Tensor:
        matrix = values.reshape(classes, width + 1)
        logits = standardised @ matrix[:, :-1].T + matrix[:, -1]
        fit = torch.nn.functional.cross_entropy(logits, owners)
        return fit + penalty * (matrix[:, :-1] ** 2).sum()

    for _ in range(rounds):
        gradient = torch.autograd.functional.jacobian(loss, flat)
        curvature = torch.autograd.functional.hessian(loss, flat)
        flat = flat - torch.linalg.pinv(curvature) @ gradient
    matrix = flat.reshape(classes, width + 1)
    return {"centre": centre, "scale": scale, "weight": matrix[:, :-1], "bias": matrix[:, -1]}


def router_shares(router: State, features: Tensor) -> Tensor:
    standardised = (features - router["centre"]) / router["scale"]
    return torch.softmax(standardised @ router["weight"].T + router["bias"], dim=1)


def compressed(change: Tensor, rank: int) -> Tensor:
    """A matrix cut to a rank; what is no matrix as it is."""
    if change.ndim != 2:
        return change
    u, s, vh = torch.linalg.svd(change, full_matrices=False)
    return u[:, :rank] @ torch.diag(s[:rank]) @ vh[:rank]


def twin_differences(
    base: State, experts: Sequence[State], scaling: float, rank: int
) -> tuple[State, list[State]]:
    """θ_s = θ₀ + λ Σ τ, and SVD_r(θ_t − θ_s) of each expert; vectors whole."""
    shared = {
        name: base[name] + scaling * sum(expert[name] - base[name] for expert in experts)
        for name in base
    }
    differences = []
    for expert in experts:
        difference = {}
        for name in base:
            difference[name] = compressed(expert[name] - shared[name], rank)
        differences.append(difference)
    return shared, differences


def free(changes: Sequence[Tensor], cutoff: float, density: float) -> tuple[Tensor, list[Tensor]]:
    """Σ λ_t G_t, λ_t = E|G_t| / Σ E|G|, and μ_t M(v_t, d), the largest d of each row."""
    filtered = [torch.from_numpy(high_pass(change.numpy(), cutoff)) for change in changes]
    sizes = torch.stack([change.abs().mean() for change in filtered])
    shared = sum(size / sizes.sum() * change for size, change in zip(sizes, filtered, strict=True))
    experts = []
    for change, size in zip(changes, sizes, strict=True):
        count = max(1, int(density * change.shape[1]))
        sparse = torch.zeros_like(change)
        for row, source in zip(sparse, change, strict=True):
            largest = source.abs().argsort(descending=True)[:count]
            row[largest] = source[largest]
        mean = sparse.abs().sum() / (count * len(change))
        factor = -mean * torch.log10(torch.tensor(density, dtype=torch.float64)) / size
        experts.append(factor * sparse)
    return shared, experts


def of_one_length(inputs: Sequence[Mapping[str, Tensor]]) -> list[dict[str, Tensor]]:
    """Inputs of a batch, those of one length together, as nothing is padded."""
    groups: dict[Any, list[Mapping[str, Tensor]]] = {}
    for input_ in inputs:
        groups.setdefault(input_["input_ids"].shape, []).append(input_)
    return [
        {name: torch.cat([member[name] for member in group]) for name in group[0]}
        for group in groups.values()
    ]


def batch(model: Any, inputs: Sequence[Mapping[str, Tensor]]) -> Task:
    """A classifier's logits for these inputs, one after the other, with the state's weights."""

    def logits(state: State) -> Tensor:
        return torch.cat(
            [functional_call(model, state, (), dict(input_)).logits for input_ in inputs]
        )

    return logits
