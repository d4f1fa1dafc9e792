"""What merged folders hold beside merged weights, and models that work with it."""
