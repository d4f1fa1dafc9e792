"""The figures on the pages are those of the sets of experts that are in the repository."""

from __future__ import annotations

import csv
import re
import runpy
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from ace_gui.paths import resource_path
from tests.benchmarks.real_family.over_seeds import OverSeeds, differences

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
ALL_FIGURES = (ROOT / "docs/evidence.md").read_text("utf-8")
PAGE = resource_path("help/evidence.md").read_text("utf-8")
KINDS = {"full": "full", "rank 8": "lora8", "rank 32": "lora32"}
METHODS = {
    "recommended, as long as one expert": "recommended, δ = 0",
    "recommended, aligned whole": "distil",
    "aligned whole": "distil",
    "whole": "distil",
    "recommended, aligned by block": "distil, blocks",
    "by block": "distil, blocks",
    "the same, biases and norms": "distil, biases",
    "biases and norms": "distil, biases",
    "ACE as published": "ACE published",
    "TSV-M with a cap": "TSV-M, cap",
}
"""By the name in a table, the name in the file of sets, if it is another one."""

Column = tuple[str, int]
"""A kind of experts, and how many."""


class Figure(NamedTuple):
    """A figure of a table that is a mean over sets."""

    row: str
    column: Column
    mean: float
    error: float
    is_bold: bool


def sets() -> Mapping[tuple[str, Column], Mapping[str, float]]:
    """The share of each set, by method and column."""
    shares = defaultdict[tuple[str, Column], dict[str, float]](dict)
    with (ROOT / "docs/evidence-sets.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            set_of_experts = f"{row['day']} {row['seed']}"
            column = (row["kind"], int(row["T"]))
            shares[row["method"], column][set_of_experts] = float(row["share"])
    return shares


SHARES = sets()


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table in a text, by row; links are their words."""
    plain_text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text)
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", plain_text, re.MULTILINE):
        lines = block.splitlines()
        rows = [lines[0], *lines[2:]]
        found.append([[cell.strip() for cell in line.strip("|").split("|")] for line in rows])
    return found


def columns_of(heads: list[str]) -> list[Column]:
    """The kind and number of experts of each column. A head without a kind has that before it."""
    columns: list[Column] = []
    kind = "full"
    for head in heads:
        name, _, count = head.rpartition(" ")
        if "," in name:
            kind = KINDS[name.partition(",")[0]]
        columns.append((kind, int(count)))
    return columns


def figures(table: list[list[str]]) -> Iterator[Figure]:
    """The figures of a table that have an error."""
    columns = columns_of(table[0][1:])
    for name, *cells in table[1:]:
        for column, cell in zip(columns, cells, strict=True):
            number = cell.replace("−", "-").replace("*", "").partition(" (")[0]
            mean, found, error = number.partition(" ± ")
            if found:
                yield Figure(name.strip("*"), column, float(mean), float(error), "*" in cell)


def method_of(name: str) -> str:
    return METHODS.get(name, name)


OVER_SEEDS, PAIRED = tables(ALL_FIGURES)[:2]
ALIGNED = next(table for table in tables(ALL_FIGURES) if table[-1][0] == "whole less by block")
MEANS = {
    "all figures": OVER_SEEDS,
    "aligned": [row for row in ALIGNED if " less " not in row[0]],
    "page": tables(PAGE)[0],
    "page, aligned": tables(PAGE)[2],
    "README": next(table for table in tables(README) if table[0][0] == "merge"),
}


@pytest.mark.parametrize("where", MEANS)
def test_means_are_those_of_the_sets(where: str) -> None:
    found = list(figures(MEANS[where]))
    assert len(found) >= 9
    for figure in found:
        shares = SHARES[method_of(figure.row), figure.column]
        counted = OverSeeds(tuple(shares.values()))
        assert figure.mean == pytest.approx(counted.mean, abs=6e-4), figure
        assert figure.error == pytest.approx(counted.error, abs=6e-4), figure


PAIRS = {
    "all figures": [[f"{row[0]} less recommended", *row[1:]] for row in PAIRED],
    "aligned": [ALIGNED[0], *(row for row in ALIGNED if " less " in row[0])],
}


@pytest.mark.parametrize("where", PAIRS)
def test_differences_are_those_of_the_sets_and_bold_if_they_stand(where: str) -> None:
    found = list(figures(PAIRS[where]))
    assert len(found) >= 30
    for figure in found:
        first, second = map(method_of, figure.row.split(" less "))
        shares = SHARES[first, figure.column]
        others = SHARES[second, figure.column]
        both = sorted(shares.keys() & others.keys())
        counted = differences([shares[n] for n in both], [others[n] for n in both])
        assert figure.mean == pytest.approx(counted.mean, abs=6e-4), figure
        assert figure.error == pytest.approx(counted.error, abs=6e-4), figure
        assert figure.is_bold == counted.stands, figure


def by_row(table: list[list[str]]) -> dict[str, list[str]]:
    """The figures of each row, by its first cell."""
    rows = {}
    for name, *cells in table[1:]:
        rows[name.strip("*")] = [cell.strip("*") for cell in cells if cell != "–"]
    return rows


def test_the_page_selects_from_all_figures() -> None:
    """Of a chat model and of one set; those over sets of the encoder are counted above."""
    _, chat, _, one_set = map(by_row, tables(PAGE))
    all_chat, *groups = map(by_row, tables(ALL_FIGURES)[3:7])
    all_pairs = [figures_of_row[-2:] for figures_of_row in all_chat.values()]
    assert len(chat) >= 3
    assert all(pair in all_pairs for pair in chat.values())
    assert len(one_set) >= 9
    for method, selected in one_set.items():
        rows = [group[name] for group in groups for name in group if method.startswith(name)]
        count = len(selected) // len(rows)
        for index, row in enumerate(rows):
            assert set(selected[index * count : (index + 1) * count]) <= set(row), method


def test_the_picture_of_the_readme_is_of_the_sets() -> None:
    script = runpy.run_path(str(ROOT / "packaging/make_evidence.py"))
    drawn = (ROOT / "resources/screenshots/evidence.svg").read_text("utf-8")
    assert script["picture"]() == drawn
