"""Names out of files, made fit for a sentence: those of ``ace_gui.formatting``."""

from ace_gui.formatting import NAMES_SHOWN as NAMES_SHOWN
from ace_gui.formatting import listing as listing
from ace_gui.formatting import place as place
from ace_gui.formatting import plain as plain
