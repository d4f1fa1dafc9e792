"""What came of it: layers, merges, runs, scores."""
