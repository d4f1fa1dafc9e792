"""The first page: ways to begin, recent projects, and the sample."""
