"""The places of the Scores workspace: tasks, scores, examples, trying out, tuning."""
