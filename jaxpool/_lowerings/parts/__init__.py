"""What implementations are made of: slices, pairs of values and offsets, index arithmetic."""
