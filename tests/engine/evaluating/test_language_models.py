"""Language models as people use them, against transformers asked directly."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import ace_gui
from ace_gui.architecture.transformers_library import LoadReport, load_pretrained
from ace_gui.engine.contract.jobs import TryJob
from ace_gui.engine.contract.scored import TaskScore, notes
from ace_gui.engine.contract.tried import Tried, TriedText
from ace_gui.engine.evaluating import loaded_models, metrics
from ace_gui.engine.evaluating.examples import read_task
from ace_gui.engine.evaluating.loaded_models import Loaded
from ace_gui.engine.evaluating.metrics import is_right, overlap
from ace_gui.engine.evaluating.subjects import loading_of
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.runner import Runner
from ace_gui.errors import RecipeError, ResourceError, TaskError
from ace_gui.recipe import ModelEntry, Recipe
from ace_gui.recipe.recipe_file import dump_recipe, load_recipe, load_tasks
from ace_gui.recipe.values import Chat, Metric, Task
from ace_gui.steps import result_of
from tests.helpers.scored_models import save_chat_model, save_gpt2, sentence

ENDS = [7, 12]
"""End tokens that some answers reach and others do not."""


@pytest.fixture(scope="module")
def chat(tmp_path_factory) -> Path:
    """An instruct model, and questions of different lengths."""
    folder = tmp_path_factory.mktemp("chat")
    save_chat_model(folder / "model", ends=ENDS)
    generator = np.random.default_rng(0)
    rows = [{"text": sentence(generator, 1, 12), "label": "cat"} for _ in range(20)]
    write(folder / "questions.jsonl", rows)
    return folder


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def answers_of(folder: Path, task: Task) -> list[Any]:
    """The answers of a model in a folder, each with whether it was cut."""
    loading = loading_of(folder, None)
    data = result_of(read_task(task, loading.config, seed=0))
    *_, answers = loaded_models.answered(Loaded(torch.device("cpu")).evaluator(data, loading))
    assert isinstance(answers, list)
    return answers


def written(folder: Path, messages: list[dict[str, str]], most: int) -> list[int]:
    """The tokens that transformers generates in a chat, the end token included."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")
    out = model.generate(**ids, max_new_tokens=most, do_sample=False, temperature=None, top_p=None)
    return out[0, ids["input_ids"].shape[1] :].tolist()


@pytest.mark.parametrize("together", [1, 8])
@pytest.mark.parametrize("system", [None, "the good dog"])
def test_answers_are_those_of_transformers(
    chat: Path, together: int, system: str | None, monkeypatch
):
    monkeypatch.setattr(loaded_models, "MOST", together)
    task = Task(
        data=chat / "questions.jsonl", metric=Metric.CONTAINS, system=system, max_new_tokens=9
    )
    answers = answers_of(chat / "model", task)
    tokenizer = transformers.AutoTokenizer.from_pretrained(chat / "model")
    rows = [json.loads(line) for line in (chat / "questions.jsonl").read_text().splitlines()]
    for (text, was_cut), row in zip(answers, rows, strict=True):
        messages = [{"role": "user", "content": row["text"]}]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        tokens = written(chat / "model", messages, 9)
        assert was_cut == (tokens[-1] not in ENDS)
        word_tokens = [token for token in tokens if token not in ENDS]
        assert text == tokenizer.decode(word_tokens, skip_special_tokens=True)
    assert 0 < sum(was_cut for _, was_cut in answers) < len(answers)


def test_answers_of_a_recurrent_model_do_not_depend_on_the_batch(chat: Path, tmp_path, monkeypatch):
    config = transformers.MambaConfig(
        vocab_size=21, hidden_size=16, state_size=4, num_hidden_layers=2, initializer_range=0.5
    )
    save_chat_model(tmp_path / "model", config=config, ends=ENDS)
    task = Task(data=chat / "questions.jsonl", metric=Metric.CONTAINS, max_new_tokens=6)
    together = answers_of(tmp_path / "model", task)
    monkeypatch.setattr(loaded_models, "MOST", 1)
    assert answers_of(tmp_path / "model", task) == together


@pytest.mark.parametrize("ends", [[7, 12], 12])
def test_ends_are_a_number_or_a_list(tmp_path, ends: int | list[int]):
    save_chat_model(tmp_path / "model", ends=ends)
    data = write(tmp_path / "a.jsonl", [{"text": "the cat", "label": "cat"}] * 2)
    ((text, was_cut), _) = answers_of(tmp_path / "model", Task(data=data, metric=Metric.CONTAINS))
    tokens = written(tmp_path / "model", [{"role": "user", "content": "the cat"}], 256)
    assert was_cut == (len(tokens) == 256)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    text = text.split()
    assert text == tokenizer.decode(tokens, skip_special_tokens=True).split()[: len(text)]


def test_ends_are_known_where_tensors_come_from_elsewhere(tmp_path):
    model = save_chat_model(tmp_path / "model", ends=ENDS)
    loaded, report = load_pretrained(
        tmp_path / "model", model.config.to_dict(), dict(model.state_dict())
    )
    assert report == LoadReport()
    assert loaded.generation_config.eos_token_id == ENDS


def test_a_long_answer_is_cut_and_counted(chat: Path):
    data = chat / "questions.jsonl"
    how: dict[str, Any] = {"data": data, "metric": "contains", "name": "q"}
    scores = {
        most: ace_gui.evaluate(None, [chat / "model"], [{**how, **more}], device="cpu").scores[0]
        for most, more in ((256, {}), (3, {"max_new_tokens": 3}))
    }
    texts = [json.loads(line)["text"] for line in data.read_text().splitlines()]
    messages = [[{"role": "user", "content": text}] for text in texts]
    expected = [written(chat / "model", message, 256) for message in messages]
    for most, score in scores.items():
        cut = sum(not set(tokens[:most]) & set(ENDS) for tokens in expected)
        assert score.cut == cut
        assert score.chat is True
        assert score.record().get("cut", 0) == cut
    assert scores[3].cut > scores[256].cut
    (template_note, cut) = notes([scores[3]])
    assert "chat template" in template_note
    assert f"{scores[3].cut} of 20" in cut


def test_stop_ends_an_answer_and_is_not_in_it(chat: Path):
    task = Task(data=chat / "questions.jsonl", metric=Metric.CONTAINS, max_new_tokens=12)
    plain = answers_of(chat / "model", task)
    stop = next(word for text, _ in plain for word in text.split()[1:])
    stopped = answers_of(chat / "model", replace(task, stop=(f" {stop}",)))
    for (long, was_cut), (short, short_cut) in zip(plain, stopped, strict=True):
        head, hit, _ = long.partition(f" {stop}")
        assert short == head
        assert short_cut == (was_cut and not hit)
    assert plain != stopped


@pytest.mark.parametrize("mode", ["auto", "on", "off"])
@pytest.mark.parametrize("has_template", [True, False])
def test_the_template_is_used_where_there_is_one(tmp_path, mode: str, has_template: bool):
    model = save_chat_model(tmp_path / "model", **({} if has_template else {"template": None}))
    data = write(tmp_path / "a.jsonl", [{"text": "the cat", "label": "on"}])
    task = {"data": data, "metric": "exact-match", "system": "good", "chat": mode}
    if mode == "on" and not has_template:
        with pytest.raises(TaskError, match="no chat template"):
            ace_gui.evaluate(None, [tmp_path / "model"], [task], device="cpu")
        return
    (score,) = ace_gui.evaluate(None, [tmp_path / "model"], [task], device="cpu").scores
    assert score.chat is (has_template and mode != "off")
    if not score.chat:  # plain: the longest right answer and 8 tokens more
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
        ids = tokenizer("good\n\nthe cat", return_tensors="pt", return_token_type_ids=False)
        out = model.generate(**ids, max_new_tokens=9, do_sample=False, temperature=None, top_p=None)
        how = {"metric": Metric.EXACT_MATCH, "system": "good", "chat": Chat(mode)}
        ((text, _),) = answers_of(tmp_path / "model", Task(data=data, **how))
        tokens = [token for token in out[0, 3:].tolist() if token != 7]
        assert text == tokenizer.decode(tokens, skip_special_tokens=True)


@pytest.mark.parametrize("text", ["on", "off", "auto", "'on'", "'off'"])
def test_chat_in_a_recipe(tmp_path, text: str):
    """YAML reads on and off as true and false."""
    (tmp_path / "tasks.yaml").write_text(f"tasks:\n- data: a.jsonl\n  chat: {text}\n")
    (task,) = load_tasks(tmp_path / "tasks.yaml")
    assert task.chat == Chat(text.strip("'"))
    recipe = Recipe(base_model=tmp_path, models=(ModelEntry(model=tmp_path / "e"),), tasks=(task,))
    (tmp_path / "again.yaml").write_text(dump_recipe(recipe, tmp_path))
    assert load_recipe(tmp_path / "again.yaml").tasks == (task,)


@pytest.mark.parametrize("pattern", ["(", "no group"])
def test_a_pattern_has_a_group(tmp_path, pattern: str):
    (tmp_path / "a.yaml").write_text(json.dumps([{"data": "a", "pattern": pattern}]))
    with pytest.raises(RecipeError, match="pattern"):
        load_tasks(tmp_path / "a.yaml")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"prompt": "no place"}, "{text}"),
        ({"metric": "regex"}, "needs a pattern"),
        ({"metric": "contains", "pattern": "(a)"}, "no use for pattern"),
        ({"kind": "causal-lm", "system": "you"}, "no use for system"),
        ({"kind": "causal-lm", "max_new_tokens": 5}, "no use for max_new_tokens"),
        ({"metric": "last-number"}, "no number"),
        ({"metric": "choice"}, "not a letter"),
    ],
)
def test_settings_that_do_not_fit(chat: Path, setting: dict[str, Any], words: str):
    task = {"data": chat / "questions.jsonl", "columns": {"label": "label"}, **setting}
    if "kind" in setting:
        del task["columns"]
    with pytest.raises(TaskError, match=words):
        ace_gui.evaluate(None, [chat / "model"], [task], device="cpu")


@pytest.mark.parametrize(
    ("metric", "answer", "target", "right"),
    [
        ("exact-match", " The  Cat.\n", "the cat", True),
        ("exact-match", "the cat sat", "the cat", False),
        ("contains", "So it is the Cat, I think", "the cat", True),
        ("contains", "It is 42.", "4", False),
        ("contains", "It is 42.", "", False),
        ("contains", "ﬁne", "fine", True),
        ("last-number", "3 and 4 make 7; so 42.0", "42", True),
        ("last-number", "about 1,000 in all.", "1000", True),
        ("last-number", "it is −5.", "-5", True),
        ("last-number", "10-5", "5", True),
        ("last-number", "it is 42, says w14", "42", True),
        ("last-number", "7 by v1.5", "7", True),
        ("last-number", "9 in file_3", "9", True),
        ("last-number", "8 and é5 and ж6", "8", True),
        ("last-number", "答案是42", "42", True),
        ("last-number", "5kg", "5", True),
        ("last-number", "costs $12.50.", "12.5", True),
        ("last-number", "(.5)", "0.5", True),
        ("last-number", "$ .50", "0.5", True),
        ("last-number", "1e3", "1000", True),
        ("last-number", "#### 41", "reasons: 6 * 7 = 42 #### 42", False),
        ("last-number", "none", "42", False),
        ("last-number", "1,0000", "0", True),
        ("regex", "Answer: B or C", "b", True),
        ("regex", "B", "B", False),
        ("choice", "The answer is (B).", "B", True),
        ("choice", "b) Paris", "B", True),
        ("choice", "I say C", "C", True),
        ("choice", "a cat, so D", "D", True),
        ("choice", "Because", "B", False),
        ("choice", "E", "B", False),
    ],
)
def test_whether_an_answer_is_right(metric: str, answer: str, target: str, right: bool):
    how = {"letters": "ABCD", "pattern": r"Answer: (\w)"}
    assert is_right(Metric(metric), answer, target, **how) == right


@pytest.mark.parametrize("metric", ["rouge-l", "chrf"])
def test_overlap_needs_a_library(chat: Path, metric: str, monkeypatch):
    monkeypatch.setattr(metrics, "find_spec", lambda _: None)
    task = {"data": chat / "questions.jsonl", "metric": metric}
    with pytest.raises(ResourceError, match="pip install"):
        ace_gui.evaluate(None, [chat / "model"], [task], device="cpu")


@pytest.mark.parametrize("metric", ["rouge-l", "chrf"])
def test_overlap_of_answers(chat: Path, metric: str):
    task = {"data": chat / "questions.jsonl", "metric": metric, "max_new_tokens": 6}
    (score,) = ace_gui.evaluate(None, [chat / "model"], [task], device="cpu").scores
    answers = answers_of(chat / "model", Task(**{**task, "metric": Metric(metric)}))
    expected = overlap(Metric(metric), [text for text, _ in answers], ["cat"] * len(answers))
    assert score.score == expected.score
    assert score.each_N.tolist() == expected.each_N.tolist()
    assert 0 < score.score < 1


@pytest.mark.parametrize(
    ("metric", "answer", "target", "expected"),
    [
        # Google's rouge-score: the longest common subsequence of lower-case words.
        ("rouge-l", "the cat sat on the mat", "the cat was on the mat", 5 / 6),
        ("rouge-l", "The CAT, running!", "the cat runs", 2 / 3),
        ("rouge-l", "mat the cat", "cat", 1 / 2),
        ("rouge-l", "dog", "cat", 0.0),
        ("rouge-l", "", "cat", 0.0),
        # F2 of the mean shares of common n-grams of letters, for each n that both texts have:
        # 3/4, 2/3 and 1/2 of those of "cats" are in "cat".
        ("chrf", "the cat", "the cat", 1.0),
        ("chrf", "cat", "cats", 5 * (23 / 36) / (4 + 23 / 36)),
        ("chrf", "cats", "cat", 5 * (23 / 36) / (4 * 23 / 36 + 1)),
        ("chrf", "dog", "cat", 0.0),
        ("chrf", "", "cat", 0.0),
    ],
)
def test_overlap_has_the_published_values(metric: str, answer: str, target: str, expected: float):
    overlaps = overlap(Metric(metric), [answer, target], [target, target])
    assert overlaps.each_N.tolist() == pytest.approx([1 - expected, 0.0], abs=1e-6)
    assert overlaps.score == pytest.approx((expected + 1) / 2, abs=1e-6)


def test_choices_are_listed_and_answered_by_letter(tmp_path):
    save_chat_model(tmp_path / "model", ends=ENDS)
    rows = [
        {"q": "the cat", "options": ["on", "under"], "answer": answer}
        for answer in (0, "A", "on", "1")
    ]
    task = Task(
        data=write(tmp_path / "a.jsonl", rows),
        metric=Metric.CHOICE,
        columns={"text": "q", "label": "answer", "choices": "options"},
    )
    loading = loading_of(tmp_path / "model", None)
    data = result_of(read_task(task, loading.config, seed=0))
    evaluator = Loaded(torch.device("cpu")).evaluator(data, loading)
    assert evaluator.targets(data, {}) == ["A", "A", "A", "B"]
    (piece,) = evaluator.pieces(data.examples[0])
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    message = {"role": "user", "content": "the cat\nA. on\nB. under"}
    expected = tokenizer.apply_chat_template([message], add_generation_prompt=True)["input_ids"]
    assert piece.inputs["input_ids"].tolist() == expected
    answers = [("it is A", False), ("B", False), ("(a)", False), ("b.", True)]
    assert evaluator.judge(data, answers, evaluator.targets(data, {}), ()).each_N.tolist() == [
        1,
        0,
        1,
        1,
    ]
    assert evaluator.cut(answers).examples == 1


@torch.no_grad()
def test_choices_follow_the_template(tmp_path):
    save_chat_model(tmp_path / "model")
    generator = np.random.default_rng(4)
    rows = [
        {
            "question": sentence(generator, 2, 5),
            "choices": [sentence(generator, 1, 5) for _ in range(3)],
            "answer": int(generator.integers(3)),
        }
        for _ in range(15)
    ]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model").eval()
    right = []
    for row in rows:
        message = [{"role": "user", "content": f"say: {row['question']}"}]
        before = tokenizer.apply_chat_template(message, add_generation_prompt=True)["input_ids"]
        likely = []
        for choice in row["choices"]:
            ids = tokenizer(choice)["input_ids"]
            logs = model(input_ids=torch.tensor([before + ids])).logits[0].log_softmax(-1)
            pairs = enumerate(ids, len(before))
            likely.append(sum(float(logs[at - 1, token]) for at, token in pairs))
        right.append(int(np.argmax(likely)) == row["answer"])
    task = {"data": write(tmp_path / "a.jsonl", rows), "prompt": "say: {text}"}
    (score,) = ace_gui.evaluate(None, [tmp_path / "model"], [task], device="cpu").scores
    assert score.each_N.tolist() == right
    assert score.chat is True


def test_a_prompt_longer_than_the_model_is_cut_at_its_beginning(tmp_path):
    """GPT-2 with 12 positions: half for the answer, half for the end of the prompt."""
    save_gpt2(tmp_path / "model")
    rows = [{"text": "the cat sat on the mat and ran under a tree of good", "label": "dog"}]
    task = Task(data=write(tmp_path / "a.jsonl", rows), metric=Metric.CONTAINS)
    ((text, was_cut),) = answers_of(tmp_path / "model", task)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    model = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "model").eval()
    ids = tokenizer(rows[0]["text"], return_tensors="pt")["input_ids"][:, -6:]
    out = model.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=3)
    assert was_cut
    assert text == tokenizer.decode(out[0, 6:], skip_special_tokens=True)


def test_scores_with_and_without_a_template_are_named(tmp_path):
    save_chat_model(tmp_path / "base", template=None)
    save_chat_model(tmp_path / "expert", seed=1)
    data = write(tmp_path / "a.jsonl", [{"text": "the cat", "label": "on"}] * 3)
    recipe = {
        "base_model": tmp_path / "base",
        "models": [{"model": tmp_path / "expert"}],
        "tasks": [{"data": data, "metric": "contains", "expert": "expert"}],
    }
    scores = ace_gui.evaluate(recipe, device="cpu").scores
    assert {score.model: score.chat for score in scores} == {"base": False, "expert": True}
    said = " ".join(notes(scores))
    assert "expert got the chat template" in said
    assert "base the plain prompt" in said
    again = ace_gui.evaluate(recipe, device="cpu").scores
    assert [score.record() for score in again] == [score.record() for score in scores]


def test_progress_has_tokens_a_second(chat: Path):
    events: list[Any] = []
    task = {"data": chat / "questions.jsonl", "metric": "contains", "max_new_tokens": 4}
    ace_gui.evaluate(None, [chat / "model"], [task], limit=7, device="cpu", progress=events.append)
    speeds = [getattr(event, "tokens_per_second", 0) for event in events]
    assert max(speeds) > 0


def test_a_conversation_continues_with_each_models_own_answers(tmp_path):
    for seed, name in enumerate(("base", "expert")):
        save_chat_model(tmp_path / name, seed=seed, ends=ENDS)
    recipe = Recipe(base_model=tmp_path / "base", models=(ModelEntry(model=tmp_path / "expert"),))
    task = Task(data=Path("expert"), name="expert", expert="expert")
    job = TryJob(recipe=recipe, task=task, text="the cat", most_tokens=6, device="cpu")

    def conversation(job: TryJob) -> dict[str, str]:
        texts: dict[str, str] = {}
        for event in steps_of(job, Runner()):
            if isinstance(event, TriedText):
                texts[event.model] = texts.get(event.model, "") + event.piece
            elif isinstance(event, Tried):
                assert event.chat
                texts.setdefault(event.model, "")
        return texts

    first = conversation(job)
    answers = {name: (text,) for name, text in first.items()}
    second = conversation(replace(job, text="a dog", questions=("the cat",), answers=answers))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "base")
    for name in ("base", "expert"):
        turns = ("the cat", first[name], "a dog")
        roles = ("user", "assistant", "user")
        messages = [{"role": r, "content": c} for r, c in zip(roles, turns, strict=True)]
        for text, until in ((first[name], 1), (second[name], 3)):
            tokens = written(tmp_path / name, messages[:until], 6)
            assert text == tokenizer.decode(tokens, skip_special_tokens=True)
    assert first["base"] != first["expert"]


def test_what_is_cut_of_words_is_counted(tmp_path):
    from tests.helpers.scored_models import save_bert

    save_bert(tmp_path / "model", "TokenClassification", id2label={0: "O", 1: "X"})
    rows = [
        {"tokens": ["cat"] * count, "ner_tags": [0] * count} for count in (3, 22, 23, 40)
    ]  # 24 positions, two of them special
    data = write(tmp_path / "a.jsonl", rows)
    (score,) = ace_gui.evaluate(None, [tmp_path / "model"], [{"data": data}], device="cpu").scores
    assert (score.cut, score.cut_words) == (2, 1 + 18)
    record = score.record()
    assert (record["cut"], record["cut_words"]) == (2, 19)
    (said,) = notes([score])
    assert "2 of 4" in said
    assert "19 words" in said
    uncut = TaskScore(model="m", task="t", metric="accuracy", score=1.0, n=4, standard_error=0.1)
    assert "cut" not in uncut.record()
    assert notes([uncut]) == ()
