"""Reads untrusted data: tables of rows from files of many kinds. Needs no torch."""
