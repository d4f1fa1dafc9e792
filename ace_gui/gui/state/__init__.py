"""The state of the window, without widgets and processes."""
