"""The engine process: runs the jobs of its owner."""
