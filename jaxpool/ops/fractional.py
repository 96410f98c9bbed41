"""Fractional max pooling (Graham): windows at random places.

An axis of ``L`` cells gets ``O`` windows of ``K`` cells, nearly evenly spread: with ``u`` in [0, 1)
and ``alpha = (L - K) / (O - 1)``,

    start[i] = trunc((i + u) * alpha) - trunc(u * alpha),   start[O - 1] = L - K.

The windows are copied side by side, which is linear in the array, and pooled there by the max
pooling of the core: its derivatives are theirs.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from .. import _derivatives, _gather, _indices
from .._arguments import entries_of, is_sequence, per_axis
from .._errors import message
from .._pick import empty
from .._plan import plan_for
from .._reductions import MAX, MAX_LAST_NAN, MaxRule, Reduction, accumulator
from .._window import Geometry, Window, check_known, settle
from ._common import Op, Settings, as_array, call, check_real, check_where
from ._parameters import check_key


def fractional_max_pool(
    key: ArrayLike | None,
    x: ArrayLike,
    window_shape: Any,
    output_size: Any,
    *,
    samples: ArrayLike | None = None,
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Maximum over windows at random places, as many of them as you ask for.

    Window ``i`` of an axis of ``L`` cells starts at ``trunc((i + u) * alpha) - trunc(u * alpha)``
    with ``alpha = (L - window) / (output_size - 1)`` and a random ``u`` in [0, 1); the last one at
    ``L - window``. Neighbouring windows are ``floor(alpha)`` or ``ceil(alpha)`` cells apart.

    Args:
      key: of :mod:`jax.random`; None if ``samples`` are given. Draws ``u`` for every pooled axis
        of every plane (batch and channel entry) apart, as PyTorch does. The same key, shape and
        window give the same windows on every platform.
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      window_shape: cells per pooled axis, >= 1; its length is the number of pooled axes. With a
        ``data_format`` in letters an int stands for all of them.
      output_size: windows per pooled axis, >= 1; an int stands for all axes. ``output_size +
        window - 1`` may not exceed the axis.
      samples: the numbers ``u`` instead of a key: floats of shape ``(.., n)`` for n pooled axes in
        array order, whose leading axes broadcast to the axes of ``x`` that are not pooled; ``(n,)``
        gives all planes the same windows. (PyTorch's 2-D ``_random_samples`` are in reverse order,
        width first.) The starts are computed in float32, for float64 samples in float64.
      data_format, where: as in :func:`max_pool`.
    Returns:
      Array of the dtype of ``x``; pooled axes have ``output_size``, the others are unchanged.
    Derivatives: in ``x`` as :func:`max_pool`; ``samples`` have none (the starts are integers).
    Edge cases: NaN and windows without a cell that ``where`` leaves as :func:`max_pool`. Samples
      outside [0, 1) are an error in an eager call; inside a transformation, where values are
      unknown, starts are clipped to the axis.
    Raises:
      TypeError: a setting is not an integer, ``key`` is not a key, ``x`` is complex.
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
    return _fractional(_FRACTIONAL, key, x, window_shape, output_size, samples, data_format, where)


def fractional_max_pool_with_argmax(
    key: ArrayLike | None,
    x: ArrayLike,
    window_shape: Any,
    output_size: Any,
    *,
    samples: ArrayLike | None = None,
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    index_space: str | int = "spatial",
    index_dtype: Any = None,
) -> tuple[Array, Array]:
    """Maximum over windows at random places, and where it was found.

    ``y`` as :func:`fractional_max_pool`; ``indices`` say which cell of ``x`` is the first maximum
    of its window, row-major in the window.

    Args:
      key, x, window_shape, output_size, samples, data_format, where: as in
        :func:`fractional_max_pool`.
      index_space, index_dtype: as in :func:`max_pool_with_argmax`.
    Returns:
      (values, indices), both of the shape of :func:`fractional_max_pool`'s result. Flat indices
      are those that :func:`max_unpool` takes.
    Derivatives: values as :func:`fractional_max_pool`; indices carry no tangent (float0).
    Edge cases: as :func:`max_pool_with_argmax`.
    Raises:
      TypeError, ValueError: as :func:`fractional_max_pool` and :func:`max_pool_with_argmax`.
    References: Graham 2014 (arXiv:1412.6071); PyTorch ``fractional_max_pool2d``.
    Example:
      >>> x, half = jnp.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0]), jnp.array([0.5])
      >>> jaxpool.fractional_max_pool_with_argmax(None, x, 2, 3, samples=half, data_format="W")[1]
      Array([0, 2, 5], dtype=int32)
    """
    return _fractional(
        _FRACTIONAL_WITH_ARGMAX, key, x, window_shape, output_size, samples, data_format, where,
        index_space, index_dtype,
    )  # fmt: skip


# --- what the caller wrote -----------------------------------------------------------------------


def _check_samples(op: str, key: Any, samples: Any) -> Any:
    """Return the samples as an array, or None; exactly one of the two must be given."""
    if (key is None) == (samples is None):
        raise ValueError(
            message(
                op,
                "neither `key` nor `samples` is given."
                if key is None
                else "`key` and `samples` are both given.",
                "The places of the windows come from one of them.",
                "Give a key such as jax.random.key(0), or None and samples in [0, 1).",
            )
        )
    if samples is None:
        return check_key(op, key)
    samples = (
        samples if isinstance(samples, jax.Array) else as_array(op, "`samples`", samples, _floats)
    )
    if not jnp.issubdtype(samples.dtype, jnp.floating) or samples.ndim < 1:
        raise TypeError(
            message(
                op,
                f"`samples` are {samples.dtype.name}{list(samples.shape)}.",
                "They are floats in [0, 1), the last axis one for each pooled axis.",
                "Give for example jnp.array([0.3, 0.7]) for images.",
            )
        )
    if not isinstance(samples, Tracer):
        _check_range(op, np.asarray(samples))
    return samples


def _floats(samples: Any) -> Any:
    """On the host, so that 64-bit samples stay what they are."""
    return np.asarray(samples)


def _check_range(op: str, samples: np.ndarray) -> None:
    outside = samples[~((samples >= 0) & (samples < 1))]
    if outside.size:
        raise ValueError(
            message(
                op,
                f"`samples` hold {outside[0]}.",
                "A sample is a number u with 0 <= u < 1.",
                "Give for example the numbers of jax.random.uniform.",
            )
        )


def _settle_sizes(
    op: str, output_size: Any, index_space: Any = "spatial", index_dtype: Any = None
) -> tuple[Any, ...]:
    count = len(output_size) if is_sequence(output_size) else 1
    sizes = per_axis(op, "output_size", output_size, count)
    sizes = sizes if is_sequence(output_size) else sizes[0]
    return sizes, _indices.check_space(op, index_space), _indices.check_dtype(op, index_dtype)


# --- bodies --------------------------------------------------------------------------------------


def fractional_max_by(
    op: str,
    rule: MaxRule,
    x: ArrayLike,
    window_shape: Any,
    output_size: Any,
    samples: ArrayLike | None,
    key: ArrayLike | None = None,
    index_dtype: Any = None,
) -> tuple[Array, Array]:
    """Return values and "spatial" indices of fractional pooling, "first_nan" or "last_nan"."""
    return _fractional(
        _fractional_max_by(op, rule), key, x, window_shape, output_size, samples,
        "channels_first", None, "spatial", index_dtype,
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def _fractional_max_by(op: str, rule: MaxRule) -> Op:
    reduction = MAX_LAST_NAN if rule == "last_nan" else MAX
    body = functools.partial(_fractional_with_argmax, reduction=reduction)
    return Op(op, body, _settle_sizes, _DRAWN)


def _fractional(
    op: Op, key: Any, x: Any, window_shape: Any, output_size: Any, samples: Any,
    data_format: Any, where: Any, *own: Any,
) -> Any:  # fmt: skip
    samples = _check_samples(op.name, key, samples)
    if is_sequence(output_size):
        output_size = entries_of(op.name, "output_size", output_size)
    return call(
        op, x, (where, key, samples), window_shape, 1, "VALID", 1, "floor", data_format, "auto",
        output_size, *own,
    )  # fmt: skip


def _fractional_max(settings: Settings, x: Array, arrays: Any) -> Array:
    return _fractional_with_argmax(settings, x, arrays)[0]


def _fractional_with_argmax(
    settings: Settings, x: Array, arrays: Any, reduction: Reduction = MAX
) -> tuple[Array, Array]:
    where, key, samples = arrays
    check_real(settings.op, x)
    valid = check_where(settings.op, where, x.shape)
    geometry = settings.geometry(x.shape)
    check_known(settings.op, geometry.spatial_shape)
    sizes = per_axis(settings.op, "output_size", settings.own[0], len(geometry.axes))
    _check_room(settings.op, geometry, sizes)
    samples = _samples(settings.op, key, samples, x.shape, geometry)
    starts = _starts(samples, geometry, sizes)
    tiled = functools.partial(_side_by_side, starts=starts, geometry=geometry)
    tiles = _tiles(geometry, sizes)
    plan = plan_for(settings.op, tiles, reduction, np.dtype(x.dtype))
    tiled_valid = None if valid is None else tiled(valid)
    values, taps = _derivatives.extreme_with_taps(tiled(x), tiled_valid, plan)
    return values, _indices_of(settings, x, taps, tiled, tiles, masked=valid is not None)


def _indices_of(
    settings: Settings,
    x: Array,
    taps: Array,
    tiled: Callable[[Array], Array],
    tiles: Geometry,
    masked: bool,
) -> Array:
    """Tap numbers of the tiles as indices of ``x``: the index of every cell, read at the taps."""
    _, space, dtype = settings.own
    convert = functools.partial(
        _indices.convert, settings.op, space=space, dtype=dtype, masked=masked
    )
    if space == "window":
        return convert(taps, tiles.full_shape(taps.shape), tiles)
    lengths = [x.shape[position] for position in tiles.positions]
    each = settle(settings.op, Window((1,) * len(lengths), 1), lengths, tiles.positions)
    cells = tiled(convert(jnp.zeros(x.shape, jnp.uint8), x.shape, each))
    found = _gather.read(cells, taps, tiles)
    return found if not masked else jnp.where(taps == empty(taps.dtype), -1, found)


def _check_room(op: str, geometry: Geometry, sizes: tuple[int, ...]) -> None:
    for number, (axis, size) in enumerate(zip(geometry.axes, sizes, strict=True)):
        if size + axis.kernel - 1 > axis.size:
            raise ValueError(
                message(
                    op,
                    f"`output_size` = {size} does not fit pooled axis {number}.",
                    f"{size} windows of {axis.kernel} cells at different places need "
                    f"{size + axis.kernel - 1} cells, but the axis has {axis.size}.",
                    f"Ask for at most {axis.size - axis.kernel + 1}, or use smaller windows.",
                )
            )


def _samples(op: str, key: Any, samples: Any, shape: tuple[int, ...], geometry: Geometry) -> Array:
    """The samples, ``[plane axes.., pooled axis]``, plane axes of length 1 where all are alike."""
    pooled = {position % len(shape) for position in geometry.positions}
    planes = tuple(size for axis, size in enumerate(shape) if axis not in pooled)
    wanted = (*planes, len(geometry.axes))
    if samples is None:
        return jax.random.uniform(key, wanted, jnp.float32)
    samples = jnp.asarray(samples)
    samples = samples.astype(accumulator(samples.dtype))
    given = (1,) * (len(wanted) - samples.ndim) + samples.shape
    fits = len(given) == len(wanted) and given[-1] == wanted[-1]
    if not fits or any(a not in (1, b) for a, b in zip(given, wanted, strict=True)):
        raise ValueError(
            message(
                op,
                f"`samples` of shape {samples.shape} do not fit the array.",
                f"The array has {wanted[-1]} pooled axes and planes of shape {planes}; samples "
                f"broadcast to {wanted}, the last axis does not.",
                f"Give shape {wanted[-1:]} for the same windows in all planes, or {wanted}.",
            )
        )
    return samples.reshape(given)


def _starts(samples: Array, geometry: Geometry, sizes: tuple[int, ...]) -> list[Array]:
    """The starts of the windows on each pooled axis, in arrays that broadcast to the input."""
    rank = samples.ndim - 1 + len(sizes)
    pooled = tuple(position % rank for position in geometry.positions)
    starts = []
    for number, (axis, size) in enumerate(zip(geometry.axes, sizes, strict=True)):
        u = jnp.expand_dims(samples[..., number], pooled)
        line = [1] * rank
        line[pooled[number]] = size
        i = jnp.arange(size, dtype=u.dtype).reshape(line)
        last = axis.size - axis.kernel
        alpha = np.asarray(last, u.dtype) / np.asarray(max(size - 1, 1), u.dtype)
        start = ((i + u) * alpha).astype(jnp.int32) - (u * alpha).astype(jnp.int32)
        starts.append(jnp.clip(jnp.where(i < size - 1, start, last), 0, last))
    return starts


def _tiles(geometry: Geometry, sizes: tuple[int, ...]) -> Geometry:
    """The windows side by side, ``size`` on each pooled axis."""
    window = Window(geometry.kernel, geometry.kernel)
    lengths = [size * kernel for size, kernel in zip(sizes, geometry.kernel, strict=True)]
    return settle("fractional_max_pool", window, lengths, geometry.positions)


def _side_by_side(x: Array, starts: list[Array], geometry: Geometry) -> Array:
    """Copy the windows of each pooled axis next to each other."""
    for axis, position, start in zip(geometry.axes, geometry.positions, starts, strict=True):
        # One read per tap: no two windows start at one place, so its transpose adds nothing up.
        read = functools.partial(jnp.take_along_axis, x, axis=position, mode="clip")
        cells = [read(start + tap) for tap in range(axis.kernel)]
        dimension = x.ndim + position
        shape = list(cells[0].shape)
        shape[dimension] *= axis.kernel
        x = jnp.stack(cells, dimension + 1).reshape(shape)
    return x


_DRAWN = ("where", "key", "samples")
_FRACTIONAL = Op("fractional_max_pool", _fractional_max, _settle_sizes, _DRAWN)
_FRACTIONAL_WITH_ARGMAX = Op(
    "fractional_max_pool_with_argmax", _fractional_with_argmax, _settle_sizes, _DRAWN
)
