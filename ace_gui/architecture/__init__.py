"""Role and orientation of every tensor, by config.json. Only this package imports transformers."""
