"""Peak memory of a merge by each method, of a model and of one twice as deep:
``python -m tests.benchmarks.depth [--methods ties della] [--families gpt2]``.

Each merge is a process of its own. ``start`` is what it held when the merge began, most of it
libraries: a narrow model is merged first, so that they are all there. ``own`` is the peak above it,
``held`` the same where the C library gives back at once what is freed, ``planned`` what the plan
says of it. The ratios: twice as deep by once, of what is held, and of whole processes. Methods that
run models hold one of them as a whole; they are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch
import transformers
from transformers.modeling_utils import PreTrainedModel

from ace_gui.methods.registry import METHODS
from tests.benchmarks.measuring import say

EXPERTS = 3
LAYERS = 3
FAMILIES = ("gpt2", "llama")
"""Matrices of inputs × outputs in float32; of outputs × inputs in bfloat16."""

WIDTH = 512
NARROW = 64
CHANGE = 0.002
QUICK = {"wudi": {"steps": 5}}
"""Parameters of methods that would take long; they change no shape."""

GIVING_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""With it, glibc keeps next to nothing of what was freed."""

MERGE = """
import sys, ace_gui
from ace_gui.machine import peak_memory, reset_peak_memory
narrow, recipe, out = sys.argv[1:]
ace_gui.merge(narrow, out + "-narrow", device="cpu", threads=2)  # what is imported is there now
planned = ace_gui.plan(recipe).peak_bytes
reset_peak_memory()
started = peak_memory()
ace_gui.merge(recipe, out, device="cpu", threads=2)
print(started, peak_memory(), planned)
"""


class Peak(NamedTuple):
    """Bytes: of the process when the merge began, of it at its peak, and what the plan says."""

    start: int
    peak: int
    planned: int

    @property
    def growth(self) -> int:
        """What the merge itself took."""
        return self.peak - self.start


def methods_without_data() -> list[str]:
    """The names of the methods that need nothing but weights, for merging and for modules."""
    trained = {"free_merging", "surgery", "twin_merging", "wemoe"}
    need_none = (name for name, method in METHODS.items() if method.needs is None)
    return [name for name in need_none if name not in trained]


def save_families(folder: Path, family: str) -> tuple[Path, Path]:
    """A model and its experts, and the same twice as deep, beside a narrow one (``merged``)."""
    _save(folder / "narrow", family, 1, NARROW)
    once, twice = (folder / str(layers) for layers in (LAYERS, 2 * LAYERS))
    _save(once, family, LAYERS, WIDTH)
    _save(twice, family, 2 * LAYERS, WIDTH)
    return once, twice


def _save(folder: Path, family: str, layers: int, width: int) -> None:
    """A base and its experts, next to no vocabulary; some 12 MB a block where 512 wide."""
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    model = _model(family, layers, width)
    model.save_pretrained(folder / "base")
    base = {name: parameter.clone() for name, parameter in model.named_parameters()}
    for expert in range(EXPERTS):
        for name, parameter in model.named_parameters():
            parameter.data = base[name] + CHANGE * torch.randn_like(base[name])
        model.save_pretrained(folder / f"expert-{expert}")


def _model(family: str, layers: int, width: int) -> PreTrainedModel:
    shape = {"hidden_size": width, "num_attention_heads": 8, "num_hidden_layers": layers}
    words = {"vocab_size": 64, "max_position_embeddings": 64}
    if family == "gpt2":
        ends = {"bos_token_id": 0, "eos_token_id": 0}
        config = transformers.GPT2Config(n_embd=width, n_layer=layers, n_head=8, **words, **ends)
        return transformers.GPT2LMHeadModel(config)
    llama = transformers.LlamaConfig(intermediate_size=4 * width, **shape, **words)
    return transformers.LlamaForCausalLM(llama).bfloat16()


def merged(folder: Path, method: str, *, giving_back: bool = False) -> Peak:
    """Merge the family of a folder in a process of its own, after that of ``narrow`` beside it.

    ``giving_back``: measure what is held alone; takes far longer (``GIVING_BACK``).
    """
    experts = min(EXPERTS, METHODS[method].most or EXPERTS)
    models = [{"model": f"expert-{expert}"} for expert in range(experts)]
    document = {"schema": 1, "merge_method": method, "base_model": "base", "models": models}
    document["parameters"] = QUICK.get(method, {})
    recipes = [
        family_folder / f"{method}.yaml" for family_folder in (folder.parent / "narrow", folder)
    ]
    for recipe in recipes:
        recipe.write_text(json.dumps(document))
    with tempfile.TemporaryDirectory(dir=folder) as out:
        command = [sys.executable, "-c", MERGE, *recipes, Path(out) / "merged"]
        env = os.environ | (GIVING_BACK if giving_back else {})
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise RuntimeError(f"{method}: {done.stderr.strip().splitlines()[-1]}")
    return Peak(*map(int, done.stdout.split()))


def table(methods: Iterable[str], families: Iterable[str]) -> None:
    """Print a line for every method and family; the last column: twice as deep, by once."""
    say(f"{'method':<21} family   start    held: once, twice  ratio     own  planned  ratio")
    for family in families:
        with tempfile.TemporaryDirectory() as folder:
            model_folders = save_families(Path(folder), family)
            for method in methods:
                held, deeper = (
                    merged(model_folder, method, giving_back=True) for model_folder in model_folders
                )
                once, twice = (merged(model_folder, method) for model_folder in model_folders)
                say(
                    f"{method:<21} {family:<6} {_mb(once.start)} {_mb(held.growth)} "
                    f"{_mb(deeper.growth)} {deeper.growth / held.growth:6.3f} {_mb(twice.growth)} "
                    f"{_mb(twice.planned)} {twice.peak / once.peak:6.3f}"
                )


def _mb(count: int) -> str:
    return f"{count / 1e6:7.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.depth")
    parser.add_argument("--methods", nargs="+", default=methods_without_data())
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    options = parser.parse_args()
    table(options.methods, options.families)


if __name__ == "__main__":
    main()
