"""The base's config.json, as far as a recipe wants to know it."""

from pathlib import Path

import pytest

from ace_gui.recipe.mergekit.reading import CONFIG_BYTES, base_config


def test_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}', encoding="utf-8")
    assert base_config(tmp_path) == {"model_type": "gpt2"}


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff\xfe",
        b"[1, 2]",
        b"[" * 100_000,
        b'{"model_type": "gpt2"}' + b" " * CONFIG_BYTES,
    ],
    ids=["cut short", "no text", "no mapping", "nested too deeply", "too large"],
)
def test_what_cannot_be_read_holds_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    assert base_config(tmp_path) == {}


def test_a_folder_without_one_holds_nothing(tmp_path: Path) -> None:
    assert base_config(tmp_path) == {}
