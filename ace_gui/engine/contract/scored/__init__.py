"""Scores, answers and what they come to. Plain values."""
