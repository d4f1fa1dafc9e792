"""Queries about layers while nothing is merged."""
