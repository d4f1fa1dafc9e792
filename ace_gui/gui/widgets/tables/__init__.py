"""What tables are made of: cells, their look, their rows as CSV."""
