"""A matrix of merges of tied models, each compared with what float64 makes of the loaded inputs.

For each class: which names of a tied group the base's file stores × what the expert is.
"""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from ace_gui.architecture import transformers_library
from ace_gui.errors import WorkbenchError
from ace_gui.recipe.values import Heads
from tests.helpers.merges import merged_folder
from tests.helpers.recipes import recipe_over

STORED: Final = ("source", "other", "equal", "differing")
"""The names in a file: each group's source, another one, all with one value, or with several."""

WHOLE: Final = ("tied", "own head by config", "own head by values")
ADAPTERS: Final = ("LoRA on a layer", "LoRA on the embedding", "saved apart", "trained tokens")
KINDS: Final = (*WHOLE, *ADAPTERS)
OWN: Final = ("own head by config", "own head by values", "saved apart")
"""The kinds with a head beside the embedding."""

_SCALING: Final = 0.7
_TOLERANCE: Final = 2e-5

State = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One merge. ``wrong``: what is wrong, empty if nothing; ``skipped``: why it cannot be made."""

    name: str
    stored: str
    kind: str
    wrong: str = ""
    skipped: str = ""


class TiedInputs:
    """The inputs of one class in a folder, made when they are first needed."""

    def __init__(self, model: Any, folder: Path) -> None:
        self.model = model
        self.folder = folder
        self.ties: dict[str, str] = model.get_expanded_tied_weights_keys(all_submodels=True)
        self._forms = STORED[:3] if self._has_equal_shapes() else STORED[:1]
        self._loaded: dict[Path, State] = {}

    def cells(self, stored: Sequence[str] = STORED, kinds: Sequence[str] = KINDS) -> Iterator[Cell]:
        """The verdict on every cell."""
        name = type(self.model).__name__
        for form in stored:
            for kind in kinds:
                reason = self._obstacle(form, kind)
                if reason:
                    yield Cell(name=name, stored=form, kind=kind, skipped=reason)
                    continue
                yield Cell(name=name, stored=form, kind=kind, wrong=self._wrong(form, kind))

    def _has_equal_shapes(self) -> bool:
        """Whether each tied tensor has its source's shape where they are not tied.

        ImageGPT's head has one row less. Transformers loads it from no file that holds both.
        """
        config = copy.deepcopy(self.model.config)
        content = _untied(config.to_dict())
        with transformers_library.quiet(), warnings.catch_warnings(), torch.device("meta"):
            warnings.simplefilter("ignore")
            untied = type(self.model)(type(config).from_dict(content))
        shapes = {name: tensor.shape for name, tensor in untied.state_dict().items()}
        pairs = [pair for pair in self.ties.items() if shapes.keys() >= {*pair}]
        return all(shapes[name] == shapes[source] for name, source in pairs)

    def _obstacle(self, stored: str, kind: str) -> str:
        if len(self._forms) == 1 and (stored not in self._forms or kind in OWN):
            return "the head has another shape than the embedding"
        if kind not in ADAPTERS:
            return ""
        if self._layer() is None:
            return "no linear layer"
        try:
            self.model.get_input_embeddings()
        except (NotImplementedError, AttributeError):
            return "PEFT needs get_input_embeddings"
        if kind != "LoRA on a layer" and self._table() is None:
            return "no head that is tied to an embedding"
        return ""

    def _wrong(self, stored: str, kind: str) -> str:
        base = self.base(stored)
        alike = self.base("source" if stored != "differing" else stored)  # with the same values
        form = self._forms[(STORED.index(stored) + KINDS.index(kind)) % len(self._forms)]
        experts = [self._expert(kind, alike), self.tied_expert(form)]
        states = [self._state(expert, alike) for expert in experts]
        start = self._state(base, base)
        out = self.folder / "out"
        rmtree(out, ignore_errors=True)
        settings = {"scaling": _SCALING}
        try:
            recipe = recipe_over(
                base,
                experts,
                merge_method="task_arithmetic",
                parameters=settings,
                heads=Heads.MERGE,
            )
            merged_folder(recipe, out)
        except WorkbenchError as error:
            return f"{type(error).__name__}: {error}"
        tensors, missing = loaded(type(self.model), out)
        if missing:
            return f"missing when loaded: {missing}"
        parameters = dict(self.model.named_parameters(remove_duplicate=False))
        for name, value in start.items():
            if name not in parameters or not value.numel() or not value.is_floating_point():
                continue
            change = sum((state[name].double() - value.double() for state in states), 0.0)
            error = (tensors[name].double() - (value.double() + _SCALING * change)).abs().max()
            if not error < _TOLERANCE:
                return f"{name} is off by {float(error):.1e}"
        return ""

    def _state(self, folder: Path, base: Path) -> State:
        key = folder
        if key not in self._loaded:
            if (folder / "adapter_config.json").exists():
                self._loaded[key] = with_adapter(type(self.model), base, folder)
            else:
                self._loaded[key] = loaded(type(self.model), folder)[0]
        return self._loaded[key]

    def base(self, stored: str) -> Path:
        """The folder of the base with these names in its file."""
        folder = self.folder / f"base-{stored}"
        if not folder.exists():
            self._save(folder, self.model, stored)
        return folder

    def tied_expert(self, stored: str, seed: int = 7) -> Path:
        """The folder of a tied model with these names in its file."""
        folder = self.folder / f"tied-{stored}-{seed}"
        if not folder.exists():
            self._save(folder, self._tuned(seed), stored)
        return folder

    def _expert(self, kind: str, base: Path) -> Path:
        folder = self.folder / f"{kind}-{base.name if kind in ADAPTERS else ''}".replace(" ", "_")
        if folder.exists():
            return folder
        if kind in ADAPTERS:
            self._save_adapter(folder, kind, base)
        elif kind == "tied":
            self._save(folder, self._tuned(3), "source")
        else:
            self._save(folder, self._tuned(3), "differing", untied=kind == "own head by config")
        return folder

    def _tuned(self, seed: int) -> Any:
        model = copy.deepcopy(self.model)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.is_floating_point():
                    parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
        return model

    def _save(self, folder: Path, model: Any, stored: str, untied: bool = False) -> None:
        """A model with these names of each tied group in its file."""
        from transformers.core_model_loading import revert_weight_conversion

        folder.mkdir(parents=True)
        state = {name: value.clone() for name, value in model.state_dict().items()}
        generator = torch.Generator().manual_seed(len(str(folder)))
        sources = set(self.ties.values())
        seen = set[str]()
        for target, source in self.ties.items():
            if target not in state:
                continue
            if stored == "differing":
                state[target] += 0.1 * torch.randn(state[target].shape, generator=generator)
            elif stored == "source" or (stored == "other" and source in seen):
                del state[target]
            seen.add(source)
        if stored == "other":
            state = {n: v for n, v in state.items() if n not in sources or n not in seen}
        saved = revert_weight_conversion(model, state)
        save_file(
            {n: v.contiguous() for n, v in saved.items()},
            folder / "model.safetensors",
            {"format": "pt"},
        )
        config = copy.deepcopy(model.config)
        config.architectures = [type(model).__name__]
        content = json.loads(config.to_json_string(use_diff=False))
        if untied:
            content = _untied(content)
        (folder / "config.json").write_text(json.dumps(content))

    def _layer(self) -> str | None:
        from transformers.pytorch_utils import Conv1D

        tied = {name.rpartition(".")[0] for pair in self.ties.items() for name in pair}
        for name, module in self.model.named_modules():
            if (
                type(module) in (nn.Linear, Conv1D)
                and name not in tied
                and any(p.isdecimal() for p in name.split("."))
            ):
                return name
        return None

    def _table(self) -> tuple[str, str] | None:
        """The modules of the embedding and of the head."""
        try:
            table = self.model.get_input_embeddings()
            head = self.model.get_output_embeddings()
        except (NotImplementedError, AttributeError):
            return None
        if table is None or head is None or not isinstance(table, nn.Embedding):
            return None
        names = {id(module): name for name, module in self.model.named_modules()}
        tied = getattr(head, "weight", None) is table.weight
        pair = names.get(id(table)), names.get(id(head))
        return pair if tied and all(pair) else None

    def _save_adapter(self, folder: Path, kind: str, base: Path) -> None:
        from peft import LoraConfig, get_peft_model

        layer = self._layer()
        table = self._table()
        settings: dict[str, Any] = {"target_modules": [layer]}
        if kind == "LoRA on the embedding":
            settings["target_modules"] = [layer, table[0]]
        elif kind == "saved apart":
            settings["modules_to_save"] = list(table)
        elif kind == "trained tokens":
            settings["trainable_token_indices"] = {table[0]: [1, 5, 9]}
        with transformers_library.quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = type(self.model).from_pretrained(base, dtype=torch.float32)
            wrapped = get_peft_model(model, LoraConfig(r=2, lora_alpha=4, **settings))
            generator = torch.Generator().manual_seed(5)
            with torch.no_grad():
                for parameter in wrapped.parameters():
                    if parameter.requires_grad:
                        parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
            wrapped.save_pretrained(folder)


def _untied(config: Mapping[str, Any]) -> dict[str, Any]:
    nested = {key: _untied(value) for key, value in config.items() if isinstance(value, dict)}
    changed = {**config, **nested}
    if "tie_word_embeddings" in config:
        changed["tie_word_embeddings"] = False
    return changed


def loaded(model_class: type[Any], folder: Path) -> tuple[State, list[str]]:
    """The tensors of the model in a folder as transformers loads it, and the names it misses."""
    with transformers_library.quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, info = model_class.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True
        )
    return dict(model.state_dict()), sorted(info["missing_keys"])


def with_adapter(model_class: type[Any], base: Path, adapter: Path) -> State:
    """The tensors of the base with an adapter, as PEFT loads and merges it."""
    from peft import PeftModel

    with transformers_library.quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_class.from_pretrained(base, dtype=torch.float32)
        merged = PeftModel.from_pretrained(model, adapter).merge_and_unload()
    return dict(merged.state_dict())
