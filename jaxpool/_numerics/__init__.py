"""Exact and stable arithmetic of windows: counts, means, norms, indices."""
