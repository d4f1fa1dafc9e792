"""The connection to the engine, and background tasks."""
