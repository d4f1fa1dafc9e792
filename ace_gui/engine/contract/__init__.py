"""The messages between engine and window: plain values, without torch."""
