"""Eight text classification tasks, made of what any Python and Debian machine has.

A task is a list of (text, class). Texts that differ in digits, signs or case alone count as one,
and one that has two classes is left out; so no text of the test set was trained on.
"""

from __future__ import annotations

import ast
import gzip
import json
import random
import re
import sysconfig
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SPLITS = {"test": 400, "validation": 200, "train": 1600}
PACKAGES = _words("networkx numpy pandas ray scipy sklearn sqlalchemy sympy torch transformers")
OPENINGS = _words("add apply build check compute convert create get load run set test")
ERRORS = _words(
    "AssertionError AttributeError ImportError KeyError NotImplementedError RuntimeError "
    "TypeError ValueError"
)
BLOCKS = _words(  # of Unicode: name, first and last sign
    "arrows-2190-21FF operators-2200-22FF technical-2300-23FF shapes-2580-25FF symbols-2600-26FF "
    "dingbats-2700-27BF arrows2-2900-297F operators2-2A00-2AFF symbols2-2B00-2BFF "
    "musical-1D100-1D1FF pictographs-1F300-1F5FF transport-1F600-1F6FF later-1F900-1FAFF"
)
LICENCES = _words("Apache-2.0 Artistic CC0-1.0 GFDL-1.3 GPL-2 GPL-3 LGPL-2.1 MPL-1.1 MPL-2.0")
KINDS = _words(".cmake .css .f90 .h .js .pl .py .qml .rst .sql .tcl .xml .yaml")


@dataclass(frozen=True)
class Task:
    """``splits``: examples by name of the split; their class is a number."""

    name: str
    classes: tuple[str, ...]
    splits: dict[str, list[tuple[str, int]]]


def tasks(folder: Path) -> dict[str, Task]:
    """Every task, from ``folder`` where it was made already."""
    found = {}
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, make) in enumerate(BUILDERS.items()):
        file = folder / f"{name}.json"
        if not file.is_file():
            made = split(name, make(), seed)
            file.write_text(json.dumps([made.classes, made.splits], indent=0))
        classes, splits = json.loads(file.read_text())
        found[name] = Task(name, tuple(classes), splits)
    return found


def split(name: str, examples: Iterable[tuple[str, str]], seed: int) -> Task:
    """Unique texts, about as many of each class, in an order that the seed gives."""
    known: dict[str, tuple[str, set[str]]] = {}
    for text, label in examples:
        text = " ".join(text.split())[:160]
        key = " ".join(re.findall(r"[a-z]+", text.lower())) or text
        known.setdefault(key, (text, set()))[1].add(label)
    of_class = defaultdict(list)
    for text, labels in known.values():
        if len(labels) == 1 and len(text) >= 8:
            of_class[labels.pop()].append(text)
    classes = tuple(sorted(of_class))
    generator = random.Random(seed)
    chosen = []
    room = sum(SPLITS.values())
    for index, label in enumerate(sorted(classes, key=lambda c: len(of_class[c]))):
        share = (room - len(chosen)) // (len(classes) - index)
        texts = generator.sample(of_class[label], min(share, len(of_class[label])))
        chosen += [(text, classes.index(label)) for text in texts]
    generator.shuffle(chosen)
    splits = {}
    start = 0
    for part, count in SPLITS.items():
        splits[part] = chosen[start : start + count]
        start += count
    return Task(name, classes, splits)


def _files(roots: Iterable[Path], pattern: str, most: int, seed: int = 0) -> list[Path]:
    found = sorted({f for root in roots for f in root.rglob(pattern) if f.is_file()})
    return random.Random(seed).sample(found, min(most, len(found)))


def _trees(package: str, most: int) -> Iterator[ast.Module]:
    paths = sysconfig.get_paths()
    root = Path(paths["stdlib"]) if package == "stdlib" else Path(paths["purelib"]) / package
    for file in _files([root], "*.py", 100_000):
        if most <= 0:
            return
        if package == "stdlib" and "site-packages" in file.parts:
            continue
        try:
            yield ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        most -= 1


def _sentences(package: str, most: int) -> Iterator[str]:
    """First sentences of docstrings."""
    for tree in _trees(package, most):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = (ast.get_docstring(node) or "").split("\n\n")[0]
                if len(text) > 20:
                    yield re.sub(r"[:`*]+", " ", text)


def docstrings() -> Iterator[tuple[str, str]]:
    """Which package a docstring is of; its own name is left out."""
    for package in PACKAGES:
        for text in _sentences(package, 300):
            yield re.sub(rf"\b{package}\b|\bDataFrame\b|tensor", "…", text, flags=re.I), package


def openings() -> Iterator[tuple[str, str]]:
    """With which verb a docstring began; the word is taken away."""
    for package in ("stdlib", *PACKAGES):
        for text in _sentences(package, 600):
            first, _, rest = text.partition(" ")
            verb = first.lower().strip(",.")
            label = verb if verb in OPENINGS else verb.removesuffix("s")
            if label in OPENINGS and not re.search(rf"\b{label}", rest, re.I):
                yield rest, label


def errors() -> Iterator[tuple[str, str]]:
    """Which exception a message is of."""
    for package in ("stdlib", *PACKAGES):
        for tree in _trees(package, 700):
            for node in ast.walk(tree):
                raised = node.exc if isinstance(node, ast.Raise) else None
                if not isinstance(raised, ast.Call) or not raised.args:
                    continue
                name = getattr(raised.func, "id", "")
                if name in ERRORS and (text := _message(raised.args[0])):
                    yield text, name


def _message(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_message(v) or "…" for v in node.values)
    return ""


def symbols() -> Iterator[tuple[str, str]]:
    """In which block of Unicode a symbol is, by its name."""
    for block, first, last in (each.split("-") for each in BLOCKS):
        for code in range(int(first, 16), int(last, 16) + 1):
            if name := unicodedata.name(chr(code), ""):
                yield name.lower().replace("musical symbol", "…"), block


def manuals() -> Iterator[tuple[str, str]]:
    """In which section of the manual a page is, by its line of description."""
    for section in "123578":
        folder = Path("/usr/share/man") / f"man{section}"
        for file in _files([folder], "*.gz", 2500):
            text = gzip.decompress(file.read_bytes()).decode("utf-8", "replace")
            if found := re.search(r'\n\.S[Hh] "?NAME"?\s*\n(.*?)\n\.S[Hh]', text, re.S):
                line = re.sub(r"\\f.|\\&|\n\..*|\.[A-Z]\w\b", " ", found[1])
                _, dash, said = re.sub(r"\\-|\\\(em|–", "-", line).partition(" - ")
                if dash:
                    yield re.sub(r"\\.", "", said), section


def licences() -> Iterator[tuple[str, str]]:
    """From which licence twelve words are."""
    for name in LICENCES:
        words = (Path("/usr/share/common-licenses") / name).read_text("utf-8", "replace").split()
        for start in range(0, len(words) - 11, 12):
            yield " ".join(words[start : start + 12]), name


def changelogs() -> Iterator[tuple[str, str]]:
    """Of which of twelve source packages an entry of a changelog is."""
    entries: dict[str, set[str]] = defaultdict(set)
    for file in sorted(Path("/usr/share/doc").glob("*/changelog.Debian.gz")):
        text = gzip.decompress(file.read_bytes()).decode("utf-8", "replace")
        source = re.sub(r"[-.\d]*$", "", text.partition(" ")[0])
        if source not in entries:
            for item in re.findall(r"\n  \* (.+?)(?=\n  \* |\n\n|\n --)", text, re.S):
                item = re.sub(
                    rf"Closes:.*|\(.*?#\d+.*?\)|{re.escape(source)}", "", item, flags=re.I
                )
                entries[source].add(item)
    for source in sorted(entries, key=lambda s: (-len(entries[s]), s))[:12]:
        yield from ((item, source) for item in sorted(entries[source]))


def lines() -> Iterator[tuple[str, str]]:
    """In which kind of file a line stands."""
    roots = [Path("/usr/include"), Path("/usr/share"), Path("/usr/lib")]
    roots.append(Path(sysconfig.get_paths()["purelib"]))
    for kind in KINDS:
        for seed, file in enumerate(_files(roots, f"*{kind}", 400)):
            written = [w.strip() for w in file.read_text("utf-8", "replace").splitlines()]
            written = [w for w in written if 15 <= len(w) <= 100 and w.count(" ") > 1]
            picked = random.Random(seed).sample(written, min(3, len(written)))
            yield from ((line, kind) for line in picked)


BUILDERS: dict[str, Callable[[], Iterable[tuple[str, str]]]] = {
    "docstrings": docstrings,
    "manuals": manuals,
    "licences": licences,
    "lines": lines,
    "errors": errors,
    "symbols": symbols,
    "changelogs": changelogs,
    "openings": openings,
}
