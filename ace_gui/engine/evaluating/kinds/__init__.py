"""The kinds of tasks, one class each."""
