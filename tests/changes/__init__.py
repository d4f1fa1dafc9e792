"""What *To add* in CONTRIBUTING promises: each row is made in a copy of the program, and found."""
