"""The window speaks the person's language; files keep the decimal point."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import numpy as np
import pytest
from PySide6.QtCore import QCoreApplication, QTranslator
from PySide6.QtWidgets import QComboBox, QPushButton

from ace_gui.engine.contract.checks import disk_check, memory_check
from ace_gui.engine.contract.figures.forecast import Forecast
from ace_gui.engine.contract.jobs import LoadRecipeJob
from ace_gui.gui.control.engine.engine_client import job_title
from ace_gui.gui.dialogs.override_dialog import OverrideDialog
from ace_gui.gui.languages import LANGUAGES, SOURCE, speak, spoken
from ace_gui.gui.models.figures_model import FigureColumn, write_csv
from ace_gui.gui.numbers import human_bytes, number_text, value_text
from ace_gui.gui.shell.main_window import MainWindow
from ace_gui.gui.shell.window_header import WORKSPACES
from ace_gui.gui.state.settings import Settings
from ace_gui.gui.told import told, told_list
from ace_gui.gui.widgets.fields.parameter import ParameterField
from ace_gui.gui.widgets.fields.scientific import ScientificSpinBox
from ace_gui.gui.widgets.labels.plain_label import plain_label
from ace_gui.gui.words import counted, later, tr
from ace_gui.recipe import Override
from ace_gui.recipe.rules import describe, describe_change
from tests.gui.fakes import field
from tests.walk.words import points_in

ROOT: Final = Path(__file__).resolve().parents[2]
CHOICES: Final = ("published", "automatic")
OTHERS: Final = sorted(LANGUAGES.keys() - {SOURCE})


# No text escapes

PASSES: Final = {"tr", "later", "counted", "told"}
SILENT: Final = {
    *("setObjectName", "setProperty", "property", "compile", "import_module", "getattr"),
    *("QRegularExpression", "sub", "errstate", "setApplicationName", "setOrganizationName"),
}
"""Calls whose texts nobody reads."""
SPOKEN: Final = re.compile(
    r"(set|add)(Text|Tool\w*|Title|Window\w*|Accessible\w*|Status\w*|Placeholder\w*|Suffix|Label\w*|"
    r"Special\w*|Tab\w*|Header\w*|Menu|Section|Row|Item|Informative\w*)|Q(Label|PushButton|Action|"
    r"Menu|CheckBox|RadioButton|GroupBox|ToolButton)|heading|\w+_label|say|set_whole|show_message|"
    r"set_full_text|set_titles"
)
"""Calls whose texts are read: of these, single words count, too."""
SENTENCE: Final = re.compile(r"[A-Za-z]{2,}[.,:;…’']? [A-Za-z]{2,}")
WORD: Final = re.compile(r"[A-Za-z]{3,}")
ENGLISH: Final = {
    "diagnostics.py",  # for whoever looks after the program
    "picture.py",  # a command, for the pictures of the handbook
}
NO_WORDS: Final = {
    "ACE Workbench",  # the program's name, in window titles
    "JetBrains Mono",
    "ACE Workbench {}",
    "{} with {}",  # the name of a file
    "# Tuned by ACE workbench: {}.\n",  # in a recipe
    "Var ln E",  # of a file of figures
    "Var ln E{}",
    "heterogeneous, γ near its pole",  # keys
    "merge: after",
    "merge: before",
    "this language",
    "<p style='white-space: pre-wrap'>{}</p>",
}


def strays(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Literals that read like words and go through none of ``PASSES``."""
    quiet: set[ast.AST] = set()
    read: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Raise() | ast.Compare() | ast.MatchValue():
                quiet.update(ast.walk(node))
            case ast.arg(annotation=ast.AST() as note) | ast.FunctionDef(returns=ast.AST() as note):
                quiet.update(ast.walk(note))
            case ast.AnnAssign():
                quiet.update(ast.walk(node.annotation))
            case ast.Call():
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in PASSES | SILENT:
                    quiet.update(ast.walk(node))
                elif SPOKEN.fullmatch(name):
                    read.update(a for a in node.args if isinstance(a, ast.Constant | ast.JoinedStr))
            case ast.JoinedStr():
                quiet.update(v for v in node.values if isinstance(v, ast.Constant))
    for node in ast.walk(tree):
        if node in quiet:
            continue
        text = ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(
                str(getattr(v, "value", "")) if isinstance(v, ast.Constant) else "{}"
                for v in node.values
            )
        if (SENTENCE.search(text) or (node in read and WORD.search(text))) and text not in NO_WORDS:
            yield node.lineno, text


def test_no_text_of_the_window_escapes_translation() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {text!r}"
        for file in sorted((ROOT / "ace_gui" / "gui").rglob("*.py"))
        if file.name not in ENGLISH
        for line, text in strays(ast.parse(file.read_text("utf-8")))
    ]
    assert not found, "\n".join(found)


def test_an_escaping_text_would_be_found() -> None:
    tree = ast.parse('label.setText("Layers")\nx = f"{n} of them"\ny = tr("in order")\nz = "key"')
    assert sorted(text for _, text in strays(tree)) == ["Layers", "{} of them"]


# The files of the languages


@pytest.mark.parametrize("code", OTHERS)
def test_a_language_has_every_text_and_no_other(code: str, making: ModuleType) -> None:
    known = making.translations(making.FOLDER / f"{code}.ts")
    assert set(known) == set(making.all_texts()), "run python packaging/make_translations.py"
    assert [text.source for text, said in known.items() if not all(said)] == []
    assert all(len(said) == 2 for text, said in known.items() if text.plural)


@pytest.mark.parametrize("code", OTHERS)
def test_translations_have_the_places_of_their_texts(code: str, making: ModuleType) -> None:
    for text, said in making.translations(making.FOLDER / f"{code}.ts").items():
        for each in said:
            places, wanted = (
                set(re.findall(r"\{[^}]*\}", each)),
                re.findall(r"\{[^}]*\}", text.source),
            )
            if text.context == "window":  # forms of the engine's sentences may leave some out
                assert places == set(wanted), each
            assert places <= set(wanted), each
            assert ("%n" in each) <= text.plural, each
            if "…" in text.source[-1:]:
                assert each.endswith("…"), each


@pytest.mark.parametrize("code", OTHERS)
def test_the_compiled_file_is_that_of_the_texts(
    code: str, making: ModuleType, tmp_path: Path
) -> None:
    made = tmp_path / "made.qm"
    making.release(making.FOLDER / f"{code}.ts", made)
    assert made.read_bytes() == (making.FOLDER / f"{code}.qm").read_bytes()


# Which language


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({"LC_ALL": "de_DE.UTF-8"}, "de"),
        ({"LANG": "de_AT.UTF-8"}, "de"),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "de"}, "de"),
        ({"LANG": "de_DE.UTF-8", "LANGUAGE": "fr:de"}, "de"),
        ({"LANG": "fr_FR.UTF-8"}, "en"),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
    ],
)
def test_the_system_says_which_language(environment: dict[str, str], code: str) -> None:
    said = subprocess.run(
        [sys.executable, "-c", "from ace_gui.gui.languages import spoken; print(spoken())"],
        env={**_without_language(), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == code


def _without_language() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG"))}


def test_a_wish_goes_before_the_system() -> None:
    assert spoken("de") == "de"
    assert spoken("de_CH") == "de"
    assert spoken("xx") == SOURCE


def test_the_wish_is_remembered() -> None:
    settings = Settings()
    assert settings.language == ""
    settings.language = "de"
    assert Settings().language == "de"


def test_back_to_english_leaves_no_translator(german: None) -> None:
    app = QCoreApplication.instance()
    assert app is not None
    assert tr("Layers") == "Schichten"
    speak("en")
    assert tr("Layers") == "Layers"
    assert app.findChildren(QTranslator, "language") == []


# What is said


def test_the_window_is_german(german: None, loaded: MainWindow) -> None:
    texts = {button.text() for button in loaded.findChildren(QPushButton)}
    assert {"Schichten", "Bewertung", "Vergleich", "Bericht"} <= texts
    assert loaded.actions_.merge.text() == "&Zusammenführen"


def test_counts_have_a_singular_and_a_plural(german: None) -> None:
    assert [counted(n, "matrix", "matrices") for n in (0, 1, 6)] == [
        "0 Matrizen",
        "1 Matrix",
        "6 Matrizen",
    ]


def test_counts_in_english() -> None:
    assert [counted(n, "matrix", "matrices") for n in (0, 1, 6)] == [
        "0 matrices",
        "1 matrix",
        "6 matrices",
    ]
    assert counted(1, "%n of {all} is", "%n of {all} are", all=3) == "1 of 3 is"
    assert counted(2, "%n of {all} is", "%n of {all} are", all=3) == "2 of 3 are"


def test_values_are_never_read_as_templates() -> None:
    assert tr("Open {path}", path="/{home}/%n") == "Open /{home}/%n"
    assert later("{x}") == "{x}"


def test_numbers_have_the_point_of_the_person(german: None) -> None:
    assert number_text(0.314, 2) == "0,31"
    assert human_bytes(1_300_000_000) == "1,3 GB"
    assert value_text(0.3) == "0,3"
    assert value_text("a.b") == "a.b"
    assert [value_text(value) for value in (True, "low rank")] == ["ja", "niedriger Rang"]
    assert tr("{norm:.2f} × norm", norm=1.5) == "1,50 × Norm"
    box = ScientificSpinBox(0.0, 1.0)
    box.set_value(0.25)
    assert box.lineEdit().text() == "0,25"
    box.lineEdit().setText("0,5")
    box.editingFinished.emit()
    assert box.value == 0.5
    box.deleteLater()


def test_no_number_has_the_point_of_english(german: None, loaded: MainWindow) -> None:
    loaded.session.select(loaded.session.layers.rows[0].name)
    spaces = loaded.workspace
    for place in range(len(WORKSPACES)):
        spaces.show_space(place)
        for _, tabs in spaces.panels_with_tabs():
            for index in range(tabs.count()):
                tabs.content(index)
        assert points_in(loaded) == []
    label = plain_label("0.123 of 2.5.1 in layer.3.weight", loaded)
    (found,) = points_in(loaded)
    assert "a point in 0.123" in found
    label.setText("2.5.1 in layer.3.weight")
    assert points_in(loaded) == []


def test_choices_and_roles_are_shown_in_words_and_kept_by_name(
    german: None, loaded: MainWindow
) -> None:
    said: list[object] = []
    variant = ParameterField(field("variant", default="published", choices=CHOICES), loaded)
    variant.edited.connect(said.append)
    variant.show_value("published", "", touched=True)
    assert isinstance(variant.control, QComboBox)
    assert variant.control.currentText() == "veröffentlicht"
    variant.control.setCurrentText("automatisch")
    variant.show_value("published", "", touched=True)
    assert variant.control.currentText() == "veröffentlicht"
    assert said == ["automatic"]
    dialog = OverrideDialog(loaded.session, Override(role="query", disposition="base"))
    assert dialog.role.currentText() == "Query"
    assert dialog.rule().role == "query"
    dialog.role.setCurrentIndex(0)
    assert dialog.rule().role is None
    dialog.deleteLater()


def test_what_a_rule_says_is_read_in_parts(german: None) -> None:
    rule = Override(
        role="position embedding",
        merge_method="emr",
        parameters={"rescaling": "least squares", "density": 0.25},
        experts={"mean squares": {"density": 0.2}},
        cap=False,
    )
    assert told_list(describe(rule)) == "Positionseinbettung"
    said = told_list(describe_change(rule, {"emr": "EMR-Merging"}))
    assert said == (
        "EMR-Merging, rescaling kleinste Quadrate, density 0,25, mean squares: density 0,2, "
        "keine Obergrenze"
    )


def test_files_keep_the_point(german: None, tmp_path: Path) -> None:
    file = tmp_path / "figures.csv"
    write_csv([FigureColumn(title="γ", values=np.array([0.25, np.nan]))], file)
    assert "0.25" in file.read_text("utf-8")


def test_sentences_of_the_engine_are_recognised_by_their_form(german: None) -> None:
    assert told("all models") == "alle Modelle"
    enough = disk_check(1_000_000_000, 9_500_000_000, "Free some space.")
    assert told(enough.sentence) == ("Etwa 1,0 GB für das zusammengeführte Modell; 9,5 GB frei.")
    tight = memory_check(3_000_000_000, "a.b.weight", 3_100_000_000)
    assert told(tight.sentence) == (
        "Etwa 3,0 GB für den größten Tensor, `a.b.weight`; 3,1 GB frei. Das ist knapp. "
        "Schließen Sie andere Programme, oder behalten Sie diesen Tensor aus der Basis."
    )
    expected = Forecast(relative_norm=5.567, above=3, delta=0.12, capped=False, known=5, total=24)
    assert told(expected.sentence) == (
        "Änderung durch den Merge: etwa 5,57 × die mittlere Norm der Experten; etwa 3 von 24 "
        "Matrizen über einer Obergrenze von δ = 0,12. Geschätzt aus 5 von 24 Matrizen."
    )
    assert told(
        "Computed in split float32 where experts are summed up, float64 where the system is solved,"
        " which leaves 3.2e-07 of the change (limit: 1e-06)."
    ) == (
        "Berechnet in geteiltes float32 beim Summieren der Experten, float64 beim Lösen des "
        "Systems, mit einem Fehler von 3,2e-07 der Änderung (Grenze: 1e-06)."
    )
    assert told("value") == "Value"
    assert told(job_title(LoadRecipeJob)) == "Rezept laden"
    assert told("weight of value 0.5") == "Gewicht von value 0,5"  # an expert of that name
    assert told("overridden: TIES-Merging, density 0.25, combine sum") == (
        "Ausnahme: TIES-Merging, density 0,25, combine Summe"
    )
    assert told("Of 72: 1 tensor with a warning, 3 with a note.") == (
        "Von 72: 1 Tensor mit einer Warnung, 3 mit einem Hinweis."
    )
    assert told("measuring the inputs of sst2") == "Eingaben von sst2 werden gemessen"
    assert told("There is no config.json. Tensors are described by their names.") == (
        "Es gibt keine config.json. Tensoren werden nach ihren Namen beschrieben."
    )
    assert told(
        "This DARE of mergekit's: The chat template is the base's, not the one the file names."
    ) == (
        "Dieses DARE von mergekit: "
        "Die Chat-Vorlage ist die der Basis, nicht die, die die Datei nennt."
    )
    assert told("An error that nobody has translated.") == "An error that nobody has translated."


def test_the_engine_is_english_where_the_window_is() -> None:
    sentence = "About 1.0 GB for the merged model; 9.5 GB free."
    assert told(sentence) is sentence
