"""The welcome page: ways to start, recent projects, the sample."""
