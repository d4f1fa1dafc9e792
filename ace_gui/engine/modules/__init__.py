"""Contents of merged folders besides merged weights, and models that use them."""
