"""Elements of given ranks: sorting networks, bits, order statistics of long windows."""
