"""The languages of the window, and which of them it speaks."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

from ace_gui.paths import resource_path

SOURCE: Final = "en"
LANGUAGES: Final = {SOURCE: "English", "de": "Deutsch"}
"""Code → what its speakers call it."""

_KIND: Final = "language"  # object name of the translators that are installed


def spoken(language: str = "") -> str:
    """The code of the language for a wish; empty: what the system asks for, else English."""
    wishes = [language] if language else QLocale.system().uiLanguages()
    codes = (wish.replace("_", "-").partition("-")[0] for wish in wishes)
    return next((code for code in codes if code in LANGUAGES), SOURCE)


def speak(language: str = "") -> None:
    """Have what is shown from now on in a language; empty: the system's.

    ``LANGUAGE``, ``LC_ALL`` and ``LANG`` are the system's on Linux. Numbers and dates are the
    system's too, unless another language was asked for. Needs an application; to be called before
    the window is made.
    """
    app = QCoreApplication.instance()
    assert app is not None
    code, system = spoken(language), QLocale.system()
    same = not language or system.name().partition("_")[0] == code
    QLocale.setDefault(system if same else QLocale(code))
    for old in app.findChildren(QTranslator, _KIND):
        app.removeTranslator(old)
        old.setParent(None)
    if code == SOURCE:
        return
    own = str(resource_path("languages"))
    qt = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
    for file, folder in ((f"qtbase_{code}", qt), (code, own)):
        translator = QTranslator(app)
        translator.setObjectName(_KIND)
        if translator.load(file, folder):
            app.installTranslator(translator)
