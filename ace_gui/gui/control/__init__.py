"""Controllers between the window and the engine."""
