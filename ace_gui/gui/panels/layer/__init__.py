"""Details of the selected layer."""
