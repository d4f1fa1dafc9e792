"""The engine process: runs the jobs that its owner asks for."""
