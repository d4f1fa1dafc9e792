"""Adapters between plain values and Qt's views."""
