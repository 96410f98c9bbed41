"""The taps of every window as an axis, to compute any function of a window."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .._errors import message, public, shown
from .._geometry.arguments import Integers
from .._geometry.window import Padding, Rounding
from .._lowerings.parts.stack import stack_taps
from .._numerics.checks import check_real, check_where, real_number
from ..reductions import byte_dtype
from ._dispatch import Configuration, Op, WindowArguments, call


@public
def windows(
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    fill: float = 0,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Return the taps of every window as a new last axis, to compute any function of a window.

    ``y[.., o, .., t] = x[.., o * stride - pad_low + t * dilation, ..]``, with taps ``t`` in
    row-major order. Positions outside ``x`` are read as ``fill``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      window_shape, strides, padding, dilations, rounding, data_format: as in :func:`max_pool`.
      fill: a number that the dtype of ``x`` can represent, such as ``-jnp.inf``.
      where: boolean mask that broadcasts to ``x``; elements where it is False are read as ``fill``.
    Returns:
      Array of the dtype of ``x`` with one additional axis. The other axes have the lengths of
      :func:`output_shape`, and the last axis has one entry per tap. Within ``jax.jit`` the array is
      not materialised if it is only the operand of a sum, maximum or minimum over the last axis,
      and the window has at most 64 taps.
    Derivatives: linear; forward and reverse mode, any order, without any scatter. The cotangents of
      an element are added in the dtype of ``x``. Integers have no derivative.
    Edge cases: an empty batch or channel axis gives an empty result.
    Raises:
      TypeError, ValueError: as :func:`max_pool`; TypeError also if ``fill`` is not a number,
        ValueError if the dtype of ``x`` cannot represent it.
    References: Dumoulin and Visin 2016 (arXiv:1603.07285), section 5; PyTorch ``Tensor.unfold``.
    Example:
      >>> x = jnp.array([[1.0], [2.0], [4.0]])
      >>> jaxpool.windows(x, (2,), 1, ((1, 0),), fill=-1)[:, 0]
      Array([[-1.,  1.],
             [ 1.,  2.],
             [ 2.,  4.]], dtype=float32)
      >>> jaxpool.windows(x, (2,), 1).std(-1)[:, 0]
      Array([0.5, 1. ], dtype=float32)
    """
    windows = WindowArguments(window_shape, strides, padding, dilations, rounding, data_format)
    return call(_WINDOWS, x, (where,), windows, fill=fill, sign=_sign(fill))


def _windows(x: Array, where: Any, *, config: Configuration, fill: float, sign: float) -> Array:
    check_real(x)
    value = _cast_fill(fill if fill else 0 * sign, x.dtype)
    valid = check_where(where, x.shape)
    x = x if valid is None else jnp.where(valid, x, value)
    # XLA:CPU aborts the process if it concatenates 2-bit integers (jaxlib 0.10 to 0.12).
    operand = x.astype(byte_dtype(x.dtype))
    geometry, value = config.geometry(x.shape), value.astype(operand.dtype)
    return stack_taps(operand, geometry, value).astype(x.dtype)


def _sign(fill: Any) -> float:
    """Return the sign of ``fill``. It distinguishes 0.0 and -0.0, which are equal as cache keys."""
    number = fill.item() if isinstance(fill, np.generic) else fill
    return math.copysign(1, number) if isinstance(number, (float, np.floating)) else 1


def _canonical_fill(fill: Any, sign: float) -> dict[str, float]:
    number = real_number("fill", fill, "0 or -jnp.inf", or_bool=True)
    return {"fill": math.nan if number != number else number, "sign": sign}


def _cast_fill(fill: float, dtype: np.dtype) -> np.ndarray:
    """Return ``fill`` in ``dtype``, or raise if it is not a value of that dtype."""
    floats = jnp.issubdtype(dtype, jnp.floating)
    if not (_fits_float if floats else _fits_integer)(fill, dtype):
        raise ValueError(
            message(
                f"$fill = {shown(fill)} is not a value of {dtype.name}.",
                f"The array contains {'floating-point numbers' if floats else 'integers'}.",
                "Give one of them, or convert the array first.",
            )
        )
    return np.asarray(float(fill) if floats else int(fill), dtype)


def _fits_float(fill: float, dtype: np.dtype) -> bool:
    """Return whether the dtype represents ``fill``, up to rounding, as NaN, infinity or finite.

    A finite ``fill`` larger than the largest number of the dtype does not fit.
    """
    if float(jnp.finfo(dtype).max) < abs(fill) < math.inf:
        return False
    rounded = float(np.asarray(float(fill), dtype))
    return (rounded != rounded) == (fill != fill) and math.isinf(rounded) == math.isinf(fill)


def _fits_integer(fill: float, dtype: np.dtype) -> bool:
    limits = (0, 1) if dtype == np.bool_ else (jnp.iinfo(dtype).min, jnp.iinfo(dtype).max)
    return limits[0] <= fill <= limits[1] and fill == int(fill)


_WINDOWS = Op("windows", _windows, _canonical_fill)
