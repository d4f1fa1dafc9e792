"""The tutorial: from the sample to a merged model in eight steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QPushButton, QWidget

from ace_gui.gui.shell.tours.tour import Step, Tour
from ace_gui.gui.widgets.labels.gamma_picture import GAMMA, GammaPicture
from ace_gui.paths import Sample

if TYPE_CHECKING:
    from ace_gui.gui.shell.shell_window import ShellWindow


def tutorial(window: ShellWindow) -> Tour:
    """Start the tutorial in a window, whatever is open in it."""
    session = window.session
    watched = (
        session.activity.changed,
        session.draft.changed,
        session.layers.learnt,
        session.selection_changed,
        session.results.changed,
        session.results.scores.changed,
        window.header.workspaces.chosen,
    )
    return Tour(window, [*_opening(window), *_merging(window), *_judging(window)], watched)


def _opening(window: ShellWindow) -> list[Step]:
    session = window.session

    def is_open() -> bool:
        return window.project.file == Sample.IMAGES.recipe and session.layers.is_analysed

    def layers() -> None:
        from ace_gui.gui.shell.layout.cards import LAYERS

        window.workspace.show_space(0)
        window.workspace.cards.bring(LAYERS)

    return [
        Step(
            sentence="Open the sample, here or in the menu File: a small model and five models "
            "fine-tuned from it.",
            target=lambda: _sample_button(window),
            done=is_open,
        ),
        Step(
            sentence=f"Every matrix of the model is a row; choose one. {GAMMA}",
            picture=GammaPicture,
            begin=layers,
            target=lambda: window.workspace.layers.table,
            done=lambda: session.selection is not None,
        ),
    ]


def _merging(window: ShellWindow) -> list[Step]:

    def views() -> None:
        from ace_gui.gui.shell.layout.cards import VIEWS

        window.workspace.cards.bring(VIEWS)
        window.workspace.heterogeneity.tabs.setCurrentIndex(0)

    def inspector() -> None:
        from ace_gui.gui.shell.layout.cards import INSPECTOR

        window.workspace.cards.bring(INSPECTOR)
        window.workspace.inspector.tabs.setCurrentIndex(0)

    return [
        Step(
            sentence="The same γ along the model. The recommended merge treats all matrices "
            "alike; ACE as published, among the methods, refines those above a threshold τ.",
            begin=views,
            target=lambda: window.workspace.heterogeneity,
        ),
        Step(
            sentence="Merge. It takes a few seconds and changes no file.",
            target=lambda: window.header.primary.main,
            done=lambda: window.session.results.is_merged,
        ),
        Step(
            sentence="The singular values of each expert's change of the chosen matrix, and of the "
            "merge. Ctrl+G goes to the most heterogeneous one.",
            begin=inspector,
            target=lambda: window.workspace.inspector,
        ),
    ]


def _judging(window: ShellWindow) -> list[Step]:
    def scores() -> QWidget | None:
        from ace_gui.gui.panels.scores.scores_tab import ScoresTab

        tab = window.workspace.show_scores().show_tab(ScoresTab)
        return next((b for b in (tab.no_scores.button, tab.evaluate) if b.isVisible()), tab)

    def evaluated() -> bool:
        merge = window.session.results.merge
        return merge is not None and bool(merge.accuracies)

    return [
        Step(
            sentence="How good is the merge? Open the scores.",
            target=lambda: window.header.workspaces,
            done=lambda: window.header.workspaces.current == 1,
        ),
        Step(
            sentence="Evaluate tries base, experts and merge on the tasks of the sample, which "
            "were held out.",
            target=scores,
            done=evaluated,
        ),
        Step(
            sentence="Export writes the merged model as a folder that its library loads. Nothing "
            "more is needed for your own models: open a base, add experts, merge.",
            target=lambda: window.header.primary,
        ),
    ]


def _sample_button(window: ShellWindow) -> QWidget | None:
    """The button on the welcome page, or nothing if the page is not shown."""
    buttons = window.welcome.findChildren(QPushButton)
    named = "Merge the sample"
    return next((each for each in buttons if each.isVisible() and each.text() == named), None)
