"""Carries out a merge plan, one tensor at a time, and writes the result into a store."""
