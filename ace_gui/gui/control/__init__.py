"""Between the window and the engine."""
