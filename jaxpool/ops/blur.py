"""Blur pooling: binomial windows, alone and after a maximum.

The binomial window of ``n`` taps has the weights ``binom(n - 1, t) / 2 ** (n - 1)``, powers of two
in their divisors, so that all floats hold them exactly. A window of several axes is the product of
one window per axis, and is summed axis by axis.

With ``m`` 1 at elements and declared padding, 0 at masked elements and overhang,

    y[o] = (sum over t of w[t] m[q] x[q]) / (sum over t of w[t] m[q]),   q = o * stride - low + t.

The divisor is 1 where all taps count, and is then not computed.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .._autodiff import rules
from .._autodiff.linear import linear_map
from .._errors import message, public, shown
from .._geometry.arguments import is_sequence, length_of, per_axis
from .._geometry.axis import Axis
from .._geometry.resolve import Geometry
from .._geometry.window import Padding, Rounding, Window
from .._lowerings.parts.axis_slicing import pad, slice_axis, tree_reduce
from .._lowerings.parts.borders import extended
from .._numerics.checks import check_float, check_where
from .._numerics.divisors import divide, masked, ones
from .._numerics.weighted_windows import weighted_sum, weights_of
from .._xla.materialize import materialize
from ..reductions import MAX, accumulator
from ._dispatch import Configuration, Op, WindowArguments, call

_LONGEST = 7
"""Taps of a window; a longer one is a blur of a blur."""

_BORDERS = {"reflect": "mirror", "symmetric": "reflect", "edge": "nearest", "wrap": "wrap"}
"""The borders of ``jnp.pad``, and what :mod:`.._lowerings.parts.borders` calls them."""

MODES = (*_BORDERS, "constant")


@public
def blur_pool(
    x: ArrayLike,
    window_shape: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Padding = "VALID",
    *,
    mode: str = "reflect",
    dilations: int | Sequence[int] = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Binomial blur over sliding windows: an average that does not alias.

    ``y[.., o, ..] = sum over t of w[t] * x[.., o * stride - pad_low + t * dilation, ..]`` with the
    binomial weights ``w = [1, 1] / 2``, ``[1, 2, 1] / 4``, ``[1, 3, 3, 1] / 8`` and so on, along
    every pooled axis.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      window_shape: taps per pooled axis, 1 to 7; 1 does not blur an axis. An int stands for all of
        them, as in :func:`max_pool`.
      strides, padding, dilations, rounding, data_format: as in :func:`max_pool`. The paper pads by
        ``((n - 1) // 2, n // 2)`` at any stride, "SAME" by less at strides above 1.
      mode: what stands in the padding, in the words of ``jnp.pad``: "reflect" (the paper),
        "symmetric", "edge", "wrap", or "constant" for zeros.
      where: boolean mask that broadcasts to ``x``; False takes the element away, and the weights of
        the others are divided by their sum.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
      Low-precision floats are added in float32 and rounded once.
    Derivatives: linear; forward and reverse mode, any order, without any scatter.
    Edge cases: padding counts, the overhang of ceil rounding does not. A window in which nothing
      counts gives 0. NaN and infinities propagate. Elements beyond half the largest float may give
      infinities, as XLA adds those of one weight before it multiplies.
    Raises:
      TypeError, ValueError: as :func:`max_pool`; TypeError also for integers and bool, ValueError
        if a window is longer than 7, ``mode`` is none, or padding is longer than its axis.
    References: Zhang 2019 (arXiv:1904.11486), section 3; Burt and Adelson 1983, "The Laplacian
      pyramid as a compact image code", for binomial windows.
    Example:
      >>> x = jnp.array([[0.0], [8.0], [0.0], [4.0], [4.0]])
      >>> jaxpool.blur_pool(x, (3,), 2, 1)[:, 0]
      Array([4., 3., 4.], dtype=float32)
      >>> jaxpool.blur_pool(x, (3,), 2, 1, mode="constant")[:, 0]
      Array([2., 3., 3.], dtype=float32)
    """
    windows = WindowArguments(window_shape, strides, padding, dilations, rounding, data_format)
    return call(_BLUR_POOL, x, (where,), windows, mode=mode)


@public
def max_blur_pool(
    x: ArrayLike,
    window_shape: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Padding = "VALID",
    *,
    blur_shape: int | Sequence[int] = 3,
    mode: str = "reflect",
    dilations: int | Sequence[int] = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Maximum over sliding windows of stride 1, then a binomial blur of the stride asked for.

    ``y = blur_pool(max_pool(x, window_shape, 1, padding), blur_shape, strides, blur_padding)`` with
    ``blur_padding = ((n - 1) // 2, n // 2)`` for each length ``n`` of ``blur_shape``: a maximum
    pool that does not alias.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      window_shape, padding, dilations: of the maximum, as in :func:`max_pool`.
      strides, rounding: of the blur, as in :func:`max_pool`.
      blur_shape: taps of the blur, 1 to 7: an int or one per pooled axis; 1 is no blur.
      mode: what stands in the padding of the blur, as in :func:`blur_pool`.
      data_format: as in :func:`max_pool`.
      where: boolean mask that broadcasts to ``x``; False takes the element away, and a maximum of
        no element away from the blur.
    Returns:
      Array of the dtype of ``x``. A pooled axis has ``ceil(n / stride)`` entries, for ``n`` of
      :func:`output_shape` at stride 1; the others are unchanged.
    Derivatives: forward and reverse mode, any order: of the blur, then of the first maximum of each
      window.
    Edge cases: NaN in a window of the maximum gives NaN in the blurs that read it. Where nothing
      counts, 0.
    Raises:
      TypeError, ValueError: as :func:`blur_pool`.
    References: Zhang 2019 (arXiv:1904.11486), section 3.2, "MaxBlurPool".
    Example:
      >>> x = jnp.array([[0.0], [0.0], [4.0], [4.0], [0.0], [0.0]])
      >>> jaxpool.max_blur_pool(x, (2,), 2)[:, 0]
      Array([2., 4., 2.], dtype=float32)
      >>> jaxpool.max_pool(x, (2,), 2)[:, 0]
      Array([0., 4., 0.], dtype=float32)
    """
    windows = WindowArguments(window_shape, strides, padding, dilations, rounding, data_format)
    return call(_MAX_BLUR_POOL, x, (where,), windows, blur_shape=blur_shape, mode=mode)


# --- bodies ---------------------------------------------------------------------------------------


def _blur(x: Array, where: Any, *, config: Configuration, mode: str) -> Array:
    check_float(x)
    _check_lengths("window_shape", config.window.kernel)
    return _blurred(x, check_where(where, x.shape), config.geometry(x.shape), mode)


def _max_blur(
    x: Array, where: Any, *, config: Configuration, blur_shape: int | tuple[int, ...], mode: str
) -> Array:
    check_float(x)
    asked, valid = config.window, check_where(where, x.shape)
    lengths = per_axis("blur_shape", blur_shape, len(asked.kernel))
    maximum = Configuration(
        Window(asked.kernel, 1, asked.padding, asked.dilations), config.data_format
    )
    y = rules.extreme(x, valid, maximum.plan(x.shape, x.dtype, MAX))
    there = _not_empty(x, valid, maximum)
    paper = tuple(((n - 1) // 2, n // 2) for n in lengths)
    blur = Window(lengths, asked.strides, paper, rounding=asked.rounding)
    return _blurred(y, there, Configuration(blur, config.data_format).geometry(y.shape), mode)


def _not_empty(x: Array, valid: Array | None, maximum: Configuration) -> Array | None:
    """Which windows of a maximum have an element, or None if all have one."""
    if valid is None and not maximum.geometry(x.shape).has_empty_window:
        return None
    elements = jnp.ones(x.shape, jnp.bool_) if valid is None else valid
    return rules.extreme(elements, None, maximum.plan(x.shape, jnp.bool_, MAX))


def _blurred(x: Array, valid: Array | None, geometry: Geometry, mode: str) -> Array:
    """The blur of the ``valid`` elements."""
    for index, axis in enumerate(geometry.axes):
        _check_border(index, axis, mode)
    wide = masked(x, valid).astype(accumulator(np.dtype(x.dtype)))
    overhangs = any(axis.overhang for axis in geometry.axes)
    is_divided, narrow = valid is not None or overhangs, np.dtype(x.dtype)
    y = weighted_sum(
        lambda x: _weighted(x, geometry, mode, padding=0),
        wide,
        geometry,
        weights_of(geometry, [_binomial(axis.kernel, wide.dtype) for axis in geometry.axes], mode),
        (narrow, wide.dtype if is_divided else narrow),
    )
    if valid is not None:
        y = divide(y, _weighted(valid.astype(wide.dtype), geometry, mode, padding=1))
    elif overhangs:
        y = divide(y, _weighted(ones(wide, geometry), geometry, mode, padding=1))
    return y.astype(narrow)


def _weighted(x: Array, geometry: Geometry, mode: str, padding: int) -> Array:
    """The weighted sums, of ``padding`` under "constant" and of zeros in the overhang."""
    for axis, position in geometry.placed:
        x = _bordered(x, axis, position, mode, padding)
    for axis, position in geometry.placed:
        x = pad(x, position, 0, axis.overhang, np.zeros((), x.dtype))
        taps = [
            slice_axis(x, position, t * axis.dilation, axis.out, axis.stride) * weight
            for t, weight in enumerate(_binomial(axis.kernel, np.dtype(x.dtype)))
        ]
        x = tree_reduce(jnp.add, taps)
    return x


def _bordered(x: Array, axis: Axis, position: int, mode: str, padding: int) -> Array:
    low, high = axis.pad_low, axis.pad_high
    if mode == "constant":
        return pad(x, position, low, high, np.asarray(padding, x.dtype))
    if not (low or high):
        return x
    x = extended(x, position, low, high, _BORDERS[mode])
    # Every element would compute anew the cotangents of what repeats it.
    return linear_map(lambda x: x, lambda g: materialize(g)[0], x, x.shape)


def _binomial(taps: int, dtype: np.dtype) -> np.ndarray:
    return np.array([math.comb(taps - 1, t) / 2 ** (taps - 1) for t in range(taps)], dtype)


# --- checks ---------------------------------------------------------------------------------------


def _check_lengths(name: str, lengths: tuple[int, ...]) -> None:
    if max(lengths, default=0) > _LONGEST:
        raise ValueError(
            message(
                f"${name} holds {max(lengths)}.",
                f"A binomial window has 1 to {_LONGEST} taps.",
                "Blur twice: windows of a and b taps, one after the other, are one of a + b - 1.",
            )
        )


def _check_border(index: int, axis: Axis, mode: str) -> None:
    longest = max(axis.pad_low, axis.pad_high)
    if mode != "constant" and isinstance(axis.size, int) and longest > axis.size:
        raise ValueError(
            message(
                f"padding of {longest} is longer than pooled axis {index}.",
                f"The axis has {axis.size} elements, and $mode = {mode!r} fills padding with them.",
                'Pad by less, or give mode="constant".',
            )
        )


def _canonical_mode(mode: Any) -> dict[str, str]:
    if not isinstance(mode, str) or mode not in MODES:
        raise ValueError(
            message(
                f"$mode = {shown(mode)} is not a mode.",
                f"The modes are {', '.join(MODES)}, as in jnp.pad.",
                'Give one of them; "constant" pads with zeros.',
            )
        )
    return {"mode": mode}


def _canonical_blur(blur_shape: Any, mode: Any) -> dict[str, Any]:
    count = length_of(blur_shape) if is_sequence(blur_shape) else 1
    lengths = per_axis("blur_shape", blur_shape, count)
    _check_lengths("blur_shape", lengths)
    return {
        "blur_shape": lengths if is_sequence(blur_shape) else lengths[0],
        **_canonical_mode(mode),
    }


def _padding_of(mode: str) -> str:
    return _BORDERS.get(mode, mode)


_BLUR_POOL = Op("blur_pool", _blur, _canonical_mode, padding=_padding_of)
_MAX_BLUR_POOL = Op("max_blur_pool", _max_blur, _canonical_blur, is_twofold=True)
