"""Sums and maxima over the bins of one box.

A box of an image ``x[n]`` is divided into ``P`` by ``Q`` bins; bin ``(p, q)`` is the product of a
set of rows and a set of columns. Sums and maxima are therefore computed along one of the two axes,
then along the other.

Sums. With weights ``A[k, p, h]`` of the rows and ``B[k, q, w]`` of the columns, the sums and their
transpose are

    y[k, p, q, c] = sum over h, w of A[k, p, h] B[k, q, w] x[n, h, w, c],
    dx[n, h, w, c] = sum over p, q and the boxes k that read image n of
                     A[k, p, h] B[k, q, w] dy[k, p, q, c].

Position-sensitive sums read a separate channel for every bin: channel ``c * P * Q + p * Q + q``
for channel ``c`` of the result.

Maxima. Let ``w[h, q, c]`` be the first column with the maximum of row ``h`` over the columns of
``q``, and ``h[p, q, c]`` the first row of ``p`` with the maximum of the bin. Row ``h`` and its
column ``w`` are the first maximum of the bin in row-major order. The tangent selects the element at
that place by a sum over products of comparisons with the indices, and so does its transpose.
"""

import jax.numpy as jnp
from jax import Array, lax

from .._xla.materialize import materialize
from ..reductions import MAX, Reduction, identity_array
from .boxes import Boxes, bin_has_element, shape_by_bin, zero_unless
from .parts.argreduce import equal_or_both_nan
from .parts.float_order import reduce_in_integers_on_cpu

# --- sums -----------------------------------------------------------------------------------------


def sum_of(image: Array, box: Boxes) -> Array:
    """Return the weighted sum of every bin, ``[bin, bin, channel]``."""
    return _dot("qw,pwc->pqc", box.columns, _dot("ph,hwc->pwc", box.rows, image))


def sum_transpose(g: Array, box: Boxes) -> Array:
    """Return the transpose of :func:`sum_of`."""
    return _dot("ph,pwc->hwc", box.rows, _dot("qw,pqc->pwc", box.columns, g))


def position_sensitive_sum(image: Array, box: Boxes) -> Array:
    """Return :func:`sum_of` where every bin reads a separate channel."""
    by_bin = image.reshape(shape_by_bin(image.shape, box.bins))
    return _dot("qw,wcpq->pqc", box.columns, _dot("ph,hwcpq->wcpq", box.rows, by_bin))


def position_sensitive_sum_transpose(g: Array, box: Boxes) -> Array:
    """Return the transpose of :func:`position_sensitive_sum`."""
    spread = _dot("ph,qw,pqc->hwcpq", box.rows, box.columns, g)
    return spread.reshape(*spread.shape[:2], -1)


def _dot(subscripts: str, *arrays: Array) -> Array:
    return jnp.einsum(subscripts, *arrays, precision=lax.Precision.HIGHEST)


# --- maxima ---------------------------------------------------------------------------------------


def maximum_of(image: Array, box: Boxes) -> Array:
    """Return the maximum of every bin, 0 where it is empty."""
    _, y = _maxima(image, box)
    return zero_unless(bin_has_element(box), y)


def select_at_maximum(t: Array, image: Array, box: Boxes) -> Array:
    """Return ``t`` at the argmax of the image in every bin, 0 for an empty bin."""
    row, column = _argmax(image, box)
    is_column = _one_hot(column, 2, image.shape[1])
    in_rows = zero_unless(is_column, t[:, None]).sum(2)
    return zero_unless(_one_hot(row, 1, image.shape[0]), in_rows).sum(1)


def select_at_maximum_transpose(g: Array, image: Array, box: Boxes) -> Array:
    """Return the transpose of :func:`select_at_maximum`."""
    row, column = _argmax(image, box)
    is_row = _one_hot(row, 1, image.shape[0])
    in_rows = materialize(zero_unless(is_row, g[:, None]).sum(0))
    is_column = _one_hot(column, 2, image.shape[1])
    return zero_unless(is_column, in_rows[:, :, None]).sum(1)


def _maxima(image: Array, box: Boxes) -> tuple[Array, Array]:
    """Return the maximum of each row over the columns of each bin, and that of each bin."""
    row_maxima = materialize(_maximum(image[:, None], box.columns[None, :, :, None], 2))
    return row_maxima, _maximum(row_maxima[None], box.rows[:, :, None, None], 1)


def _maximum(x: Array, mask: Array, axis: int) -> Array:
    """Return the maximum along ``axis`` of the elements where ``mask`` is True."""

    def reduce(x: Array, reduction: Reduction) -> Array:
        elements = jnp.where(mask, x, identity_array(reduction, x.dtype))
        return lax.reduce_max(elements, (axis,))  # unlike jnp.max, of any symbolic size

    return reduce_in_integers_on_cpu(reduce, x, MAX)


def _argmax(image: Array, box: Boxes) -> tuple[Array, Array]:
    """Return the row of the argmax of each bin, and the column of that of each row and bin."""
    row_maxima, y = _maxima(image, box)
    column = _first_maximum(
        image[:, None], row_maxima[:, :, None], box.columns[None, :, :, None], 2
    )
    row = _first_maximum(row_maxima[None], y[:, None], box.rows[:, :, None, None], 1)
    return materialize((row, column))


def _first_maximum(x: Array, largest: Array, mask: Array, axis: int) -> Array:
    """Return the first index along ``axis`` that is read and equals the maximum, or its length."""
    is_maximum = mask & equal_or_both_nan(x, largest)
    length = is_maximum.shape[axis]
    places = lax.broadcasted_iota(jnp.int32, is_maximum.shape, axis)
    return lax.reduce_min(jnp.where(is_maximum, places, length), (axis,))


def _one_hot(places: Array, axis: int, length: int) -> Array:
    """Return a one-hot mask of ``places`` along a new axis; a place of ``length`` matches none."""
    places = jnp.expand_dims(places, axis)
    shape = tuple(length if a == axis else n for a, n in enumerate(places.shape))
    return places == lax.broadcasted_iota(jnp.int32, shape, axis)
