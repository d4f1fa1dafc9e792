"""Trying other values on one layer changes no recipe until they are applied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from ace_gui.engine.capabilities import method_info
from ace_gui.engine.contract.after_fields import AFTER_FIELDS, with_value
from ace_gui.engine.contract.events import JobDone, JobFailed
from ace_gui.engine.contract.findings import LayerSpectrum
from ace_gui.engine.contract.jobs import PlanJob, SpectrumJob
from ace_gui.engine.contract.plan import RowOverride
from ace_gui.errors import MethodError
from ace_gui.gui.control.engine_client import EngineClient
from ace_gui.gui.control.layer_queries import DELAY
from ace_gui.gui.control.what_if import WhatIf
from ace_gui.gui.panels.all_layers import FIGURES, WhatIfPanel, figure_text
from ace_gui.gui.state.planned_layers import governing
from ace_gui.gui.state.session import Session
from ace_gui.recipe import Override
from ace_gui.recipe.values import After
from tests.gui.fakes import (
    COLA,
    ENGINE,
    ROWS,
    SST2,
    FakeWorker,
    adopt_two,
    plan,
    recipe,
    spectrum,
)
from tests.helpers.windows import in_view

LAYER = "layer.10.q"


@pytest.fixture
def what_if(session: Session, worker: FakeWorker) -> Iterator[WhatIf]:
    engine = EngineClient(session, worker)
    what_if = WhatIf(engine)
    session.set_engine(ENGINE)
    adopt_two(session)
    session.select(LAYER)
    yield what_if
    what_if.deleteLater()
    engine.deleteLater()


@pytest.fixture
def panel(session: Session, what_if: WhatIf, qtbot: QtBot) -> WhatIfPanel:
    return in_view(qtbot, WhatIfPanel(session, what_if), width=1000, height=280)


def spectrum_jobs(worker: FakeWorker, qtbot: QtBot, count: int) -> list[SpectrumJob]:
    """The spectra asked for, when there are so many and no more come."""
    qtbot.waitUntil(lambda: len(worker.jobs) == count)
    qtbot.wait(2 * DELAY)
    assert len(worker.jobs) == count
    return [job for job in worker.jobs.values() if isinstance(job, SpectrumJob)]


def answer(norm: float) -> LayerSpectrum:
    plain = spectrum(LAYER)
    energies = {"cola": 4.0, "sst2": 4.0}
    report = replace(plain.report, delta_norm=norm, ridge_mass=0.01, energies=energies)
    return replace(plain, merged=plain.merged * norm, report=report)


def shown_row(panel: WhatIfPanel, figure: str) -> list[str]:
    """The texts of a figure: under the recipe, and beside it."""
    row = panel.rows[[name for _title, _tip, name in FIGURES].index(figure)]
    return [row.text(column) for column in (1, 2)]


def test_trying_asks_once_for_the_last_of_many_values(what_if, session, worker, qtbot):
    for value in (0.2, 0.1, 0.05):
        what_if.try_parameter("k_frac", value)
    (job,) = spectrum_jobs(worker, qtbot, 1)
    assert job.recipe.parameters == {"k_frac": 0.05}
    assert job.row.name == LAYER
    assert session.draft.inputs.touched == {}


@pytest.mark.parametrize("name", [field.name for field in AFTER_FIELDS])
@pytest.mark.parametrize("rule", [None, Override(role="key", merge_method="linear")])
def test_what_is_done_after_the_method_can_be_tried(
    what_if, panel, session, worker, qtbot, name, rule
):
    if rule is not None:
        overridden(session, rule, method="linear")
    panel.form.fields[name].control.setValue(0.5)
    job = spectrum_jobs(worker, qtbot, 1)[-1]
    governing_it = job.recipe if rule is None else job.recipe.overrides[0]
    assert governing_it.after == with_value(After(), name, 0.5)
    assert (what_if.parameter(name), what_if.is_tried(name)) == (0.5, True)
    assert session.draft.inputs.after == After()
    assert what_if.inputs().recipe().after == job.recipe.after
    what_if.back()
    assert what_if.parameter(name) == 1.0


def test_a_newer_question_takes_the_place_of_the_one_before(what_if, worker, qtbot):
    what_if.try_parameter("epsilon", 1e-3)
    spectrum_jobs(worker, qtbot, 1)
    what_if.try_parameter("scope", "authors-vit")
    second = spectrum_jobs(worker, qtbot, 2)[-1]
    assert worker.withdrawn == [1]
    assert (second.recipe.scope, second.recipe.parameters) == ("authors-vit", {"epsilon": 1e-3})
    worker.say(answer(5.0), JobDone(), job=1)  # late, and nobody waits for it
    assert what_if.new is None
    worker.say(answer(7.0), JobDone(), job=2)
    assert what_if.new is not None
    assert what_if.new.report.delta_norm == 7.0


def test_what_was_answered_is_not_asked_again(what_if, worker, qtbot):
    what_if.try_parameter("tau", 2.0)
    spectrum_jobs(worker, qtbot, 1)
    worker.say(answer(5.0), JobDone())
    what_if.back()
    assert what_if.new is None
    assert not what_if.is_on
    what_if.try_parameter("tau", 2.0)
    assert what_if.new is not None
    spectrum_jobs(worker, qtbot, 1)


@pytest.fixture
def of_two_variants(session: Session, what_if: WhatIf) -> WhatIf:
    session.set_engine(replace(ENGINE, methods=(method_info("ace"),)))
    return what_if


def test_somebody_who_looks_sees_both_variants(of_two_variants, session, worker, qtbot):
    panel = in_view(qtbot, WhatIfPanel(session, of_two_variants), width=1000, height=280)
    (job,) = spectrum_jobs(worker, qtbot, 1)
    assert job.recipe.parameters == {"variant": "automatic"}
    assert not of_two_variants.is_on  # there is nothing to apply
    assert not panel.apply.isEnabled()
    worker.say(answer(5.0), JobDone())
    key = session.draft.recipe_key()
    session.results.findings.record(key, replace(answer(40.0), experts={}))
    heads = [panel.table.headerItem().text(column) for column in (1, 2)]
    assert heads == ["published", "automatic"]
    assert shown_row(panel, "delta_norm") == ["40.00", "5.000"]
    assert {curve.label for curve in panel.plot.curves()} >= {"published", "automatic"}
    said = "‖ΔW‖ over the experts' mean: published 20.0, automatic 2.50"
    assert panel.plot.caption.full_text == said
    assert not panel.note.isVisible()  # the headings say it
    of_two_variants.try_parameter("epsilon", 1e-3)
    spectrum_jobs(worker, qtbot, 2)
    assert panel.table.headerItem().text(2) == "tried"
    panel.hide()
    of_two_variants.back()
    qtbot.wait(2 * DELAY)
    assert len(worker.jobs) == 2  # nobody looks


def test_the_other_variant_of_a_layer_of_the_automatic_one_is_the_published(
    of_two_variants, session, worker, qtbot
):
    session.draft.set_parameter("variant", "automatic")
    of_two_variants.set_visible(True)
    (job,) = spectrum_jobs(worker, qtbot, 1)
    assert job.recipe.parameters == {"variant": "published"}
    assert of_two_variants.labels == ("automatic", "published")


def test_the_recipes_own_value_is_no_trial(what_if, session):
    what_if.try_parameter("tau", 0.7)
    what_if.try_parameter("scope", "authors-vit")
    session.draft.set_parameter("tau", 0.7)  # set in the form, or applied
    assert not what_if.is_tried("tau")
    what_if.try_parameter("scope", "default")
    assert not what_if.is_on


def test_layers_without_a_spectrum_are_not_asked_about(what_if, session, worker, qtbot, panel):
    session.select("layer.0.q.bias")
    what_if.try_parameter("tau", 2.0)
    spectrum_jobs(worker, qtbot, 0)
    assert "Select a layer" in panel.plot.message()


def test_the_panel_shows_old_beside_new(panel, what_if, session, worker, qtbot):
    assert "Change a value" in panel.plot.message()
    session.results.findings.record(session.draft.recipe_key(), answer(1.0))
    panel.form.fields["k_frac"].control.setValue(0.9)
    spectrum_jobs(worker, qtbot, 1)
    worker.say(answer(5.0), JobDone())
    rows = {title: index for index, (title, _, _) in enumerate(FIGURES)}
    assert [float(text) for text in shown_row(panel, "delta_norm")] == [1.0, 5.0]
    assert panel.rows[rows["‖ΔW‖"]].font(2).bold()
    assert not panel.rows[rows["γ"]].font(2).bold()
    titles = {title for title, _, figure in FIGURES if shown_row(panel, figure) != ["–", "–"]}
    assert {row.text(0) for row in panel.rows if not row.isHidden()} == titles < set(rows)
    assert panel.table.verticalScrollBar().maximum() == 0, "none is cut"
    assert panel.plot.message() is None
    drawn = [curve.y for curve in panel.plot.curves()]
    assert any(np.array_equal(values, answer(5.0).merged) for values in drawn)
    panel.back.click()
    assert panel.form.fields["k_frac"].control.value() == 0.3


def test_while_the_first_trial_is_computed_it_is_said(panel, what_if, session, worker, qtbot):
    what_if.try_parameter("epsilon", 1e-9)
    spectrum_jobs(worker, qtbot, 1)
    assert "being computed" in (panel.plot.message() or "")
    panel.resize(500, 280)
    assert "being computed" in panel.note.text(), "where there is no room for the plot"
    session.results.findings.record(session.draft.recipe_key(), answer(1.0))
    worker.say(answer(5.0), JobDone())
    assert panel.plot.message() is None
    assert not panel.note.text()


def test_what_cannot_be_computed_says_why(panel, what_if, worker, qtbot):
    what_if.try_parameter("epsilon", 1e-9)
    spectrum_jobs(worker, qtbot, 1)
    worker.say(JobFailed(error=MethodError("It does not work; raise epsilon.")))
    assert panel.plot.message() == "It does not work; raise epsilon."
    what_if.try_parameter("epsilon", 1e-3)
    assert not what_if.error


def test_methods_without_a_figure_show_a_dash():
    assert figure_text(spectrum(LAYER).report, "condition") == "–"
    assert figure_text(spectrum(LAYER).report, "regime") == "heterogeneous"


def test_applying_makes_it_the_recipe(loaded, worker):
    loaded.what_if.try_parameter("k_frac", 0.9)
    loaded.what_if.try_parameter("scope", "authors-vit")
    loaded.session.inputs_wanted.emit(loaded.what_if.inputs())
    planned = worker.jobs[worker.newest(PlanJob)].recipe
    assert (planned.scope, planned.parameters) == ("authors-vit", {"k_frac": 0.9})
    assert not loaded.what_if.is_on


# Layers with parameters of their own


def overridden(session: Session, *rules: Override, method: str = "ace") -> None:
    """Plan the recipe with these rules, all of them for ``LAYER``."""
    inputs = replace(session.draft.inputs, overrides=rules)
    values = {"epsilon": 1e-5, "tau": 0.3, "k_frac": 0.3} if method == "ace" else {}
    for rule in rules:
        values |= rule.parameters
    indices = tuple(range(len(rules)))
    override = RowOverride(method=method, parameters=values, weights=(1.0, 1.0), rules=indices)
    rows = tuple(replace(r, override=override) if r.name == LAYER else r for r in ROWS)
    session.adopt(inputs, plan(recipe(COLA, SST2, overrides=rules), rows=rows))


RULE = Override(role="key", parameters={"tau": 0.7})


def test_a_layers_own_parameters_are_what_is_tried(what_if, session, worker, qtbot):
    overridden(session, RULE)
    assert what_if.parameter("tau") == 0.7
    what_if.try_parameter("tau", 0.7)
    assert not what_if.is_on
    what_if.try_parameter("k_frac", 0.9)
    (job,) = spectrum_jobs(worker, qtbot, 1)
    (rule,) = job.recipe.overrides
    assert rule == replace(RULE, parameters={"tau": 0.7, "k_frac": 0.9})
    assert job.recipe.parameters == {}


def test_what_is_tried_of_the_recipe_and_of_an_override_are_two_things(what_if, session):
    overridden(session, RULE)
    session.select("layer.0.q")
    what_if.try_parameter("tau", 2.0)
    session.select(LAYER)
    assert what_if.parameter("tau") == 0.7
    assert not what_if.is_on
    session.select("layer.0.q")
    assert what_if.parameter("tau") == 2.0


def test_an_override_of_weights_leaves_the_layer_its_recipes_parameters(what_if, session, panel):
    overridden(session, Override(role="key", weights={"cola": 0.5}))
    assert what_if.override is None
    assert not panel.own_note.isVisible()
    what_if.try_parameter("tau", 2.0)
    assert what_if.inputs().touched == {"tau": 2.0}


def test_the_panel_shows_the_form_of_the_overrides_method_and_says_so(what_if, session, panel):
    overridden(session, Override(role="key", merge_method="linear"), method="linear")
    assert [name for name in panel.form.fields if not name.startswith("after.")] == [
        "normalize",
        "scope",
    ]
    assert panel.own_note.isVisible()
    assert "override: key" in panel.own_note.text().replace("\u200b", "")
    session.select("layer.0.q")
    assert list(panel.form.fields)[:4] == ["epsilon", "tau", "k_frac", "after.rank"]
    assert not panel.own_note.isVisible()


def test_the_last_rule_with_parameters_in_force_governs():
    linear = Override(role="key", merge_method="linear", parameters={"normalize": False})
    weights = Override(role="key", weights={"cola": 0.5})
    assert governing((RULE, weights), (0, 1), "ace") == 0
    assert governing((linear, RULE), (0, 1), "ace") == 0  # τ is not of linear's
    assert governing((RULE, linear), (0, 1), "ace") == 1
    assert governing((weights,), (0,), "ace") is None


def test_applying_writes_to_the_override(opened, worker):
    session = opened.session
    what_if = opened.what_if
    overridden(session, RULE)
    session.select(LAYER)
    what_if.try_parameter("tau", 0.2)
    session.inputs_wanted.emit(what_if.inputs())
    planned = worker.jobs[worker.newest(PlanJob)].recipe
    assert planned.overrides == (replace(RULE, parameters={"tau": 0.2}),)
    assert planned.parameters == {}
    assert opened.workspace.method.overrides.list.item(0).text().endswith("→ tau 0.2")
    assert not what_if.is_on
    assert what_if.parameter("tau") == 0.2
