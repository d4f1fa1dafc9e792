"""Merging on a GPU: batches, memory, and copies of the experts."""
