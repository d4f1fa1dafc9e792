"""Close looks at the selected layer."""
