"""Peak memory of measuring experts' inputs, beside that of a forward pass alone.

    python -m tests.benchmarks.statistics_memory [--experts 8] [--layers 12] [--width 768]

Makes a BERT, experts that are the same weights in folders of their own (what is in them takes no
other memory), and inputs of few words each. Each side is a process of its own: one only imports,
one has every expert answer its inputs, one measures them as RegMean and ACE's measured variant do.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.benchmarks.measuring import run, say

SIDES = ("imports", "forward", "statistics")


def main() -> None:
    """Read the command line, make the models and measure, or be one side."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--examples", type=int, default=256)
    parser.add_argument("--words", type=int, default=6)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--recipe", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make is not None:
        _make(given.make, given)
    elif given.side is not None:
        _be(given.side, given.recipe)
    else:
        _measure(given)


def _measure(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="ace-statistics-") as name:
        folder = Path(name)
        own = ["experts", "layers", "width", "examples", "words"]
        sizes = [word for each in own for word in (f"--{each}", str(getattr(given, each)))]
        command = [sys.executable, "-m", "tests.benchmarks.statistics_memory"]
        assert run([*command, "--make", folder, *sizes], threads=2).status == 0
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        model = (folder / "base/model.safetensors").stat().st_size / 1e6
        say(
            f"{given.layers} layers, {given.width} wide: {model:.0f} MB; {given.experts} experts, "
            f"{given.examples} examples of {given.words} words each"
        )
        peaks = {}
        for side in SIDES:
            found = run([*command, "--side", side, "--recipe", folder / "recipe.yaml"], threads=2)
            assert found.status == 0
            peaks[side] = found.peak_bytes
            seconds = found.processor_seconds
            say(f"{side:<12}{found.peak_bytes / 1e6:>8.0f} MB {seconds:>8.0f} s of processor time")
        above = {side: peaks[side] - peaks["imports"] for side in SIDES}
        say(f"statistics by forward: {peaks['statistics'] / peaks['forward']:.3f}")
        say(f"above the imports:     {above['statistics'] / above['forward']:.3f}")


def _make(folder: Path, given: argparse.Namespace) -> None:
    import torch
    import transformers

    from tests.helpers.scored_models import SPECIAL, WORDS, save_tokenizer

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=given.width,
        num_hidden_layers=given.layers,
        num_attention_heads=max(given.width // 64, 1),
        intermediate_size=4 * given.width,
        max_position_embeddings=32,
    )
    for name in ("base", "expert-0"):
        transformers.BertForSequenceClassification(config).save_pretrained(folder / name)
        save_tokenizer(folder / name)
    experts = [f"expert-{number}" for number in range(given.experts)]
    for name in experts[1:]:
        (folder / name).mkdir()
        for file in (folder / experts[0]).iterdir():
            shutil.copyfile(file, folder / name / file.name)
    generator = np.random.default_rng(0)
    tasks = []
    for name in experts:
        rows = [" ".join(generator.choice(WORDS, given.words)) for _ in range(given.examples)]
        data = folder / f"{name}.csv"
        data.write_text("\n".join(["text,label", *(f"{row},LABEL_0" for row in rows)]) + "\n")
        tasks.append({"name": name, "expert": name, "data": data.name, "calibration": data.name})
    recipe = {
        "schema": 1,
        "merge_method": "regmean",
        "base_model": "base",
        "models": [{"model": name} for name in experts],
        "tasks": tasks,
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe))


def _be(side: str, recipe: Path) -> None:
    import torch

    from ace_gui.engine.calibrating.calibrate import calibration, measure
    from ace_gui.engine.evaluating.loaded_models import Loaded, answered
    from ace_gui.engine.planning.prepare import prepare
    from ace_gui.methods.shared.measured import Need
    from ace_gui.recipe.recipe_file import load_recipe

    prepared, device = prepare(load_recipe(recipe)), torch.device("cpu")
    if side == "statistics":
        for _ in measure(prepared, Need.INPUTS, device):
            pass
    if side == "forward":
        loaded = Loaded(device)
        for t in range(len(prepared.experts)):
            for data, loading in calibration(prepared, t).tasks:
                for _ in answered(loaded.evaluator(data, loading)):
                    pass


if __name__ == "__main__":
    main()
