"""What stands beside the merged weights is counted before it is written."""

from pathlib import Path

import pytest
from safetensors.torch import load_file

from ace_gui.engine.contract.checks import DISK, Verdict
from ace_gui.engine.merging.merge import merge
from ace_gui.engine.merging.store import MODEL
from ace_gui.engine.modules.manifest import MODULES
from ace_gui.engine.planning.expert_files import HEADS
from ace_gui.engine.planning.merge_checks import output_checks
from ace_gui.engine.planning.prepare import prepare
from ace_gui.engine.planning.prepared import Prepared
from tests.helpers.models import Family, gpt2_family
from tests.helpers.recipes import recipe_of


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return gpt2_family(tmp_path_factory.mktemp("gpt2"))


def prepared_by(family: Family, method: str) -> Prepared:
    return prepare(recipe_of(family, merge_method=method))


def size_of(*files: Path) -> int:
    return sum(tensor.nbytes for file in files for tensor in load_file(file).values())


@pytest.mark.parametrize("method", ["emr", "tall_masks", "tsv_c"])
def test_every_byte_of_heads_and_modules_is_counted(
    method: str, family: Family, tmp_path: Path
) -> None:
    prepared = prepared_by(family, method)
    for _ in merge(prepared, tmp_path, device="cpu"):
        pass
    heads = size_of(*(tmp_path / MODEL / HEADS).iterdir())
    assert heads > 0
    assert prepared.plan.bytes_beside == heads + size_of(tmp_path / MODEL / MODULES)
    assert prepared_by(family, "ace").plan.bytes_beside == heads


@pytest.mark.parametrize("resumes", [False, True])
def test_the_disk_must_hold_it_too(
    resumes: bool, family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = prepared_by(family, "tsv_c").plan
    needed = plan.bytes_beside + (0 if resumes else plan.bytes_to_write)

    def verdict(free: int) -> Verdict:
        monkeypatch.setattr("ace_gui.engine.planning.merge_checks.free_bytes", lambda _: free)
        found = output_checks(
            plan,
            tmp_path,
            memory_bytes=None,
            gpu_memory=0,
            complete_heads=False,
            resumes=resumes,
        )
        (check,) = [check for check in found if check.title == DISK]
        return check.verdict

    assert verdict(needed - 1) is Verdict.ERROR
    assert verdict(needed) is not Verdict.ERROR
