"""Qt models over plain values."""
