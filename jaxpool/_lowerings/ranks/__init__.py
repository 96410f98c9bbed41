"""Order statistics of windows: sorting networks, bitwise search, and wavelet matrices."""
