"""The places of fractional windows: random numbers, given or drawn, and the starts they make."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from .._errors import message
from .._geometry.resolve import Geometry
from .._numerics.checks import as_array
from ..reductions import accumulator
from ._parameters import check_key


def check_samples(key: Any, samples: Any) -> Any:
    """Return the samples as an array, or None; exactly one of the two must be given."""
    if (key is None) == (samples is None):
        raise ValueError(
            message(
                "neither $key nor $samples is given."
                if key is None
                else "$key and $samples are both given.",
                "The places of the windows come from one of them.",
                "Give a key such as jax.random.key(0), or None and samples in [0, 1).",
            )
        )
    if samples is None:
        return check_key(key)
    samples = samples if isinstance(samples, jax.Array) else as_array("$samples", samples, _floats)
    if not jnp.issubdtype(samples.dtype, jnp.floating) or samples.ndim < 1:
        raise TypeError(
            message(
                f"$samples are {samples.dtype.name}{list(samples.shape)}.",
                "They are floats in [0, 1), the last axis one for each pooled axis.",
                "Give for example jnp.array([0.3, 0.7]) for images.",
            )
        )
    if not isinstance(samples, Tracer):
        _check_range(np.asarray(samples))
    return samples


def _floats(samples: Any) -> Any:
    """On the host, so that 64-bit samples stay what they are."""
    return np.asarray(samples)


def _check_range(samples: np.ndarray) -> None:
    outside = samples[~((samples >= 0) & (samples < 1))]
    if outside.size:
        raise ValueError(
            message(
                f"$samples hold {outside[0]}.",
                "A sample is a number u with 0 <= u < 1.",
                "Give for example the numbers of jax.random.uniform.",
            )
        )


def draw(key: Any, samples: Any, shape: tuple[int, ...], geometry: Geometry) -> Array:
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
                f"$samples of shape {samples.shape} do not fit the array.",
                f"The array has {wanted[-1]} pooled axes and planes of shape {planes}; samples "
                f"broadcast to {wanted}, the last axis does not.",
                f"Give shape {wanted[-1:]} for the same windows in all planes, or {wanted}.",
            )
        )
    return samples.reshape(given)


def window_starts(samples: Array, geometry: Geometry, sizes: tuple[int, ...]) -> list[Array]:
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
