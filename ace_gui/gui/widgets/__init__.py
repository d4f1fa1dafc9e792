"""Small controls that Qt does not have."""
