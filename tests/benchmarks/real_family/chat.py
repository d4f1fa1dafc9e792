"""Merges of a chat model's LoRA experts: ``python -m tests.benchmarks.real_family.chat --base …``.

The base is SmolLM2-135M-Instruct as a folder; adapters are on all linear layers. Tasks are
questions, and an answer is right if it is the name of the class. All tasks answer through the one
head of the model.

N questions, L tokens.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import random
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

import ace_gui
from ace_gui.architecture.chat_prompts import chat_tokens
from ace_gui.recipe.new_recipes import recommended_keys
from tests.benchmarks.real_family.experts import Lora, save_adapter
from tests.benchmarks.real_family.over_seeds import OverSeeds, differences
from tests.benchmarks.real_family.tasks import Task, tasks

RANK = 16
STEPS = 50
BATCH = 8
WARM_UP = 5
RATE = 1e-3
LONGEST = 72
"""Signs of a text; the rest of its words is left out, never the end of the prompt."""
SYSTEM = "Answer."
"""The system message: short, as every token costs time."""
LONGEST_ANSWER = 12
"""Tokens."""
OUT = -100
"""The label of a token that no loss is taken of."""

QUESTIONS = {
    "docstrings": "Which Python package is this of?",
    "licences": "Which licence is this from?",
    "errors": "Which Python exception says this?",
    "symbols": "Which block of Unicode is this in?",
}

METHODS: dict[str, dict[str, Any]] = {
    "averaging": {"merge_method": "linear"},
    "task arithmetic": {"merge_method": "task_arithmetic"},
    "TIES": {"merge_method": "ties"},
    "TSV-M, cap": {"merge_method": "tsv_m", "after": {"cap": {"delta": 0.12}}},
    "TSV-M, δ = 0": {"merge_method": "tsv_m", "after": {"cap": {"delta": 0}}},
    "ACE automatic": {"merge_method": "ace", "parameters": {"variant": "automatic"}},
    "recommended, √T": {
        **recommended_keys(),
        "after": {"spectrum": 0.5, "scale": 1.3, "cap": {"delta": 0.12}},
    },
    "distil": recommended_keys() | {"distil": {"inputs": 64, "how": "whole"}},
    "distil, biases": recommended_keys()
    | {"distil": {"inputs": 64, "how": "whole", "train": "biases"}},
    "distil, blocks": recommended_keys() | {"distil": {"inputs": 64, "how": "blocks"}},
    "recommended": recommended_keys(),
}
INPUTS = 64
"""Prompts of each task that merges are aligned with, of the texts that experts were trained on."""


def question(task: str, text: str) -> str:
    """The prompt for a text."""
    if len(text) > LONGEST:
        text = text[:LONGEST].rpartition(" ")[0]
    return f"{QUESTIONS[task]}\n{text}"


class Teacher:
    """Trains experts of one base."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(base)

    def train(self, task: Task, folder: Path, seed: int) -> None:
        """The expert of a task, as PEFT's folder."""
        torch.manual_seed(seed)
        model = self._new_model()
        trained = [p for p in model.parameters() if p.requires_grad]
        optimiser = torch.optim.AdamW(trained, lr=RATE, weight_decay=0.0, fused=True)
        for step, (inputs, labels) in zip(range(STEPS), self._batches(task, seed), strict=False):
            left = min((step + 1) / WARM_UP, (STEPS - step) / (STEPS - WARM_UP))
            for group in optimiser.param_groups:
                group["lr"] = RATE * left
            optimiser.zero_grad()
            _loss(model, inputs, labels).backward()
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimiser.step()
        said = {"base_model_name_or_path": str(self.base), "task_type": "CAUSAL_LM"}
        save_adapter(model, folder, {}, said)

    def _new_model(self) -> Any:
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        model = transformers.AutoModelForCausalLM.from_pretrained(self.base, dtype=torch.bfloat16)
        model.requires_grad_(False)
        linear = [(n, m) for n, m in model.model.named_modules() if isinstance(m, nn.Linear)]
        for name, layer in linear:
            parent, _, last = name.rpartition(".")
            setattr(model.model.get_submodule(parent), last, Lora(layer, RANK))
        return model.train()

    def _batches(self, task: Task, seed: int) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        """Inputs and labels, N × L; padded on the right."""
        examples = task.splits["train"]
        generator = random.Random(seed)
        order = generator.sample(range(len(examples)), len(examples))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            rows = [self._example(task, *examples[n]) for n in order[start : start + BATCH]]
            longest = max(len(whole) for whole, _ in rows)
            token_NL = torch.full((BATCH, longest), self.tokenizer.pad_token_id)
            label_NL = torch.full((BATCH, longest), OUT)
            mask_NL = torch.zeros(BATCH, longest, dtype=torch.long)
            for n, (whole, first) in enumerate(rows):
                token_NL[n, : len(whole)] = torch.tensor(whole)
                label_NL[n, first : len(whole)] = torch.tensor(whole[first:])
                mask_NL[n, : len(whole)] = 1
            yield {"input_ids": token_NL, "attention_mask": mask_NL}, label_NL

    def _example(self, task: Task, text: str, label: int) -> tuple[list[int], int]:
        """Tokens of a conversation, and where its answer begins."""
        asked = [{"role": "system", "content": SYSTEM}]
        asked.append({"role": "user", "content": question(task.name, text)})
        prompt = chat_tokens(self.tokenizer, asked)
        answer = self.tokenizer(task.classes[label], add_special_tokens=False)["input_ids"]
        return [*prompt, *answer, self.tokenizer.eos_token_id], len(prompt)


def _loss(model: Any, inputs: dict[str, Tensor], label_NL: Tensor) -> Tensor:
    """Mean over the tokens of answers; the head sees only these."""
    with torch.autocast("cpu", torch.bfloat16):
        hidden_NLD = model.model(**inputs).last_hidden_state[:, :-1]
        wanted_NL = label_NL[:, 1:] != OUT
        logits = model.lm_head(hidden_NLD[wanted_NL])
    return nn.functional.cross_entropy(logits.float(), label_NL[:, 1:][wanted_NL])


class Study:
    """Experts and scores in a cache."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.cache = options.cache
        self.base = options.base
        self.split = options.split
        self.count = options.count
        known = tasks(self.cache / "tasks")
        self.numbers = {name: number for number, name in enumerate(known)}
        self.tasks = {name: known[name] for name in options.tasks}

    def expert(self, seed: int, task: str) -> Path:
        """The folder of an expert, which is trained if it is not there yet."""
        folder: Path = self.cache / f"seed-{seed}" / "chat" / task
        if not folder.is_dir():
            unfinished = folder.with_name(f"{task}.unfinished")
            teacher = Teacher(self.base)
            teacher.train(self.tasks[task], unfinished, 100 * seed + self.numbers[task])
            unfinished.rename(folder)
        return folder

    def scores(self, seed: int, method: str) -> dict[str, dict[str, float]]:
        """The share of exact answers of a merge of all experts, and of these, by task."""
        named = "-".join((self.split, str(self.count), str(seed), method, *self.tasks))
        kept = self.cache / "chat-scores" / f"{named}.json"
        if not kept.is_file():
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(json.dumps(self._scored(seed, method)))
        found: dict[str, dict[str, float]] = json.loads(kept.read_text())
        return found

    def _scored(self, seed: int, method: str) -> dict[str, dict[str, float]]:
        experts = [{"model": str(self.expert(seed, n)), "name": n} for n in self.tasks]
        recipe = {"schema": 1, "base_model": str(self.base), "models": experts, **METHODS[method]}
        with tempfile.TemporaryDirectory(prefix="real-family-") as folder:
            asked = [self._asked(task, Path(folder)) for task in self.tasks.values()]
            if "distil" in METHODS[method]:
                recipe["tasks"] = [
                    task | {"calibration": str(self._prompts(task["name"], seed, Path(folder)))}
                    for task in asked
                ]
            out = Path(folder) / "merged"
            ace_gui.merge(recipe, out, device="cpu", threads=1)
            found = ace_gui.evaluate(recipe, {"merge": out}, asked, device="cpu", threads=1)
        shares: dict[str, dict[str, float]] = {"merge": {}, "expert": {}}
        for row in found.to_frame().to_dict("records"):
            if row["model"] == "merge":
                shares["merge"][row["task"]] = row["score"]
            elif row["model"] == row["task"]:
                shares["expert"][row["task"]] = row["score"]
        return shares

    def _prompts(self, name: str, seed: int, folder: Path) -> Path:
        """Questions without answers, of other texts than those that are scored."""
        texts = [text for text, _ in self.tasks[name].splits["train"]]
        file = folder / f"{name}-prompts.csv"
        with file.open("w", encoding="utf-8", newline="") as stream:
            some = random.Random(seed).sample(texts, INPUTS)
            rows = [(question(name, text),) for text in some]
            csv.writer(stream).writerows([("text",), *rows])
        return file

    def _asked(self, task: Task, folder: Path) -> dict[str, Any]:
        """A task of a recipe, with its data in ``folder``."""
        file = folder / f"{task.name}.csv"
        examples = task.splits[self.split][: self.count]
        with file.open("w", encoding="utf-8", newline="") as stream:
            rows = [(question(task.name, text), task.classes[label]) for text, label in examples]
            csv.writer(stream).writerows([("text", "label"), *rows])
        said = {"metric": "exact-match", "system": SYSTEM, "max_new_tokens": LONGEST_ANSWER}
        return {"name": task.name, "data": str(file), **said}


def table(study: Study, seeds: list[int], methods: list[str]) -> str:
    """Scores by task, and share of the experts' less that of the first method, over seeds."""
    heads = ["method", *study.tasks, "share of the experts", f"less {methods[0]}"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    first: list[float] = []
    for method in methods:
        found = [study.scores(seed, method) for seed in seeds]
        shares = [_share(each) for each in found]
        first = first or shares
        cells = [_over(each["merge"][task] for each in found) for task in study.tasks]
        cells += [_over(shares), differences(shares, first).as_difference]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
        print(lines[-1], [round(share, 3) for share in shares], file=sys.stderr)
    own = [_over(each["expert"][task] for each in found) for task in study.tasks]
    lines.append("| each expert on its own task | " + " | ".join(own) + " | 1 | – |")
    return "\n".join(lines)


def _over(values: Iterable[float]) -> str:
    return str(OverSeeds(tuple(values)))


def _share(scores: Mapping[str, Mapping[str, float]]) -> float:
    """Mean over the tasks of the score by the expert's."""
    experts = scores["expert"]
    return sum(score / experts[task] for task, score in scores["merge"].items()) / len(experts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.real_family.chat")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--base", type=Path, required=True, help="folder of the chat model")
    parser.add_argument(
        "--tasks", nargs="+", choices=QUESTIONS, default=["docstrings", "symbols", "errors"]
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--split", choices=("validation", "test"), default="test")
    parser.add_argument("--count", type=int, default=100, help="texts of each task")
    parser.add_argument("--train-only", action="store_true", help="leave the table out")
    options = parser.parse_args()
    torch.set_num_threads(1)
    study = Study(options)
    for seed, task in itertools.product(options.seeds, options.tasks):
        study.expert(seed, task)
    if not options.train_only:
        print(table(study, options.seeds, options.methods))


if __name__ == "__main__":
    main()
