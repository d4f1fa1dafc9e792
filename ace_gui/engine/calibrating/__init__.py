"""Measuring the experts with their own data, for methods that want data."""
