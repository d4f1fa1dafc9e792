"""A walk through every state of the window, which looks for what cannot be read or reached."""
