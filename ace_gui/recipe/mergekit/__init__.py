"""mergekit's recipes, both ways."""
