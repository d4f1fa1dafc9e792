"""Carry out a plan, one tensor at a time, into a store."""
