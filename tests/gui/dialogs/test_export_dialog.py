import json
import os
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtWidgets import QLabel

from ace_gui.engine.contract.events import Exported, JobCancelled, JobDone, JobFailed, PlanReady
from ace_gui.engine.contract.jobs import EnergyByRankJob, ExportJob, MergeJob
from ace_gui.engine.contract.libraries import commands_of
from ace_gui.engine.contract.plan import Disposition
from ace_gui.engine.job_steps import steps_of
from ace_gui.engine.planning.prepare import prepare
from ace_gui.errors import OutputError
from ace_gui.gui.dialogs.output_dialogs import ExportDialog, load_snippet
from ace_gui.gui.state.output_size import check_folder, output_size
from ace_gui.output_files import staging_folder
from ace_gui.recipe.output_forms import ModelExport, Output
from tests.gui.fakes import COLA, SST2, finished_merge, load, plan, recipe, row, started
from tests.helpers.merges import merged_tensors
from tests.helpers.models import gpt2_family
from tests.helpers.recipes import recipe_of


def test_only_folders_that_the_engine_would_take_are_approved(tmp_path, monkeypatch):
    file = tmp_path / "file"
    model = tmp_path / "model"
    link = tmp_path / "link"
    assert check_folder(str(tmp_path)).good
    assert check_folder(str(tmp_path / "new" / "deeper")).good
    file.write_text("x")
    model.mkdir()
    link.symlink_to(model, target_is_directory=True)
    stage = staging_folder(tmp_path / "merged")
    stage.mkdir()
    (stage / "someone's").write_text("x")
    for text, reason in [
        ("", "Choose a folder"),
        ("relative/path", "full path"),
        (str(tmp_path), "not empty"),
        (str(file), "is not a folder"),
        (str(file / "below"), "is not a folder"),
        ("/proc", "mount point of a disk"),
        (str(tmp_path / "in\0valid"), "not a valid path"),
        (str(tmp_path / ("long" * 99)), "too long"),
        (str(model / "merged"), "inside the model"),
        (str(link / "merged"), "inside the model"),
        (str(tmp_path / "merged"), "was not made by this program"),
    ]:
        verdict = check_folder(text, 0, [model])
        assert not verdict.good, text
        assert reason in verdict.sentence
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # root may anything
    assert "permission" in check_folder(str(tmp_path / "new")).sentence.lower()


def test_the_size_follows_dtype_and_shards():
    rows = (
        row("w", shape=(10, 10)),
        row("ids", shape=(6,), dtype="I64", disposition=Disposition.COPIED),
        row("head", in_base=False),
    )
    made = plan(recipe(COLA), rows=rows)
    assert output_size(made, None, 10_000).bytes == 10 * 10 * 4 + 6 * 8
    halved = output_size(made, "bfloat16", 100)
    assert halved.bytes == 10 * 10 * 2 + 6 * 8
    assert halved.shards == 3


@pytest.mark.parametrize("folder", [Path('/it\'s "here"'), Path("/a/long/path" * 12)])
def test_the_snippet_loads_the_folder_whatever_its_name(folder):
    names: dict[str, object] = {}

    class AutoModel:
        @staticmethod
        def from_pretrained(where: str) -> str:
            return where

    lines = load_snippet(folder).splitlines()
    assert max(map(len, lines)) < 80, "none is cut in the dialog"
    exec("\n".join(lines[1:]), {"AutoModel": AutoModel}, names)
    assert names["model"] == str(folder)


@pytest.mark.parametrize(
    ("architecture", "count"), [("LlamaForCausalLM", 3), ("BertForSequenceClassification", 1)]
)
def test_the_commands_name_the_folder_and_suit_the_model(architecture, count, tmp_path):
    folder = tmp_path / "my merge"
    folder.mkdir()
    config = {"architectures": [architecture], "model_type": "llama"}
    (folder / "config.json").write_text(json.dumps(config))
    commands = [shlex.split(command) for command in commands_of(folder)]
    assert len(commands) == count
    assert commands[0] == ["hf", "upload", "YOUR-NAME/my-merge", str(folder)]
    assert all(str(folder) in words for words in commands)


@pytest.fixture
def dialog(window, worker, qtbot) -> ExportDialog:
    window.opener.open_paths([Path("recipe.yaml")])
    load(worker, COLA, SST2)
    worker.say(JobDone())
    window.merge.start()
    worker.say(started(), finished_merge(), JobDone())
    worker.say(JobDone())
    window.dialogs.open_export()
    return window.dialogs.export


def choose(dialog: ExportDialog, name: str, text: str) -> None:
    dialog.form.fields[name].control.setCurrentText(text)


def test_a_folder_is_proposed_that_is_not_there_yet(dialog, window, worker, tmp_path):
    assert Path(dialog.folder.text()) == Path.home() / "base-ace"
    dialog.folder.setText(str(tmp_path / "out"))
    dialog.export_button.click()
    worker.say(Exported(folder=tmp_path / "out", files=(), bytes=1), JobDone())
    dialog.reject()
    (tmp_path / "base-ace").mkdir()
    window.dialogs.open_export()
    again = window.dialogs.export
    assert Path(again.folder.text()) == tmp_path / "base-ace-2"


def test_the_verdict_is_live_and_holds_the_button(dialog, tmp_path):
    dialog.folder.setText("")
    assert not dialog.export_button.isEnabled()
    dialog.folder.setText(str(tmp_path / "out"))
    assert dialog.export_button.isEnabled()
    quiet = dialog.verdict.palette().color(dialog.verdict.foregroundRole())
    (tmp_path / "x").write_text("x")
    dialog.folder.setText(str(tmp_path))
    assert "not empty" in dialog.verdict.text()
    assert dialog.verdict.palette().color(dialog.verdict.foregroundRole()) != quiet
    assert not dialog.export_button.isEnabled()


def test_a_disk_without_room_is_said_before_the_export(dialog, tmp_path, monkeypatch):
    size = dialog.bytes_needed()
    disk = SimpleNamespace(total=10**9, used=0, free=0)
    disk.free = size
    monkeypatch.setattr("ace_gui.gui.state.output_size.shutil.disk_usage", lambda _: disk)
    dialog.folder.setText(str(tmp_path / "out"))
    assert dialog.export_button.isEnabled()
    choose(dialog, "complete_heads", "a whole model for each")  # needs more
    assert not dialog.export_button.isEnabled()
    assert "are needed" in dialog.verdict.text()
    assert "Choose another disk" in dialog.verdict.text()
    assert dialog.bytes_needed() == 3 * size


def test_an_export_and_its_result(dialog, worker, tmp_path):
    assert all(name in dialog.contents.text() for name in ("model.safetensors", "heads/"))
    assert "for each of these" not in dialog.contents.text()
    choose(dialog, "complete_heads", "a whole model for each")  # only when asked for
    assert "for each of these" in dialog.contents.text()
    folder = tmp_path / "out"
    dialog.folder.setText(str(folder))
    choose(dialog, "dtype", "float16")
    dialog.export_button.click()
    (job,) = worker.jobs_of(ExportJob)
    assert job.folder == folder
    assert job.chosen == ModelExport(dtype="float16", complete_heads=True)
    assert job.chosen.shard_bytes == 5_000_000_000
    worker.say(Exported(folder=folder, files=("a", "b"), bytes=2_000_000), JobDone())
    assert dialog.snippet.toPlainText() == load_snippet(folder)
    assert "2.0 MB" in dialog.outcome.text()
    assert dialog.export_button.isHidden()


def test_the_dialog_grows_for_the_lines_of_a_long_folder(dialog, qtbot):
    dialog.resize(dialog.width(), dialog.minimumSizeHint().height())
    dialog._show_result(Exported(folder=Path("/a/long/path" * 12), files=("a",), bytes=1))
    qtbot.wait(50)
    box = dialog.snippet
    assert len(box.toPlainText().splitlines()) > 5
    assert box.visibleRegion().boundingRect().height() == box.height(), "no line is cut"


def test_a_run_is_exported_and_becomes_an_expert_of_another_merge(dialog, window, worker, tmp_path):
    dialog.reject()
    runs = window.workspace.runs
    folder = tmp_path / "out"
    runs.list.setCurrentIndex(runs.model.index(0, 0))
    runs.add.trigger()
    again = window.dialogs.export
    again.folder.setText(str(folder))
    again.export_button.click()
    assert isinstance(worker.jobs[worker.newest(ExportJob)], ExportJob)
    worker.say(Exported(folder=folder, files=(), bytes=1), JobDone())
    assert not again.isVisible()
    assert [expert.path for expert in window.session.draft.inputs.experts] == [COLA, SST2, folder]


def test_an_error_is_shown_in_the_dialog_and_the_form_stays(dialog, worker, window, tmp_path):
    dialog.folder.setText(str(tmp_path / "out"))
    dialog.export_button.click()
    worker.say(JobFailed(error=OutputError("The disk is full.")))
    assert not dialog.notice.isHidden()
    assert dialog.notice.sentence.text() == "The disk is full."
    assert "full" not in window.notice.message_text
    assert dialog.export_button.isEnabled()


def test_closing_while_exporting_cancels_first(dialog, worker, tmp_path):
    dialog.folder.setText(str(tmp_path / "out"))
    dialog.export_button.click()
    dialog.reject()
    assert dialog.isVisible()
    assert worker.cancelled == [worker.newest(ExportJob)]
    worker.say(JobCancelled())
    dialog.reject()
    assert not dialog.isVisible()


def test_a_merge_of_earlier_parameters_is_named_as_such(dialog, window, qtbot):
    dialog.reject()
    window.conductor.set_parameter("tau", 0.9)
    window.dialogs.open_export()
    texts = [label.text() for label in window.dialogs.export.findChildren(QLabel)]
    assert any("old settings" in text for text in texts)
    assert "ace of 2 experts into base" in texts, "no more was chosen when it was made"


def test_the_merge_is_written_as_an_adapter_of_the_chosen_size(window, worker, tmp_path):
    real = recipe_of(gpt2_family(tmp_path / "models", experts=2))
    window.opener.open_paths([Path("recipe.yaml")])
    worker.say(PlanReady(plan=prepare(real).plan), JobDone())
    worker.say(JobDone())
    window.merge.start()
    store = worker.jobs[worker.newest(MergeJob)].store
    merged_tensors(prepare(real), store, device="cpu")
    worker.say(started(), finished_merge(store), JobDone())
    worker.say(JobDone())
    window.dialogs.open_export()
    dialog = window.dialogs.export
    assert not worker.jobs_of(EnergyByRankJob)
    dialog.form_choice.choose(Output.ADAPTER)
    number = worker.newest(EnergyByRankJob)
    worker.say(*steps_of(worker.jobs[number], None), JobDone(), job=number)
    dialog.form.fields["rank"].control.setValue(2)
    assert "rank 2 keeps" in dialog.plot.spec.sentence
    choose(dialog, "by_energy", "share of energy")
    assert "95.0%" in dialog.plot.spec.sentence
    choose(dialog, "by_energy", "rank")
    assert "gigabytes" not in dialog.form.fields
    dialog.folder.setText(str(tmp_path / "out"))
    dialog.export_button.click()
    number = worker.newest(ExportJob)
    worker.say(*steps_of(worker.jobs[number], None), JobDone(), job=number)
    settings = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert settings["r"] == 2
    assert "PeftModel" in dialog.snippet.toPlainText()


def test_the_curve_stops_with_the_choice(dialog, worker):
    numbers = []

    def stopped() -> bool:
        """Whether one more curve was asked for, and is stopped."""
        numbers.append(worker.newest(EnergyByRankJob))
        worker.say(JobCancelled(), job=numbers[-1])
        return len(set(numbers)) == len(numbers) and numbers[-1] in worker.cancelled

    dialog.form_choice.choose(Output.ADAPTER)
    dialog.button.click()
    assert stopped()
    dialog.button.click()
    dialog.form_choice.choose(Output.MODEL)
    assert stopped()
    dialog.form_choice.choose(Output.ADAPTER)
    dialog.reject()
    assert stopped()
