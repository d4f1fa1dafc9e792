"""Detailed inspection of tensors and merges."""
