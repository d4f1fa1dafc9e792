"""One tensor: its task vectors, what is known of it, its merge."""
