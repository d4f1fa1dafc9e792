"""config.json → role and orientation of every tensor. The only room that imports transformers."""
