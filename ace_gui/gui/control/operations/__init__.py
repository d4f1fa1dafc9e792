"""What a person begins and can stop: merges, scores, exports, comparisons."""
