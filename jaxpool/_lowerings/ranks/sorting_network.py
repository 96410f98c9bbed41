"""A sorting network: elementwise comparators that sort a few arrays of any size.

Source: Batcher's merge exchange, in Knuth, The Art of Computer Programming, 5.2.2, algorithm M.
"""

from collections.abc import Iterator

from jax import Array, lax


def sorted_lanes(lanes: list[Array]) -> list[Array]:
    """Sort arrays elementwise: the first result has the smallest of the elements at each index.

    The compiler removes comparators whose results are unused. NaN propagates to every result.
    """
    lanes = list(lanes)
    for a, b in _comparators(len(lanes)):
        lanes[a], lanes[b] = lax.min(lanes[a], lanes[b]), lax.max(lanes[a], lanes[b])
    return lanes


def _comparators(count: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs of lanes to compare and exchange, in order."""
    first = p = 1 << max((count - 1).bit_length() - 1, 0)
    while p and count > 1:
        q, r, d = first, 0, p
        while d:
            yield from ((i, i + d) for i in range(count - d) if i & p == r)
            d, q, r = (q - p, q // 2, p) if q != p else (0, q, r)
        p //= 2
