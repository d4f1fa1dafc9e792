"""What must be known of the whole model before the first tensor is merged."""
