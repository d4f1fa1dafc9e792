"""Bring the languages of the window up to date: ``python packaging/make_translations.py``.

Collects every text of the window (``tr``, ``counted`` and ``later`` in ``ace_gui/gui``), what the
engine declares, and the forms of the sentences that it makes (``ace_gui/gui/told.py``), and writes
them into ``resources/languages/*.ts``: translations that are there stay, texts that are gone go,
and what has no translation is named. Then ``lrelease``, which comes with PySide6, makes the ``.qm``
files. Of the help pages (``resources/help/de/*.md``), it names those whose English text has changed
since, and prints what changed. A new language: add its code to ``ace_gui/gui/languages.py`` and run
this.
"""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple, get_args
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import PySide6

from ace_gui.architecture.names import Role
from ace_gui.engine.capabilities import METHODS, SCOPES, method_info
from ace_gui.engine.contract.checks import Verdict
from ace_gui.engine.contract.figures.findings import Regime
from ace_gui.engine.contract.jobs import Job
from ace_gui.engine.contract.plan import Disposition
from ace_gui.engine.contract.role_families import ROLE_FAMILIES
from ace_gui.gui import told, words
from ace_gui.gui.control.engine.engine_client import job_title
from ace_gui.gui.dialogs.help_dialog import BLOCK
from ace_gui.gui.languages import LANGUAGES, SOURCE
from ace_gui.methods.registry import YOUR_OWN
from ace_gui.recipe.tasks import Metric, TaskKind

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "resources" / "languages"
HELP: Final = ROOT / "resources" / "help"
ENUMS: Final[tuple[type[StrEnum], ...]] = (Disposition, Verdict, Regime, TaskKind, Metric)
SPEAKING: Final = (
    "contract/checks.py",
    "contract/figures/expert_distance.py",
    "contract/figures/forecast.py",
    "contract/figures/health.py",
    "contract/scored/verdicts.py",
    "planning/**/*.py",
    *(f"merging/whole_model/{name}.py" for name in ("chosen_entries", "learn", "surveying")),
    "merging/task_modules.py",
    *(f"merging/one_tensor/{name}.py" for name in ("measured_rows", "non_finite", "tensor_merge")),
    *("calibrating/calibrate.py", "cluster/ray_workers.py", "gpus.py", "report/gather.py"),
    *("routing/block_routers.py", "routing/feature_router.py", "routing/head_corrections.py"),
    *("../recipe/rules.py", "../methods/adaptive/*.py", "../methods/with_data/regmean.py"),
    *(f"../methods/{name}.py" for name in ("model_stock", "plugins", "sce", "tsv_m")),
    *(f"../methods/ace/{name}.py" for name in ("float32_check", "notes", "parameters")),
    *(f"../methods/shared/{name}.py" for name in ("cap", "census", "tolerance")),
    *(f"../checkpoints/{name}.py" for name in ("folder", "index", "shard_index")),
    *(f"../recipe/mergekit/{name}.py" for name in ("counterparts", "reading", "schema", "writing")),
    "../architecture/describe.py",
)
"""Modules of the engine whose sentences the window shows; those of errors are English."""

_SENTENCE: Final = re.compile(r"[a-zδ`}×,;:)] [a-z{`(×]|^[A-Z][a-zA-Z ]+$")
_BEFORE: Final = re.compile(r"^\{\w+\} (?=[A-Z])")
"""A whole sentence before the one that is meant."""

_PLACE: Final = re.compile(r"\{\w+\}")
_FEWEST: Final = 4  # letters of its own, so that a form is not taken for another


class Text(NamedTuple):
    """A text to be translated; ``plural``: it has ``%n`` in it."""

    context: str
    source: str
    plural: bool = False


def main() -> None:
    """Bring every language up to date, and name what is not translated."""
    texts = all_texts()
    FOLDER.mkdir(exist_ok=True)
    for code in LANGUAGES.keys() - {SOURCE}:
        file = FOLDER / f"{code}.ts"
        known = translations(file) if file.exists() else {}
        file.write_text(ts_text(code, texts, known), "utf-8")
        release(file, file.with_suffix(".qm"))
        missing = [text.source for text in texts if not all(known.get(text, [""]))]
        print(f"{file}: {len(texts)} texts, {len(missing)} not translated")
        print(*missing, sep="\n")
    for page in sorted(HELP.glob("*/*.md")):
        english = HELP / page.name
        if digest_in(page) != (now := digest(english.read_text("utf-8"))):
            print(f"{page}: what it translates has changed. When it is right, write {now} into it.")
            print(_changes(english, digest_in(page)))


def all_texts() -> list[Text]:
    """Every text once, sorted."""
    found = {Text(told.CONTEXT, source) for source in (*declared_texts(), *engine_texts())}
    found |= {Text(told.CHOICES, choice) for choice in choices()}
    for file in (ROOT / "ace_gui" / "gui").rglob("*.py"):
        found.update(window_texts(ast.parse(file.read_text("utf-8"))))
    return sorted(found)


def window_texts(tree: ast.Module) -> Iterator[Text]:
    """The literals of one module that go through ``tr``, ``counted`` and ``later``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        match node.func.id:
            case "tr" | "later" if node.args:
                for each in ast.walk(node.args[0]):
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        yield Text(words.CONTEXT, each.value)
            case "counted":
                many = ast.literal_eval(node.args[2])
                yield Text(words.CONTEXT, many if "%n" in many else f"%n {many}", plural=True)


def declared_texts() -> Iterator[str]:
    """What the engine and the methods declare."""
    yield told.LANGUAGE
    yield from (*ROLE_FAMILIES, YOUR_OWN)
    for enum in ENUMS:
        yield from (each.value for each in enum)
    yield from (scope.description for scope in SCOPES.values())
    for method in map(method_info, METHODS):
        yield from filter(
            None, (method.title, method.family, method.summary, method.needs, method.leaves)
        )
        for field in method.fields:
            yield from (field.label, field.help, *(title for title, _ in field.presets))


def choices() -> Iterator[str]:
    """Roles, kinds of jobs, and what parameters can be."""
    yield from Role
    yield from map(job_title, get_args(Job))
    for method in map(method_info, METHODS):
        for field in method.fields:
            yield from field.choices


def engine_texts() -> Iterator[str]:
    """Sentences of the engine as they stand, or as forms with named places."""
    for pattern in SPEAKING:
        for file in sorted((ROOT / "ace_gui" / "engine").glob(pattern)):
            tree = ast.parse(file.read_text("utf-8"))
            silent = set(_silent(tree))
            for node in ast.walk(tree):
                form = "" if node in silent else _form(node)
                letters = sum(map(str.isalpha, _PLACE.sub("", form)))
                if letters >= _FEWEST and _SENTENCE.search(form) and "arXiv:" not in form:
                    yield _BEFORE.sub("", form)


def _silent(tree: ast.Module) -> Iterator[ast.AST]:
    """Docstrings, errors, formulas, citations, names and parts of forms."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
        elif isinstance(node, ast.Raise) or (
            isinstance(node, ast.keyword) and node.arg in ("citation", "formula")
        ):
            yield from ast.walk(node)
        elif isinstance(node, ast.JoinedStr):
            yield from (v for v in node.values if isinstance(v, ast.Constant))


def _form(node: ast.AST) -> str:
    """``{count} tensors are dropped.``; of a literal, that."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        form = node.value.replace("{}", "{name}")  # for str.format
        return form if "{" not in form.replace("{name}", "") else ""
    if not isinstance(node, ast.JoinedStr):
        return ""
    form, names = "", []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            last = [n for n in ast.walk(part.value) if isinstance(n, ast.Name | ast.Attribute)]
            name = next((n.attr if isinstance(n, ast.Attribute) else n.id for n in last), "value")
            name = name.strip("_")
            names.append(name)
            form += f"{{{name}{names.count(name) if names.count(name) > 1 else ''}}}"
        else:
            form += str(ast.literal_eval(part))
    return form


def translations(file: Path) -> dict[Text, list[str]]:
    """What a file has: of a plural each form, else one."""
    found = {}
    for context in ElementTree.parse(file).getroot().iter("context"):
        for message in context.iter("message"):
            said = message.find("translation")
            assert said is not None
            plural = message.get("numerus") == "yes"
            texts = [n.text or "" for n in said] if plural else [said.text or ""]
            name, source = context.findtext("name", ""), message.findtext("source", "")
            found[Text(name, source, plural)] = texts
    return found


def ts_text(code: str, texts: list[Text], known: dict[Text, list[str]]) -> str:
    """A file of Qt's translation: its contexts, and in each the texts in their order."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<!DOCTYPE TS>"]
    lines.append(f'<TS version="2.1" language="{code}" sourcelanguage="{SOURCE}">')
    for context in (words.CONTEXT, told.CONTEXT, told.CHOICES):
        lines += ["<context>", f"<name>{context}</name>"]
        for text in texts:
            if text.context == context:
                own = [code] if text.source == told.LANGUAGE else known.get(text, [])
                lines += _message(text, own)
        lines.append("</context>")
    return "\n".join([*lines, "</TS>", ""])


def _message(text: Text, said: list[str]) -> list[str]:
    state = "" if said and all(said) else ' type="unfinished"'
    if text.plural:
        forms = [f"<numerusform>{escape(form)}</numerusform>" for form in said or ["", ""]]
        body = "".join(forms)
    else:
        body = escape("".join(said))
    return [
        '<message numerus="yes">' if text.plural else "<message>",
        f"<source>{escape(text.source)}</source>",
        f"<translation{state}>{body}</translation>",
        "</message>",
    ]


def digest(english: str) -> str:
    """Of what there is to translate in a help page: all but its blocks."""
    return hashlib.sha256(BLOCK.sub("", english).encode()).hexdigest()[:12]


def digest_in(page: Path) -> str:
    """Which English text a page translates, as the last line of the page says."""
    found = re.search(r"<!-- English: (\w+) -->\n\Z", page.read_text("utf-8"))
    return found[1] if found else ""


def _changes(english: Path, since: str) -> str:
    """What became of an English page since its text of that digest; empty if git has none."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=english.parent, check=True, capture_output=True, text=True
        ).stdout

    for commit in git("log", "--format=%h", "--", english.name).split():
        if digest(git("show", f"{commit}:./{english.name}")) == since:
            return git("diff", "--word-diff", commit, "--", english.name)
    return ""


def release(file: Path, compiled: Path) -> None:
    """Compile a file for the window; one that is open keeps the file that it has."""
    tool, fresh = Path(PySide6.__file__).with_name("lrelease"), compiled.with_suffix(".new")
    subprocess.run([tool, "-silent", file, "-qm", fresh], check=True)
    fresh.replace(compiled)


if __name__ == "__main__":
    main()
