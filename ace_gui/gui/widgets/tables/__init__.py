"""The parts of tables: cells, look, export as CSV."""
