"""What the engine says of finished merges that earlier windows kept."""

import os
from pathlib import Path

from ace_gui.engine.contract.events import StoreRead
from ace_gui.engine.contract.jobs import ReadStoresJob
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.service.runner import Runner
from tests.helpers.models import roberta_family
from tests.helpers.recipes import recipe_of


def test_a_store_is_outdated_once_a_model_is_another_file(tmp_path: Path) -> None:
    family = roberta_family(tmp_path / "models", experts=2)
    prepared = prepare(recipe_of(family))
    for _ in merge(prepared, tmp_path / "store"):
        pass
    job = ReadStoresJob(stores=(tmp_path / "gone", tmp_path / "store"))
    nothing, read = job.steps(Runner())
    assert nothing is None
    assert isinstance(read, StoreRead)
    assert not read.outdated
    names = {row.name for row in prepared.plan.rows if row.in_base}
    assert {report.name for report in read.reports} == names
    weights = next(iter(family.experts.values())) / "model.safetensors"
    later = weights.stat().st_mtime + 5
    os.utime(weights, (later, later))
    *_, read = job.steps(Runner())
    assert isinstance(read, StoreRead)
    assert read.outdated
