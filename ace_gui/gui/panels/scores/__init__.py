"""The tabs of the Scores workspace: tasks, scores, examples, try it, tune."""
