"""Optional libraries that do not fit torch do not stop a merge; other import errors are shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from tests.helpers.command import ace_gui_process

MISFIT = 'raise RuntimeError("operator torchvision::nms does not exist")\n'
METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"


def packages(folder: Path, name: str, source: str, version: str = "0.24.1") -> Path:
    """A folder of packages with one that is installed, as far as anyone can see."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(source)
    metadata = folder / f"{name}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(METADATA.format(name=name, version=version))
    return folder


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    """A base and an expert whose matrices are stored inputs × outputs, which names do not tell."""
    folders = []
    for seed, name in enumerate(("base", "expert")):
        torch.manual_seed(seed)
        config = GPT2Config(vocab_size=16, n_positions=8, n_embd=12, n_layer=1, n_head=2)
        GPT2LMHeadModel(config).save_pretrained(tmp_path / name)
        folders.append(tmp_path / name)
    return folders


def planned(models: list[Path], path: Path, cache: Path) -> tuple[int, str]:
    done = ace_gui_process(
        *("merge", *models, "--method", "linear", "--dry-run", "--verbose"),
        PYTHONPATH=str(path),
        XDG_CACHE_HOME=str(cache),
    )
    return done.returncode, done.stderr


def test_libraries_that_do_not_fit_torch_count_as_missing(
    models: list[Path], tmp_path: Path
) -> None:
    path = tmp_path / "packages"
    for name in ("torchvision", "torchaudio"):
        packages(path, name, MISFIT)
    status, said = planned(models, path, tmp_path / "cache")
    assert status == 0, said
    assert "described by their names" not in said


def test_another_import_error_is_shown(models: list[Path], tmp_path: Path) -> None:
    source = 'raise ImportError("libexample.so.7: cannot open shared object file")\n'
    path = packages(tmp_path / "packages", "regex", source, "2026.1.1")
    (path / "transformers").mkdir()
    (path / "transformers" / "__init__.py").write_text("import regex\n")
    status, said = planned(models, path, tmp_path / "cache")
    assert status == 1
    assert "libexample.so.7: cannot open shared object file" in said
    assert "Install versions" in said


@pytest.mark.parametrize(
    "error",
    ["MemoryError", "ImportError('libexample.so.7: failed to map segment from shared object')"],
)
def test_an_import_without_memory_is_no_library_that_does_not_fit(
    models: list[Path], tmp_path: Path, error: str
) -> None:
    path = packages(tmp_path / "packages", "transformers", f"raise {error}\n")
    status, said = planned(models, path, tmp_path / "cache")
    assert status == 1
    assert "not enough memory to import transformers" in said
    assert "Install versions" not in said
