"""Results: layers, merges, runs, scores."""
