"""The implementations that the plan chooses from, one a file."""
