"""Merging by several processes, on one machine or many, with Ray."""
