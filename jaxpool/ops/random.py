"""Random pooling: windows at random places, and a random cell of each window.

Fractional max pooling (Graham). An axis of ``L`` cells gets ``O`` windows of ``K`` cells, nearly
evenly spread: with ``u`` in [0, 1) and ``alpha = (L - K) / (O - 1)``,

    start[i] = trunc((i + u) * alpha) - trunc(u * alpha),   start[O - 1] = L - K.

The windows are copied side by side, which is linear in the array, and pooled there by the max
pooling of the core: its derivatives are theirs.

Stochastic pooling (Zeiler and Fergus). With ``w = max(x, 0)`` window ``o`` returns ``x[l]``, where
``l`` is cell ``i`` with probability ``p[i] = w[i] / S``, ``S`` the sum of ``w`` over the window:
the last ``l`` before which the cells add up to at most ``u * S``, for one uniform ``u`` a window.
The cells are added in row-major order, one by one, on every platform, so that all of them choose
the same ``l``. The tangent is that of ``x[l]``. In inference

    y = sum p[i] x[i] = Q / S,  Q the sum of w^2,   dy = sum (2 w[i] - y) / S dw[i].
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer
from jax.typing import ArrayLike

from .. import _derivatives, _gather, _indices
from .._errors import message, shown
from .._pick import empty, tap_dtype
from .._plan import plan_for
from .._reductions import MAX, MAX_LAST_NAN, MaxRule, Reduction, accumulator
from .._window import Geometry, Window, check_known, entries_of, is_sequence, per_axis, settle
from ._common import Op, Settings, as_array, call, check_float, check_real, check_where
from ._sums import window_sum
from ._taps import read, walk


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


def stochastic_pool(
    key: ArrayLike | None,
    x: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    deterministic: bool = False,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """A random cell of each window, chosen with a probability proportional to its value.

    ``y[.., o, ..] = x[.., l, ..]`` with ``P(l = q) = x[q] / sum of x over the window`` for its
    cells ``q = o * stride - pad_low + t * dilation`` inside ``x``, each window by itself; with
    ``deterministic=True``, for inference, the expectation ``sum of x^2 / sum of x``.

    Args:
      key: of :mod:`jax.random`; may be None with ``deterministic``. The same key and shape give
        the same choice on every platform.
      x: array of floats, or anything ``jnp.asarray`` makes one of; activations >= 0, as after a
        ReLU. A negative cell has the probability 0.
      window_shape, strides, padding, dilations, rounding, data_format, where: as in
        :func:`max_pool`.
      deterministic: whether to return the expectation instead of a choice.
    Returns:
      Array of the dtype of ``x``; pooled axes have :func:`output_shape`, the others are unchanged.
      Narrow floats are added in float32.
    Derivatives: forward and reverse, any order. That of a choice is the derivative of the cell
      chosen, as in the paper, and not that of its probability; no derivative reaches a cell of
      probability 0.
    Edge cases: a window without a positive cell gives 0 and has no derivative. NaN in a window
      gives NaN. An infinite cell is chosen over finite ones; the expectation is then NaN. The
      expectation needs squares within the range of the sum's dtype: of float32 for float32.
    Raises:
      TypeError: ``x`` does not hold floats, ``key`` is not a key, or as :func:`max_pool`.
      ValueError: as :func:`max_pool`.
    References: Zeiler and Fergus 2013 (arXiv:1301.3557), equations 4 to 6.
    Example:
      >>> x = jnp.array([[1.0], [3.0], [0.0], [2.0]])
      >>> jaxpool.stochastic_pool(None, x, (2,), 2, deterministic=True)[:, 0]
      Array([2.5, 2. ], dtype=float32)
      >>> jaxpool.stochastic_pool(jax.random.key(0), x, (2,), 2)[1, 0]
      Array(2., dtype=float32)
    """
    if key is not None:
        _check_key(_STOCHASTIC.name, key)
    elif isinstance(deterministic, (bool, np.bool_)) and not deterministic:
        raise ValueError(
            message(
                _STOCHASTIC.name,
                "`key` is None.",
                "A random choice needs a key; the expectation, deterministic=True, needs none.",
                "Give for example jax.random.key(0), another one for every step.",
            )
        )
    return call(
        _STOCHASTIC, x, (where, key), window_shape, strides, padding, dilations, rounding,
        data_format, "auto", deterministic,
    )  # fmt: skip


# --- what the caller wrote -----------------------------------------------------------------------


def _check_key(op: str, key: Any) -> None:
    dtype = key.dtype if isinstance(key, (jax.Array, np.ndarray)) else None
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not (typed and key.shape == ()) and not (dtype == np.uint32 and key.ndim == 1):
        described = f"{dtype}{list(key.shape)}" if dtype is not None else shown(key)
        raise TypeError(
            message(
                op,
                "`key` is not a random key.",
                f"It is {described}.",
                "Give for example jax.random.key(0).",
            )
        )


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
        return _check_key(op, key)
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


def _settle_deterministic(op: str, deterministic: Any) -> tuple[bool]:
    if not isinstance(deterministic, (bool, np.bool_)):
        raise TypeError(
            message(
                op,
                f"`deterministic` = {deterministic!r} is not a bool.",
                "It says whether to return the expectation; it is static.",
                "Give True or False.",
            )
        )
    return (bool(deterministic),)


# --- fractional ----------------------------------------------------------------------------------


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


# --- stochastic ----------------------------------------------------------------------------------


def _stochastic(settings: Settings, x: Array, arrays: Any) -> Array:
    where, key = arrays
    (deterministic,) = settings.own
    check_float(settings.op, x)
    valid = check_where(settings.op, where, x.shape)
    weights = jnp.where(x <= 0, jnp.zeros((), x.dtype), x).astype(accumulator(x.dtype))
    if valid is not None:
        weights = jnp.where(valid, weights, jnp.zeros((), weights.dtype))
    if deterministic:
        return _expectation(settings, weights).astype(x.dtype)
    geometry = settings.geometry(x.shape)
    u = jax.random.uniform(key, geometry.full_shape(x.shape), weights.dtype)
    return read(x, _choose(lax.stop_gradient(weights), u, geometry), geometry)


def _expectation(settings: Settings, weights: Array) -> Array:
    """``Q / S``; 0 where ``S`` is."""
    total = window_sum(settings, weights)
    squares = window_sum(settings, weights * weights)
    nothing = total == 0
    none = jnp.zeros((), total.dtype)
    return jnp.where(nothing, none, squares / jnp.where(nothing, jnp.ones_like(total), total))


def _choose(weights: Array, u: Array, geometry: Geometry) -> Array:
    """The tap that each window chooses, or the mark of an empty window if all its weights are 0."""
    weights = weights * _headroom(weights, geometry.taps)
    total = walk(weights, geometry, lambda tap, cell, total: total + cell, jnp.zeros_like(u))
    limit = u * total
    finite = jnp.isfinite(total)
    none = empty(tap_dtype(geometry))

    def step(tap: Array, cell: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        chosen, before = state
        # A sum that is not finite names its cell itself: the first infinity, or the first NaN.
        named = (chosen == none) & ((cell == total) | (cell != cell))
        takes = jnp.where(finite, (cell > 0) & (before <= limit), named)
        return jnp.where(takes, tap.astype(chosen.dtype), chosen), before + cell

    start = jnp.full(u.shape, none), jnp.zeros_like(u)
    return walk(weights, geometry, step, start)[0]


def _headroom(weights: Array, taps: int) -> Array:
    """A power of two with which sums of finite weights are finite; 1 where they are anyway."""
    largest = jnp.max(weights, initial=0, where=jnp.isfinite(weights))
    near = largest > jnp.finfo(weights.dtype).max / taps
    return jnp.where(near, 0.5 ** taps.bit_length(), 1).astype(weights.dtype)


_DRAWN = ("where", "key", "samples")
_FRACTIONAL = Op("fractional_max_pool", _fractional_max, _settle_sizes, _DRAWN)
_FRACTIONAL_WITH_ARGMAX = Op(
    "fractional_max_pool_with_argmax", _fractional_with_argmax, _settle_sizes, _DRAWN
)
_STOCHASTIC = Op("stochastic_pool", _stochastic, _settle_deterministic, ("where", "key"))
