"""Fractional max pooling (Graham): windows at random positions.

An axis of ``L`` elements has ``O`` windows of ``K`` elements, which are spread almost evenly: with
``u`` in [0, 1) and ``alpha = (L - K) / (O - 1)``,

    start[i] = trunc((i + u) * alpha) - trunc(u * alpha),   start[O - 1] = L - K.

Max pooling with stride 1 computes the windows at all starts, and a gather selects those at
``start``. The gather is linear, so the derivatives are those of max pooling and of the gather. Cost
and program size grow with the logarithm of the window. Starts are computed in float32, as in
PyTorch. Several windows have the same start only on axes so long that float32 rounds the starts.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike, DTypeLike

from .._autodiff import rules
from .._errors import message, public
from .._geometry.arguments import Integers, entries_of, int_or_ints, is_sequence, per_axis
from .._geometry.layout import with_lengths
from .._geometry.resolve import Geometry, check_known
from .._lowerings.plan import plan_for
from .._numerics import indices as _indices
from .._numerics.checks import as_array, check_real, check_where
from .._numerics.indices import IndexSpace
from ..reductions import MAX, Reduction, accumulator
from ._dispatch import Configuration, Op, WindowArguments, call
from ._parameters import check_key


@public
def fractional_max_pool(
    key: ArrayLike | None,
    x: ArrayLike,
    window_shape: Integers,
    output_size: Integers,
    *,
    samples: ArrayLike | None = None,
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Return the maximum over a given number of windows at random positions.

    Window ``i`` of an axis of ``L`` elements starts at
    ``trunc((i + u) * alpha) - trunc(u * alpha)`` with ``alpha = (L - window) / (output_size - 1)``
    and a random ``u`` in [0, 1). The last window starts at ``L - window``. Neighbouring windows are
    ``floor(alpha)`` or ``ceil(alpha)`` elements apart; on axes of 100,000 elements rounding in
    float32 can change this by one.

    Args:
      key: a key of :mod:`jax.random`, or None if ``samples`` are given. It draws ``u`` for every
        pooled axis of every plane (batch and channel entry), as PyTorch does. The same key, shape
        and window give the same windows on every platform.
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      window_shape: elements per pooled axis, >= 1; its length is the number of pooled axes. With a
        ``data_format`` in letters, an int applies to all pooled axes.
      output_size: windows per pooled axis, >= 1; an int applies to all axes.
        ``output_size + window - 1`` may not exceed the axis.
      samples: the numbers ``u``, instead of a key: floats of shape ``(.., n)`` for ``n`` pooled
        axes in array order. The leading axes broadcast to the axes of ``x`` that are not pooled;
        ``(n,)`` gives all planes the same windows. (PyTorch's 2-D ``_random_samples`` have the
        reverse order, width first.) Starts are computed in float32, or in float64 if the samples
        are float64.
      data_format, where: as in :func:`max_pool`.
    Returns:
      Array of the dtype of ``x``. Pooled axes have the lengths ``output_size``; other axes are
      unchanged.
    Derivatives: in ``x`` as :func:`max_pool`. There is no derivative in ``samples``, because the
      starts are integers.
    Edge cases: NaN, and windows in which ``where`` leaves no element, as in :func:`max_pool`.
      Samples outside [0, 1) are an error in an eager call. Inside a transformation, where values
      are unknown, starts are clipped to the axis.
    Raises:
      TypeError: a setting is not an integer, ``key`` is not a key, or ``x`` is complex.
      ValueError: a setting is out of range, has the wrong length or does not fit ``x``; both or
        neither of ``key`` and ``samples`` are given.
    References: Graham 2014 (arXiv:1412.6071); PyTorch ``fractional_max_pool2d``.
    Example:
      >>> x = jnp.arange(10.0)
      >>> jaxpool.fractional_max_pool(None, x, 2, 4, samples=jnp.array([0.5]), data_format="W")
      Array([1., 4., 6., 9.], dtype=float32)
      >>> jaxpool.fractional_max_pool(jax.random.key(0), x, 2, 4, data_format="W").shape
      (4,)
    """
    windows = WindowArguments(window_shape, 1, data_format=data_format)
    return fractional(_FRACTIONAL, key, x, windows, output_size, samples, where)


@public
def fractional_max_pool_with_argmax(
    key: ArrayLike | None,
    x: ArrayLike,
    window_shape: Integers,
    output_size: Integers,
    *,
    samples: ArrayLike | None = None,
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    index_space: IndexSpace = "spatial",
    index_dtype: DTypeLike | None = None,
) -> tuple[Array, Array]:
    """Return the maximum over windows at random positions, and its index.

    The values ``y`` are those of :func:`fractional_max_pool`. ``indices`` has the position in ``x``
    of the first maximum of each window, in row-major order of the window.

    Args:
      key, x, window_shape, output_size, samples, data_format, where: as in
        :func:`fractional_max_pool`.
      index_space, index_dtype: as in :func:`max_pool_with_argmax`.
    Returns:
      (values, indices), both of the shape of :func:`fractional_max_pool`'s result. Flat indices can
      be passed to :func:`max_unpool`.
    Derivatives: values as :func:`fractional_max_pool`; indices have no tangent (float0).
    Edge cases: as :func:`max_pool_with_argmax`.
    Raises:
      TypeError, ValueError: as :func:`fractional_max_pool` and :func:`max_pool_with_argmax`.
    References: Graham 2014 (arXiv:1412.6071); PyTorch ``fractional_max_pool2d``.
    Example:
      >>> x, half = jnp.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0]), jnp.array([0.5])
      >>> jaxpool.fractional_max_pool_with_argmax(None, x, 2, 3, samples=half, data_format="W")[1]
      Array([0, 2, 5], dtype=int32)
    """
    windows = WindowArguments(window_shape, 1, data_format=data_format)
    space = {"index_space": index_space, "index_dtype": index_dtype}
    return fractional(_WITH_ARGMAX, key, x, windows, output_size, samples, where, **space)


# --- what the caller wrote -----------------------------------------------------------------------


def canonical(
    output_size: Any, index_space: Any = "window", index_dtype: Any = None
) -> dict[str, Any]:
    """Return the number of windows and the options of indices, checked.

    Of values alone, the indices are window offsets, which fit their dtype in any array.
    """
    sizes = int_or_ints("output_size", output_size)
    return {"output_size": sizes, **_indices.canonical(index_space, index_dtype)}


# --- bodies --------------------------------------------------------------------------------------


def fractional(
    op: Op,
    key: Any,
    x: Any,
    windows: WindowArguments,
    output_size: Any,
    samples: Any,
    where: Any = None,
    **space: Any,
) -> Any:
    """Run a fractional op; exactly one of ``key`` and ``samples`` is given."""
    samples = _checked_samples(key, samples)
    if is_sequence(output_size):
        output_size = entries_of("output_size", output_size)
    return call(op, x, (where, key, samples), windows, output_size=output_size, **space)


def max_pool(x: Array, *arrays: Any, **options: Any) -> Array:
    """Compute :func:`fractional_max_pool`."""
    return max_pool_with_argmax(x, *arrays, **options)[0]


def max_pool_with_argmax(
    x: Array,
    where: Any,
    key: Any,
    samples: Any,
    *,
    config: Configuration,
    output_size: int | tuple[int, ...],
    index_space: IndexSpace,
    index_dtype: np.dtype | None,
    maximum: Reduction = MAX,
) -> tuple[Array, Array]:
    """Compute :func:`fractional_max_pool_with_argmax`."""
    check_real(x)
    check_known([x.shape[position] for position in config.pooled_axes(x.shape)])
    valid, geometry = check_where(where, x.shape), config.geometry(x.shape)
    sizes = per_axis("output_size", output_size, len(geometry.axes))
    _check_fit(geometry, sizes)
    starts = _window_starts(_samples_per_plane(key, samples, x.shape, geometry), geometry, sizes)
    plan = plan_for(geometry, maximum, x.dtype)
    values, offsets = rules.extreme_with_offsets(x, valid, plan)
    indices = _indices.convert(
        offsets, x.shape, geometry, index_space, index_dtype, masked=valid is not None
    )
    return _select_starts(values, starts, geometry), _select_starts(indices, starts, geometry)


def _check_fit(geometry: Geometry, sizes: tuple[int, ...]) -> None:
    for number, (axis, size) in enumerate(zip(geometry.axes, sizes, strict=True)):
        if size + axis.kernel - 1 > axis.size:
            raise ValueError(
                message(
                    f"$output_size = {size} does not fit pooled axis {number}.",
                    f"{size} windows of {axis.kernel} elements at different positions need "
                    f"{size + axis.kernel - 1} elements, but the axis has {axis.size}.",
                    f"Ask for at most {axis.size - axis.kernel + 1}, or use smaller windows.",
                )
            )


def _select_starts(values: Array, starts: list[Array], geometry: Geometry) -> Array:
    """Select the windows at ``starts`` from the windows at every start."""
    for position, start in zip(geometry.positions, starts, strict=True):
        values = jnp.take_along_axis(values, start, position, mode="clip")
    return values


# --- the positions of the windows -----------------------------------------------------------------


def _checked_samples(key: Any, samples: Any) -> Any:
    """Return the samples as an array, or None; raise unless only one of the two is given."""
    _check_one_given(key, samples)
    if samples is None:
        check_key(key)
        return None
    if not isinstance(samples, jax.Array):
        samples = as_array("$samples", samples, np.asarray)  # keeps 64-bit floats
    if not jnp.issubdtype(samples.dtype, jnp.floating) or samples.ndim < 1:
        raise TypeError(
            message(
                f"$samples are {samples.dtype.name}{list(samples.shape)}.",
                "They are floats in [0, 1); the last axis has one for each pooled axis.",
                "Give for example jnp.array([0.3, 0.7]) for images.",
            )
        )
    if not isinstance(samples, Tracer):
        _check_range(np.asarray(samples))
    return samples


def _check_one_given(key: Any, samples: Any) -> None:
    if (key is None) == (samples is None):
        raise ValueError(
            message(
                "neither $key nor $samples is given."
                if key is None
                else "$key and $samples are both given.",
                "One of them determines the window positions.",
                "Give a key such as jax.random.key(0), or None and samples in [0, 1).",
            )
        )


def _check_range(samples: np.ndarray) -> None:
    outside = samples[~((samples >= 0) & (samples < 1))]
    if outside.size:
        raise ValueError(
            message(
                f"$samples contain {outside[0]}.",
                "A sample is a number u with 0 <= u < 1.",
                "Give for example the numbers of jax.random.uniform.",
            )
        )


def _samples_per_plane(key: Any, samples: Any, shape: tuple[int, ...], geometry: Geometry) -> Array:
    """Return the samples ``[plane axes.., pooled axis]``, drawn from the key if it is given.

    A plane axis has length 1 if all its planes have the same samples.
    """
    pooled = {position % len(shape) for position in geometry.positions}
    planes = tuple(size for axis, size in enumerate(shape) if axis not in pooled)
    expected = (*planes, len(geometry.axes))
    if samples is None:
        return jax.random.uniform(key, expected, jnp.float32)
    samples = jnp.asarray(samples)
    samples = samples.astype(accumulator(samples.dtype))
    actual = (1,) * (len(expected) - samples.ndim) + samples.shape
    fits = len(actual) == len(expected) and actual[-1] == expected[-1]
    if not fits or any(a not in (1, b) for a, b in zip(actual, expected, strict=True)):
        raise ValueError(
            message(
                f"$samples of shape {samples.shape} do not fit the array.",
                f"The array has {expected[-1]} pooled axes and planes of shape {planes}; samples "
                f"broadcast to {expected}, except along the last axis.",
                f"Give shape {expected[-1:]} for the same windows in all planes, or {expected}.",
            )
        )
    return samples.reshape(actual)


def _window_starts(samples: Array, geometry: Geometry, sizes: tuple[int, ...]) -> list[Array]:
    """Return the starts of the windows on each pooled axis, as arrays that broadcast to ``x``."""
    rank = samples.ndim - 1 + len(sizes)
    pooled = tuple(position % rank for position in geometry.positions)
    starts = []
    for number, (axis, size) in enumerate(zip(geometry.axes, sizes, strict=True)):
        u = jnp.expand_dims(samples[..., number], pooled)
        shape = with_lengths((1,) * rank, [pooled[number]], [size])
        i = jnp.arange(size, dtype=u.dtype).reshape(shape)
        last = axis.size - axis.kernel
        alpha = np.asarray(last, u.dtype) / np.asarray(max(size - 1, 1), u.dtype)
        start = ((i + u) * alpha).astype(jnp.int32) - (u * alpha).astype(jnp.int32)
        starts.append(jnp.clip(jnp.where(i < size - 1, start, last), 0, last))
    return starts


ARRAYS = ("where", "key", "samples")
_FRACTIONAL = Op("fractional_max_pool", max_pool, canonical, ARRAYS, is_random=True)
_WITH_ARGMAX = Op(
    "fractional_max_pool_with_argmax", max_pool_with_argmax, canonical, ARRAYS, is_random=True
)
