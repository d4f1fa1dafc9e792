"""A merge on a GPU: batches, its memory, its copies of the experts."""
