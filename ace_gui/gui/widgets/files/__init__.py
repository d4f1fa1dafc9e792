"""Files that are chosen, and files that were written."""
