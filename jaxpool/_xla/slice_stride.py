"""Slices of one entry, which have no stride.

For jaxlib 0.10 to 0.12. XLA partitions a slice of one entry of a sharded axis by its stride. If the
stride is at least 3, the result may be wrong, or the compiler raises an internal error.
"""


def slice_stride(count: int, stride: int) -> int:
    """Return the stride of a slice of ``count`` entries: 1 for one entry, else ``stride``."""
    return 1 if count == 1 else stride
