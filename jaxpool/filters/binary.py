"""Binary morphology.

For a set ``X`` and a structure ``B``, the erosion is the set of positions at which ``B`` fits into
``X``, and the dilation is the union of copies of ``B`` at the elements of ``X``. They are computed
as minima and maxima of truth values.

Source: Serra 1982, "Image analysis and mathematical morphology"; Soille 2004, "Morphological image
analysis".
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .._errors import message, public, renaming_arguments
from .._geometry.arguments import Integers, integer
from .._numerics.checks import check_real
from ..ops._dispatch import Op, call
from ..reductions import MAX, MIN, Reduction
from ._arguments import (
    LARGEST_ORIGIN,
    Neighborhood,
    Settings,
    checked_settings,
    resolve_neighborhood,
)
from ._call import check_numbers
from ._extreme import extreme
from ._static import Footprint, footprint_of, number


@public
def binary_erosion(
    x: ArrayLike,
    structure: Any = None,
    iterations: int = 1,
    mask: ArrayLike | None = None,
    *,
    border_value: int = 0,
    origin: Integers = 0,
    axes: Integers | None = None,
) -> Array:
    """Return the binary erosion: whether the structure fits inside the nonzero elements.

    ``y[i] = all over t of (x[i + t] != 0)``, where ``t`` runs over the True entries of
    ``structure``; repeated ``iterations`` times.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      structure: static boolean array with an axis for each filtered axis; default an element and
        its neighbours along each axis.
      iterations: number of repetitions; below 1, repeat until the result no longer changes.
      mask: array of the shape of ``x``; elements at which it is zero are not changed.
      border_value: the value outside ``x``; any number but 0 counts as 1.
      origin: number of elements by which the window is shifted towards lower indices: an int, or
        one for each filtered axis.
      axes: the filtered axes, an int or several; default all. The others are batch axes.
    Returns:
      Boolean array of the shape of ``x``.
    Derivatives: none; the result is boolean.
    Edge cases: NaN counts as nonzero. An empty array gives an empty result.
    Raises:
      TypeError: an argument has the wrong type, or ``x`` is complex.
      ValueError: an argument is out of range, has the wrong length or does not fit ``x``.
    References: Serra 1982, "Image analysis and mathematical morphology"; scipy.ndimage
      ``binary_erosion``.
    Example:
      >>> binary_erosion(jnp.array([0, 1, 1, 1, 1, 0]))
      Array([False, False,  True,  True, False, False], dtype=bool)
    """
    return call(
        _EROSION, x, (mask,), structure=structure, iterations=iterations,
        border_value=border_value, origin=origin, axes=axes,
    )  # fmt: skip


@public
def binary_dilation(
    x: ArrayLike,
    structure: Any = None,
    iterations: int = 1,
    mask: ArrayLike | None = None,
    *,
    border_value: int = 0,
    origin: Integers = 0,
    axes: Integers | None = None,
) -> Array:
    """Return the binary dilation: whether the structure covers an element from a nonzero element.

    ``y[i] = any over t of (x[i - t] != 0)``, where ``t`` runs over the True entries of
    ``structure``; repeated ``iterations`` times.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      structure, iterations, mask, border_value, origin, axes: as in :func:`binary_erosion`.
    Returns:
      Boolean array of the shape of ``x``.
    Derivatives: none; the result is boolean.
    Edge cases: as :func:`binary_erosion`.
    Raises:
      TypeError, ValueError: as :func:`binary_erosion`.
    References: Serra 1982, "Image analysis and mathematical morphology"; scipy.ndimage
      ``binary_dilation``.
    Example:
      >>> binary_dilation(jnp.array([0, 0, 1, 0, 0, 0]), iterations=2)
      Array([ True,  True,  True,  True,  True, False], dtype=bool)
    """
    return call(
        _DILATION, x, (mask,), structure=structure, iterations=iterations,
        border_value=border_value, origin=origin, axes=axes,
    )  # fmt: skip


@public
def binary_opening(
    x: ArrayLike,
    structure: Any = None,
    iterations: int = 1,
    *,
    origin: Integers = 0,
    mask: ArrayLike | None = None,
    border_value: int = 0,
    axes: Integers | None = None,
) -> Array:
    """Return the binary opening: an erosion and then a dilation, which removes small objects.

    ``y = dilation(erosion(x))``, each ``iterations`` times.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      structure, iterations, origin, mask, border_value, axes: as in :func:`binary_erosion`.
    Returns:
      Boolean array of the shape of ``x``.
    Derivatives: none; the result is boolean.
    Edge cases: as :func:`binary_erosion`.
    Raises:
      TypeError, ValueError: as :func:`binary_erosion`.
    References: Soille 2004, "Morphological image analysis", chapter 4; scipy.ndimage
      ``binary_opening``.
    Example:
      >>> binary_opening(jnp.array([1, 0, 1, 1, 1, 0]))
      Array([False, False,  True,  True,  True, False], dtype=bool)
    """
    return call(
        _OPENING, x, (mask,), structure=structure, iterations=iterations,
        border_value=border_value, origin=origin, axes=axes,
    )  # fmt: skip


@public
def binary_closing(
    x: ArrayLike,
    structure: Any = None,
    iterations: int = 1,
    *,
    origin: Integers = 0,
    mask: ArrayLike | None = None,
    border_value: int = 0,
    axes: Integers | None = None,
) -> Array:
    """Return the binary closing: a dilation and then an erosion, which fills small holes.

    ``y = erosion(dilation(x))``, each ``iterations`` times.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      structure, iterations, origin, mask, border_value, axes: as in :func:`binary_erosion`.
    Returns:
      Boolean array of the shape of ``x``.
    Derivatives: none; the result is boolean.
    Edge cases: as :func:`binary_erosion`.
    Raises:
      TypeError, ValueError: as :func:`binary_erosion`.
    References: Soille 2004, "Morphological image analysis", chapter 4; scipy.ndimage
      ``binary_closing``.
    Example:
      >>> binary_closing(jnp.array([0, 1, 1, 0, 1, 1, 0]))
      Array([False,  True,  True,  True,  True,  True, False], dtype=bool)
    """
    return call(
        _CLOSING, x, (mask,), structure=structure, iterations=iterations,
        border_value=border_value, origin=origin, axes=axes,
    )  # fmt: skip


# --- settings -------------------------------------------------------------------------------------


def _canonicalize(
    structure: Any, iterations: Any, border_value: Any, origin: Any, axes: Any
) -> dict[str, Settings]:
    footprint = None if structure is None else footprint_of("structure", structure)
    options = footprint, integer("iterations", iterations, -LARGEST_ORIGIN)
    border = bool(number("border_value", border_value))
    return {"settings": checked_settings(3, None, "constant", border, origin, axes, options)}


def _structure_neighborhood(settings: Settings, rank: int) -> Neighborhood:
    count = rank if settings.axes is None else len(settings.axes)
    footprint = settings.options[0] or _cross(count)
    resolved = replace(settings, size=None, footprint=footprint)
    with renaming_arguments(footprint="structure"):
        return resolve_neighborhood(resolved, rank)


def _cross(count: int) -> Footprint:
    """Return the structure of an element and its neighbours along each axis."""
    distance = np.abs(np.indices((3,) * count) - 1).sum(0)
    return footprint_of("structure", distance <= 1)


# --- bodies ---------------------------------------------------------------------------------------

Step = Callable[[Array], Array]


def _op(name: str, steps: str) -> Op:
    """Return the op that erodes ("e") and dilates ("d") in the order of ``steps``."""

    def body(x: Array, mask: Array | None, *, settings: Settings) -> Array:
        check_real(x)
        neighborhood = _structure_neighborhood(settings, x.ndim)
        may_change = _bool_mask(mask, x.shape)
        y = x.astype(bool)
        for letter in steps:
            y = _repeat(_step(letter, neighborhood, may_change), y, settings.options[1])
        return y

    return Op(name, body, _canonicalize, ("mask",))


def _step(letter: str, neighborhood: Neighborhood, mask: Array | None) -> Step:
    reduction: Reduction = MIN if letter == "e" else MAX
    window = neighborhood if letter == "e" else neighborhood.mirrored()

    def step(x: Array) -> Array:
        y = extreme(x, window, reduction)
        return y if mask is None else jnp.where(mask, y, x)

    return step


def _repeat(step: Step, x: Array, iterations: int) -> Array:
    if iterations == 1:
        return step(x)
    if iterations > 1:
        return lax.fori_loop(0, iterations, lambda _, y: step(y), x)
    changes = lambda pair: (pair[0] != pair[1]).any()  # noqa: E731
    return lax.while_loop(changes, lambda pair: (pair[1], step(pair[1])), (x, step(x)))[1]


def _bool_mask(mask: Array | None, shape: tuple[int, ...]) -> Array | None:
    if mask is None:
        return None
    check_numbers("mask", mask)
    if mask.shape == shape:
        return mask.astype(bool)
    raise ValueError(
        message(
            f"$mask has shape {mask.shape}.",
            f"It marks the elements that may change, in an array of shape {shape}.",
            "Give a mask of the shape of the array.",
        )
    )


_EROSION = _op("binary_erosion", "e")
_DILATION = _op("binary_dilation", "d")
_OPENING = _op("binary_opening", "ed")
_CLOSING = _op("binary_closing", "de")
