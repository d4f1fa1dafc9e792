"""The messages between the engine and the window: plain values, without torch."""
