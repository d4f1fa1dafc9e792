"""ACE workbench: merge fine-tuned experts in closed form, and see what the merge does."""

__version__ = "0.1.0"
