"""Every command on the pages can be typed, and every recipe on them can be read."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from ace_gui.cli.commands import app
from ace_gui.paths import resource_path
from ace_gui.recipe.recipe_file import load_recipe
from tests.helpers.command import ace_gui
from tests.helpers.models import gpt2_family

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [*sorted(resource_path("help").glob("*.md")), README]
COMMAND = re.compile(r"ace-gui ([a-z][a-z-]*)([^`\n>]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def known_options(command: str) -> set[str]:
    click_command = get_command(app).commands[command]
    return {
        name for option in click_command.params for name in (*option.opts, *option.secondary_opts)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_commands_and_options_exist(page: Path):
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for name, arguments in COMMAND.findall(text):
        unknown = set(OPTION.findall(arguments)) - known_options(name)
        assert not unknown, f"ace-gui {name}{arguments}"


RECIPES = [
    (page.stem, block)
    for page in PAGES
    for block in re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    if "merge_method: moe" not in block  # read by tests/recipe/test_recipes_on_pages.py
]
MODELS = (
    "schema: 1\nbase_model: base\nmodels: [{model: a}, {model: b}, {model: nli}, {model: sst2}]\n"
)


@pytest.mark.parametrize(("page", "block"), RECIPES, ids=lambda value: value.partition("\n")[0])
def test_recipes_are_read(page: str, block: str, tmp_path):
    """A part of a recipe is completed by models and a method."""
    text = block if "base_model:" in block else MODELS + block
    text = text if "merge_method:" in text.split("overrides:")[0] else f"merge_method: ace\n{text}"
    path = tmp_path / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    load_recipe(path)


@pytest.mark.parametrize(
    "page",
    [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))],
    ids=lambda path: path.stem,
)
def test_links_of_the_source_lead_to_files(page: Path):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


def test_the_map_of_the_source_is_true():
    """Every path and every module that CONTRIBUTING.md names exists."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    words = [word for code in re.findall(r"`([^`\n]+)`", text) for word in code.split()]
    paths = [word for word in words if re.fullmatch(r"[\w.]+(/[\w.]+)+", word)]
    modules = [word.replace(".", "/") for word in words if word.startswith("tests.")]
    assert len(paths) > 30
    assert len(modules) > 10
    for path in [*paths, *modules]:
        candidates = (ROOT / path, ROOT / f"{path}.py", ROOT / "ace_gui" / path)
        assert any(candidate.exists() for candidate in candidates) or "NAME" in path, path


WHOLE_COMMANDS = re.findall(
    r"`ace-gui (merge BASE EXPERT… --out DIR[^`]*)`",
    resource_path("help/which-method.md").read_text("utf-8"),
)


def test_the_page_on_methods_has_commands():
    assert len(WHOLE_COMMANDS) > 10


@pytest.mark.parametrize("line", WHOLE_COMMANDS)
def test_each_whole_command_merges(line: str, tmp_path: Path):
    family = gpt2_family(tmp_path / "models", experts=2)
    models = [family.base, *family.experts.values()]
    arguments = []
    for word in line.split():
        if word == "BASE":
            arguments.append(models[0])
        elif word == "EXPERT…":
            arguments += models[1:]
        else:
            arguments.append(tmp_path / "out" if word == "DIR" else word)
    done = ace_gui(*arguments)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "config.json").exists()
