"""The way to the engine and back, and small work beside it."""
