"""What the person chose: the recipe in the making, and its history."""
