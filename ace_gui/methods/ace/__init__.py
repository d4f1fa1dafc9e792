"""ACE-Merging."""
