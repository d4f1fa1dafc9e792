"""PyTorch pickles, read without running them."""
