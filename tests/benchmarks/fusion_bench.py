"""Ours beside FusionBench on the sample of images: ``python -m tests.benchmarks.fusion_bench``.

The same experts, calibration images, settings and numbers of steps; each method in a process of its
own, in turn. Its classes for CLIP are called with a vision transformer, its own loops untouched.
Both sides begin with the experts' folders and end with the merged model on disk; the libraries are
imported before. It prints each side's mean share of what the experts reach on held-out images, the
processor seconds of the merge, and the peak of memory over what the libraries and the base take.
Our description of the models, which a user's first merge makes in a process of its own, is not in
the seconds.

FusionBench (``pip install fusion_bench``) has to be in the environment in which this runs, beside
what the workbench needs; 0.2.33 was tried.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import ace_gui
from ace_gui.machine import peak_memory
from ace_gui.paths import Sample
from tests.benchmarks.measuring import say

RECIPE = Sample.IMAGES.recipe
BATCH = 16
SEED = 0

EACH = "Fisher, each image"
"""With batches of one image, FusionBench too squares the gradient of each, not that of a sum."""

OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "task arithmetic": ("task_arithmetic", {"scaling": 0.3}),
    "TIES": ("ties", {"density": 0.2, "scaling": 1.0}),
    "RegMean": ("regmean", {}),
    "Fisher": ("fisher", {}),
    EACH: ("fisher", {}),
    "SMILE, gate 1": ("smile", {"rank": 128, "gate_rank": 1}),
    "SMILE, gate 16": ("smile", {"rank": 128, "gate_rank": 16}),
    "AdaMerging": ("adamerging", {"steps": 0}),
    "Concrete": ("concrete", {"steps": 0}),
    "WEMoE": ("wemoe", {"steps": 0}),
    "Surgery": ("surgery", {"steps": 0}),
}
"""Our names and parameters; ``steps`` are those of the run."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.fusion_bench")
    parser.add_argument("--methods", default=";".join(OURS), help="with semicolons between them")
    parser.add_argument("--steps", type=int, default=100, help="of what learns")
    parser.add_argument("--patience", type=int, help="of ours; 0: no stopping criterion either")
    parser.add_argument("--limit", type=int, default=400, help="held-out images of a task")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        side, _, method = options.child.partition(":")
        print(json.dumps(measured(side, method, options)))
        return
    say(f"{'method':<18}{'share':>14}{'processor s':>18}{'peak MB':>16}   (ours, FusionBench)")
    for name in options.methods.split(";"):
        outcomes = [child(side, name, options) for side in ("ours", "theirs")]
        cells = [
            f"{a:>{wide}.{digits}f}{b:>9.{digits}f}"
            for key, wide, digits in (("share", 7, 3), ("seconds", 10, 1), ("peak", 9, 0))
            for a, b in [[outcome[key] for outcome in outcomes]]
        ]
        say(f"{name:<18}{''.join(cells)}")


def child(side: str, method: str, options: argparse.Namespace) -> dict[str, float]:
    """One method of one side, in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.fusion_bench", "--child", f"{side}:{method}"]
    command += ["--steps", str(options.steps), "--limit", str(options.limit)]
    command += [] if options.patience is None else ["--patience", str(options.patience)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{side}, {method}: {done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measured(side: str, method: str, options: argparse.Namespace) -> dict[str, float]:
    """Share of the experts, processor seconds of the merge, MB over what was there before it."""
    torch.manual_seed(SEED)
    run = ours if side == "ours" else theirs
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        merge = run(method, options, Path(folder))
        before = peak_memory()
        started = time.process_time()
        answer = merge()
        seconds = time.process_time() - started
        peak = peak_memory() - before
        reached = [
            score(answer, task, options.limit) / score(expert, task, options.limit)
            for task in tasks()
        ]
    return {"share": float(np.mean(reached)), "seconds": seconds, "peak": peak / 1e6}


Answer = Callable[[str, Tensor], Tensor]
"""From a task and images to logits over all labels of the head."""


def ours(method: str, options: argparse.Namespace, folder: Path) -> Callable[[], Answer]:
    """A merge by the workbench, and its folder's model for each task."""
    name, parameters = OURS[method]
    document = yaml.safe_load(RECIPE.read_text())
    home = RECIPE.parent
    document |= {"base_model": str(home / "base"), "merge_method": name}
    del document["after"], document["poolers"]
    if "steps" in parameters:
        parameters = {"steps": options.steps}
        if options.patience is not None and method != "Surgery":
            parameters["patience"] = options.patience
    document["parameters"] = parameters
    for model in document["models"]:
        model["model"] = str(home / model["model"])
    for task in document["tasks"]:
        task |= {"data": str(home / task["data"]), "calibration": str(home / task["calibration"])}
    recipe = folder / "recipe.yaml"
    recipe.write_text(json.dumps(document))
    warm = ace_gui.merge, model_of("base")  # all is imported

    def merge() -> Answer:
        out = warm[0](recipe, folder / "merged", device="cpu").folder
        load = functools.cache(lambda task: ace_gui.load_model(out, task=task, device="cpu"))
        reported = method == "Surgery"  # the others need not know the task
        return lambda task, images: load(task if reported else None)(images).logits

    return merge


def tasks() -> list[str]:
    """Of the sample."""
    return [task["name"] for task in yaml.safe_load(RECIPE.read_text())["tasks"]]


@functools.cache
def model_of(name: str) -> Any:
    """The base, or the expert of a task, in float32."""
    return loaded(name)


def loaded(name: str) -> Any:
    """A model from its folder, for algorithms that take models apart."""
    import transformers

    folder = RECIPE.parent / ("base" if name == "base" else f"experts/{name}")
    kind = transformers.ViTForImageClassification
    model: Any = kind.from_pretrained(folder, dtype=torch.float32).eval()
    # As classes for CLIP find them.
    encoder = SimpleNamespace(layers=model.vit.layers, config=model.config)
    model.vision_model = SimpleNamespace(encoder=encoder)
    model.config.projection_dim = model.config.hidden_size
    return model


def expert(task: str, images: Tensor) -> Tensor:
    """What a task's own expert says."""
    logits: Tensor = model_of(task)(images).logits
    return logits


@functools.cache
def data(task: str, file: str) -> tuple[Tensor, Tensor]:
    """Images, N × 1 × 16 × 16 from −1 to 1, and labels: places in the head."""
    arrays = np.load(RECIPE.parent / f"{file}.npz")
    images = torch.tensor(arrays[f"{task}_images"]).float() / 127.5 - 1
    return images[:, None], torch.tensor(arrays[f"{task}_labels"]).long()


@functools.cache
def labels(task: str) -> list[int]:
    """Places in the head that can be answers to a task."""
    classes: list[int] = data(task, "heldout")[1].unique().tolist()
    return classes


@torch.no_grad()
def score(answer: Answer, task: str, limit: int) -> float:
    """Share of held-out images that are answered right, among the task's labels."""
    images, right = (tensor[:limit] for tensor in data(task, "heldout"))
    classes = torch.tensor(labels(task))
    said = torch.cat([answer(task, part)[:, classes] for part in images.split(64)])
    return float((classes[said.argmax(dim=1)] == right).double().mean())


# FusionBench


def theirs(method: str, options: argparse.Namespace, folder: Path) -> Callable[[], Answer]:
    """One of its algorithms, with what its classes for CLIP ask of CLIP given by the sample."""
    from fusion_bench.modelpool import BaseModelPool
    from omegaconf import OmegaConf

    pool = BaseModelPool(
        {
            name: {"_target_": "tests.benchmarks.fusion_bench.loaded", "name": model_name}
            for name, model_name in [("_pretrained_", "base"), *((task, task) for task in tasks())]
        },
        train_datasets={task: TensorDataset(*data(task, "calibration")) for task in tasks()},
    )
    pool.load_train_dataset = lambda task: TensorDataset(*data(task, "calibration"))
    algorithm = _algorithm(method, OmegaConf.create(_settings(method, options.steps)))
    model_of("base")  # all is imported

    def merge() -> Answer:
        merged = algorithm.run(pool)
        model = merged["surgery"] if method == "Surgery" else merged
        pool.save_model(model, str(folder / "merged.pt"))
        if method == "Surgery":
            return functools.partial(_corrected, algorithm, merged["surgery"].eval())
        merged.eval()
        return lambda task, images: merged(images).logits

    return merge


def _settings(method: str, steps: int) -> dict[str, Any]:
    """Of its algorithms that learn."""
    return {
        "optimizer": "adam",
        "lr": 1e-4 if method == "WEMoE" else 1e-3,
        "max_steps": 0 if method == "Surgery" else steps,  # its surgery follows AdaMerging
        "batch_size": BATCH,
        "init_values": 0.3,
        "init_lambda": 0.3,
        "scaling_factor": 0.3,
        "weights": None,
        "clamp_weights": False,
        "tie_weights": True,
        "strict": False,
        "save_merging_weights": False,
        "merge_dtype": "float32",
        "initial_logits": 0,
        "temperature": 0.5,
        "eval_mask_type": "continuous",
        "mask_checkpoint": None,
        "skip_training": False,
        "save_interval": 10**9,
        "router_hidden_layers": 2,
        "batch_reduce": True,
        "use_grad_accumulate": True,
        "surgery_steps": steps,
        "eval_iterations": 10**9,
    }


class Hooks:
    """What FusionBench's classes ask of CLIP, of its processor and its heads."""

    _clip_processor = object()

    def setup_zero_shot_classification_head(self, *_: Any, **__: Any) -> None:
        """The heads are in the models."""

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        """There is no log."""

    def compute_logits(self, module: Any, batch: Any, task: str) -> Tensor:
        """Of a task's labels."""
        images = batch if isinstance(batch, Tensor) else batch[0]
        logits: Tensor = module(images).logits[:, labels(task)]
        return logits

    def compute_features(self, model: Any, images: Tensor) -> Tensor:
        """What the head is given."""
        features: Tensor = model.vit(images).last_hidden_state[:, 0]
        return features

    def get_shuffled_test_loader_iter(self, task: str) -> Iterator[Any]:
        """Calibration images in batches, without end."""
        return _without_end(task)


@functools.cache
def _without_end(task: str) -> Iterator[Any]:
    dataset = TensorDataset(*data(task, "calibration"))
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True)
    return itertools.chain.from_iterable(itertools.repeat(loader))


def _corrected(algorithm: Any, wrapper: Any, task: str, images: Tensor) -> Tensor:
    features, _, _ = wrapper.compute_surgery_features(
        lambda model: algorithm.compute_features(model, images), task
    )
    logits: Tensor = wrapper.model.classifier(features)
    return logits


def _with_hooks(kind: Any, **more: Any) -> Any:
    return type(kind.__name__, (Hooks, kind), more)


def _algorithm(method: str, settings: Any) -> Any:
    import fusion_bench.method as methods
    from fusion_bench.method.fisher_merging import clip_fisher_merging as fisher
    from fusion_bench.method.regmean import clip_regmean as regmean

    for module in (fisher, regmean):
        module.CLIPDataset = lambda dataset, _: dataset
    loader = {"batch_size": 1 if method == EACH else 32, "num_workers": 0}

    if method == "task arithmetic":
        return methods.TaskArithmeticAlgorithm(scaling_factor=0.3)
    if method == "TIES":
        return methods.TiesMergingAlgorithm(
            scaling_factor=1.0, threshold=20, remove_keys=[], merge_func="mean"
        )
    if method == "RegMean":
        return _with_hooks(regmean.RegMeanAlgorithmForCLIP)(
            dataloader_kwargs=loader,
            num_regmean_examples=256,
            exclude_param_names_regex=[],
            reduce_non_diagonal_ratio=0.95,
            weight_transpose=True,
        )
    if method in {"Fisher", EACH}:
        return _with_hooks(fisher.FisherMergingForCLIPVisionModel)(
            dataloader_kwargs=loader,
            num_fisher_examples=256,
            exclude_param_names_regex=["classifier.*"],
            normalize_fisher_weight=True,
            minimal_fisher_weight=1e-6,
        )
    if method.startswith("SMILE"):
        gate = int(method.rpartition(" ")[2])
        return methods.SmileUpscalingAlgorithm(device="cpu", gate_k=gate, k=128, top_k=1)
    return _learning(method, settings)


def _learning(method: str, settings: Any) -> Any:
    import fusion_bench.method as methods
    import lightning
    from fusion_bench.method.concrete_subspace import clip_concrete_task_arithmetic as concrete
    from fusion_bench.method.we_moe import clip_we_moe

    if method == "AdaMerging":
        return _with_hooks(methods.adamerging.CLIPLayerWiseAdaMergingAlgorithm)(settings)
    if method == "Concrete":
        return _with_hooks(concrete.ConcreteTaskArithmeticAlgorithmForCLIP)(settings)
    if method == "WEMoE":
        # 0.2.33: its own function refuses what this class gives it, parameters beside tensors.
        clip_we_moe.task_arithmetic_merge = lambda base, experts, scaling_factor: (
            methods.TaskArithmeticAlgorithm(scaling_factor=scaling_factor).run(
                {"_pretrained_": base, **{str(n): expert for n, expert in enumerate(experts)}}
            )
        )
        fabric = lightning.Fabric(accelerator="cpu", devices=1)
        kind = clip_we_moe.CLIPWeightEnsemblingMoEAlgorithm
        return _with_hooks(kind, _fabric=fabric)(settings)
    from transformers.models.clip import modeling_clip

    if not hasattr(modeling_clip, "CLIPVisionTransformer"):  # transformers 5; named, not used
        modeling_clip.CLIPVisionTransformer = modeling_clip.CLIPVisionModel
    from fusion_bench.method.surgery import clip_layer_wise_adamerging_surgery as surgery

    return _with_hooks(surgery.CLIPLayerWiseAdaMergingSurgeryAlgorithm)(settings)


if __name__ == "__main__":
    main()
