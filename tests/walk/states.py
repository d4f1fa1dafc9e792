"""Every state of the window in turn, with the sample or with models of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from PySide6.QtWidgets import QApplication, QDialog, QScrollArea, QWidget

from ace_gui.errors import CheckpointError
from ace_gui.gui.picture import Studio
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.shell.layout.cards import INSPECTOR, LAYERS, VIEWS
from ace_gui.gui.shell.window_header import WORKSPACES
from ace_gui.gui.state.activity import State
from ace_gui.gui.widgets.folding import Folding
from ace_gui.gui.widgets.lazy_tabs import LazyTabs
from ace_gui.recipe import Override

Step = tuple[str, QWidget]
OTHER = "task_arithmetic"
RULE = Override(blocks="0-1", disposition="base")


def states(studio: Studio, recipe: Path, during: Callable[[Step], None]) -> Iterator[Step]:
    """What is seen in each state: its name and the window or the dialog.

    ``during`` is called in the middle of a merge, which does not wait for anybody.
    """
    window = studio.window
    yield "welcome", window
    tour = window.help.begin_tutorial()
    yield "the tutorial begins", window
    tour.end()
    window.opener._scan([recipe.parent], None)
    assert window.opener.scanned is not None
    yield "a scan", window.opener.scanned
    window.opener.scanned.close()
    studio.open(recipe)
    yield "opened", window
    _merge_and_look(studio, during)
    studio.select_most_heterogeneous()
    yield "merged", window
    workspace = window.workspace
    workspace.cards.bring(INSPECTOR)
    yield from _tabs("inspector", workspace.inspector.tabs, window)
    workspace.cards.bring(VIEWS)
    yield from _tabs("all layers", workspace.heterogeneity.tabs, window)
    workspace.cards.bring(LAYERS)
    workspace.cards.toggle_maximised()
    yield "a panel alone", window
    workspace.cards.toggle_maximised()
    yield from _left_column(window)
    yield from _messages(studio)
    yield from _dialogs(studio)
    yield from _spaces(studio)


def _merge_and_look(studio: Studio, during: Callable[[Step], None]) -> None:
    activity, left = studio.window.session.activity, [during]

    def watch() -> None:
        progress = activity.progress
        if left and progress is not None and progress.state is State.MERGING and progress.done:
            left.pop()(("merging", studio.window))

    activity.progressed.connect(watch)
    studio.merge()
    activity.progressed.disconnect(watch)


def _tabs(where: str, tabs: LazyTabs, window: QWidget) -> Iterator[Step]:
    for index in range(tabs.count()):
        tabs.setCurrentIndex(index)
        tabs.content(index)
        yield f"{where}: {tabs.tabText(index)}", window
        plots = [*tabs.current.findChildren(PlotWithTable)]
        plots += [tabs.current] if isinstance(tabs.current, PlotWithTable) else []
        if plots:
            for plot in plots:
                plot.show_table(True)
            yield f"{where}: {tabs.tabText(index)} as a table", window
            for plot in plots:
                plot.show_table(False)
    tabs.setCurrentIndex(0)


def _left_column(window: QWidget) -> Iterator[Step]:
    folded = window.workspace.left.is_folded  # type: ignore[attr-defined]
    window.workspace.left.fold(False)  # type: ignore[attr-defined]
    for folding in window.workspace.method.findChildren(Folding):  # type: ignore[attr-defined]
        folding.unfold()
    yield "more options", window
    for area in window.workspace.left.findChildren(QScrollArea):  # type: ignore[attr-defined]
        for share in (0.5, 1.0):
            bar = area.verticalScrollBar()
            bar.setValue(round(share * bar.maximum()))
            yield f"the method, scrolled to {share:.0%}", window
    window.workspace.left.fold(folded)  # type: ignore[attr-defined]


def _messages(studio: Studio) -> Iterator[Step]:
    window = studio.window
    sentence = "“interrupted-download” holds no tensors; download it again or remove it."
    window.show_error(CheckpointError(sentence))
    yield "an error", window
    window.notice.hide()


def _dialogs(studio: Studio) -> Iterator[Step]:
    window = studio.window
    for name, open_it in (
        ("methods", window.dialogs.choose_method),
        ("export", window.dialogs.open_export),
        ("help", window.help.show_help),
        ("glossary", lambda: window.help.show_page("glossary", "Ridge mass")),
        ("commands", window.help.show_palette),
        ("shortcuts", window.help.show_shortcuts),
        ("log", window.help.show_log),
        ("a problem", window.help.report_problem),
        ("preferences", window.actions_.preferences.trigger),
        ("about", window.help.show_about),
        ("clean up", window.dialogs.clean_up_runs),
        ("cached models", window.opener.open_cached),
        ("rule", lambda: window.override_editor.complete(RULE)),
        ("closing", window.closing.ask),
    ):
        open_it()
        dialog = _newest_dialog()
        assert dialog is not None, name
        yield name, dialog
        dialog.close()


def _newest_dialog() -> QDialog | None:
    shown = [w for w in QApplication.topLevelWidgets() if isinstance(w, QDialog) and w.isVisible()]
    return shown[-1] if shown else None


def _spaces(studio: Studio) -> Iterator[Step]:
    window, session = studio.window, studio.window.session
    for place in range(1, len(WORKSPACES)):
        window.workspace.show_space(place)
        yield f"workspace {place}", window
    yield from _tabs("scores", window.workspace.show_scores().tabs, window)
    window.workspace.show_space(0)
    window.conductor.choose_method(OTHER)
    ready = lambda: session.draft.inputs.method == OTHER and session.can_merge  # noqa: E731
    studio.wait(ready, window.engine.idle)
    yield "settings changed", window
    studio.merge()
    window.workspace.show_comparison()
    yield "two merges compared", window
    window.workspace.show_space(0)
