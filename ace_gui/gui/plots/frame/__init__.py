"""The parts of every plot."""
