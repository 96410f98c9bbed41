"""Grey-scale morphology.

Let ``B`` be the taps of a footprint, and ``s`` the values of a structure at them (0 if flat):

    erosion   (x e s)[i] = min over t in B of x[i + t] - s[t],
    dilation  (x d s)[i] = max over t in B of x[i - t] + s[t],

so a dilation is an erosion of the negative with the mirrored structure. An opening is an erosion
followed by a dilation, a closing is a dilation followed by an erosion, and the top-hats are the
differences between these and ``x``.

Source: Serra 1982, "Image analysis and mathematical morphology"; Soille 2004, "Morphological image
analysis".
"""

from collections.abc import Sequence
from typing import Any

from jax import Array
from jax.typing import ArrayLike

from .._errors import public
from .._geometry.arguments import Integers
from ._arguments import Mode
from ._call import FilterArguments, call_filter, filter_op
from ._grey_operators import closing, dilation, erosion, opening


@public
def grey_erosion(
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
    """Return the erosion: the minimum over the neighbourhood of every element, minus a structure.

    ``y[i] = min over t of (x[i + t] - structure[t])``, where ``t`` runs over the window; without
    a structure this is :func:`minimum_filter`.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      size, footprint: as in :func:`maximum_filter`.
      structure: array with an axis for each filtered axis, which may be traced and differentiated.
        Without a footprint, the window is the whole structure. The values are cast to the dtype of
        ``x``, truncated towards zero for integers; a difference of integers wraps, as in NumPy.
      mode, cval, origin, axes: as in :func:`maximum_filter`.
    Returns:
      Array of the shape and dtype of ``x``.
    Derivatives: forward and reverse, any order, in ``x`` and ``structure``. The tangent follows one
      minimum; second derivatives are zero.
    Edge cases: as :func:`minimum_filter`.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`.
    References: Serra 1982, "Image analysis and mathematical morphology"; scipy.ndimage
      ``grey_erosion``.
    Example:
      >>> x = jnp.array([4.0, 4.0, 1.0, 4.0, 4.0])
      >>> grey_erosion(x, 3)
      Array([4., 1., 1., 1., 4.], dtype=float32)
      >>> grey_erosion(x, structure=jnp.array([-1.0, 0.0, -1.0]))
      Array([4., 2., 1., 2., 4.], dtype=float32)
      >>> jax.grad(lambda s: grey_erosion(x, structure=s).sum())(jnp.array([-1.0, 0.0, -1.0]))
      Array([-1., -3., -1.], dtype=float32)
    """
    arguments = FilterArguments(size, footprint, mode, cval, origin, axes)
    return call_filter(_EROSION, x, arguments, structure=structure)


@public
def grey_dilation(
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
    """Return the dilation: the maximum over the mirrored neighbourhood, plus a structure.

    ``y[i] = max over t of (x[i - t] + structure[t])``, where ``t`` runs over the window; for a
    centred rectangle without a structure this is :func:`maximum_filter`.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      size, footprint: as in :func:`maximum_filter`; the window is mirrored.
      structure: as in :func:`grey_erosion`; it is mirrored with the window.
      mode, cval, origin, axes: as in :func:`maximum_filter`.
    Returns:
      Array of the shape and dtype of ``x``.
    Derivatives: as :func:`grey_erosion`, following one maximum.
    Edge cases: as :func:`maximum_filter`.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`.
    References: Serra 1982, "Image analysis and mathematical morphology"; scipy.ndimage
      ``grey_dilation``.
    Example:
      >>> grey_dilation(jnp.array([0, 0, 9, 0, 0]), footprint=[True, True, False])
      Array([0, 9, 9, 0, 0], dtype=int32)
    """
    arguments = FilterArguments(size, footprint, mode, cval, origin, axes)
    return call_filter(_DILATION, x, arguments, structure=structure)


@public
def grey_opening(
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
    """Return the opening: an erosion, then a dilation, which removes peaks smaller than the window.

    ``y = dilation(erosion(x))``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      size, footprint, structure, mode, cval, origin, axes: as in :func:`grey_erosion`.
    Returns:
      Array of the shape and dtype of ``x``.
    Derivatives: as :func:`grey_erosion`.
    Edge cases: as :func:`minimum_filter`.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`.
    References: Soille 2004, "Morphological image analysis", chapter 4; scipy.ndimage
      ``grey_opening``.
    Example:
      >>> grey_opening(jnp.array([1, 7, 1, 3, 3, 3, 1]), 3)
      Array([1, 1, 1, 3, 3, 3, 1], dtype=int32)
    """
    arguments = FilterArguments(size, footprint, mode, cval, origin, axes)
    return call_filter(_OPENING, x, arguments, structure=structure)


@public
def grey_closing(
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
    """Return the closing: a dilation and then an erosion, which fills gaps smaller than the window.

    ``y = erosion(dilation(x))``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      size, footprint, structure, mode, cval, origin, axes: as in :func:`grey_erosion`.
    Returns:
      Array of the shape and dtype of ``x``.
    Derivatives: as :func:`grey_erosion`.
    Edge cases: as :func:`maximum_filter`.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`.
    References: Soille 2004, "Morphological image analysis", chapter 4; scipy.ndimage
      ``grey_closing``.
    Example:
      >>> grey_closing(jnp.array([7, 1, 7, 3, 3, 3, 7]), 3)
      Array([7, 7, 7, 3, 3, 3, 7], dtype=int32)
    """
    arguments = FilterArguments(size, footprint, mode, cval, origin, axes)
    return call_filter(_CLOSING, x, arguments, structure=structure)


_EROSION = filter_op("grey_erosion", erosion, has_structure=True)
_DILATION = filter_op("grey_dilation", dilation, has_structure=True)
_OPENING = filter_op("grey_opening", opening, has_structure=True)
_CLOSING = filter_op("grey_closing", closing, has_structure=True)
