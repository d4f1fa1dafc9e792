"""Merge methods that learn coefficients, ranks or masks with data of the tasks."""
