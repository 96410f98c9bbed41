"""Residues, the differences of two morphological operators: gradient, Laplacian and top-hats.

With the erosion ``e``, dilation ``d``, opening ``o`` and closing ``c`` of an array ``x``:

    gradient d - e,   Laplacian d + e - 2 x,   white top-hat x - o,   black top-hat c - x.

Source: Soille 2004, "Morphological image analysis", chapters 3 and 4.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from .._errors import message, public
from .._geometry.arguments import Integers
from ..reductions import accumulator
from ._arguments import Mode, Neighborhood
from ._call import FilterArguments, call_filter, filter_op
from ._grey_operators import closing, dilation, erosion, opening


@public
def morphological_gradient(
    x: ArrayLike,
    size: Integers | None = None,
    footprint: Any = None,
    structure: ArrayLike | None = None,
    *,
    mode: Mode | Sequence[Mode] = "reflect",
    cval: float = 0.0,
    origin: Integers = 0,
    axes: Integers | None = None,
) -> Array:
    """Return the morphological gradient: the range of values in the neighbourhood of every element.

    ``y = dilation(x) - erosion(x)``.

    Args:
      x: array of any real dtype, or anything ``jnp.asarray`` accepts; not bool.
      size, footprint, structure, mode, cval, origin, axes: as in :func:`grey_erosion`.
    Returns:
      Array of the shape and dtype of ``x``; the difference of integers wraps.
    Derivatives: as :func:`grey_erosion`.
    Edge cases: as :func:`maximum_filter`.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`; TypeError also for bool.
    References: Rivest, Soille and Beucher 1993, "Morphological gradients"; scipy.ndimage
      ``morphological_gradient``.
    Example:
      >>> morphological_gradient(jnp.array([1, 1, 1, 5, 5]), 3)
      Array([0, 0, 4, 4, 0], dtype=int32)
    """
    arguments = FilterArguments(size, footprint, mode, cval, origin, axes)
    return call_filter(_GRADIENT, x, arguments, structure=structure)


@public
def morphological_laplace(
    x: ArrayLike,
    size: Integers | None = None,
    footprint: Any = None,
    structure: ArrayLike | None = None,
    *,
    mode: Mode | Sequence[Mode] = "reflect",
    cval: float = 0.0,
    origin: Integers = 0,
    axes: Integers | None = None,
) -> Array:
    """Return the morphological Laplacian: the difference of the outer and the inner gradient.

    ``y = dilation(x) + erosion(x) - 2 * x``.

    Args:
      x: array of any real dtype, or anything ``jnp.asarray`` accepts; not bool.
      size, footprint, structure, mode, cval, origin, axes: as in :func:`grey_erosion`.
    Returns:
      Array of the shape and dtype of ``x``; the result of integers wraps. Low-precision floats are
      added in float32 and rounded once.
    Derivatives: as :func:`grey_erosion`.
    Edge cases: as :func:`maximum_filter`.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`; TypeError also for bool.
    References: van Vliet, Young and Beckers 1989, "A nonlinear Laplace operator as edge detector in
      noisy images"; scipy.ndimage ``morphological_laplace``.
    Example:
      >>> morphological_laplace(jnp.array([1, 1, 1, 5, 5]), 3)
      Array([ 0,  0,  4, -4,  0], dtype=int32)
    """
    arguments = FilterArguments(size, footprint, mode, cval, origin, axes)
    return call_filter(_LAPLACE, x, arguments, structure=structure)


@public
def white_tophat(
    x: ArrayLike,
    size: Integers | None = None,
    footprint: Any = None,
    structure: ArrayLike | None = None,
    *,
    mode: Mode | Sequence[Mode] = "reflect",
    cval: float = 0.0,
    origin: Integers = 0,
    axes: Integers | None = None,
) -> Array:
    """Return the white top-hat: the bright details that are smaller than the window.

    ``y = x - opening(x)``; for booleans, whether the two differ.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      size, footprint, structure, mode, cval, origin, axes: as in :func:`grey_erosion`.
    Returns:
      Array of the shape and dtype of ``x``; the difference of integers wraps.
    Derivatives: as :func:`grey_erosion`.
    Edge cases: as :func:`minimum_filter`.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`.
    References: Soille 2004, "Morphological image analysis", chapter 4; scipy.ndimage
      ``white_tophat``.
    Example:
      >>> white_tophat(jnp.array([1, 7, 1, 3, 3, 3, 1]), 3)
      Array([0, 6, 0, 0, 0, 0, 0], dtype=int32)
    """
    arguments = FilterArguments(size, footprint, mode, cval, origin, axes)
    return call_filter(_WHITE, x, arguments, structure=structure)


@public
def black_tophat(
    x: ArrayLike,
    size: Integers | None = None,
    footprint: Any = None,
    structure: ArrayLike | None = None,
    *,
    mode: Mode | Sequence[Mode] = "reflect",
    cval: float = 0.0,
    origin: Integers = 0,
    axes: Integers | None = None,
) -> Array:
    """Return the black top-hat: the dark details that are smaller than the window.

    ``y = closing(x) - x``; for booleans, whether the two differ.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      size, footprint, structure, mode, cval, origin, axes: as in :func:`grey_erosion`.
    Returns:
      Array of the shape and dtype of ``x``; the difference of integers wraps.
    Derivatives: as :func:`grey_erosion`.
    Edge cases: as :func:`maximum_filter`.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`.
    References: Soille 2004, "Morphological image analysis", chapter 4; scipy.ndimage
      ``black_tophat``.
    Example:
      >>> black_tophat(jnp.array([7, 1, 7, 3, 3, 3, 7]), 3)
      Array([0, 6, 0, 0, 0, 0, 0], dtype=int32)
    """
    arguments = FilterArguments(size, footprint, mode, cval, origin, axes)
    return call_filter(_BLACK, x, arguments, structure=structure)


def _gradient(x: Array, neighborhood: Neighborhood, structure: Array | None) -> Array:
    _check_not_boolean(x)
    return dilation(x, neighborhood, structure) - erosion(x, neighborhood, structure)


def _laplace(x: Array, neighborhood: Neighborhood, structure: Array | None) -> Array:
    _check_not_boolean(x)
    outer, inner = dilation(x, neighborhood, structure), erosion(x, neighborhood, structure)
    outer, inner, center = (a.astype(accumulator(x.dtype)) for a in (outer, inner, x))
    return (outer + inner - center - center).astype(x.dtype)


def _white_tophat(x: Array, neighborhood: Neighborhood, structure: Array | None) -> Array:
    return _difference(x, opening(x, neighborhood, structure))


def _black_tophat(x: Array, neighborhood: Neighborhood, structure: Array | None) -> Array:
    return _difference(closing(x, neighborhood, structure), x)


def _difference(a: Array, b: Array) -> Array:
    return a ^ b if a.dtype == jnp.bool_ else a - b


def _check_not_boolean(x: Array) -> None:
    if x.dtype == jnp.bool_:
        raise TypeError(
            message(
                "the array is boolean.",
                "The result is a difference, which is not a truth value.",
                "Convert it first, for example x.astype(jnp.uint8).",
            )
        )


_GRADIENT = filter_op("morphological_gradient", _gradient, has_structure=True)
_LAPLACE = filter_op("morphological_laplace", _laplace, has_structure=True)
_WHITE = filter_op("white_tophat", _white_tophat, has_structure=True)
_BLACK = filter_op("black_tophat", _black_tophat, has_structure=True)
