"""Models of the Hugging Face cache, chosen by name."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QTreeWidgetItem

from ace_gui.engine.contract.events import CachedModelInfo, CachedModelsFound, JobDone
from ace_gui.engine.contract.jobs import CachedModelsJob, LoadRecipeJob, PlanJob
from ace_gui.gui.dialogs.models_dialogs import HubCacheDialog
from ace_gui.gui.shell.main_window import MainWindow
from tests.gui.fakes import BASE, FakeWorker, load

HUB = Path("/cache/hub")


def cached(name: str, revision: str = "main", size: int = 1_000_000) -> CachedModelInfo:
    folder = HUB / f"models--{name.replace('/', '--')}" / "snapshots" / f"{hash(revision):x}"
    return CachedModelInfo(name=name, revision=revision, folder=folder, bytes=size)


MODELS = (
    cached("roberta-base", size=500_000_000),
    cached("org/sst2", "v1"),
    cached("org/sst2"),
    cached("me/<b>cola"),
)


@pytest.fixture
def dialog(window: MainWindow, worker: FakeWorker) -> HubCacheDialog:
    window.actions_.open_cached.trigger()
    return window.findChild(HubCacheDialog)


def show(worker: FakeWorker, *models: CachedModelInfo) -> None:
    worker.say(CachedModelsFound(folder=HUB, models=models), JobDone())


def visible(dialog: HubCacheDialog) -> list[QTreeWidgetItem]:
    items = [dialog.tree.topLevelItem(row) for row in range(dialog.tree.topLevelItemCount())]
    return [item for item in items if not item.isHidden()]


def select(dialog: HubCacheDialog, *rows: int) -> None:
    for row in rows:
        visible(dialog)[row].setSelected(True)


def shown(dialog: HubCacheDialog) -> list[tuple[str, ...]]:
    return [tuple(item.text(column) for column in range(3)) for item in visible(dialog)]


def test_the_engine_is_asked_and_the_window_waits_for_nothing(
    dialog: HubCacheDialog, worker: FakeWorker
) -> None:
    assert isinstance(worker.jobs[len(worker.jobs)], CachedModelsJob)
    assert dialog.filter.hasFocus()
    assert dialog.message.isVisible()
    assert not dialog.base_button.isEnabled()
    show(worker, *MODELS)
    assert dialog.message.isHidden()
    assert shown(dialog)[0] == ("me/<b>cola", "main", "1.0 MB")
    assert [row[0] for row in shown(dialog)][-1] == "roberta-base"


def test_an_empty_cache_says_where_it_is(dialog: HubCacheDialog, worker: FakeWorker) -> None:
    show(worker)
    assert "/cache/hub" in dialog.message.text().replace("\u200b", "")
    assert dialog.message.isVisible()


def test_a_base_is_opened_by_its_folder(dialog: HubCacheDialog, worker: FakeWorker) -> None:
    show(worker, *MODELS)
    dialog.filter.setText("ROBERTA")
    assert [row[0] for row in shown(dialog)] == ["roberta-base"]
    select(dialog, 0)
    assert dialog.base_button.isEnabled()
    assert not dialog.experts_button.isEnabled()  # of what?
    dialog.base_button.click()
    assert worker.jobs[worker.newest(LoadRecipeJob)].paths == (MODELS[0].folder,)
    assert not dialog.isVisible()


def test_models_are_sorted_by_their_bytes(dialog: HubCacheDialog, worker: FakeWorker) -> None:
    show(worker, *MODELS)
    dialog.tree.sortByColumn(2, Qt.SortOrder.DescendingOrder)
    assert shown(dialog)[0][0] == "roberta-base"


def test_experts_are_added_under_the_hubs_names(window: MainWindow, worker: FakeWorker) -> None:
    window.opener.open_paths([BASE])
    load(worker)
    window.actions_.open_cached.trigger()
    dialog = window.findChild(HubCacheDialog)
    show(worker, *MODELS)
    select(dialog, 0, 1, 2)
    assert not dialog.base_button.isEnabled()
    dialog.experts_button.click()
    recipe = worker.jobs[worker.newest(PlanJob)].recipe
    assert {entry.model for entry in recipe.models} == {model.folder for model in MODELS[1:]}
    assert sorted(recipe.expert_names) == ["<b>cola", "sst2-1", "sst2-2"]


def test_every_control_has_a_name(dialog: HubCacheDialog, worker: FakeWorker) -> None:
    show(worker, *MODELS)
    for button in dialog.findChildren(QAbstractButton):
        assert button.accessibleName() or button.text() or button.parent() is not dialog
    assert dialog.filter.accessibleName()
    assert dialog.tree.accessibleName()
