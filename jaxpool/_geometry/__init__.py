"""Window geometry in Python integers; imports no jax."""
