"""Windows of arbitrary starts and lengths: reductions, gathers at offsets, and scatters."""
