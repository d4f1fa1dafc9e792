"""Five hundred names that lead elsewhere: nothing outside is opened, no host is asked."""

import itertools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ace_gui.checkpoints.adapters import open_adapter
from ace_gui.checkpoints.index import open_checkpoint
from ace_gui.errors import CheckpointError, RecipeError
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.adapters import factors, save_adapter
from tests.helpers.checkpoints import save_model, small_tensors, write_index

PREFIXES = (
    *("../", "../../", "../../../../../../", "..\\", "..\\..\\", "./", ".\\", "/", "\\", "//"),
    *(
        "/etc/",
        "/proc/self/",
        "/dev/",
        "~/",
        "~root/",
        "a/../../",
        "a\\..\\..\\",
        "sub/",
        "%2e%2e/",
    ),
    *("..;/", "....//", "C:/", "C:\\", "C:", "\\\\host\\share\\", "//host/share/", "\\\\?\\C:\\"),
    *("\\\\.\\pipe\\", "file:///", "http://host/", "https://host/", "smb://host/", "s3://bucket/"),
    *(
        "\u2024\u2024/",
        "\uff0e\uff0e\uff0f",
        "\u202e",
        "\x00",
        "\n",
        "\r\n",
        " ",
        ".",
        "con.",
        "nul:",
    ),
    *("aux.", "x.safetensors:", "x.safetensors/", "|", "$(touch x)", "`touch x`", "{}/"),
)
TARGETS = (
    *("secret.safetensors", "model.safetensors", "passwd", "environ", "zero", ".safetensors"),
    *("a" * 300 + ".safetensors", "x.SAFETENSORS", "nul.safetensors", "secret.safetensors "),
    "\ud800.safetensors",
)
NAMES = [prefix + target for prefix, target in itertools.product(PREFIXES, TARGETS)]
REMOTE = [name for name in NAMES if name.startswith(("\\\\", "//", "http", "file:", "smb:", "s3:"))]


class Watch:
    """What is opened, listed or connected to while ``on``; an audit hook cannot be taken back."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[tuple[str, object]] = []
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and (event in {"open", "os.listdir", "os.scandir"} or "socket." in event):
            self.seen.append((event, arguments[0] if arguments else None))

    def outside(self, folder: Path) -> list[tuple[str, object]]:
        return [
            (event, target)
            for event, target in self.seen
            if "socket." in event or not _is_below(target, folder)
        ]


def _is_below(target: object, folder: Path) -> bool:
    if not isinstance(target, str | bytes | os.PathLike):
        return True  # a descriptor that is open already
    path = Path(os.path.realpath(os.fsdecode(target)))
    # Python may import a codec.
    allowed_folders = (folder.resolve(), Path(sys.base_prefix).resolve())
    return any(path.is_relative_to(allowed) for allowed in allowed_folders)


WATCH = Watch()


@pytest.fixture
def watch() -> Iterator[Watch]:
    WATCH.seen.clear()
    yield WATCH
    WATCH.on = False


def test_there_are_enough():
    assert len(set(NAMES)) >= 500
    assert len(REMOTE) > 50


def test_an_index_opens_nothing_outside_its_folder(tmp_path, watch: Watch):
    save_model(tmp_path / "elsewhere", small_tensors())
    (tmp_path / "secret.safetensors").write_bytes(b"secret")
    folder = tmp_path / "model"
    folder.mkdir()
    refused = 0
    for name in NAMES:
        write_index(folder, {"x": name})
        watch.on = True
        with pytest.raises(CheckpointError) as caught:
            open_checkpoint(folder)
        watch.on = False
        refused += "points outside the model's folder" in caught.value.sentence
        assert caught.value.sentence.isprintable()
    assert not watch.outside(folder)
    assert watch.seen  # it does watch
    assert refused > 0.9 * len(NAMES)


def test_a_network_base_of_an_adapter_is_not_asked_for(tmp_path, watch: Watch, monkeypatch):
    folder = save_adapter(tmp_path / "adapter", factors("q", 4, 4))
    settings = json.loads((folder / "adapter_config.json").read_text())
    paths = watch_the_system(monkeypatch)
    for name in NAMES:
        changed = json.dumps({**settings, "base_model_name_or_path": name})
        (folder / "adapter_config.json").write_text(changed)
        watch.on = True
        warnings = open_adapter(folder).warnings
        watch.on = False
        assert any("Not contacted" in warning for warning in warnings) or name not in REMOTE
        assert name not in paths
    assert not watch.outside(folder)


def test_a_network_model_of_a_recipe_is_not_asked_for(tmp_path, watch: Watch, monkeypatch):
    file = tmp_path / "recipe.yaml"
    paths = watch_the_system(monkeypatch)
    for name in REMOTE:
        if name.isprintable():
            content = {"merge_method": "ace", "base_model": "./b", "models": [{"model": name}]}
            file.write_text(json.dumps(content))
            watch.on = True
            with pytest.raises(RecipeError, match="network location"):
                load_recipe(file)
            watch.on = False
            assert name not in paths
    assert not watch.outside(tmp_path)


def watch_the_system(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The paths of which anything is asked of the system; no audit event tells of a stat."""
    paths: set[str] = set()
    for name in ("stat", "lstat", "access", "readlink"):
        original = getattr(os, name)

        def asking(path: Any, *arguments: Any, original: Any = original, **options: Any) -> Any:
            paths.add(os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else "")
            return original(path, *arguments, **options)

        monkeypatch.setattr(os, name, asking)
    return paths
