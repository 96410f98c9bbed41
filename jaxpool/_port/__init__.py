"""Model files as calls of the library."""
