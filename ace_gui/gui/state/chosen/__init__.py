"""The user's inputs: the recipe being edited, and its history."""
