"""The implementations that the plan chooses from, one per file."""
