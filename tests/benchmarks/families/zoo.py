"""The families: a base, and experts fine-tuned from it, as transformers models."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch
import transformers
from torch import Tensor, nn

from tests.benchmarks.families.tasks import (
    COMMON_LANGUAGE,
    IMAGES,
    LANGUAGES,
    LENGTH,
    SIZE,
    TEXTS,
    VOCABULARY,
    Task,
)

BATCH = 64


@dataclass(frozen=True, kw_only=True)
class Spec:
    """How a family is made.

    ``rank`` 0: full fine-tuning; else LoRA. ``loud``: factor on the first expert's learning rate.
    """

    name: str
    kind: str
    tasks: Sequence[Task]
    rate: float
    steps: int
    rank: int = 0
    loud: float = 1.0
    seed: int = 0


FAMILIES = (
    Spec(name="ViT, weak", kind="vit", tasks=IMAGES[:5], rate=2e-4, steps=250),
    Spec(name="ViT, strong", kind="vit", tasks=IMAGES[:5], rate=1.5e-3, steps=400, seed=1),
    Spec(name="ViT, 10 experts", kind="vit", tasks=IMAGES, rate=6e-4, steps=250, seed=2),
    Spec(name="ViT, 2 experts", kind="vit", tasks=IMAGES[1:3], rate=6e-4, steps=300, seed=3),
    Spec(name="BERT", kind="bert", tasks=TEXTS, rate=8e-4, steps=350, seed=4),
    Spec(
        name="BERT, one much larger",
        kind="bert",
        tasks=TEXTS[:4],
        rate=5e-4,
        steps=350,
        loud=6.0,
        seed=5,
    ),
    Spec(name="BERT, LoRA", kind="bert", tasks=TEXTS[:4], rate=4e-3, steps=350, rank=4, seed=6),
    Spec(name="Llama", kind="llama", tasks=LANGUAGES[:4], rate=1e-3, steps=250, seed=7),
    Spec(
        name="Llama, LoRA", kind="llama", tasks=LANGUAGES[:4], rate=6e-3, steps=250, rank=4, seed=8
    ),
)


@dataclass(frozen=True, kw_only=True)
class Trained:
    """``base`` and ``experts``: folders. ``models``: the experts, with their heads."""

    spec: Spec
    base: Path
    experts: dict[str, Path]
    models: dict[str, nn.Module]
    base_model: nn.Module


def train(spec: Spec, folder: Path, strength: float, backbone: dict[str, Tensor]) -> Trained:
    """Fine-tune every expert from the same base, at ``strength`` times the family's rate."""
    base = new_model(spec, spec.tasks[0])
    load_body(base, backbone)
    base_folder = folder / "base"
    body_of(base).save_pretrained(base_folder) if spec.kind != "llama" else base.save_pretrained(
        base_folder
    )
    experts, models = {}, {}
    for index, task in enumerate(spec.tasks):
        torch.manual_seed(100 * spec.seed + index)
        model = new_model(spec, task)
        load_body(model, backbone)
        rate = strength * spec.rate * (spec.loud if index == 0 else 1.0)
        fine_tune(model, spec, task, replace(spec, rate=rate), seed=2 * (100 * spec.seed + index))
        experts[task.name] = folder / f"expert-{index}"
        model.save_pretrained(experts[task.name])
        models[task.name] = model.eval()
    return Trained(spec=spec, base=base_folder, experts=experts, models=models, base_model=base)


def new_model(spec: Spec, task: Task) -> transformers.PreTrainedModel:
    """A model of the family's kind with a head for the task."""
    common = {
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 96,
    }
    if spec.kind == "vit":
        config = transformers.ViTConfig(
            **common, image_size=SIZE, patch_size=4, num_channels=1, num_labels=task.classes
        )
        return transformers.ViTForImageClassification(config)
    if spec.kind == "bert":
        config = transformers.BertConfig(
            **common, vocab_size=VOCABULARY, max_position_embeddings=LENGTH, num_labels=task.classes
        )
        return transformers.BertForSequenceClassification(config)
    config = transformers.LlamaConfig(
        **common,
        vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    return transformers.LlamaForCausalLM(config)


def body_of(model: nn.Module) -> nn.Module:
    return getattr(model, model.base_model_prefix)  # type: ignore[call-overload, no-any-return]


def load_body(model: nn.Module, backbone: dict[str, Tensor]) -> None:
    """Everything but the task's head."""
    own = model.state_dict()
    model.load_state_dict(
        {**own, **{k: v for k, v in backbone.items() if k in own and own[k].shape == v.shape}}
    )


@lru_cache(maxsize=8)
def pretrain(kind: str) -> dict[str, Tensor]:
    """The base's weights, from tasks that are near none of the experts'; the same for a kind."""
    spec = Spec(name="base", kind=kind, tasks=(), rate=2e-3, steps=500)
    torch.manual_seed(7)
    task = COMMON_LANGUAGE if spec.kind == "llama" else Task("source", 4, _sources(spec))
    model = new_model(spec, task)
    fine_tune(model, spec, task, spec, seed=14)
    heads = ("classifier",)
    return {k: v.detach().clone() for k, v in model.state_dict().items() if not k.startswith(heads)}


def _sources(spec: Spec):
    """Which of four tasks an example is of, whatever its label there."""
    tasks = IMAGES[5:9] if spec.kind == "vit" else TEXTS[:4]

    def make(n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
        label = torch.randint(len(tasks), (n,), generator=g)
        inputs = torch.stack([task.make(n, g)[0] for task in tasks], dim=1)
        return inputs[torch.arange(n), label], label

    return make


def fine_tune(model: nn.Module, spec: Spec, task: Task, how: Spec, *, seed: int) -> None:
    """AdamW with a linear decay on fresh examples; LoRA by training factors and adding them."""
    generator = torch.Generator().manual_seed(seed)
    factors = _attach(model, how.rank) if how.rank else []
    trained = [p for pair in factors for p in pair[1:]] or list(model.parameters())
    if how.rank:
        trained += [p for name, p in model.named_parameters() if name.startswith("classifier")]
    optimiser = torch.optim.AdamW(trained, lr=how.rate, weight_decay=0.0)
    model.train()
    for step in range(how.steps):
        for group in optimiser.param_groups:
            group["lr"] = how.rate * (1 - step / how.steps)
        inputs, labels = task.make(BATCH, generator)
        loss = nn.functional.cross_entropy(
            forward(model, spec, inputs).flatten(0, -2), labels.flatten()
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    for module, up, down in factors:
        torch.nn.utils.parametrize.remove_parametrizations(module, "weight")
        del up, down
    model.eval()


class _LowRank(nn.Module):
    """W + B·A."""

    def __init__(self, shape: torch.Size, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.randn(rank, shape[1]) / shape[1] ** 0.5)
        self.up = nn.Parameter(torch.zeros(shape[0], rank))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.up @ self.down


def _attach(model: nn.Module, rank: int) -> list[tuple[nn.Module, nn.Parameter, nn.Parameter]]:
    from torch.nn.utils import parametrize

    found = []
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and not name.startswith(("classifier", "lm_head")):
            low = _LowRank(module.weight.shape, rank)
            module.weight.requires_grad_(False)
            parametrize.register_parametrization(module, "weight", low)
            found.append((module, low.up, low.down))
    return found


def forward(model: nn.Module, spec: Spec, inputs: Tensor) -> Tensor:
    """Logits, … × classes."""
    key = "pixel_values" if spec.kind == "vit" else "input_ids"
    return model(**{key: inputs}).logits  # type: ignore[no-any-return]


@torch.no_grad()
def correct(model: nn.Module, spec: Spec, task: Task, count: int) -> Tensor:
    """Of held-out examples, whether each is right (for a language: the share of its tokens)."""
    generator = torch.Generator().manual_seed(77_777)
    inputs, labels = task.make(count, generator)
    right = (forward(model, spec, inputs).argmax(dim=-1) == labels).double()
    return right.reshape(count, -1).mean(dim=1)


def loaded(trained: Trained, folder: Path) -> dict[str, Tensor]:
    """The weights in a folder as transformers loads them, which may rename what the files name."""
    whole = trained.spec.kind == "llama"
    body = trained.base_model if whole else body_of(trained.base_model)
    if not (folder / "config.json").exists():
        shutil.copy(trained.base / "config.json", folder)
    found = type(body).from_pretrained(folder)
    prefix = "" if whole else f"{trained.base_model.base_model_prefix}."
    return {f"{prefix}{name}": tensor for name, tensor in found.state_dict().items()}


def with_body(model: nn.Module, merged: dict[str, Tensor]) -> nn.Module:
    """A copy of an expert with the merged weights in its body, and its own head."""
    found = copy.deepcopy(model)
    found.load_state_dict({**found.state_dict(), **_known(found, merged)})
    return found.eval()


def _known(model: nn.Module, merged: dict[str, Tensor]) -> dict[str, Tensor]:
    own = model.state_dict()
    known = {name: tensor for name, tensor in merged.items() if name in own}
    if len(known) < 0.9 * len(merged):
        raise ValueError("the merged weights have other names than the expert's")
    return known
