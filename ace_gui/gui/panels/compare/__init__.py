"""The workspace that compares merges: by several methods, and two of them layer by layer."""
