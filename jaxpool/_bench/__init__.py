"""Benchmark of a pool against ``lax.reduce_window`` on the user's device."""
