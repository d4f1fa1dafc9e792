"""What is asked of the engine about layers while nothing is merged."""
