"""What several of the states need done to the window."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from PySide6.QtWidgets import QApplication, QDialog, QWidget

from ace_gui.gui.picture import Studio
from ace_gui.gui.plots.frame.plot_with_table import PlotWithTable
from ace_gui.gui.state.chosen.inputs import Inputs
from ace_gui.gui.widgets.layout.lazy_tabs import LazyTabs

Step = tuple[str, QWidget]


def change(studio: Studio, inputs: Inputs) -> None:
    """Other inputs, planned and analysed."""
    studio.window.conductor.change(inputs)
    until_ready(studio, lambda: studio.window.session.draft.inputs == inputs)


def choose_method(studio: Studio, name: str) -> None:
    """Another method, planned and analysed."""
    session = studio.window.session
    studio.window.conductor.change(studio.window.session.draft.inputs.with_method(name))
    until_ready(studio, lambda: session.draft.inputs.method == name)


def until_ready(studio: Studio, condition: Callable[[], bool] = lambda: True) -> None:
    """Until the draft can be merged and nothing is computed."""
    window, session = studio.window, studio.window.session
    ready = lambda: (  # noqa: E731
        condition()
        and session.can_merge
        and session.layers.is_analysed
        and not window.engine.is_busy
    )
    studio.wait(ready, window.engine.idle)


def turn_to(tabs: LazyTabs, kind: type[QWidget]) -> QWidget:
    """Show the tab with a panel of this kind; LookupError where there is none."""
    for index in range(tabs.count()):
        if isinstance(tabs.content(index), kind):
            tabs.setCurrentIndex(index)
            return tabs.content(index)
    raise LookupError(kind.__name__)


def each_tab(where: str, tabs: LazyTabs, window: QWidget, *, tables: bool = True) -> Iterator[Step]:
    """Every tab that is shown, and its plots as tables."""
    for index in filter(tabs.isTabVisible, range(tabs.count())):
        tabs.setCurrentIndex(index)
        tabs.content(index)
        title = tabs.tabText(index).partition(" (")[0]
        yield f"{where}: {title}", window
        plots = [*tabs.current.findChildren(PlotWithTable)]
        plots += [tabs.current] if isinstance(tabs.current, PlotWithTable) else []
        if plots and tables:
            for plot in plots:
                plot.show_table(True)
            yield f"{where}: {title} as a table", window
            for plot in plots:
                plot.show_table(False)
    tabs.setCurrentIndex(0)


def newest_dialog() -> QDialog | None:
    """The dialog that was opened last and is still open."""
    shown = [w for w in QApplication.topLevelWidgets() if isinstance(w, QDialog) and w.isVisible()]
    return shown[-1] if shown else None


def opened(name: str, open_it: Callable[[], object]) -> Iterator[Step]:
    """A dialog, opened and closed again."""
    open_it()
    dialog = newest_dialog()
    assert dialog is not None, name
    yield name, dialog
    dialog.close()
