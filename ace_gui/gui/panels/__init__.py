"""The panels of the window, one widget per file."""
