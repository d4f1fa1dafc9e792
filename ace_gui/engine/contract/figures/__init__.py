"""Figures of layers and models, as the engine says them. Plain values."""
