"""A study of merge methods on small model families that are made here, from seeds alone."""
