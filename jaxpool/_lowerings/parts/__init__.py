"""Building blocks of the implementations: slices, argmax pairs, and index arithmetic."""
