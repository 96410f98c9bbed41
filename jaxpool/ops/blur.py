"""Blur pooling with binomial windows, separately and after a maximum.

The binomial window of ``n`` taps has the weights ``binom(n - 1, t) / 2 ** (n - 1)``. Their divisor
is a power of two, so all float dtypes represent them exactly. A window over several axes is the
product of one window per axis, and is summed axis by axis.

Let ``m`` be 1 at elements and declared padding, and 0 at masked elements and overhang. Then

    y[o] = (sum over t of w[t] m[q] x[q]) / (sum over t of w[t] m[q]),   q = o * stride - low + t.

If no tap can be masked or in the overhang, the divisor is 1 and is not computed.
"""

import math
from dataclasses import replace
from typing import Any, Literal, get_args

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .._autodiff import rules
from .._autodiff.linear import linear_map, with_materialized_cotangent
from .._errors import message, public, shown
from .._geometry.arguments import Integers, int_or_ints, per_axis
from .._geometry.axis import Axis
from .._geometry.layout import with_lengths
from .._geometry.resolve import Geometry, is_static
from .._geometry.window import Padding, Rounding, Window
from .._lowerings.parts.axis_slicing import pad, slice_axis, tree_reduce
from .._lowerings.parts.borders import extend_axis
from .._lowerings.parts.phases import add_over_elements
from .._numerics.checks import check_float, check_where
from .._numerics.divisors import divide, ones, zero_where_masked
from .._numerics.weighted_windows import weighted_sum, weights_of
from ..reductions import MAX, accumulator
from ._dispatch import Configuration, Op, WindowArguments, call

_MAX_TAPS = 7
"""Taps per axis of a window; a longer blur is two blurs in sequence."""

_BORDERS = {"reflect": "mirror", "symmetric": "reflect", "edge": "nearest", "wrap": "wrap"}
"""From a mode of ``jnp.pad`` to its name in :mod:`.._lowerings.parts.borders`."""

PadMode = Literal["reflect", "symmetric", "edge", "wrap", "constant"]
MODES: tuple[PadMode, ...] = get_args(PadMode)


@public
def blur_pool(
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    mode: PadMode = "reflect",
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Return a binomial blur over sliding windows: an anti-aliasing average.

    ``y[.., o, ..] = sum over t of w[t] * x[.., o * stride - pad_low + t * dilation, ..]`` with the
    binomial weights ``w = [1, 1] / 2``, ``[1, 2, 1] / 4``, ``[1, 3, 3, 1] / 8`` and so on, along
    every pooled axis.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      window_shape: taps per pooled axis, 1 to 7; 1 does not blur an axis. With a ``data_format`` in
        letters, an int applies to all pooled axes.
      strides, padding, dilations, rounding, data_format: as in :func:`max_pool`. The paper pads by
        ``((n - 1) // 2, n // 2)`` at every stride; "SAME" pads by less at strides above 1.
      mode: how the padding is filled, as in ``jnp.pad``: "reflect" (the paper), "symmetric",
        "edge", "wrap", or "constant" for zeros.
      where: boolean mask that broadcasts to ``x``; elements where it is False are ignored, and the
        weights of the remaining ones are divided by their sum.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
      Low-precision floats are added in float32 and rounded once.
    Derivatives: linear; forward and reverse mode, any order, without any scatter.
    Edge cases: padding counts, the overhang of ceil rounding does not. A window in which no tap
      counts gives 0. NaN and infinities propagate. Elements larger than half the largest float may
      give infinities, because XLA adds elements of equal weight before it multiplies them.
    Raises:
      TypeError, ValueError: as :func:`max_pool`; TypeError also for integers and bool, ValueError
        if a window has more than 7 taps on an axis, ``mode`` is unknown, or padding other than
        "constant" and "edge" is longer than its axis.
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
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    blur_shape: Integers = 3,
    mode: PadMode = "reflect",
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Return the maximum over sliding windows of stride 1, blurred with the given strides.

    ``y = blur_pool(max_pool(x, window_shape, 1, padding), blur_shape, strides, blur_padding)`` with
    ``blur_padding = ((n - 1) // 2, n // 2)`` for each length ``n`` of ``blur_shape``. This is an
    anti-aliased max pool.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      window_shape, padding, dilations: those of the maximum, as in :func:`max_pool`.
      strides, rounding: those of the blur, as in :func:`max_pool`.
      blur_shape: taps of the blur per pooled axis, 1 to 7: an int or one per pooled axis; 1 does
        not blur an axis.
      mode: how the padding of the blur is filled, as in :func:`blur_pool`.
      data_format: as in :func:`max_pool`.
      where: boolean mask that broadcasts to ``x``; elements where it is False are ignored, and the
        blur ignores maxima of windows without elements.
    Returns:
      Array of the dtype of ``x``. A pooled axis has ``ceil(n / stride)`` entries, where ``n`` is
      its length from :func:`output_shape` at stride 1, and one more if the rounding keeps a last,
      partly filled window; other axes are unchanged.
    Derivatives: forward and reverse mode, any order: those of the blur, applied to the first
      maximum of each window.
    Edge cases: NaN in a window of the maximum gives NaN in the blurs that read it. A blur in which
      no maximum counts gives 0.
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


def _blur(x: Array, where: Any, *, config: Configuration, mode: PadMode) -> Array:
    check_float(x)
    _check_lengths("window_shape", config.window.kernel)
    return _blurred(x, check_where(where, x.shape), config.geometry(x.shape), mode)


def _max_blur(
    x: Array, where: Any, *, config: Configuration, blur_shape: int | tuple[int, ...], mode: PadMode
) -> Array:
    check_float(x)
    window, valid = config.window, check_where(where, x.shape)
    lengths = per_axis("blur_shape", blur_shape, len(window.kernel))
    maximum = Configuration(
        Window(window.kernel, 1, window.padding, window.dilations), config.data_format
    )
    y = rules.extreme(x, valid, maximum.plan(x.shape, x.dtype, MAX))
    has_elements = _nonempty_windows(x, valid, maximum)
    blur_padding = tuple(((n - 1) // 2, n // 2) for n in lengths)
    blur = Window(lengths, window.strides, blur_padding, rounding=window.rounding)
    return _blurred(
        y, has_elements, Configuration(blur, config.data_format).geometry(y.shape), mode
    )


def _nonempty_windows(x: Array, valid: Array | None, maximum: Configuration) -> Array | None:
    """Return whether each window of a maximum has an element, or None if all have one."""
    if valid is None and not maximum.geometry(x.shape).has_empty_window:
        return None
    elements = jnp.ones(x.shape, jnp.bool_) if valid is None else valid
    return rules.extreme(elements, None, maximum.plan(x.shape, jnp.bool_, MAX))


def _blurred(x: Array, valid: Array | None, geometry: Geometry, mode: PadMode) -> Array:
    """Return the blur of the ``valid`` elements."""
    for index, axis in enumerate(geometry.axes):
        _check_border(index, axis, mode)
    promoted = zero_where_masked(x, valid).astype(accumulator(x.dtype))
    weights = [_binomial_weights(axis.kernel, promoted.dtype) for axis in geometry.axes]
    is_divided = valid is not None or any(axis.overhang for axis in geometry.axes)
    dtype = x.dtype
    y = weighted_sum(
        lambda x: _weighted_sums(x, geometry, mode, padding=0),
        promoted,
        geometry,
        weights_of(geometry, weights, mode),
        (dtype, promoted.dtype if is_divided else dtype),
    )
    if is_divided:
        counted = ones(promoted, geometry) if valid is None else valid.astype(promoted.dtype)
        y = divide(y, _weighted_sums(counted, geometry, mode, padding=1))
    return y.astype(dtype)


def _weighted_sums(x: Array, geometry: Geometry, mode: PadMode, padding: int) -> Array:
    """Return the weighted sums of windows.

    With mode "constant" the padding has the value ``padding``. The overhang is always 0.
    """
    for axis, position in geometry.placed:
        x = _padded(x, axis, position, mode, padding)
    for axis, position in geometry.placed:
        x = _weighted_sums_along(x, axis, position)
    return x


def _weighted_sums_along(x: Array, axis: Axis, position: int) -> Array:
    """Return the weighted sums along one axis of an array that contains its padding.

    The transpose is written for the reasons that :mod:`.windows` states.
    """
    weights = _binomial_weights(axis.kernel, x.dtype)
    padded_axis = replace(axis, size=x.shape[position], pad_low=0)

    def sums(x: Array) -> Array:
        x = pad(x, position, 0, axis.overhang)
        taps = [
            slice_axis(x, position, t * axis.dilation, axis.out, axis.stride) * weight
            for t, weight in enumerate(weights)
        ]
        return tree_reduce(jnp.add, taps)

    def transpose(g: Array) -> Array:
        return add_over_elements(lambda t: g * weights[t], padded_axis, position)

    if axis.stride == 1 or not is_static((axis.size,)):
        return sums(x)
    return linear_map(sums, transpose, x, with_lengths(x.shape, [position], [axis.out]))


def _padded(x: Array, axis: Axis, position: int, mode: PadMode, padding: int) -> Array:
    low, high = axis.pad_low, axis.pad_high
    if mode == "constant":
        return pad(x, position, low, high, np.asarray(padding, x.dtype))
    if not (low or high):
        return x
    # Or each element would recompute the cotangents of its copies in padding.
    return with_materialized_cotangent(extend_axis(x, position, low, high, _BORDERS[mode]))


def _binomial_weights(taps: int, dtype: np.dtype) -> np.ndarray:
    return np.array([math.comb(taps - 1, t) / 2 ** (taps - 1) for t in range(taps)], dtype)


# --- checks ---------------------------------------------------------------------------------------


def _check_lengths(name: str, lengths: tuple[int, ...]) -> None:
    if max(lengths, default=0) > _MAX_TAPS:
        raise ValueError(
            message(
                f"${name} contains {max(lengths)}.",
                f"A binomial window has 1 to {_MAX_TAPS} taps.",
                "Blur twice: applying windows of a and b taps in sequence equals one window of "
                "a + b - 1 taps.",
            )
        )


def _check_border(index: int, axis: Axis, mode: PadMode) -> None:
    max_padding = max(axis.pad_low, axis.pad_high)
    is_limited = mode not in ("constant", "edge") and isinstance(axis.size, int)
    if is_limited and max_padding > axis.size:
        raise ValueError(
            message(
                f"padding of {max_padding} is longer than pooled axis {index}.",
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
    lengths = int_or_ints("blur_shape", blur_shape)
    _check_lengths("blur_shape", (lengths,) if isinstance(lengths, int) else lengths)
    return {"blur_shape": lengths, **_canonical_mode(mode)}


def _border_of(mode: PadMode) -> str:
    return _BORDERS.get(mode, mode)


_BLUR_POOL = Op("blur_pool", _blur, _canonical_mode, padding=_border_of)
_MAX_BLUR_POOL = Op("max_blur_pool", _max_blur, _canonical_blur, has_nested_windows=True)
