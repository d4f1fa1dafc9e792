"""A GGUF file of an exported folder, from the export dialog."""

import json
from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication

from ace_gui.engine.contract.events import Exported, JobCancelled, JobDone, JobFailed, JobProgress
from ace_gui.engine.contract.jobs import GgufJob
from ace_gui.engine.job_steps import steps_of
from ace_gui.errors import OutputError
from ace_gui.gui.dialogs.output_dialogs import ExportDialog, load_snippet
from ace_gui.paths import llama_cpp_file
from tests.gui.fakes import COLA, SST2, finished_merge, load, started
from tests.helpers.llama_cpp import llama_folder
from tests.helpers.scored_models import TEMPLATE, save_chat_model


@pytest.fixture(autouse=True)
def _none_remembered():
    llama_cpp_file().unlink(missing_ok=True)
    yield
    llama_cpp_file().unlink(missing_ok=True)


def exported(window, worker, folder: Path) -> ExportDialog:
    """The dialog after an export into this folder."""
    window.opener.open_paths([Path("recipe.yaml")])
    load(worker, COLA, SST2)
    worker.say(JobDone())
    window.merge.start()
    worker.say(started(), finished_merge(), JobDone())
    worker.say(JobDone())
    window.dialogs.open_export()
    dialog = window.dialogs.export
    dialog.folder.setText(str(folder.with_name("new")))
    dialog.export_button.click()
    worker.say(Exported(folder=folder, files=(), bytes=1), JobDone())
    return dialog


@pytest.fixture
def dialog(window, worker, tmp_path) -> ExportDialog:
    save_chat_model(tmp_path / "model")
    return exported(window, worker, tmp_path / "model")


def test_the_journey(dialog, worker, tmp_path):
    panel = dialog.gguf
    assert panel.isVisible()
    assert not panel.run.isEnabled()
    assert "llama.cpp" in panel.run.toolTip()
    assert panel.need.isVisible(), "what is needed can be read without a tooltip"
    assert not panel.place.text()
    llama = llama_folder(tmp_path / "llama")
    panel.choose(llama)
    assert not panel.need.isVisible()
    assert panel.place.full_text == str(llama)
    panel.choice.choose("q8_0")
    assert panel.run.isEnabled()
    panel.run.click()
    number = worker.newest(GgufJob)
    job = worker.jobs[number]
    assert job == GgufJob(folder=tmp_path / "model", kind="q8_0", llama_cpp=llama)
    worker.say(JobProgress(done=37, total=100), job=number)
    assert not panel.commands.isVisible()
    worker.say(*steps_of(job, None), JobDone(), job=number)
    assert (tmp_path / "model-q8_0.gguf").is_file()
    assert "ollama create" in panel.commands.toPlainText()
    panel.copy.click()
    assert QGuiApplication.clipboard().text() == panel.commands.toPlainText()


@pytest.mark.parametrize("template", [TEMPLATE, None])
def test_the_lines_in_the_dialog_load_the_model_and_ask_it(dialog, tmp_path, template, capsys):
    folder = tmp_path / "model"
    save_chat_model(folder, template=template)
    lines = load_snippet(folder).replace("max_new_tokens=100", "max_new_tokens=3")
    assert dialog.snippet.toPlainText().startswith(lines.splitlines()[0])
    exec(lines, {})
    assert capsys.readouterr().out.strip()


def test_the_folder_is_remembered(dialog, window, worker, tmp_path):
    llama = llama_folder(tmp_path / "llama")
    dialog.gguf.choose(llama)
    dialog.gguf.run.click()
    number = worker.newest(GgufJob)
    worker.say(*steps_of(worker.jobs[number], None), JobDone(), job=number)
    dialog.gguf.offer(tmp_path / "model")
    assert dialog.gguf.llama == llama


def test_an_error_is_shown_and_the_form_stays(dialog, worker, tmp_path):
    dialog.gguf.choose(tmp_path)
    dialog.gguf.run.click()
    error = OutputError("This llama.cpp does not know the model's tokenizer; get a newer one.")
    worker.say(JobFailed(error=error), job=worker.newest(GgufJob))
    assert dialog.gguf.problem.text() == error.sentence
    assert dialog.gguf.run.isEnabled()


def test_closing_while_it_is_made_stops_it_first(dialog, worker, tmp_path):
    dialog.gguf.choose(tmp_path)
    dialog.gguf.run.click()
    number = worker.newest(GgufJob)
    dialog.reject()
    assert dialog.isVisible()
    assert number in worker.cancelled
    worker.say(JobCancelled(), job=number)
    dialog.reject()
    assert not dialog.isVisible()


def test_other_models_have_no_such_offer(window, worker, tmp_path):
    (tmp_path / "model").mkdir()
    config = {"architectures": ["BertForSequenceClassification"], "model_type": "bert"}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    dialog = exported(window, worker, tmp_path / "model")
    assert not dialog.gguf.isVisible()
