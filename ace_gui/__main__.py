"""``ace-gui``, also as ``python -m ace_gui``."""

from __future__ import annotations

from ace_gui.cli.interrupts import end_at_once


def main() -> None:
    """Entry point; exits 0 (done), 1 (a reported error), 2 (wrong usage) or 130 (cancelled)."""
    end_at_once()
    from ace_gui.cli.commands import main as run

    run()


if __name__ == "__main__":
    main()
