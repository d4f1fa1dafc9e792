"""One tensor: its task vectors, its findings, its merge."""
