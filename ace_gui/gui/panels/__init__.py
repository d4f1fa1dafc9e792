"""The parts of the window, one widget a file."""
