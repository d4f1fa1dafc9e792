"""Figures of layers and models from the engine. Plain values."""
