"""``python -m ace_gui`` is ``ace-gui``."""

from ace_gui.cli import main

if __name__ == "__main__":
    main()
