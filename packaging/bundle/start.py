"""What the bundle's executable runs: the command line and window, or a process of their own."""

import multiprocessing
import os
import sys


def main() -> None:
    """Run what the arguments ask for, and exit."""
    give_back_library_path()
    multiprocessing.freeze_support()  # the engine process does not go beyond this line
    from ace_gui.bundle_parts import part_asked_for

    part = part_asked_for(sys.argv[1:])
    if part is None:
        from ace_gui.__main__ import main as run

        run()
    else:
        del sys.argv[1:3]
        sys.exit(part())


def give_back_library_path() -> None:
    """Programs that the window starts, such as a browser, shall find the system's libraries.

    Processes of the bundle's own then set their path themselves, as the first one did.
    """
    os.environ["PYINSTALLER_RESET_ENVIRONMENT"] = "1"
    if "LD_LIBRARY_PATH" in os.environ:
        before = os.environ.pop("LD_LIBRARY_PATH_ORIG", "")
        if before:
            os.environ["LD_LIBRARY_PATH"] = before
        else:
            del os.environ["LD_LIBRARY_PATH"]


if __name__ == "__main__":
    main()
