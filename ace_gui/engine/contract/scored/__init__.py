"""Scores, answers and comparisons of them. Plain values."""
