"""GGUF files by the person's llama.cpp: what is asked of it, and what is left when it fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ace_gui
from ace_gui.engine.contract.events import GgufWritten, JobProgress
from ace_gui.engine.contract.jobs import GgufJob
from ace_gui.engine.modules.stored import MANIFEST, MODULES
from ace_gui.engine.output.gguf_file import CONVERT, CONVERT_ADAPTER, QUANTISED
from ace_gui.engine.service import run
from ace_gui.errors import OutputError, WorkbenchError
from ace_gui.paths import Sample
from tests.helpers.command import ace_gui as command
from tests.helpers.llama_cpp import llama_folder, say
from tests.helpers.merges import files


@pytest.fixture
def llama(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return llama_folder(tmp_path / "llama.cpp")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "chat"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "adapter"
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    (folder / "adapter_model.safetensors").write_bytes(b"")
    return folder


def called(llama: Path) -> list[str]:
    return json.loads((llama / "called.json").read_text())


def made(folder: Path, llama: Path | None, **fields: Any) -> list[Any]:
    return list(run(GgufJob(folder=folder, llama_cpp=llama, **fields)))


def test_a_model_is_converted_with_progress_and_how_to_run_it(model: Path, llama: Path) -> None:
    before = files(model)
    *progress, written = made(model, llama, kind="q8_0")
    file = model.parent / "chat-q8_0.gguf"
    assert isinstance(written, GgufWritten)
    assert written.files == (file, file.with_suffix(".Modelfile"))
    assert (file.read_bytes()[:4], written.bytes) == (b"GGUF", 104)
    assert written.files[1].read_text().startswith("FROM ./chat-q8_0.gguf\n")
    assert {event.done for event in progress if isinstance(event, JobProgress)} >= {0, 37, 100}
    script, folder, *options = called(llama)
    assert (script, folder) == (CONVERT, str(model))
    assert options[0] == "--outfile"
    assert options[2:] == ["--outtype", "q8_0"]
    assert any(line.startswith("ollama create chat-q8_0 -f ") for line in written.commands)
    assert files(model) == before
    assert {path.name for path in model.parent.iterdir()} == {
        "chat",
        "chat-q8_0.gguf",
        "chat-q8_0.Modelfile",
    }


def test_an_adapter_has_its_own_converter_and_name(
    adapter: Path, llama: Path, tmp_path: Path
) -> None:
    written = made(adapter, llama, kind="f16", base=tmp_path / "base")[-1]
    assert written.files == (adapter.parent / "adapter-lora.gguf",)
    script, _, *options = called(llama)
    assert script == CONVERT_ADAPTER
    assert options[2:] == ["--outtype", "f16", "--base", str(tmp_path / "base")]
    assert "--lora" in written.commands[0]
    with pytest.raises(OutputError, match="An adapter is written as"):
        made(adapter, llama, kind="q4_k_m")


def test_an_adapter_gets_a_type_that_its_converter_can_write(adapter: Path, llama: Path) -> None:
    """llama.cpp's ``auto`` ends with an error for an adapter of float32."""
    made(adapter, llama, kind="auto")
    options = called(llama)
    assert options[options.index("--outtype") + 1] == "f16"


def test_the_folder_of_llama_cpp_is_named_once(model: Path, llama: Path) -> None:
    with pytest.raises(OutputError, match="--llama-cpp DIR"):
        made(model, None)
    made(model, llama)
    (model.parent / "chat.gguf").unlink()
    assert ace_gui.to_gguf(model).files[0].name == "chat.gguf"


FAILURES = {
    "ModuleNotFoundError: No module named 'sentencepiece'": "-m pip install sentencepiece",
    "NotImplementedError: BPE pre-tokenizer was not recognized - update get_vocab_base_pre()": (
        "get a newer one"
    ),
    "ERROR:hf-to-gguf:Model NewForCausalLM is not supported": "does not know NewForCausalLM",
    "KeyError: 'rope'": "could not convert the folder: KeyError: 'rope'",
}


@pytest.mark.parametrize("line", FAILURES)
def test_a_failure_is_one_sentence_and_leaves_nothing(model: Path, llama: Path, line: str) -> None:
    say(llama, line)
    with pytest.raises(OutputError) as raised:
        made(model, llama)
    assert FAILURES[line] in raised.value.sentence
    assert list(model.parent.iterdir()) == [model]


def test_a_stopped_conversion_ends_its_program_and_leaves_nothing(model: Path, llama: Path) -> None:
    say(llama, "slow")
    steps = run(GgufJob(folder=model, llama_cpp=llama))
    while not (llama / "running").exists():
        next(steps)
    steps.close()
    assert list(model.parent.iterdir()) == [model]


def test_an_existing_file_stays_unless_it_may_be_replaced(model: Path, llama: Path) -> None:
    file = model.parent / "chat.gguf"
    file.write_bytes(b"GGUF mine")
    with pytest.raises(OutputError, match="exists"):
        made(model, llama)
    assert file.read_bytes() == b"GGUF mine"
    made(model, llama, overwrite=True)
    assert len(file.read_bytes()) == 104


def break_class(model: Path) -> None:
    (model / "config.json").write_text(json.dumps({"architectures": ["BertModel"]}))


def add_modules(model: Path) -> None:
    for name in (MANIFEST, MODULES):
        (model / name).touch()


REFUSED = {
    "holds BertModel": break_class,
    "no tokenizer": lambda model: (model / "tokenizer.json").unlink(),
    "parts for single experts": lambda model: (model / "heads").mkdir(),
    "for single experts, which": add_modules,
    "no readable config.json": lambda model: (model / "config.json").write_text("{"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_llama_cpp_cannot_read_is_refused_before_it_starts(
    model: Path, llama: Path, words: str
) -> None:
    REFUSED[words](model)
    with pytest.raises(WorkbenchError, match=words):
        made(model, llama)
    assert not (llama / "called.json").exists()


@pytest.mark.parametrize("kind", ["q4", "", "Q8_0 "])
def test_unknown_types_are_refused(model: Path, llama: Path, kind: str) -> None:
    with pytest.raises(OutputError, match="There is no GGUF type"):
        made(model, llama, kind=kind)


@pytest.mark.parametrize("kind", QUANTISED)
def test_smaller_types_need_the_program_that_makes_them(
    model: Path, llama: Path, kind: str
) -> None:
    with pytest.raises(OutputError, match="llama-quantize, which is not built"):
        made(model, llama, kind=kind)
    program = llama / "build" / "bin" / "llama-quantize"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "GGUF small %s" "$3" > "$2"\n')
    program.chmod(0o755)
    made(model, llama, kind=kind)
    file = model.parent / f"chat-{kind}.gguf"
    assert file.read_text() == f"GGUF small {kind.upper()}"
    assert called(llama)[-1] == "auto"
    assert len(list(model.parent.iterdir())) == 3


def test_another_folder_is_not_llama_cpp(model: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"it has no .convert_hf_to_gguf.py"):
        made(model, tmp_path)


def test_after_a_merge_the_folder_stays_if_the_conversion_fails(
    llama: Path, tmp_path: Path
) -> None:
    out = tmp_path / "merged"
    done = command(
        *("merge", Sample.TEXT.recipe, "--out", out, "--gguf", "f16", "--llama-cpp", llama)
    )
    assert done.returncode == 1  # the sample has heads of its own
    assert "language models" in done.stderr.replace("\n", " ")
    assert (out / "config.json").exists()
    assert not list(tmp_path.glob("*.gguf"))


def test_without_llama_cpp_no_merge_begins(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    out = tmp_path / "merged"
    done = command("merge", Sample.TEXT.recipe, "--out", out, "--gguf", "q8_0")
    assert done.returncode == 1
    assert "--llama-cpp DIR" in done.stderr.replace("\n", " ")
    assert not out.exists()
