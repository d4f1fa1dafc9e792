"""Surveys of the whole model before the first tensor is merged."""
