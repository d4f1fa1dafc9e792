"""Training what routes examples to experts, with the calibration inputs of their tasks."""
