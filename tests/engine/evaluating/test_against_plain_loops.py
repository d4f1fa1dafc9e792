"""Scores are those of a plain loop over transformers, an example at a time, written independently.

Answers and counts are equal; a likelihood may differ in its last digits, as sums are grouped
otherwise.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from PIL import Image
from scipy import stats
from sklearn.metrics import f1_score, matthews_corrcoef

import ace_gui
from ace_gui.engine.contract.scored import TaskScore
from tests.helpers.scored_models import (
    save_bert,
    save_gpt2,
    save_pictures,
    save_tokenizer,
    save_vit,
    sentence,
)

LABELS = ("cat", "dog", "mat", "tree")


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def scored(folder: Path, data: Path, **task: Any) -> TaskScore:
    evaluation = ace_gui.evaluate(None, [folder], [{"data": data, **task}], device="cpu")
    (only,) = evaluation.scores
    assert only.model == str(folder)
    assert only.task == data.stem
    assert only.normalised is None
    return only


def loaded(kind: str, folder: Path) -> tuple[Any, Any]:
    """The model, and its tokenizer or image processor."""
    model = getattr(transformers, kind).from_pretrained(folder).float().eval()
    processor_class = (
        "AutoTokenizer" if (folder / "tokenizer.json").exists() else "AutoImageProcessor"
    )
    return model, getattr(transformers, processor_class).from_pretrained(folder)


@pytest.fixture(autouse=True)
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def test_pictures(tmp_path):
    save_vit(tmp_path / "model", LABELS)
    files = save_pictures(tmp_path / "data", LABELS, 12)
    model, processor = loaded("AutoModelForImageClassification", tmp_path / "model")
    right = []
    for file in files:
        pixels = processor(Image.open(file), return_tensors="pt")
        right.append(
            model.config.id2label[int(model(**pixels).logits.argmax())] == file.parent.name
        )
    score = scored(tmp_path / "model", tmp_path / "data")
    assert 0 < sum(right) < len(right)
    assert (score.score, score.n, score.metric) == (sum(right) / len(right), 48, "accuracy")
    # Wilson's interval, which is that of the plain formula but for a share of 1/n.
    assert score.standard_error == pytest.approx(np.std(right) / math.sqrt(48), rel=1 / 48)
    assert score.each_N.tolist() == right


@pytest.mark.parametrize("metric", ["accuracy", "f1", "matthews"])
def test_texts(tmp_path, metric: str):
    names = dict(enumerate(LABELS))
    save_bert(tmp_path / "model", "SequenceClassification", id2label=names)
    generator = np.random.default_rng(3)
    rows = [
        {
            "idx": n,
            "premise": sentence(generator),
            "hypothesis": sentence(generator, most=40 if n == 7 else 9),  # one is cut
            "label": LABELS[int(generator.integers(4))],
        }
        for n in range(40)
    ]
    model, tokenizer = loaded("AutoModelForSequenceClassification", tmp_path / "model")
    answers = []
    for row in rows:
        tokens = tokenizer(row["premise"], row["hypothesis"], truncation=True, return_tensors="pt")
        answers.append(names[int(model(**tokens).logits.argmax())])
    targets = [row["label"] for row in rows]
    expected = {
        "accuracy": np.mean([a == t for a, t in zip(answers, targets, strict=True)]),
        "f1": f1_score(targets, answers, average="macro", zero_division=0),
        "matthews": matthews_corrcoef(targets, answers),
    }[metric]
    pd.DataFrame(rows).to_csv(tmp_path / "nli.csv", index=False)
    score = scored(tmp_path / "model", tmp_path / "nli.csv", metric=metric)
    assert len(set(answers)) > 1
    assert score.score == pytest.approx(expected, abs=1e-12)
    assert 0 < score.standard_error < 0.2


@pytest.mark.parametrize("metric", ["pearson", "spearman"])
def test_regression(tmp_path, metric: str):
    save_bert(tmp_path / "model", "SequenceClassification", num_labels=1)
    generator = np.random.default_rng(1)
    rows = [
        {"sentence": sentence(generator), "score": float(generator.normal())} for _ in range(30)
    ]
    model, tokenizer = loaded("AutoModelForSequenceClassification", tmp_path / "model")
    answers = [
        float(model(**tokenizer(row["sentence"], return_tensors="pt")).logits) for row in rows
    ]
    compute = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}[metric]
    expected = compute([row["score"] for row in rows], answers).statistic
    score = scored(tmp_path / "model", write_lines(tmp_path / "sts.jsonl", rows), metric=metric)
    assert score.score == pytest.approx(expected, abs=1e-5)


def test_perplexity(tmp_path):
    save_gpt2(tmp_path / "model")
    generator = np.random.default_rng(2)
    lines = [sentence(generator, 1, 11) for _ in range(30)]
    long = sentence(generator, 30, 31)  # three windows
    (tmp_path / "wiki.txt").write_text("\n\n".join([*lines, long]) + "\n")
    model, tokenizer = loaded("AutoModelForCausalLM", tmp_path / "model")
    nll = 0.0
    tokens = 0
    for line in lines:
        ids = tokenizer(line, return_tensors="pt")["input_ids"]
        if ids.shape[1] > 1:
            nll += float(model(input_ids=ids, labels=ids).loss) * (ids.shape[1] - 1)
            tokens += ids.shape[1] - 1
    ids = tokenizer(long, return_tensors="pt", truncation=False)["input_ids"][0]
    for start in range(0, len(ids) - 1, 11):
        window = ids[None, start : start + 12]
        nll += float(model(input_ids=window, labels=window).loss) * (window.shape[1] - 1)
        tokens += window.shape[1] - 1
    score = scored(tmp_path / "model", tmp_path / "wiki.txt")
    assert tokens == sum(len(line.split()) - 1 for line in [*lines, long])
    assert (score.metric, score.n) == ("perplexity", 31)
    assert score.score == pytest.approx(math.exp(nll / tokens), rel=1e-5)
    assert 0 < score.standard_error < score.score


def choice_rows(count: int = 25) -> list[dict[str, Any]]:
    generator = np.random.default_rng(4)
    return [
        {
            "question": sentence(generator, 2, 5),
            "choices": [sentence(generator, 1, 5) for _ in range(3)],
            "answer": int(generator.integers(3)),
        }
        for _ in range(count)
    ]


def test_choices_by_a_head(tmp_path):
    save_bert(tmp_path / "model", "MultipleChoice")
    rows = choice_rows()
    model, tokenizer = loaded("AutoModelForMultipleChoice", tmp_path / "model")
    right = 0
    for row in rows:
        texts = [row["question"]] * 3
        tokens = tokenizer(texts, row["choices"], padding=True, return_tensors="pt")
        logits = model(**{name: value[None] for name, value in tokens.items()}).logits
        right += int(logits.argmax()) == row["answer"]
    score = scored(tmp_path / "model", write_lines(tmp_path / "race.jsonl", rows))
    assert 0 < right < len(rows)
    assert score.score == right / len(rows)


def test_choices_by_a_language_model(tmp_path):
    save_gpt2(tmp_path / "model")
    rows = choice_rows()
    model, tokenizer = loaded("AutoModelForCausalLM", tmp_path / "model")
    right = 0
    for row in rows:
        likely = []
        before = len(tokenizer(row["question"])["input_ids"])
        for choice in row["choices"]:
            ids = tokenizer(f"{row['question']} {choice}", return_tensors="pt")["input_ids"]
            logs = model(input_ids=ids).logits[0].log_softmax(-1)
            positions = range(before, ids.shape[1])
            likely.append(sum(float(logs[at - 1, ids[0, at]]) for at in positions))
        right += int(np.argmax(likely)) == row["answer"]
    rows = [{**row, "answer": "ABC"[row["answer"]]} for row in rows]
    score = scored(tmp_path / "model", write_lines(tmp_path / "arc.jsonl", rows))
    assert 0 < right < len(rows)
    assert score.score == right / len(rows)


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_words(tmp_path, metric: str):
    names = {0: "O", 1: "X", 2: "Y"}
    save_bert(tmp_path / "model", "TokenClassification", id2label=names)
    generator = np.random.default_rng(5)
    rows = []
    for _ in range(20):
        words = sentence(generator).split()
        rows.append({"tokens": words, "ner_tags": generator.integers(0, 3, len(words)).tolist()})
    model, tokenizer = loaded("AutoModelForTokenClassification", tmp_path / "model")
    answers = []
    targets = []
    for row in rows:  # each word is one token, after [CLS]
        tokens = tokenizer(row["tokens"], is_split_into_words=True, return_tensors="pt")
        answers += model(**tokens).logits[0].argmax(-1)[1:-1].tolist()
        targets += row["ner_tags"]
    if metric == "f1":
        expected = f1_score(targets, answers, labels=[1, 2], average="micro")
    else:
        expected = np.mean(np.array(answers) == targets)
    score = scored(tmp_path / "model", write_lines(tmp_path / "ner.jsonl", rows), metric=metric)
    assert 0 < expected < 1
    assert score.score == pytest.approx(expected, abs=1e-12)


def test_written_texts(tmp_path):
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=17, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=3, initializer_factor=6.0,
    )  # fmt: skip
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path / "model")
    save_tokenizer(tmp_path / "model")
    model, tokenizer = loaded("T5ForConditionalGeneration", tmp_path / "model")

    def answer(text: str, most: int) -> str:
        ids = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        written = model.generate(**ids, max_new_tokens=most, do_sample=False, num_beams=1)
        return tokenizer.decode(written[0], skip_special_tokens=True)

    generator = np.random.default_rng(6)
    rows = []
    for number in range(12):
        text = sentence(generator)
        rows.append({"input": text, "target": answer(text, 14) if number % 3 else "cat sat"})
    longest = max(len(tokenizer(row["target"])["input_ids"]) for row in rows)
    right = 0
    for row in rows:
        right += answer(row["input"], longest + 8).strip() == row["target"]
    score = scored(tmp_path / "model", write_lines(tmp_path / "sums.jsonl", rows))
    assert score.metric == "exact-match"
    assert score.score == right / 12


def test_pictures_and_their_names(tmp_path):
    torch.manual_seed(0)
    text = {
        "vocab_size": 17, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
        "num_attention_heads": 2, "max_position_embeddings": 24, "eos_token_id": 3,
        "bos_token_id": 2, "pad_token_id": 0,
    }  # fmt: skip
    vision = {
        "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "image_size": 8,
        "num_attention_heads": 2, "patch_size": 4,
    }  # fmt: skip
    config = transformers.CLIPConfig(
        text_config=text, vision_config=vision, projection_dim=8, initializer_factor=20.0
    )
    transformers.CLIPModel(config).save_pretrained(tmp_path / "model")
    save_tokenizer(tmp_path / "model")
    transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 8}, crop_size={"height": 8, "width": 8}
    ).save_pretrained(tmp_path / "model")
    files = save_pictures(tmp_path / "data", LABELS, 8)
    model, tokenizer = loaded("CLIPModel", tmp_path / "model")
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "model")
    right = 0
    for file in files:
        pixels = processor(Image.open(file), return_tensors="pt")
        scores = []
        for label in LABELS:
            tokens = tokenizer(f"the {label}", return_tensors="pt", return_token_type_ids=False)
            scores.append(float(model(**tokens, **pixels).logits_per_image))
        right += LABELS[int(np.argmax(scores))] == file.parent.name
    score = scored(tmp_path / "model", tmp_path / "data", prompt="the {}")
    assert 0 < right < len(files)
    assert score.score == right / len(files)
