"""Measures the experts on their own data, for methods that need data."""
