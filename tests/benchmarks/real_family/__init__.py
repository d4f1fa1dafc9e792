"""Merge methods on real fine-tunes of a pretrained sentence transformer."""
