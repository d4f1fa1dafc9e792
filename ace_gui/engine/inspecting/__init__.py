"""Close looks at tensors and merges."""
