"""Trains routers of examples to experts, with the calibration inputs of their tasks."""
