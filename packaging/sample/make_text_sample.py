"""Make the text sample: a small language model and five experts fine-tuned from it.

    python packaging/sample/make_text_sample.py [--out resources/text-sample]

Five little tasks of language, written by ``sample_sentences``: the mood of reviews, the topic of a
sentence, the stars of a review, whether words stand in their places, and which of two reviews is
the better one. Every example has a difficulty in [0, 1]. The base learns to fill in masked words,
and a little of all tasks at low difficulty, each with a head of its own. An expert is the base with
one of the heads, fine-tuned on that task alone at high difficulty. The heads do not belong to the
base: each expert keeps its own, and a merge shares the rest.

Runs on one CPU thread in about four minutes. Everything is seeded; the same versions of torch
and transformers on the same kind of processor give the same files. Held-out texts come from a seed
that neither training nor any choice of tasks or settings has seen: those were made on the texts of
``--held-out development``. Texts for methods that want data are none of those to score with.

Shape letters: N texts, L tokens.
"""

from __future__ import annotations

import argparse
import copy
import csv
import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sample_sentences
import torch
from sample_sentences import WRITERS, Example
from scipy.stats import pearsonr
from sklearn.metrics import accuracy_score, matthews_corrcoef
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch.nn.functional import cross_entropy, mse_loss
from training import RECIPE_START, round_to_half, train
from transformers import (
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
)
from transformers.utils.logging import disable_progress_bar

SEED = 2026
# ranges of difficulty: training the base, the experts' tasks
EASY = (0.0, 0.4)
HARD = (0.7, 1.0)
HELD_OUT = 400  # examples a task
CALIBRATION = 256  # examples a task, for methods that want data
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
START, PAD, _, _, MASK = range(len(SPECIAL))
MASKED = 0.2  # of the words


# --- tasks -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task: its labels, none for a number, and how its expert is trained."""

    name: str
    description: str
    labels: tuple[str, ...] = ()
    metric: str = "accuracy"
    steps: int
    rate: float

    def example(self, rng: random.Random, difficulty: tuple[float, float]) -> Example:
        """One example of a difficulty in this range."""
        return WRITERS[self.name](rng, rng.uniform(*difficulty))


TASKS = (
    Task(
        name="mood",
        description="what a review of several clauses says in the end",
        labels=("negative", "positive"),
        steps=400,
        rate=5e-4,
    ),
    Task(
        name="topic",
        description="what most of the words are about",
        labels=tuple(sample_sentences.TOPICS),
        steps=300,
        rate=5e-4,
    ),
    Task(
        name="rating",
        description="how many stars a review gives, from 0 to 5",
        metric="pearson",
        steps=200,
        rate=3e-4,
    ),
    Task(
        name="order",
        description="whether the words stand in their places",
        labels=("wrong", "right"),
        metric="matthews",
        steps=60,
        rate=2e-4,
    ),
    Task(
        name="preference",
        description="which of two reviews is the better one",
        labels=("first", "second"),
        steps=250,
        rate=3e-4,
    ),
)


def held_out(task: Task, purpose: str) -> list[Example]:
    """The hard examples that no training sees; ``purpose``: held-out, or development."""
    return list(itertools.islice(hard_examples(task, purpose), HELD_OUT))


def calibration(task: Task, purpose: str) -> list[Example]:
    """Hard examples that no model is scored with."""
    scored = {texts for texts, _ in held_out(task, purpose)}
    others = (each for each in hard_examples(task, "calibration") if each[0] not in scored)
    return list(itertools.islice(others, CALIBRATION))


def hard_examples(task: Task, purpose: str) -> Iterator[Example]:
    """Yield examples of a task as its expert learns it, without end."""
    rng = random.Random(f"{SEED} {task.name} {purpose}")
    while True:
        yield task.example(rng, HARD)


# --- models ------------------------------------------------------------------------------------


def new_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of whole words, with every word that the writers know."""
    rng = random.Random(f"{SEED} words")
    examples = [write(rng, rng.random()) for write in WRITERS.values() for _ in range(5000)]
    words = sorted({word for texts, _ in examples for text in texts for word in text.split()})
    indices = {word: index for index, word in enumerate((*SPECIAL, *words))}
    found = Tokenizer(models.WordLevel(indices, unk_token="<unk>"))
    found.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    found.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", START), trim_offsets=False, add_prefix_space=False
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=found,
        bos_token="<s>",
        cls_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        sep_token="</s>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_max_length=64,
        model_input_names=["input_ids", "attention_mask"],
    )


def config_of(words: int, task: Task | None) -> RobertaConfig:
    """Return the configuration of the base, or of a model with the head of a task."""
    config = RobertaConfig(
        vocab_size=words,
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=66,
        type_vocab_size=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=PAD,
        bos_token_id=START,
        eos_token_id=2,
    )
    if task is not None:
        names = task.labels or ("LABEL_0",)
        config.id2label = dict(enumerate(names))
        config.label2id = {name: index for index, name in enumerate(names)}
        config.problem_type = None if task.labels else "regression"
    return config


@dataclass
class Family:
    """The base, and for each task a model that shares the base's body until it is trained."""

    tokenizer: PreTrainedTokenizerFast
    base: RobertaForMaskedLM
    experts: dict[str, RobertaForSequenceClassification] = field(default_factory=dict)

    @classmethod
    def new(cls) -> Family:
        """Return untrained models."""
        tokenizer = new_tokenizer()
        family = cls(tokenizer, RobertaForMaskedLM(config_of(len(tokenizer), None)))
        for task in TASKS:
            expert = RobertaForSequenceClassification(config_of(len(tokenizer), task))
            expert.roberta = family.base.roberta
            family.experts[task.name] = expert
        return family

    def encoded(self, texts: list[tuple[str, ...]]) -> Any:
        """Return tokens (N × L) of texts or pairs, padded to the longest."""
        columns = [list(column) for column in zip(*texts, strict=True)]
        return self.tokenizer(*columns, padding=True, return_tensors="pt")


# --- training ----------------------------------------------------------------------------------


def task_loss(family: Family, task: Task, examples: list[Example]) -> torch.Tensor:
    """Return the loss of a task's model on some examples."""
    logits = family.experts[task.name](**family.encoded([texts for texts, _ in examples])).logits
    label_N = torch.tensor([label for _, label in examples])
    if task.labels:
        return cross_entropy(logits, label_N.long())
    return mse_loss(logits[:, 0], label_N.float())


def masked_loss(
    family: Family, texts: list[tuple[str, ...]], generator: torch.Generator
) -> torch.Tensor:
    """Return the loss of the base on words that are hidden from it."""
    tokens = family.encoded(texts)
    right_NL = tokens["input_ids"]
    hidden_NL = torch.rand(right_NL.shape, generator=generator) < MASKED
    hidden_NL &= right_NL >= len(SPECIAL)
    tokens["input_ids"] = right_NL.masked_fill(hidden_NL, MASK)
    logits_NLV = family.base(**tokens).logits
    return cross_entropy(logits_NLV[hidden_NL], right_NL[hidden_NL])


def corpus(rng: random.Random) -> Iterator[tuple[str, ...]]:
    """Yield the texts of any task, but for sentences that are wrong."""
    for task in itertools.cycle(TASKS):
        texts, label = task.example(rng, (0.0, 1.0))
        if task.name != "order" or label == 1:
            yield texts


def base_losses(family: Family) -> Iterator[torch.Tensor]:
    """Yield the loss of masked words of any text, and of two tasks in turn at low difficulty."""
    rng = random.Random(f"{SEED} base")
    generator = torch.Generator().manual_seed(SEED)
    for tasks in itertools.cycle(zip(TASKS, (*TASKS[1:], TASKS[0]), strict=True)):
        texts = list(itertools.islice(corpus(rng), 32))
        loss = masked_loss(family, [(" ".join(each),) for each in texts], generator)
        for task in tasks:
            easy = [task.example(rng, EASY) for _ in range(24)]
            loss = loss + task_loss(family, task, easy)
        yield loss


def expert_losses(family: Family, task: Task) -> Iterator[torch.Tensor]:
    """Yield the loss of batches of one task at high difficulty."""
    rng = random.Random(f"{SEED} {task.name}")
    while True:
        yield task_loss(family, task, [task.example(rng, HARD) for _ in range(32)])


def score(family: Family, task: Task, examples: list[Example]) -> float:
    """Return the task's metric of its model on some examples."""
    with torch.inference_mode():
        tokens = family.encoded([texts for texts, _ in examples])
        logits = family.experts[task.name](**tokens).logits
    labels = [label for _, label in examples]
    if not task.labels:
        return float(pearsonr(labels, logits[:, 0].tolist()).statistic)
    answers = logits.argmax(1).tolist()
    measure = {"accuracy": accuracy_score, "matthews": matthews_corrcoef}[task.metric]
    return float(measure(labels, answers))


# --- files -------------------------------------------------------------------------------------


def save_model(model: Any, folder: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write a Hugging Face folder in float16: config, weights, tokenizer."""
    copy.deepcopy(model).half().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # safetensors writes for the owner alone
    tokenizer.save_pretrained(folder)


def rows(task: Task, examples: list[Example]) -> list[tuple[str, ...]]:
    """Return the rows of a task's file: texts, and the label by its name."""
    return [
        (*texts, task.labels[int(label)] if task.labels else str(label))
        for texts, label in examples
    ]


def save_texts(folder: Path, task: Task, examples: list[Example]) -> None:
    """Write a task's file in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ["text", "pair"] if task.name == "preference" else ["text"]
    with (folder / f"{task.name}.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*names, "label"])
        writer.writerows(rows(task, examples))


def save_tasks(out: Path, purpose: str) -> None:
    """Write the texts to score and to calibrate with, and the recipe with the tasks."""
    recipe = [*RECIPE_START]
    recipe += [f"  - model: experts/{task.name}\n    name: {task.name}" for task in TASKS]
    recipe += ["tasks:"]
    for task in TASKS:
        save_texts(out / "heldout", task, held_out(task, purpose))
        save_texts(out / "calibration", task, calibration(task, purpose))
        recipe += [
            f"  - name: {task.name}  # {task.description}",
            f"    expert: {task.name}",
            f"    data: heldout/{task.name}.csv",
            f"    calibration: calibration/{task.name}.csv",
            *([f"    metric: {task.metric}"] if task.metric == "matthews" else []),
        ]
    (out / "sample.yaml").write_text("\n".join(recipe) + "\n")


def make(out: Path, purpose: str) -> None:
    """Train everything and write it below ``out``, printing scores on development texts."""
    torch.set_num_threads(1)
    disable_progress_bar()
    torch.manual_seed(SEED)
    family, started = Family.new(), time.monotonic()
    shown = {task.name: held_out(task, "development") for task in TASKS}

    def report(who: str) -> None:
        scores = "  ".join(f"{score(family, task, shown[task.name]):9.3f}" for task in TASKS)
        print(f"{who:10}{scores}   {time.monotonic() - started:4.0f} s", flush=True)

    print(f"{'':10}{'  '.join(f'{task.name:>9}' for task in TASKS)}")
    together = torch.nn.ModuleList([family.base, *family.experts.values()])
    train(together, base_losses(family), steps=500, rate=2e-3, decay=0.01, warm_up=50)
    round_to_half(together)
    save_model(family.base, out / "base", family.tokenizer)
    report("base")
    body = family.base.roberta
    for task in TASKS:
        expert = family.experts[task.name]
        expert.roberta = copy.deepcopy(body)
        losses = expert_losses(family, task)
        train(expert, losses, steps=task.steps, rate=task.rate, decay=0.0, warm_up=20)
        round_to_half(expert)
        save_model(expert, out / "experts" / task.name, family.tokenizer)
    report("experts")
    save_tasks(out, purpose)


def main() -> None:
    """Read the command line and make the text sample."""
    parser = argparse.ArgumentParser(description="Make the text sample.")
    out = Path("resources/text-sample")
    parser.add_argument("--out", type=Path, default=out, help="where to write")
    parser.add_argument(
        "--held-out", default="held-out", choices=["held-out", "development"], help="which texts"
    )
    arguments = parser.parse_args()
    make(arguments.out, arguments.held_out)


if __name__ == "__main__":
    main()
